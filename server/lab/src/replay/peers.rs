//! The rules of other programs, each as its authors define it. If they do not define what to do without history
//! or after a failure, the module uses what is best for that rule, and says so.

mod gantry;
mod histogram;
mod minwaste;
mod recent;

pub(super) use gantry::Gantry;
pub(super) use histogram::Vpa;
pub(super) use minwaste::MinWaste;
pub(super) use recent::{Krr, MaxSeen, PodScaler};

use super::policy::{FinishedBuild, PolicyQuestion, SizingPolicy};

/// The memory request in the file; doubled after a failure.
#[derive(Debug)]
pub(super) struct Preset {
    pub(super) default: f64,
}

impl SizingPolicy for Preset {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        ask.preset.unwrap_or(self.default)
    }

    fn learn(&mut self, _ask: &PolicyQuestion, _done: &FinishedBuild) {}
}

/// Knows the exact need: no rule can do better.
#[derive(Debug)]
pub(super) struct Oracle;

impl SizingPolicy for Oracle {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        ask.need
    }

    fn size_after_failure(&mut self, ask: &PolicyQuestion, _failed: f64) -> f64 {
        ask.need
    }

    fn learn(&mut self, _ask: &PolicyQuestion, _done: &FinishedBuild) {}
}
