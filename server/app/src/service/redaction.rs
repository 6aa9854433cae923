//! Removes from answers what the caller may not see.

use std::sync::Arc;

use plimsoll_core::{
    domain::{EvidenceLine, EvidenceSource, Key, Signature, Summary, Verdict},
    retry::{FailureGroup, FlakyFailure},
    stats::{Filter, GroupBy},
};

use super::Refusal;
use crate::{
    access::{
        identity::Identity,
        privacy::{HIDDEN, Private, hide_correction},
    },
    sessions::RunningAttempt,
};

/// Redacts answers for one caller.
#[derive(Debug, Clone)]
pub(crate) struct Redactor {
    pub(crate) private: Arc<Private>,
    pub(crate) caller: Arc<Identity>,
}

impl Redactor {
    /// Checks that the caller may filter and group by these labels.
    /// Errors: the values of a label are hidden from this caller.
    pub(super) fn may_ask(&self, filter: &Filter, group_by: &GroupBy) -> Result<(), Refusal> {
        let group_label = if let GroupBy::Label(label) = group_by { label.as_str() } else { "" };
        let may = |field, label: &str| {
            let allowed = self.private.may_ask(&self.caller, &filter.project, field, label);
            allowed.map_err(Refusal::Forbidden)
        };
        may("group_label", group_label)?;
        filter.labels.keys().try_for_each(|name| may("filter.labels", name))
    }

    /// The summary with hidden values replaced.
    pub(super) fn summary(&self, mut summary: Summary) -> Summary {
        self.key(&mut summary.key);
        summary
    }

    /// The running attempt with hidden values replaced.
    pub(crate) fn redact_running(&self, mut running: RunningAttempt) -> RunningAttempt {
        if self.hides_a_label_of(&running.attempt.key) {
            self.key(&mut Arc::make_mut(&mut running.attempt).key);
        }
        running
    }

    /// A verdict on an attempt of `project`, with the log lines replaced if they are hidden from
    /// the caller. A CI job sees the lines of its own log.
    pub(super) fn verdict(&self, mut verdict: Verdict, project: &str) -> Verdict {
        if !self.private.logs || !self.private.hides_from(&self.caller, project) {
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
    pub(super) fn redact_flaky(&self, flaky: &mut [FlakyFailure]) {
        if self.private.logs && self.private.hides_from(&self.caller, "") {
            for failure in flaky {
                hide_lines(&mut failure.signature);
            }
        }
    }

    /// Replaces the log lines in failures of a project, if they are hidden from the caller.
    pub(super) fn redact_failures(&self, group: &mut FailureGroup) {
        if self.private.logs && self.private.hides_from(&self.caller, &group.project) {
            hide_lines(&mut group.signature);
        }
    }

    fn hides_a_label_of(&self, key: &Key) -> bool {
        self.private.hides_from(&self.caller, &key.project)
            && key.labels.keys().any(|name| self.private.has_label(name))
    }

    fn key(&self, key: &mut Key) {
        if !self.private.hides_from(&self.caller, &key.project) {
            return;
        }
        for (name, value) in &mut key.labels {
            if self.private.has_label(name) {
                HIDDEN.clone_into(value);
            }
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
