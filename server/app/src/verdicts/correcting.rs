//! `CorrectVerdict`: a person corrects the cause of an ended attempt, or undoes a correction.
//!
//! The correction is stored in a new verdict, which is in force from then on. Later verdicts on the
//! attempt are based on new evidence, too, but their cause stays the person's until the correction
//! is undone. Only the last verdict that makes a correction is kept, so that an attempt has one of
//! them however often the correction is changed.

use plimsoll_core::{
    domain::{
        AttemptId, Cause, CorrectionRule, Evidence, FieldViolation, Key, Outcome, Verdict, VerdictCorrection,
    },
    mask,
};

use super::{Asker, FoundAttempt, Verdicts, case::VerdictCase, judge::VerdictScope};
use crate::{
    access::{Refusal, Reply},
    runtime::{audit::AUDIT, metrics::KindLabel},
};

/// A person's correction of a failure's cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrectionRequest {
    pub(crate) attempt: AttemptId,
    /// The corrected cause; `None` undoes an earlier correction.
    pub(crate) cause: Option<Cause>,
    pub(crate) why: String,
    /// How long the correction applies to other failures with the same signature, milliseconds;
    /// `None`: it applies only to this attempt.
    pub(crate) signature_for_ms: Option<u64>,
}

impl Verdicts {
    /// Makes or undoes a correction; returns the verdict with it, which is on disk then. Repeating
    /// a correction changes nothing. `project`: that of the attempt; empty if it has none. `found`: the attempt, read in the turn that the
    /// caller has for it.
    pub(super) async fn store_correction(
        &self,
        request: CorrectionRequest,
        project: String,
        asker: Asker,
        found: FoundAttempt,
    ) -> Reply<Verdict> {
        let attempt = &request.attempt;
        let asked = Evidence { key: Key { project, ..Key::default() }, ..Evidence::about(attempt.clone()) };
        let mut case = Box::pin(self.case(asked, asker, VerdictScope::Kept, found)).await?;
        check_failed(&case)?;
        let now = self.parts.clock.now_unix_ms();
        let Some(correction) = request.correction(&case, now)? else {
            return case.verdict_in_force().ok_or_else(|| nothing_to_undo(attempt).into());
        };
        case.correcting = Some(Box::new(correction));
        let (earlier, time) = (case.known_verdicts.in_force().cloned(), case.known_verdicts.next_time(now));
        if let Some(given) = case.known_verdicts.gives_way {
            self.make_room(attempt, given).await?;
        }
        let mut weighed = self.weighed(case).await?;
        let Some((evidence, number)) = weighed.new.take() else { return Ok(weighed.answer()) };
        weighed.verdict.given_unix_ms = Some(time);
        request.put_signature(&mut weighed.verdict, now)?;
        weighed.verdict = Box::pin(self.keep(weighed.verdict, (&evidence, number), earlier.as_ref())).await?;
        self.parts.classifier.note_correction(&weighed.verdict);
        let kind = if request.cause.is_some() { "made" } else { "undone" };
        self.parts.metrics.corrections.get_or_create(&KindLabel::of(kind)).inc();
        self.drop_earlier_words(attempt, time).await;
        log_correction(&weighed.verdict);
        Ok(weighed.answer())
    }

    /// Removes verdicts that only made earlier corrections. An error is only logged, because the
    /// newest verdict is in force anyway.
    async fn drop_earlier_words(&self, attempt: &AttemptId, newest: u64) {
        let is_earlier_word = |verdict: &Verdict| {
            let is_word = verdict.basis.correction.is_some() && verdict.basis.question.is_none();
            is_word && verdict.given_unix_ms.unwrap_or(0) < newest
        };
        if let Err(error) = self.ingest.forget_verdicts(attempt, is_earlier_word).await {
            tracing::warn!(%attempt, %error, "could not drop an earlier correction");
        }
    }
}

