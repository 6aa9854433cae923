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
    sessions::Running,
};

/// Redacts answers for one caller.
#[derive(Debug, Clone)]
pub(crate) struct Redactor {
    pub(crate) private: Arc<Private>,
    pub(crate) caller: Arc<Identity>,
}

impl Redactor {
    /// Whether the caller may count or choose by these labels.
    ///
    /// # Errors
    /// One is private to others.
    pub(super) fn may_ask(&self, filter: &Filter, group_by: &GroupBy) -> Result<(), Refusal> {
        let group_label = if let GroupBy::Label(label) = group_by { label.as_str() } else { "" };
        let may = |field, label: &str| {
            let allowed = self.private.may_ask(&self.caller, &filter.project, field, label);
            allowed.map_err(Refusal::Forbidden)
        };
        may("group_label", group_label)?;
        filter.labels.keys().try_for_each(|name| may("filter.labels", name))
    }

    /// A summary without private parts.
    pub(super) fn summary(&self, mut summary: Summary) -> Summary {
        self.key(&mut summary.key);
        summary
    }

    /// A running attempt without private parts.
    pub(crate) fn running(&self, mut running: Running) -> Running {
        if self.hides_a_label_of(&running.attempt.key) {
            self.key(&mut Arc::make_mut(&mut running.attempt).key);
        }
        running
    }

    /// A verdict on an attempt of `project`, without lines of the log if these are private. A job sees lines of its own log.
    pub(super) fn verdict(&self, mut verdict: Verdict, project: &str) -> Verdict {
        if !self.private.logs || !self.private.hides_from(&self.caller, project) {
            return verdict;
        }
        // a person's correction may quote the log, too
        hide_correction(&mut verdict);
        if self.caller.is_own_job(verdict.attempt.as_str()) {
            return verdict;
        }
        let is_of_log = |line: &&mut EvidenceLine| line.source == EvidenceSource::Log;
        for line in verdict.evidence.iter_mut().filter(is_of_log) {
            HIDDEN.clone_into(&mut line.text);
            // the sentence quotes the deciding evidence
            HIDDEN.clone_into(&mut verdict.reason);
        }
        if let Some(signature) = &mut verdict.outlook.signature {
            hide_lines(signature);
        }
        (verdict.outlook.root, verdict.outlook.own_failure) = (None, None);
        verdict
    }

    /// Failures over all projects without lines of the log, if these are private.
    pub(super) fn flaky(&self, flaky: &mut [FlakyFailure]) {
        if self.private.logs && self.private.hides_from(&self.caller, "") {
            for failure in flaky {
                hide_lines(&mut failure.signature);
            }
        }
    }

    /// Failures of a project without lines of the log, if these are private.
    pub(super) fn failures(&self, group: &mut FailureGroup) {
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

/// Replaces existing lines by a placeholder.
fn hide_lines(signature: &mut Signature) {
    for line in [&mut signature.line, &mut signature.first] {
        if !line.is_empty() {
            HIDDEN.clone_into(line);
        }
    }
}

#[cfg(test)]
mod tests;
