//! The failures in which each rule matched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::domain::{AttemptId, MatchedRule};

/// A key and the id of a signature: failures with the same are the same failure.
pub(in crate::retry) type FailureId = (String, String);
/// Time of a verdict, and its attempt.
pub(in crate::retry) type FailurePosition = (u64, AttemptId);
/// A failure in which a rule matched.
pub(in crate::retry) type RuleCase = (FailurePosition, Arc<FailureId>);

/// Failures by rule and project, oldest first.
#[derive(Debug, Default)]
pub(in crate::retry) struct RuleCases(
    pub(in crate::retry) BTreeMap<String, BTreeMap<String, BTreeSet<RuleCase>>>,
);

impl RuleCases {
    pub(in crate::retry) fn add(&mut self, spoken: &[MatchedRule], project: &str, case: &RuleCase) {
        for MatchedRule { rule, .. } in spoken {
            let by_project = self.0.entry(rule.clone()).or_default();
            by_project.entry(project.to_owned()).or_default().insert(case.clone());
        }
    }

    pub(in crate::retry) fn remove(&mut self, spoken: &[MatchedRule], project: &str, case: &RuleCase) {
        for MatchedRule { rule, .. } in spoken {
            let Some(by_project) = self.0.get_mut(rule) else { continue };
            if by_project.get_mut(project).is_some_and(|cases| cases.remove(case) && cases.is_empty()) {
                by_project.remove(project);
            }
            if by_project.is_empty() {
                self.0.remove(rule);
            }
        }
    }
}
