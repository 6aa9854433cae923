//! Answers as somebody may see them: what is private to others is not in them.

use std::sync::Arc;

use plimsoll_proto::v1 as pb;
use tonic::Status;

use super::status;
use crate::{
    domain::EvidenceSource,
    identity::Identity,
    privacy::{HIDDEN, Private},
};

/// What one caller sees.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) private: Arc<Private>,
    pub(super) caller: Arc<Identity>,
}

impl View {
    /// Whether he may count or choose by these labels.
    ///
    /// # Errors
    /// One is private to others.
    pub(super) fn may_ask(&self, filter: Option<&pb::Filter>, group_label: &str) -> Result<(), Status> {
        let project = filter.map_or("", |filter| filter.project.as_str());
        let may = |field, label: &str| self.private.may_ask(&self.caller, project, field, label);
        may("group_label", group_label).map_err(|fault| status::forbidden(&fault))?;
        let names = filter.into_iter().flat_map(|filter| filter.labels.keys());
        for name in names {
            may("filter.labels", name).map_err(|fault| status::forbidden(&fault))?;
        }
        Ok(())
    }

    /// A summary without what is private.
    pub(super) fn summary(&self, mut summary: pb::Summary) -> pb::Summary {
        self.key(summary.key.as_mut());
        summary
    }

    /// A message of what runs without what is private.
    pub(super) fn watched(&self, mut watched: pb::WatchResponse) -> pb::WatchResponse {
        watched.running.iter_mut().for_each(|running| self.key(running.key.as_mut()));
        watched
    }

    /// A verdict on an attempt of `project` without lines of the log, if these are private.
    pub(super) fn verdict(&self, mut verdict: pb::Verdict, project: &str) -> pb::Verdict {
        if !self.private.logs || !self.private.hides_from(&self.caller, project) {
            return verdict;
        }
        let log = EvidenceSource::Log.as_str();
        for line in verdict.evidence.iter_mut().filter(|line| line.source == log) {
            HIDDEN.clone_into(&mut line.text);
            // the sentence repeats what decided
            HIDDEN.clone_into(&mut verdict.reason);
        }
        if let Some(outlook) = &mut verdict.outlook {
            for line in [&mut outlook.signature_line, &mut outlook.failure_line] {
                hide(line);
            }
        }
        verdict
    }

    /// Failures over all projects without lines of the log, if these are private.
    pub(super) fn flaky(&self, flaky: &mut [pb::Flaky]) {
        if self.private.logs && self.private.hides_from(&self.caller, "") {
            for one in flaky {
                hide(&mut one.signature_line);
                hide(&mut one.failure_line);
            }
        }
    }

    fn key(&self, key: Option<&mut pb::Key>) {
        let Some(key) = key.filter(|key| self.private.hides_from(&self.caller, &key.project)) else { return };
        for (name, value) in &mut key.labels {
            if self.private.has_label(name) {
                HIDDEN.clone_into(value);
            }
        }
    }
}

/// Puts a mark in the place of a text that is there.
fn hide(text: &mut String) {
    if !text.is_empty() {
        HIDDEN.clone_into(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Role;

    fn view(projects: &[&str]) -> View {
        let caller = Identity {
            roles: [Role::Reader].into_iter().collect(),
            projects: projects.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
            ..(*Identity::nobody()).clone()
        };
        let private = Private { labels: vec!["customer".into()], logs: true };
        View { private: Arc::new(private), caller: Arc::new(caller) }
    }

    fn key() -> pb::Key {
        let labels = [("customer", "acme"), ("stage", "build")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        pb::Key { project: "spack/packages".into(), labels: labels.into(), ..pb::Key::default() }
    }

    fn verdict() -> pb::Verdict {
        let line = |source: &str, text: &str| pb::EvidenceLine {
            source: source.into(),
            text: text.into(),
            supports: true,
        };
        pb::Verdict {
            evidence: vec![line("log", "error: acme"), line("kernel", "oom_kill 1")],
            reason: "The build itself is broken (error: acme)".into(),
            outlook: Some(pb::Outlook {
                signature_line: "error: acme".into(),
                failure_line: "error: acme".into(),
                ..pb::Outlook::default()
            }),
            ..pb::Verdict::default()
        }
    }

    /// All that `view` shows, in one text.
    fn shown(view: &View) -> String {
        let summary = view.summary(pb::Summary { key: Some(key()), ..pb::Summary::default() });
        let running = vec![pb::Running { key: Some(key()), ..pb::Running::default() }];
        let watched = view.watched(pb::WatchResponse { running, ended: Vec::new() });
        let mut flaky = [pb::Flaky {
            signature_line: "error: acme".into(),
            failure_line: "error: acme".into(),
            ..pb::Flaky::default()
        }];
        view.flaky(&mut flaky);
        format!("{summary:?} {watched:?} {:?} {flaky:?}", view.verdict(verdict(), "spack/packages"))
    }

    #[test]
    fn what_is_private_is_in_no_answer_to_a_reader_who_is_not_named_for_the_project() {
        for projects in [&[][..], &["*"], &["other/*"]] {
            let shown = shown(&view(projects));
            assert!(
                !shown.contains("acme") && shown.contains("build") && shown.contains("oom_kill 1"),
                "{shown}"
            );
            assert_eq!(shown.matches(HIDDEN).count(), 8, "{shown}");
        }
        let named = shown(&view(&["spack/*"]));
        assert_eq!(named.matches("acme").count(), 8 - 2, "flaky failures are over all projects: {named}");
    }

    #[test]
    fn nobody_learns_the_values_of_a_private_label_by_asking_for_them() {
        let filter = |project: &str| pb::Filter {
            project: project.into(),
            labels: [("customer".to_owned(), "acme".to_owned())].into(),
            ..pb::Filter::default()
        };
        assert!(view(&[]).may_ask(None, "customer").is_err());
        assert!(view(&[]).may_ask(Some(&filter("")), "").is_err());
        assert!(view(&[]).may_ask(Some(&filter("spack/packages")), "").is_err());
        assert!(view(&["spack/*"]).may_ask(Some(&filter("spack/packages")), "customer").is_ok());
        assert!(view(&[]).may_ask(None, "stage").is_ok());
    }
}
