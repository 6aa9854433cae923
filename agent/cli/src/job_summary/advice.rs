//! Advice after a build: sizes for the next attempt, and whether to retry a failed one. It comes from the
//! server; if the server does not answer, the sizes come from this build alone.

use plimsoll_client::{
    delivery,
    questions::{Client, QuestionFailure},
};
use plimsoll_proto::{
    limits, measured,
    v1::{Key, PredictRequest, Prediction, ShouldRetryRequest, Verdict},
};

use super::BuildFacts;

/// Margin above the need of this build, percent, if the server knows no other build. The need of repeated
/// builds varies by some percent, and with a limit close to the need the kernel must evict the compiler's own
/// code from memory.
const MARGIN_PERCENT: u64 = 25;
/// Sizes are rounded up to a multiple of this.
const STEP_BYTES: u64 = 16 << 20;

/// The server's advice after a build: a verdict and sizes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Advice {
    pub(crate) prediction: Option<Prediction>,
    /// The verdict, if the build failed.
    pub(crate) verdict: Option<Verdict>,
    /// Why the server gave no advice, if any was requested.
    pub(crate) problem: Option<String>,
}

/// A question to the server about a delivered attempt.
#[derive(Debug)]
pub(crate) struct AdviceRequest {
    pub(crate) attempt: String,
    /// The end of the build's log, if the log was read.
    pub(crate) log_tail: Vec<u8>,
    pub(crate) verdict: bool,
    /// The key for which sizes are requested; `None` if no sizes are requested.
    pub(crate) prediction: Option<Key>,
}

impl AdviceRequest {
    /// Whether the request asks for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        !self.verdict && self.prediction.is_none()
    }
}

/// Asks the server that has the attempt. Each answer is stored in `advice` as it arrives, so a verdict is used
/// even if the next request fails.
pub(crate) async fn ask(delivery: &delivery::Settings, wanted: AdviceRequest, advice: &mut Advice) {
    if let Err(failure) = collect_answers(delivery, wanted, advice).await {
        advice.problem = Some(failure.to_string());
    }
}

async fn collect_answers(
    delivery: &delivery::Settings,
    wanted: AdviceRequest,
    advice: &mut Advice,
) -> Result<(), QuestionFailure> {
    let Some(server) = &delivery.server else { return Ok(()) };
    let client = Client::connect(server, &delivery.trust).await?;
    let AdviceRequest { attempt, log_tail, verdict, prediction } = wanted;
    if verdict {
        let question = ShouldRetryRequest { attempt, log_tail, ..ShouldRetryRequest::default() };
        let verdict = client.should_retry(question).await?;
        // the sizes in a verdict take precedence over a prediction
        advice.prediction.clone_from(&verdict.next);
        advice.verdict = Some(verdict);
    }
    if let (None, Some(key)) = (&advice.prediction, prediction) {
        advice.prediction =
            Some(client.predict(PredictRequest { key: Some(key), ..Default::default() }).await?);
    }
    Ok(())
}

/// Whether too little memory ended the build or slowed it down, so that it needs more than was measured.
pub(super) fn was_held_back(facts: &BuildFacts) -> bool {
    let was_ended = facts.rescue.as_ref().is_some_and(|rescue| rescue.ended_ms.is_some());
    facts.totals.oom_kill.unwrap_or(0) > 0 || facts.totals.starved_ms.unwrap_or(0) > 0 || was_ended
}

/// A memory request from this build alone, bytes; at least the smallest size that a server would name. `None`
/// if the need was not measured, the work was done elsewhere, or memory was short, so that the need is higher
/// than measured.
pub(super) fn from_need(facts: &BuildFacts) -> Option<u64> {
    let is_whole = facts.offloaded_to.is_empty() && !measured::was_rescued(facts.rescue.as_ref());
    let need = facts.totals.need_peak_bytes.filter(|_| !was_held_back(facts) && is_whole)?;
    let wanted = need.saturating_add(need.saturating_mul(MARGIN_PERCENT) / 100);
    Some(wanted.div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES).max(limits::MEMORY_FLOOR_BYTES))
}

/// The reason for a request from [`from_need`].
pub(super) fn basis(request: u64) -> String {
    if request <= limits::MEMORY_FLOOR_BYTES {
        return "the least size; without history".to_owned();
    }
    format!("this build's need and {MARGIN_PERCENT} %, without history")
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::Totals;

    use super::*;

    #[test]
    fn one_unconstrained_build_gives_need_plus_margin() {
        let totals = Totals { need_peak_bytes: Some(1000 << 20), oom_kill: Some(0), ..Totals::default() };
        let advice = |totals| from_need(&BuildFacts { totals, ..BuildFacts::default() });
        assert_eq!(advice(totals), Some(1264 << 20));
        let small = advice(Totals { need_peak_bytes: Some(304 << 10), ..totals });
        assert_eq!(small, Some(64 << 20), "no size is below the least one");
        assert_eq!(basis(64 << 20), "the least size; without history");
        assert_eq!(advice(Totals { oom_kill: Some(1), ..totals }), None);
        assert_eq!(advice(Totals { starved_ms: Some(1), ..totals }), None);
        assert_eq!(advice(Totals::default()), None);
        let elsewhere = BuildFacts { totals, offloaded_to: "docker".to_owned(), ..BuildFacts::default() };
        assert_eq!(from_need(&elsewhere), None, "it is the need of a client");
        assert!(advice(Totals { need_peak_bytes: Some(u64::MAX), ..totals }).is_some());
    }
}
