//! `TaskVine`'s `MIN_WASTE` (cctools dttools/src/category.c; Tovar et al. 2018): the first allocation `a` that
//! minimises `a * mean time + largest * sum over needs above a of their share of time`, in buckets of 250 MB. A
//! retry gets the largest need seen.
//!
//! `TaskVine` computes the allocation after every 25 tasks, this policy after every task. Before the first task
//! it uses the preset. If the largest need seen is not enough, it doubles the size, as for a bigger worker.

use std::collections::{BTreeMap, HashMap};

use plimsoll_core::domain::Bytes;

use crate::replay::policy::{FinishedBuild, PolicyQuestion, SizingPolicy};

const BUCKET_BYTES: f64 = 250e6;

/// For each workload: the time spent, by need.
#[derive(Debug)]
pub(in crate::replay) struct MinWaste {
    default: f64,
    histograms: HashMap<u64, BTreeMap<u64, f64>>,
}

impl MinWaste {
    pub(in crate::replay) fn new(default: f64) -> Self {
        Self { default, histograms: HashMap::new() }
    }

    fn largest_need(&self, ask: &PolicyQuestion) -> Option<f64> {
        let (bucket, _) = self.histograms.get(&ask.workload)?.last_key_value()?;
        Some(Bytes(*bucket).as_f64() * BUCKET_BYTES)
    }
}

impl SizingPolicy for MinWaste {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        let (Some(times), Some(largest)) = (self.histograms.get(&ask.workload), self.largest_need(ask))
        else {
            return ask.preset.unwrap_or(self.default);
        };
        let total: f64 = times.values().sum();
        let (mut best, mut least, mut above) = (largest, f64::INFINITY, 0.0);
        for (bucket, time) in times.iter().rev() {
            let size = Bytes(*bucket).as_f64() * BUCKET_BYTES;
            let cost = size * total + largest * above;
            if cost < least {
                (best, least) = (size, cost);
            }
            above += time;
        }
        best
    }

    fn size_after_failure(&mut self, ask: &PolicyQuestion, failed: f64) -> f64 {
        self.largest_need(ask).filter(|largest| *largest > failed).unwrap_or(failed * 2.0)
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        let bucket = Bytes::from_f64((done.peak / BUCKET_BYTES).ceil()).0;
        // a task must have some time: otherwise it would have no weight
        *self.histograms.entry(ask.workload).or_default().entry(bucket).or_default() += done.wall_ms.max(1.0);
    }
}
