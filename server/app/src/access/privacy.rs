//! Parts of an attempt that are visible only with access to its project: private labels, and lines of logs.
//!
//! Other readers see `***` instead. They also cannot group by a private label or filter by its
//! value, because the answers would reveal the values. A caller sees everything if it has the role
//! `operator` or if its `projects` name the attempt's project. Without an access file every caller
//! sees everything.

use plimsoll_core::domain::{AttemptId, EvidenceSource, FieldViolation, Verdict};

use crate::access::identity::{Identity, Role, matches_pattern};
pub use crate::runtime::settings::by_module::privacy::PrivacySettings;

/// Text shown instead of a private value.
pub(crate) const HIDDEN: &str = "***";
/// Text shown instead of a correction to callers that may not see it.
pub(crate) const BY_A_PERSON: &str = "corrected by a person";

/// Removes the author and explanation of a correction from a verdict. The corrected cause stays,
/// and the fact that a person corrected it.
pub(crate) fn hide_correction(verdict: &mut Verdict) {
    for line in verdict.evidence.iter_mut().filter(|line| line.source == EvidenceSource::Person) {
        let words = std::mem::replace(&mut line.text, BY_A_PERSON.to_owned());
        // the sentence of the reason quotes the deciding evidence
        verdict.reason = verdict.reason.replace(&words, BY_A_PERSON);
    }
    if let Some(correction) = &mut verdict.basis.correction {
        HIDDEN.clone_into(&mut correction.why);
        correction.by.clear();
    }
}

/// Which texts by others a caller may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadableWords {
    /// Whether the caller may read log lines that others reported.
    pub(crate) logs: bool,
    /// The author and the explanation of a correction.
    pub(crate) corrections: bool,
}

impl ReadableWords {
    pub(crate) const ALL: Self = Self { logs: true, corrections: true };
    pub(crate) const NONE: Self = Self { logs: false, corrections: false };
}

impl PrivacySettings {
    fn has_label(&self, name: &str) -> bool {
        self.labels.iter().any(|pattern| matches_pattern(pattern, name))
    }

    /// Whether `caller` may not see the private parts of attempts of `project`, if any are private.
    fn hides_from(&self, caller: &Identity, project: &str) -> bool {
        let is_named = caller.projects.name(project);
        (self.logs || !self.labels.is_empty()) && !is_named && !caller.roles.has(Role::Operator)
    }

    /// Whether the value of a label of attempts of `project` is hidden from `caller`.
    pub(crate) fn hides_label(&self, caller: &Identity, project: &str, name: &str) -> bool {
        self.has_label(name) && self.hides_from(caller, project)
    }

    /// Whether lines of the logs of attempts of `project` are hidden from `caller`.
    pub(super) fn hides_logs(&self, caller: &Identity, project: &str) -> bool {
        self.logs && self.hides_from(caller, project)
    }

    /// What `caller` may read of others about an attempt of `project`. A job sees all of its own log; corrections by people are shown only
    /// to readers of the project.
    pub(crate) fn readable_words(
        &self,
        caller: &Identity,
        attempt: &AttemptId,
        project: &str,
    ) -> ReadableWords {
        let hides = self.hides_logs(caller, project);
        ReadableWords {
            logs: caller.is_own_job(attempt.as_str()) || (caller.may_learn_of(project) && !hides),
            corrections: caller.reads(project) && !hides,
        }
    }

    /// Checks that `caller` may group or filter by a label, among the attempts of `project` (of all
    /// projects if it is empty).
    /// Errors: the label is hidden from the caller. `field` is the request field that named the label.
    pub(super) fn may_ask(
        &self,
        caller: &Identity,
        project: &str,
        field: &str,
        label: &str,
    ) -> Result<(), FieldViolation> {
        if self.hides_label(caller, project, label) {
            let text = format!("names the label {label:?}, which is private to readers of single projects");
            return Err(FieldViolation::new(field, text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_private_by_name_or_prefix() {
        let private = PrivacySettings { labels: vec!["customer".into(), "hr-*".into()], logs: false };
        let hidden =
            ["customer", "hr-", "hr-grade", "customers", "hr", ""].map(|name| private.has_label(name));
        assert_eq!(hidden, [true, true, true, false, false, false]);
    }

    #[test]
    fn private_data_needs_access_to_its_project() {
        let private = PrivacySettings { labels: vec!["customer".into()], logs: true };
        let reader = |roles: &[Role], projects: &[&str]| Identity {
            roles: roles.iter().copied().collect(),
            projects: projects.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
            ..(*Identity::unknown()).clone()
        };
        let hides = |caller: &Identity| private.hides_from(caller, "spack/packages");
        assert!(!hides(&reader(&[Role::Reader], &["spack/*"])));
        assert!(hides(&reader(&[Role::Reader], &["other/*"])));
        assert!(hides(&reader(&[Role::Reader], &[])), "a caller that sees all projects is named for none");
        assert!(hides(&reader(&[Role::Reader], &["*"])), "nor is one that sees all of them by a pattern");
        assert!(!hides(&reader(&[Role::Reader], &["*", "spack/packages"])));
        assert!(!hides(&reader(&[Role::Operator], &[])));
        assert!(!hides(&Identity::anyone()) && hides(&Identity::unknown()));
        assert!(!PrivacySettings::default().hides_from(&reader(&[Role::Reader], &[]), "x"));
        let ask = |label: &str| private.may_ask(&reader(&[Role::Reader], &[]), "", "group_label", label);
        assert_eq!(ask("customer").unwrap_err().field, "group_label");
        assert_eq!(ask("stage"), Ok(()));
    }
}
