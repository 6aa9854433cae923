//! This server's Predict as a policy: it calls the same code in the same way.

use std::sync::Arc;

use plimsoll_core::{
    domain::{
        AttemptId, Bytes, Cores, CpuMicros, History, Millis, OpeningRecord, Outcome, Resources, Summary,
    },
    predict::{self, Settings},
};

use super::policy::{FinishedBuild, MemorySizes, PolicyQuestion, Promise, SizingPolicy};

/// Most attempts to predict from; the server's default.
const HISTORY_ATTEMPTS: usize = 1_000_000;

/// Which of the predicted sizes limit a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SizesInForce {
    /// The predicted request is both request and limit.
    Request,
    /// The predicted limit is both request and limit.
    Limit,
    /// The predicted request and the predicted limit, as in a pod that has both.
    Both,
}

/// The predictor, with a history that it builds up during the replay.
#[derive(Debug)]
pub(super) struct PlimsollPolicy {
    history: History,
    settings: Settings,
    in_force: SizesInForce,
    /// End of the attempt learnt last, milliseconds since 1970.
    newest_end_ms: u64,
}

impl PlimsollPolicy {
    /// A predictor with an empty history.
    pub(super) fn new(settings: Settings, in_force: SizesInForce) -> Self {
        Self { history: History::new(HISTORY_ATTEMPTS), settings, in_force, newest_end_ms: 0 }
    }

    /// The settings for one prediction. If the build has a preset it is the default size, as a real caller
    /// would send it.
    fn settings(&self, ask: &PolicyQuestion) -> Settings {
        let mut settings = self.settings.clone();
        if let Some(preset) = ask.preset.map(Bytes::from_f64) {
            (settings.memory_request, settings.memory_limit, settings.preset) = (preset, preset, true);
        }
        settings
    }
}

impl SizingPolicy for PlimsollPolicy {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        self.sizes(ask).request
    }

    fn sizes(&mut self, ask: &PolicyQuestion) -> MemorySizes {
        let predicted = predict::predict(&self.history, &ask.key, &self.settings(ask));
        let [request, limit] =
            [&predicted.memory_request, &predicted.memory_limit].map(|size| Bytes(size.value).as_f64());
        let times = [&predicted.wall_p50, &predicted.wall_p95];
        let are_learnt = times.iter().all(|time| time.basis.quantile > 0.0);
        let promise = Promise {
            limit,
            confidence: predicted.confidence_in(&predicted.memory_limit),
            times: are_learnt.then(|| times.map(|time| Millis(time.value).as_f64())),
            cores: Millis(predicted.cpu_request.value).as_f64() / 1000.0,
        };
        let sizes = match self.in_force {
            SizesInForce::Request => MemorySizes::of(request),
            SizesInForce::Limit => MemorySizes::of(limit),
            SizesInForce::Both => MemorySizes { request, ..MemorySizes::of(limit.max(request)) },
        };
        MemorySizes { promise: Some(promise), ..sizes }
    }

    fn size_after_failure(&mut self, ask: &PolicyQuestion, failed: f64) -> f64 {
        let above = Bytes::from_f64(failed);
        predict::predict_above(&self.history, &ask.key, &self.settings(ask), above).as_f64()
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        let Ok(attempt) = AttemptId::parse(&done.number.to_string()) else { return };
        let cpu = CpuMicros(done.cpu_usec);
        let wall = Millis::from_f64(done.wall_ms);
        // a history is ordered by ends, which a file without times lacks: each attempt ends after those learnt before it
        let end_ms = Millis::from_f64(ask.start_ms).0.saturating_add(wall.0);
        self.newest_end_ms = end_ms.max(self.newest_end_ms.saturating_add(1));
        self.history.learn(Arc::new(Summary {
            resources: Resources { memory_request: ask.preset.map(Bytes::from_f64), ..Resources::default() },
            started_unix_ms: self.newest_end_ms.saturating_sub(wall.0),
            wall,
            cpu,
            // recorded history has no peak, only the mean
            cpu_peak: Cores(0.0),
            need_peak: Bytes::from_f64(done.peak),
            need_mean: Bytes::from_f64(done.mean),
            memory_peak: Bytes::from_f64(done.peak),
            outcome: if done.stopped { Outcome::Failed } else { Outcome::Succeeded },
            censored: done.stopped,
            opening: OpeningRecord { untrusted: done.untrusted, ..OpeningRecord::default() },
            ..Summary::recorded(attempt, ask.key.clone())
        }));
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::Key;

    use super::*;

    #[test]
    fn what_is_learnt_later_is_newer() {
        // a file without times, builds that end together, and a retried build that ended in its last try
        for (start_ms, walls) in
            [(0.0, [9e6, 5e3, 7e3, 0.0]), (1.7e12, [60e3; 4]), (1.7e12, [4e3, 3e3, 2e3, 1e3])]
        {
            let mut policy = PlimsollPolicy::new(Settings::default(), SizesInForce::Request);
            for (number, wall_ms) in (8..).zip(walls) {
                let key = Key { package: "zlib".to_owned(), ..Key::default() };
                let ask = PolicyQuestion { key, workload: 0, preset: None, start_ms, need: f64::NAN };
                let done = FinishedBuild {
                    number,
                    wall_ms,
                    peak: 1e9,
                    mean: 1e9,
                    cpu_usec: 0,
                    stopped: false,
                    untrusted: false,
                };
                policy.learn(&ask, &done);
            }
            let newest: Vec<&str> =
                policy.history.newest_trusted().map(|known| known.attempt.as_str()).collect();
            assert_eq!(newest, ["11", "10", "9", "8"], "{walls:?}");
        }
    }
}
