//! What statistics count of an ended attempt beside its [`super::AttemptBrief`].

use std::collections::BTreeMap;

use super::{Bytes, Cores, PredictionSnapshot, Summary};

/// What is known of an ended attempt and neither predictions nor verdicts ask for.
#[derive(Debug, Clone, Copy)]
pub struct StatsFields<'s> {
    /// Who pays.
    pub owner: &'s str,
    /// Name of the pool; empty if not known.
    pub pool: &'s str,
    /// Branch or tag.
    pub git_ref: &'s str,
    /// Free labels.
    pub labels: &'s BTreeMap<String, String>,
    /// CPU that it occupied for others ([`super::Resources::cpu_asked`]).
    pub cpu_asked: Option<Cores>,
    /// See [`Summary::predicted_at_start`].
    pub predicted: Option<PredictionSnapshot>,
    /// What it proves of the need: all of it, or more than that if it is censored.
    pub proven: Option<Bytes>,
    /// See [`Summary::censored`].
    pub censored: bool,
}

impl<'s> From<&'s Summary> for StatsFields<'s> {
    fn from(summary: &'s Summary) -> Self {
        Self {
            owner: &summary.key.owner,
            pool: &summary.opening.pool,
            git_ref: &summary.key.git_ref,
            labels: &summary.key.labels,
            cpu_asked: summary.resources.cpu_asked(),
            predicted: summary.predicted_at_start(),
            proven: summary.teaches_memory().then(|| summary.proven_need()),
            censored: summary.censored,
        }
    }
}
