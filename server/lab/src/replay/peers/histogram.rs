//! Kubernetes VPA recommender (`pkg/recommender/config/config.go`, `model/aggregations_config.go`,
//! `input/oom`): a histogram with buckets that grow by 5 % from 10 MB, and a half-life of 24 h. The size is its
//! 90 % quantile plus 15 %; after an OOM it grows by 20 %, or by 100 MiB if that is more.
//!
//! Each attempt adds one peak. A pod gets at least 250 MB. If the file has no times, nothing decays.

use std::collections::{BTreeMap, HashMap};

use crate::replay::policy::{FinishedBuild, PolicyQuestion, SizingPolicy};

const FIRST_BUCKET_BYTES: f64 = 1e7;
const BUCKET_RATIO: f64 = 1.05;
const HALF_LIFE_MS: f64 = 24.0 * 3_600_000.0;
const TARGET_QUANTILE: f64 = 0.9;
const SAFETY_MARGIN: f64 = 1.15;
const OOM_BUMP_RATIO: f64 = 1.2;
const OOM_BUMP_MIN_BYTES: f64 = 100.0 * 1_048_576.0;
const FLOOR_BYTES: f64 = 250.0 * 1_048_576.0;

/// VPA's policy. It has a histogram for each workload.
#[derive(Debug)]
pub(in crate::replay) struct Vpa {
    default: f64,
    start_ms: Option<f64>,
    histograms: HashMap<u64, BTreeMap<u32, f64>>,
}

impl Vpa {
    pub(in crate::replay) fn new(default: f64) -> Self {
        Self { default, start_ms: None, histograms: HashMap::new() }
    }
}

/// Index of the bucket for a value. The upper edge of bucket n is `FIRST_BUCKET_BYTES * (BUCKET_RATIO^(n + 1) - 1) / (BUCKET_RATIO - 1)`.
fn bucket_of(value: f64) -> u32 {
    let number = (value.max(0.0) * (BUCKET_RATIO - 1.0) / FIRST_BUCKET_BYTES + 1.0).ln() / BUCKET_RATIO.ln();
    u32::try_from(plimsoll_core::domain::Bytes::from_f64(number.floor()).0).unwrap_or(u32::MAX)
}

fn upper_edge(bucket: u32) -> f64 {
    FIRST_BUCKET_BYTES * (BUCKET_RATIO.powf(f64::from(bucket) + 1.0) - 1.0) / (BUCKET_RATIO - 1.0)
}

impl SizingPolicy for Vpa {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        let Some(histogram) = self.histograms.get(&ask.workload) else {
            return ask.preset.unwrap_or(self.default);
        };
        let enough = TARGET_QUANTILE * histogram.values().sum::<f64>();
        let mut sum = 0.0;
        let at = histogram.iter().find(|(_, weight)| {
            sum += **weight;
            sum >= enough
        });
        let last = at.or_else(|| histogram.last_key_value()).map_or(0, |(bucket, _)| *bucket);
        (upper_edge(last) * SAFETY_MARGIN).max(FLOOR_BYTES)
    }

    fn size_after_failure(&mut self, _ask: &PolicyQuestion, failed: f64) -> f64 {
        (failed * OOM_BUMP_RATIO).max(failed + OOM_BUMP_MIN_BYTES)
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        let ended = ask.start_ms + done.wall_ms;
        let age = if ask.start_ms > 0.0 { ended - *self.start_ms.get_or_insert(ended) } else { 0.0 };
        let peak = if done.stopped {
            (done.peak * OOM_BUMP_RATIO).max(done.peak + OOM_BUMP_MIN_BYTES)
        } else {
            done.peak
        };
        let histogram = self.histograms.entry(ask.workload).or_default();
        // instead of reducing the weight of old values, new values get more weight; limited, because years
        // would overflow
        *histogram.entry(bucket_of(peak)).or_default() += (age / HALF_LIFE_MS).min(900.0).exp2();
    }
}
