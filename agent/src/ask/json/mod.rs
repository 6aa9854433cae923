//! Answers for programs: one JSON object, indented, with a line feed at its end.
//!
//! Fields have the names, units and meanings of the wire contract (`proto/plimsoll/v1`) and only ever grow in number.
//! Enumerations are lower-case words without their prefix (`exact`, `oom`, `bigger`). A field that is not known is `null`.

mod attempt;
mod groups;
mod jobs;
mod moved;
mod predictor;
mod stats;
mod totals;
mod watch;

use plimsoll_proto::v1::{
    ExplainResponse, GetAttemptResponse, GetStatsResponse, ListAttemptsResponse, Prediction, Verdict,
    WatchResponse,
};
use serde::Serialize;

pub(super) use self::{
    moved::{MixedNeedJson, RegressionJson},
    stats::StepJson,
    totals::TotalsJson,
};

pub(crate) fn render_prediction(prediction: &Prediction) -> String {
    render(&predictor::PredictionJson::from(prediction))
}

pub(super) fn render_explanation(explained: &ExplainResponse) -> String {
    render(&predictor::ExplanationJson::from(explained))
}

pub(super) fn render_jobs(explained: &ExplainResponse) -> String {
    render(&predictor::ExplanationJson::without_attempts(explained))
}

pub(crate) fn render_verdict(verdict: &Verdict) -> String {
    render(&predictor::VerdictJson::from(verdict))
}

pub(super) fn render_stats(stats: &GetStatsResponse) -> String {
    render(&stats::StatsJson::from(stats))
}

pub(super) fn render_attempts(attempts: &ListAttemptsResponse) -> String {
    render(&attempt::AttemptsJson::from(attempts))
}

pub(super) fn render_attempt(shown: &GetAttemptResponse) -> String {
    render(&attempt::AttemptJson::from(shown))
}

/// One line for one message.
pub(super) fn render_watch(message: &WatchResponse) -> String {
    let mut line = serde_json::to_string(&watch::WatchJson::from(message)).unwrap_or_default();
    line.push('\n');
    line
}

pub(super) fn render(value: &impl Serialize) -> String {
    // these structures hold nothing that JSON cannot say
    let mut text =
        serde_json::to_string_pretty(value).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    text.push('\n');
    text
}
