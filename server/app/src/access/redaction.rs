//! Removes from answers what the caller may not see.

use std::sync::Arc;

use plimsoll_core::{
    domain::{Attempt, EvidenceLine, EvidenceSource, Key, Signature, Summary, Verdict},
    retry::{FailureGroup, FlakyFailure},
    stats::Filter,
};

use super::{
    Refusal, Reply,
    identity::Identity,
    privacy::{HIDDEN, PrivacySettings, hide_correction},
};

/// Redacts answers for one caller.
#[derive(Debug, Clone)]
pub(crate) struct Redactor {
    pub(crate) private: Arc<PrivacySettings>,
    pub(crate) caller: Arc<Identity>,
}

impl Redactor {
    /// Checks that the caller may filter and group by these labels; `group_label` may be empty.
    /// Errors: the values of a label are hidden from this caller.
    pub(crate) fn may_ask(&self, filter: &Filter, group_label: &str) -> Reply<()> {
        let may = |field, label: &str| {
            let allowed = self.private.may_ask(&self.caller, &filter.project, field, label);
            allowed.map_err(Refusal::Forbidden)
        };
        may("group_label", group_label)?;
        filter.labels.keys().try_for_each(|name| may("filter.labels", name))
    }

    /// The summary with hidden values replaced.
    pub(crate) fn summary(&self, mut summary: Summary) -> Summary {
        self.key(&mut summary.key);
        summary
    }

    /// Replaces the hidden values of an attempt.
    pub(crate) fn attempt(&self, attempt: &mut Arc<Attempt>) {
        if attempt.key.labels.keys().any(|name| self.hides_label(&attempt.key.project, name)) {
            self.key(&mut Arc::make_mut(attempt).key);
        }
    }

    /// A verdict on an attempt of `project`, with the log lines replaced if they are hidden from
    /// the caller. A CI job sees the lines of its own log.
    pub(crate) fn verdict(&self, mut verdict: Verdict, project: &str) -> Verdict {
        if !self.private.hides_logs(&self.caller, project) {
            return verdict;
        }
        // the explanation of a correction may quote the log, too
        hide_correction(&mut verdict);
        if self.caller.is_own_job(verdict.attempt.as_str()) {
            return verdict;
        }
        let is_of_log = |line: &&mut EvidenceLine| line.source == EvidenceSource::Log;
        for line in verdict.evidence.iter_mut().filter(is_of_log) {
            HIDDEN.clone_into(&mut line.text);
            // the sentence of the reason quotes the deciding evidence
            HIDDEN.clone_into(&mut verdict.reason);
        }
        if let Some(signature) = &mut verdict.outlook.signature {
            hide_lines(signature);
        }
        (verdict.outlook.root, verdict.outlook.own_failure) = (None, None);
        verdict
    }

    /// Replaces the log lines in failures over all projects, if they are hidden from the caller.
    pub(crate) fn redact_flaky(&self, flaky: &mut [FlakyFailure]) {
        if self.private.hides_logs(&self.caller, "") {
            for failure in flaky {
                hide_lines(&mut failure.signature);
            }
        }
    }

    /// Replaces the log lines in failures of a project, if they are hidden from the caller.
    pub(crate) fn redact_failures(&self, group: &mut FailureGroup) {
        if self.private.hides_logs(&self.caller, &group.project) {
            hide_lines(&mut group.signature);
        }
    }

    fn hides_label(&self, project: &str, name: &str) -> bool {
        self.private.hides_label(&self.caller, project, name)
    }

    fn key(&self, Key { project, labels, .. }: &mut Key) {
        for (_, value) in labels.iter_mut().filter(|(name, _)| self.hides_label(project, name)) {
            HIDDEN.clone_into(value);
        }
    }
}

/// Replaces the lines that are not empty by a placeholder.
fn hide_lines(signature: &mut Signature) {
    for line in [&mut signature.line, &mut signature.first] {
        if !line.is_empty() {
            HIDDEN.clone_into(line);
        }
    }
}

#[cfg(test)]
mod tests;
