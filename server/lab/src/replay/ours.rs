//! This server's Predict as a policy: it calls the same code in the same way.

use std::sync::Arc;

use plimsoll_core::{
    domain::{
        AttemptId, Bytes, Cores, CpuMicros, History, Millis, OpeningRecord, Outcome, Prediction, Resources,
        Summary,
    },
    predict::{self, Settings},
};

use super::policy::{FinishedBuild, MemorySizes, PolicyPlan, PolicyQuestion, SizingPolicy};

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
}

impl PlimsollPolicy {
    /// A predictor with an empty history.
    pub(super) fn new(settings: Settings, in_force: SizesInForce) -> Self {
        Self { history: History::new(HISTORY_ATTEMPTS), settings, in_force }
    }

    fn chosen_sizes(&self, predicted: &Prediction) -> MemorySizes {
        let [request, limit] =
            [&predicted.memory_request, &predicted.memory_limit].map(|size| Bytes(size.value).as_f64());
        match self.in_force {
            SizesInForce::Request => MemorySizes::of(request),
            SizesInForce::Limit => MemorySizes::of(limit),
            SizesInForce::Both => MemorySizes { request, limit: limit.max(request) },
        }
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
        self.chosen_sizes(&predict::predict(&self.history, &ask.key, &self.settings(ask)))
    }

    fn plan(&mut self, ask: &PolicyQuestion) -> PolicyPlan {
        let predicted = predict::predict(&self.history, &ask.key, &self.settings(ask));
        PolicyPlan {
            memory: self.chosen_sizes(&predicted),
            milli: Some(predicted.cpu_request.value),
            wall_p95: Some(Millis(predicted.wall_p95.value)),
        }
    }

    fn size_after_failure(&mut self, ask: &PolicyQuestion, failed: f64) -> f64 {
        let above = Bytes::from_f64(failed);
        predict::predict_above(&self.history, &ask.key, &self.settings(ask), above).as_f64()
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        let Ok(attempt) = AttemptId::parse(&done.number.to_string()) else { return };
        let cpu = CpuMicros(done.cpu_usec);
        let wall = Millis::from_f64(done.wall_ms);
        self.history.learn(Arc::new(Summary {
            resources: Resources { memory_request: ask.preset.map(Bytes::from_f64), ..Resources::default() },
            started_unix_ms: Millis::from_f64(ask.start_ms).0,
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
