//! Determines which kind of webhook ("hook") a request is, from GitLab's header `X-Gitlab-Event`.
//! GitLab sends it with every hook; the body is less specific, because hooks of members, groups and
//! projects have no `object_kind`.

use plimsoll_core::domain::{FieldViolation, ProjectRename};
use serde_json::Value;

use super::{ParsedHook, read_hook};

/// The header in which GitLab sends a hook's secret.
pub(crate) const SECRET_HEADER: &str = "X-Gitlab-Token";
/// Header with the kind of event.
pub(crate) const EVENT_HEADER: &str = "X-Gitlab-Event";
/// Header with the address of the GitLab instance.
pub(crate) const INSTANCE_HEADER: &str = "X-Gitlab-Instance";
/// Header that stays the same when GitLab repeats a hook.
pub(crate) const DELIVERY_HEADER: &str = "Idempotency-Key";
/// Metric label for kinds that this program does not know.
const UNKNOWN_KIND: &str = "unknown";

/// Hooks without information about jobs: the header, the body's `object_kind` if it has one, and the metric label.
const OTHER_HOOKS: [(&str, &str, &str); 20] = [
    ("Push Hook", "push", "push"),
    ("Tag Push Hook", "tag_push", "tag_push"),
    ("Pipeline Hook", "pipeline", "pipeline"),
    ("Issue Hook", "issue", "issue"),
    ("Confidential Issue Hook", "issue", "issue"),
    ("Work Item Hook", "work_item", "issue"),
    ("Note Hook", "note", "note"),
    ("Confidential Note Hook", "note", "note"),
    ("Merge Request Hook", "merge_request", "merge_request"),
    ("Wiki Page Hook", "wiki_page", "wiki_page"),
    ("Deployment Hook", "deployment", "deployment"),
    ("Feature Flag Hook", "feature_flag", "feature_flag"),
    ("Release Hook", "release", "release"),
    ("Milestone Hook", "milestone", "milestone"),
    ("Emoji Hook", "emoji", "emoji"),
    ("Resource Access Token Hook", "access_token", "access_token"),
    ("Vulnerability Hook", "vulnerability", "vulnerability"),
    ("Member Hook", "", "member"),
    ("Subgroup Hook", "", "subgroup"),
    ("Project Hook", "", "project"),
];

/// Events of system hooks after which paths of projects differ: `event_name`, and the fields with the former and the present path (GitLab,
/// "System hooks").
const RENAMES: [(&str, &str, &str); 4] = [
    ("project_rename", "old_path_with_namespace", "path_with_namespace"),
    ("project_transfer", "old_path_with_namespace", "path_with_namespace"),
    ("group_rename", "old_full_path", "full_path"),
    ("user_rename", "old_username", "username"),
];

/// The rename that a system hook names, if it does.
fn rename_in(body: &[u8]) -> Option<ProjectRename> {
    let body: Value = serde_json::from_slice(body).ok()?;
    // what GitLab allows in a path, because people may copy it into a shell
    let is_path = |text: &&str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let text = |name: &str| body.get(name)?.as_str().filter(|text| is_path(text) && !text.starts_with('-'));
    let event = text("event_name")?;
    let (_, from, to) = RENAMES.into_iter().find(|(known, ..)| *known == event)?;
    ProjectRename::new(text(from)?, text(to)?).ok()
}

/// Kind of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookEvent {
    /// A hook about a job.
    Job,
    /// A system hook, which can be about anything, including a job.
    System,
    /// A hook that is not about jobs, with its metric label.
    Other(&'static str),
    /// The header is missing: GitLab did not send this request.
    NotGitLab,
}

impl HookEvent {
    /// The kind in the header [`EVENT_HEADER`].
    pub(crate) fn of(header: Option<&str>) -> Self {
        let Some(value) = header else { return Self::NotGitLab };
        match value.trim() {
            "Job Hook" | "Build Hook" => Self::Job,
            "System Hook" => Self::System,
            value => Self::Other(hook_name(
                OTHER_HOOKS.iter().find(|(header, ..)| header.eq_ignore_ascii_case(value)),
            )),
        }
    }

    pub(crate) fn is_from_gitlab(self) -> bool {
        self != Self::NotGitLab
    }

