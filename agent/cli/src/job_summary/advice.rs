//! What the next attempt should ask for, and whether a failed one is worth another: the server's word if it has one, else what
//! follows from this build alone.

use plimsoll_client::{
    delivery,
    questions::{Client, Failure},
};
use plimsoll_proto::{
    limits,
    v1::{Key, PredictRequest, Prediction, ShouldRetryRequest, Verdict},
};

use super::BuildFacts;

/// Without history: room above the need of one build. The need of repeated builds varies by some percent, and a limit close to the
/// need leaves the compiler's own text no room in memory.
const MARGIN_PERCENT: u64 = 25;
/// Sizes are rounded up to this.
const STEP_BYTES: u64 = 16 << 20;

/// What the server said.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Advice {
    pub(crate) prediction: Option<Prediction>,
    /// Only for a build that failed.
    pub(crate) verdict: Option<Verdict>,
    /// Why there is no answer, if one was wanted.
    pub(crate) problem: Option<String>,
}

/// What to ask the server about an attempt that it has.
#[derive(Debug)]
pub(crate) struct AdviceRequest {
    pub(crate) attempt: String,
    /// The end of its log, where it was read.
    pub(crate) log_tail: Vec<u8>,
    /// Whether it is worth another attempt.
    pub(crate) verdict: bool,
    /// What the next attempt of this key should ask for.
    pub(crate) prediction: Option<Key>,
}

impl AdviceRequest {
    /// There is nothing to ask.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.verdict && self.prediction.is_none()
    }
}

/// Asks the server to which the attempt was delivered. What is answered is in `advice` at once: a verdict counts even if nothing comes
/// after it.
pub(crate) async fn ask(delivery: &delivery::Settings, wanted: AdviceRequest, advice: &mut Advice) {
    if let Err(failure) = answers(delivery, wanted, advice).await {
        advice.problem = Some(failure.to_string());
    }
}

async fn answers(
    delivery: &delivery::Settings,
    wanted: AdviceRequest,
    advice: &mut Advice,
) -> Result<(), Failure> {
    let Some(server) = &delivery.server else { return Ok(()) };
    let client = Client::connect(server, &delivery.trust).await?;
    let AdviceRequest { attempt, log_tail, verdict, prediction } = wanted;
    if verdict {
        let question = ShouldRetryRequest { attempt, log_tail, ..ShouldRetryRequest::default() };
        let verdict = client.should_retry(question).await?;
        // a verdict that says what to ask for next knows more than a prediction
        advice.prediction.clone_from(&verdict.next);
        advice.verdict = Some(verdict);
    }
    if let (None, Some(key)) = (&advice.prediction, prediction) {
        advice.prediction =
            Some(client.predict(PredictRequest { key: Some(key), ..Default::default() }).await?);
    }
    Ok(())
}

/// Memory stopped the build, or kept it busy: it needs more than was ever seen.
pub(super) fn was_held_back(facts: &BuildFacts) -> bool {
    facts.totals.oom_kill.unwrap_or(0) > 0 || facts.totals.starved_ms.unwrap_or(0) > 0
}

/// A memory request that follows from this build alone, bytes: never below the least size that a server names. `None` if nothing follows: it
/// was not measured, its work was done elsewhere, or it was killed for memory, and so needs more than was ever seen.
pub(super) fn from_need(facts: &BuildFacts) -> Option<u64> {
    let need =
        facts.totals.need_peak_bytes.filter(|_| !was_held_back(facts) && facts.offloaded_to.is_empty())?;
    let wanted = need.saturating_add(need.saturating_mul(MARGIN_PERCENT) / 100);
    Some(wanted.div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES).max(limits::MEMORY_FLOOR_BYTES))
}

/// The words for [`from_need`].
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
    fn one_build_alone_gives_its_need_and_a_margin_unless_it_was_held_back() {
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