impl CorrectionRequest {
    /// The correction to store; `None` if the same is in force already.
    fn correction(&self, case: &VerdictCase, now: u64) -> Result<Option<VerdictCorrection>, FieldViolation> {
        let last = case.known_verdicts.in_force().and_then(|verdict| verdict.basis.correction.as_deref());
        let in_force = last.filter(|last| !last.undone);
        let Some(cause) = self.cause else {
            return match (in_force, last) {
                (Some(in_force), _) => Ok(Some(self.undo_correction(case, in_force, now))),
                (None, Some(_undone)) => Ok(None),
                (None, None) => Err(nothing_to_undo(&self.attempt)),
            };
        };
        let why = mask::text(&self.why).into_owned();
        let is_known = |last: &VerdictCorrection| {
            let is_about_both = self.signature_for_ms.is_some() || last.signature.is_some();
            last.cause == cause && last.why == why && !is_about_both
        };
        if in_force.is_some_and(is_known) {
            return Ok(None);
        }
        let (before, before_source) = match (in_force, &case.measured) {
            (Some(earlier), _) => (earlier.before, earlier.before_source),
            (None, Some(summary)) => (summary.cause, summary.cause_source),
            (None, None) => (None, None),
        };
        Ok(Some(VerdictCorrection {
            cause,
            why,
            by: case.asker.by.name().to_owned(),
            at_unix_ms: now,
            project: case.asked_evidence.key.project.clone(),
            found: Cause::Unknown,
            found_source: None,
            rule: String::new(),
            before,
            before_source,
            signature: None,
            undone: false,
        }))
    }

    fn undo_correction(
        &self,
        case: &VerdictCase,
        in_force: &VerdictCorrection,
        now: u64,
    ) -> VerdictCorrection {
        let by = case.asker.by.name().to_owned();
        let why = if self.why.is_empty() { in_force.why.clone() } else { mask::text(&self.why).into_owned() };
        VerdictCorrection { undone: true, signature: None, by, why, at_unix_ms: now, ..in_force.clone() }
    }

    /// Stores in a new verdict to which other failures the correction applies.
    fn put_signature(&self, verdict: &mut Verdict, now: u64) -> Result<(), FieldViolation> {
        let signature = verdict.outlook.signature.as_ref().map(|signature| signature.id.clone());
        let Some(correction) = verdict.basis.correction.as_deref_mut() else {
            let description = format!("{} did not fail; only a failure has a cause", self.attempt);
            return Err(FieldViolation::new("attempt", description));
        };
        let Some(time) = self.signature_for_ms else { return Ok(()) };
        let id = signature.ok_or_else(|| {
            let description = "no line of a log is known, so the failure has no signature; leave it out";
            FieldViolation::new("signature_for_ms", description)
        })?;
        correction.signature = Some(CorrectionRule { id, until_unix_ms: now.saturating_add(time) });
        Ok(())
    }
}

fn nothing_to_undo(attempt: &AttemptId) -> FieldViolation {
    FieldViolation::new("attempt", format!("{attempt} has no correction that could be taken back"))
}

/// Checks that the attempt has ended and did not succeed.
fn check_failed(case: &VerdictCase) -> Reply<()> {
    let Some(summary) = &case.measured else { return Ok(()) };
    if case.is_running {
        return Err(Refusal::Running(summary.attempt.clone()));
    }
    if summary.outcome == Outcome::Succeeded {
        let description = format!("{} succeeded; only a failure has a cause", summary.attempt);
        return Err(FieldViolation::new("attempt", description).into());
    }
    Ok(())
}

fn log_correction(verdict: &Verdict) {
    let Some(correction) = &verdict.basis.correction else { return };
    let VerdictCorrection { cause, found, rule, why, by, signature, .. } = &**correction;
    let (attempt, cause, found) = (&verdict.attempt, cause.as_str(), found.as_str());
    if correction.undone {
        tracing::info!(target: AUDIT, %attempt, by, why, cause, found, "took back the corrected cause of a failure");
        return;
    }
    let until_unix_ms = signature.as_ref().map(|rule| rule.until_unix_ms);
    let signature = signature.as_ref().map(|rule| rule.id.as_str());
    tracing::info!(
        target: AUDIT, %attempt, by, why, cause, found, rule, signature, until_unix_ms, "corrected the cause of a failure"
    );
}

#[cfg(test)]
mod tests;
