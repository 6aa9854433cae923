//! Which of GitLab's hooks a request is: what its header `X-Gitlab-Event` says. GitLab sends it with every hook; the body tells less, as
//! hooks of members, groups and projects have no `object_kind`.

use plimsoll_core::domain::FieldViolation;
use serde_json::Value;

use super::{Hook, read_hook};

/// The header in which GitLab sends a hook's secret.
pub(crate) const SECRET: &str = "X-Gitlab-Token";
/// The header that says what happened.
pub(crate) const EVENT: &str = "X-Gitlab-Event";
/// The header that says which GitLab it is.
pub(crate) const INSTANCE: &str = "X-Gitlab-Instance";
/// The header that is the same when GitLab sends a hook again.
pub(crate) const DELIVERY: &str = "Idempotency-Key";
/// What a kind is counted as that a later GitLab has.
const UNKNOWN: &str = "unknown";

/// GitLab's hooks that tell nothing of a job: the header, the body's `object_kind` if it has one, and the name in metrics.
const OTHERS: [(&str, &str, &str); 20] = [
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

/// Which of GitLab's hooks a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookEvent {
    /// A job has changed.
    Job,
    /// One of the whole instance: of anything, a job among it.
    System,
    /// Nothing of a job; its name in metrics.
    Other(&'static str),
    /// The header is missing: GitLab has not sent this.
    NotGitLab,
}

impl HookEvent {
    /// What the header [`EVENT`] says; `None` if it is missing.
    pub(crate) fn of(header: Option<&str>) -> Self {
        let Some(value) = header else { return Self::NotGitLab };
        match value.trim() {
            "Job Hook" | "Build Hook" => Self::Job,
            "System Hook" => Self::System,
            value => Self::Other(name(OTHERS.iter().find(|(header, ..)| header.eq_ignore_ascii_case(value)))),
        }
    }

    pub(crate) fn is_gitlabs(self) -> bool {
        self != Self::NotGitLab
    }

    /// What the body says; `instance` is what [`INSTANCE`] says.
    ///
    /// # Errors
    /// It is not understood.
    pub(crate) fn read(self, body: &[u8], instance: Option<&str>) -> Result<Hook, HookFault> {
        if matches!(self, Self::Other(_)) {
            return Ok(Hook::Other);
        }
        read_hook(body, instance).or_else(|fault| match (self, fault.field.as_str()) {
            (Self::System, "object_kind") => Ok(Hook::Other),
            (Self::NotGitLab, "body" | "object_kind") => Err(HookFault { fault, is_gitlabs: false }),
            _ => Err(HookFault { fault, is_gitlabs: true }),
        })
    }

    /// Under which a hook is counted that tells of no ended job. Its `body` counts where the header leaves it open.
    pub(crate) fn counted_as(self, body: &[u8]) -> &'static str {
        match self {
            Self::Other(name) => name,
            Self::Job => "job",
            Self::System | Self::NotGitLab => {
                let body: Value = serde_json::from_slice(body).unwrap_or_default();
                match (body.get("object_kind").and_then(Value::as_str), self) {
                    (Some("build"), _) => "job",
                    (Some(kind), _) => name(OTHERS.iter().find(|(_, known, _)| *known == kind)),
                    (None, Self::System) => "system",
                    (None, _) => UNKNOWN,
                }
            }
        }
    }
}

/// What is wrong with a hook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HookFault {
    pub(crate) fault: FieldViolation,
    /// GitLab has sent it so. What GitLab sends and is not understood is its own fault only if nothing says that it comes from there.
    pub(crate) is_gitlabs: bool,
}

fn name(found: Option<&(&str, &str, &'static str)>) -> &'static str {
    found.map_or(UNKNOWN, |(.., name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_tells_the_kind_and_the_body_where_it_does_not() {
        for (value, event) in [
            ("Job Hook", HookEvent::Job),
            ("System Hook", HookEvent::System),
            ("Member Hook", HookEvent::Other("member")),
            ("pipeline hook", HookEvent::Other("pipeline")),
            ("Hook of 2030", HookEvent::Other(UNKNOWN)),
        ] {
            assert_eq!(HookEvent::of(Some(value)), event, "{value}");
        }
        assert_eq!(HookEvent::of(None), HookEvent::NotGitLab);
        for (event, body, counted) in [
            (HookEvent::System, r#"{"event_name":"user_create"}"#, "system"),
            (HookEvent::System, r#"{"object_kind":"push"}"#, "push"),
            (HookEvent::System, r#"{"object_kind":"build"}"#, "job"),
            (HookEvent::System, r#"{"object_kind":"of_2030"}"#, UNKNOWN),
            (HookEvent::NotGitLab, r#"{"object_kind":"pipeline"}"#, "pipeline"),
            (HookEvent::Other("member"), "", "member"),
        ] {
            assert_eq!(event.counted_as(body.as_bytes()), counted, "{body}");
        }
    }
}
