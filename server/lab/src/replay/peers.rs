//! The rules of others, each as its authors define it. Where they leave something open (what to do before anything is known,
//! or after a failure), the kinder reading is taken and said.

mod gantry;
mod histogram;
mod minwaste;
mod recent;

pub(super) use gantry::Gantry;
pub(super) use histogram::Vpa;
pub(super) use minwaste::MinWaste;
pub(super) use recent::{Krr, MaxSeen, PodScaler};

use super::policy::{FinishedBuild, PolicyQuestion, SizingPolicy};

/// What the file says was asked for; doubled after a failure.
#[derive(Debug)]
pub(super) struct Preset {
    pub(super) default: f64,
}

impl SizingPolicy for Preset {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        ask.preset.unwrap_or(self.default)
    }

    fn size_after_failure(&mut self, _ask: &PolicyQuestion, failed: f64) -> f64 {
        failed * 2.0
    }

    fn learn(&mut self, _ask: &PolicyQuestion, _done: &FinishedBuild) {}
}

/// Perfect foresight: no rule can do better.
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
