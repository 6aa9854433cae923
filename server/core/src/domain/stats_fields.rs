//! Fields of an ended attempt that only statistics use. The [`super::AttemptBrief`] has its other fields.

use std::collections::BTreeMap;

use super::{Bytes, Cores, PredictionSnapshot, RescueTotals, Summary};

/// Fields of an ended attempt that only statistics use.
#[derive(Debug, Clone, Copy)]
pub struct StatsFields<'s> {
    /// Cost centre that pays for the build.
    pub owner: &'s str,
    /// Name of the pool; empty if not known.
    pub pool: &'s str,
    /// Branch or tag.
    pub git_ref: &'s str,
    /// Free labels of the key.
    pub labels: &'s BTreeMap<String, String>,
    /// CPU that the attempt reserved ([`super::Resources::cpu_asked`]).
    pub cpu_asked: Option<Cores>,
    /// The prediction made when the attempt opened; `None` if it was only the configured default.
    pub predicted: Option<PredictionSnapshot>,
    /// The need that the attempt proves: its full need, or a lower bound if it is censored.
    pub proven: Option<Bytes>,
    /// Whether the need is a lower bound: the attempt was killed or starved at a limit.
    pub censored: bool,
    /// What rescue saved and what that cost; `None` if it did not act.
    pub rescue: Option<RescueTotals>,
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
            proven: summary.counts_for_memory().then(|| summary.proven_need()),
            censored: summary.censored,
            rescue: RescueTotals::of(summary),
        }
    }
}