    /// Parses the body; `instance` is the header [`INSTANCE_HEADER`].
    /// Errors: the body cannot be parsed.
    pub(crate) fn read(self, body: &[u8], instance: Option<&str>) -> Result<ParsedHook, HookFault> {
        if let Some(rename) = (self == Self::System).then(|| rename_in(body)).flatten() {
            return Ok(ParsedHook::Renamed(rename));
        }
        if matches!(self, Self::Other(_)) {
            return Ok(ParsedHook::Other);
        }
        read_hook(body, instance).or_else(|fault| match (self, fault.field.as_str()) {
            (Self::System, "object_kind") => Ok(ParsedHook::Other),
            (Self::NotGitLab, "body" | "object_kind") => Err(HookFault { fault, is_from_gitlab: false }),
            _ => Err(HookFault { fault, is_from_gitlab: true }),
        })
    }

    /// Metric label of a hook that reports no ended job. If the header does not determine it,
    /// `body` does.
    pub(crate) fn metric_label(self, body: &[u8]) -> &'static str {
        match self {
            Self::Other(name) => name,
            Self::Job => "job",
            Self::System | Self::NotGitLab => {
                let body: Value = serde_json::from_slice(body).unwrap_or_default();
                match (body.get("object_kind").and_then(Value::as_str), self) {
                    (Some("build"), _) => "job",
                    (Some(kind), _) => hook_name(OTHER_HOOKS.iter().find(|(_, known, _)| *known == kind)),
                    (None, Self::System) => "system",
                    (None, _) => UNKNOWN_KIND,
                }
            }
        }
    }
}

/// An invalid hook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HookFault {
    pub(crate) fault: FieldViolation,
    /// Whether the hook certainly came from GitLab. If not, the sender is at fault for a hook that
    /// cannot be parsed.
    pub(crate) is_from_gitlab: bool,
}

fn hook_name(found: Option<&(&str, &str, &'static str)>) -> &'static str {
    found.map_or(UNKNOWN_KIND, |(.., name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_header_decides_before_the_body() {
        for (value, event) in [
            ("Job Hook", HookEvent::Job),
            ("System Hook", HookEvent::System),
            ("Member Hook", HookEvent::Other("member")),
            ("pipeline hook", HookEvent::Other("pipeline")),
            ("Hook of 2030", HookEvent::Other(UNKNOWN_KIND)),
        ] {
            assert_eq!(HookEvent::of(Some(value)), event, "{value}");
        }
        assert_eq!(HookEvent::of(None), HookEvent::NotGitLab);
        let moved = r#"{"event_name":"project_transfer","old_path_with_namespace":"a/b","path_with_namespace":"c/b"}"#;
        let group = r#"{"event_name":"group_rename","old_full_path":"a","full_path":"c"}"#;
        let shell = r#"{"event_name":"group_rename","old_full_path":"a","full_path":"c;reboot"}"#;
        let unnamed = r#"{"event_name":"project_rename","path_with_namespace":"c/b"}"#;
        for (event, body, is_rename) in [
            (HookEvent::System, moved, true),
            (HookEvent::System, group, true),
            (HookEvent::System, unnamed, false),
            (HookEvent::System, shell, false),
            (HookEvent::Other("project"), moved, false),
            (HookEvent::Job, moved, false),
        ] {
            let read = event.read(body.as_bytes(), None);
            assert_eq!(matches!(read, Ok(ParsedHook::Renamed(_))), is_rename, "{body}");
        }
        for (event, body, counted) in [
            (HookEvent::System, r#"{"event_name":"user_create"}"#, "system"),
            (HookEvent::System, r#"{"object_kind":"push"}"#, "push"),
            (HookEvent::System, r#"{"object_kind":"build"}"#, "job"),
            (HookEvent::System, r#"{"object_kind":"of_2030"}"#, UNKNOWN_KIND),
            (HookEvent::NotGitLab, r#"{"object_kind":"pipeline"}"#, "pipeline"),
            (HookEvent::Other("member"), "", "member"),
        ] {
            assert_eq!(event.metric_label(body.as_bytes()), counted, "{body}");
        }
    }
}
