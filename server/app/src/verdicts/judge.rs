//! `ShouldRetry`: joins the caller's report with measurements and earlier reports, computes the
//! verdict, writes it to disk, and answers. A question that adds no evidence gets the verdict in
//! force.

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, sync::Arc};

use plimsoll_core::{
    domain::{
        AttemptId, Bytes, Cause, Evidence, FieldViolation, JobName, Key, MemoryGrowth, Millis, Sample,
        Summary, Verdict,
    },
    mask,
};
use plimsoll_store as store;

use super::{
    Asker, FoundAttempt, Verdicts,
    case::{VerdictCase, WeighedVerdict},
    known::{KnownVerdicts, MAX_VERDICTS_PER_PROJECT},
    numbers::{fingerprint, record_number},
};
use crate::{
    access::{Refusal, Reply},
    verdicts::VerdictParts,
};

/// How the verdict for a caller is made, and whether it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerdictScope {
    /// The verdict is stored.
    Kept,
    /// The verdict is not stored.
    NotKept,
    /// The verdict is made without the attempt, as if it were unknown: the caller must not learn
    /// that the attempt exists.
    WithoutAttempt,
}

/// Growth of the memory need is measured over this time before the end: a few samples at the
/// default interval.
const GROWTH_WINDOW: Millis = Millis(10_000);
/// Most samples of this time that are kept in memory.
const MAX_GROWTH_SAMPLES: usize = 1024;

/// Whether the caller's report shows that the attempt has ended.
fn shows_end(asked: &Evidence) -> bool {
    let texts = [&asked.failure_reason, &asked.container_reason, &asked.pod_reason, &asked.log_tail];
    asked.exit.is_some() || texts.iter().any(|text| !text.is_empty())
}

fn not_measured(asked: &Evidence) -> FieldViolation {
    let description =
        format!("{} was not measured here; say how it ended: exit, log_tail or a reason", asked.attempt);
    FieldViolation::new("attempt", description)
}

/// Whether both projects are known and differ.
fn is_of_another(asked: &str, measured: &str) -> bool {
    !asked.is_empty() && !measured.is_empty() && asked != measured
}

impl Verdicts {
    /// The verdict on an ended attempt, on disk before it is returned. Secrets are masked first.
    ///
    /// The verdict is based on all evidence: measurements, this caller's report, and earlier
    /// reports by others. If the report adds no evidence, the answer is the verdict in force.
    pub(crate) async fn judge(&self, asked: Evidence, asker: Asker) -> Reply<Verdict> {
        let asked = self.masked(asked).await?;
        let (_turn, found) = self.in_turn(&asked.attempt).await?;
        self.judge_in_turn(asked, asker, found).await
    }

    /// Like [`Self::judge`], on the first of these attempts on which the asker may report, else on the first that is not known; `None` if there
    /// is no such attempt. An attempt that is known is read once, in its turn.
    pub(crate) async fn judge_one_of(
        &self,
        names: &[AttemptId],
        asked: Evidence,
        asker: Asker,
    ) -> Reply<Option<Verdict>> {
        let asked = self.masked(asked).await?;
        let mut unknown = None;
        for name in names {
            let (_turn, found) = self.in_turn(name).await?;
            match &found {
                None => unknown = unknown.or(Some(name)),
                Some((summary, _running)) if asker.by.may_report_on(&summary.key.project) => {
                    let asked = Evidence { attempt: name.clone(), ..asked };
                    return self.judge_in_turn(asked, asker, found).await.map(Some);
                }
                Some(_of_another) => {}
            }
        }
        let Some(name) = unknown else { return Ok(None) };
        let (_turn, found) = self.in_turn(name).await?;
        self.judge_in_turn(Evidence { attempt: name.clone(), ..asked }, asker, found).await.map(Some)
    }

    /// Like [`Self::judge`], for a caller that masked the question and has the turn of the attempt: only one question about an attempt is
    /// judged at a time, so that each is based on the evidence of the one before. `found`: the attempt, which may end while a question
    /// waits for its turn.
    pub(super) async fn judge_in_turn(
        &self,
        asked: Evidence,
        asker: Asker,
        found: FoundAttempt,
    ) -> Reply<Verdict> {
        // boxed, because the future is large and many callers wait in it
        let case = Box::pin(self.case(asked, asker, VerdictScope::Kept, found)).await?;
        let (is_full, gives_way) = (case.known_verdicts.is_full, case.known_verdicts.gives_way);
        let time = case.known_verdicts.next_time(self.parts.clock.now_unix_ms());
        let earlier = case.known_verdicts.in_force().cloned();
        let attempt = case.asked_evidence.attempt.clone();
        let mut weighed = self.weighed(case).await?;
        let Some((evidence, number)) = weighed.new.take() else { return Ok(weighed.answer()) };
        if is_full {
            if let Some(in_force) = earlier.filter(|_| !weighed.adds) {
                weighed.verdict = in_force;
                return Ok(weighed.answer());
            }
            return Err(self
                .queue
                .count_refusal(Refusal::Judged { attempt, most: MAX_VERDICTS_PER_PROJECT }));
        }
        if let Some(given) = gives_way {
            self.make_room(&attempt, given).await?;
        }
        weighed.verdict.given_unix_ms = Some(time);
        weighed.verdict = Box::pin(self.keep(weighed.verdict, (&evidence, number), earlier.as_ref())).await?;
        self.parts.metrics.judged(weighed.verdict.cause, weighed.verdict.action);
        Ok(weighed.answer())
    }

    /// Writes a new verdict to disk, with its evidence and fingerprint. It replaces the earlier one
    /// in memory.
    pub(super) async fn keep(
        &self,
        mut verdict: Verdict,
        (evidence, number): (&Evidence, u64),
        earlier: Option<&Verdict>,
    ) -> Reply<Verdict> {
        let time = verdict.given_unix_ms.unwrap_or_default();
        let names_job = verdict.raises_memory() && !evidence.is_untrusted();
        verdict.job = names_job.then(|| JobName::of(&evidence.key)).flatten();
        verdict.basis.built = names_job.then(|| Box::new(evidence.key.build_key()));
        let verdict = self.ingest.record(record_number(number, time), verdict).await?;
        let VerdictParts { classifier, history, .. } = &self.parts;
        if !evidence.is_untrusted() {
            classifier.replace_verdict(&evidence.key, &verdict, earlier);
        }
        if !verdict.basis.by_untrusted {
            history.note_memory_end(&verdict);
        }
        history.count_verdict(&verdict, earlier);
        Ok(verdict)
    }

    /// The verdict on a masked question of a caller that may not store reports: the verdict in force if the report adds
    /// nothing, else a new one. It does not affect predictions or later verdicts, and does not
    /// count toward the limit of verdicts.
    pub(super) async fn judge_without_storing(
        &self,
        asked: Evidence,
        asker: Asker,
        scope: VerdictScope,
        found: FoundAttempt,
    ) -> Reply<Verdict> {
        let case = self.case(asked, asker, scope, found).await?;
        let weighed = self.weighed(case).await?;
        if weighed.new.is_none() {
            return Ok(weighed.answer());
        }
        self.parts.metrics.judged(weighed.verdict.cause, weighed.verdict.action);
        Ok(Verdict { given_unix_ms: Some(self.parts.clock.now_unix_ms()), ..weighed.answer() })
    }

    /// The verdict on an attempt of this project from what is known already. Nothing is stored.
    pub(crate) async fn weigh(&self, attempt: AttemptId, project: &str) -> Reply<Verdict> {
        let key = Key { project: project.to_owned(), ..Key::default() };
        let found = self.ingest.find(&attempt).await?;
        let (asked, asker) =
            (Evidence { key, ..Evidence::about(attempt) }, Asker { sees_all: false, ..Asker::TRUSTED });
        let case = self.case(asked, asker, VerdictScope::NotKept, found).await?;
        Ok(self.weighed(case).await?.verdict)
    }

    /// Masks secrets in a question. That takes a while for a long log, so it is queued like
    /// computing a verdict.
    pub(super) async fn masked(&self, asked: Evidence) -> Reply<Evidence> {
        // never fails, because the semaphore is never closed
        let turn = self.queue.core().await;
        let masked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            mask::evidence(asked)
        });
        masked.await.map_err(|error| Refusal::Unreadable(format!("masking ended badly: {error}")))
    }

    /// Collects everything known about the attempt of a question. `found`: the attempt; for a verdict that is stored, read in the turn of the question.
    pub(super) async fn case(
        &self,
        asked: Evidence,
        asker: Asker,
        scope: VerdictScope,
        found: FoundAttempt,
    ) -> Reply<VerdictCase> {
        let (known_verdicts, found) = match scope {
            VerdictScope::Kept | VerdictScope::NotKept => {
                (self.known(&asked, &asker, found.as_ref()).await?, found)
            }
            VerdictScope::WithoutAttempt if !shows_end(&asked) => return Err(not_measured(&asked).into()),
            VerdictScope::WithoutAttempt => (KnownVerdicts::default(), None),
        };
        let (measured, is_running) = found.map_or((None, false), |(found, running)| (Some(found), running));
        Ok(VerdictCase {
            question: fingerprint(&asked),
            growth: self.growth(measured.as_deref()).await?,
            named_before: self.named_before(&asked, measured.clone()).await?,
            asked_evidence: asked,
            asker,
            known_verdicts,
            measured,
            is_running,
            correcting: None,
        })
    }

    pub(super) async fn weighed(&self, case: VerdictCase) -> Reply<WeighedVerdict> {
        let parts = self.parts.clone();
        // never fails, because the semaphore is never closed
        let turn = self.queue.core().await;
        let weighed = tokio::task::spawn_blocking(move || {
            // the work itself holds the slot, because it continues after its caller has
            // disconnected
            let _turn = turn;
            case.weigh(&parts)
        });
        weighed.await.map_err(|error| Refusal::Unreadable(format!("judging ended badly: {error}")))
    }

    /// How the memory need grew before the end. Computed only if the attempt ran out of memory, or
    /// if its outcome is unknown: then a caller may report that it did.
    async fn growth(&self, measured: Option<&Summary>) -> Reply<Option<MemoryGrowth>> {
        let may_be_memory =
            |summary: &&Summary| summary.cause.is_some_and(Cause::is_memory) || summary.outcome.is_unknown();
        let Some(summary) = measured.filter(may_be_memory) else { return Ok(None) };
        let mut end: VecDeque<(Millis, Bytes)> = VecDeque::new();
        let mut take = |sample: &Sample| {
            end.push_back((sample.elapsed, sample.need_peak()));
            let since = sample.elapsed.saturating_sub(GROWTH_WINDOW);
            while end.len() > MAX_GROWTH_SAMPLES || end.front().is_some_and(|first| first.0 < since) {
                end.pop_front();
            }
        };
        let read = store::each_run(&self.parts.store, &summary.attempt, |run| {
            run.samples.iter().for_each(&mut take);
        });
        read.await?;
        Ok(end.front().zip(end.back()).map(|(first, last)| MemoryGrowth::between(*first, *last)))
    }

    /// The earlier verdicts on the attempt of a question.
    /// Errors: the attempt is of another project, or has not ended as far as is known.
    async fn known(
        &self,
        asked: &Evidence,
        asker: &Asker,
        found: Option<&(Arc<Summary>, bool)>,
    ) -> Reply<KnownVerdicts> {
        let project = found.map(|(summary, _running)| summary.key.project.as_str());
        if project.is_some_and(|measured| is_of_another(&asked.key.project, measured)) {
            let description = format!(
                "is {:?}, but {} belongs to another project; ask for an attempt of your own",
                asked.key.project, asked.attempt
            );
            return Err(FieldViolation::new("key.project", description).into());
        }
        let known_project = (project.unwrap_or(&asked.key.project), project.is_some());
        let known = KnownVerdicts::read(&self.parts.store, &asked.attempt, asker, known_project).await?;
        let is_over = shows_end(asked) || known.in_force().is_some();
        match found {
            Some((_, true)) if !is_over => Err(Refusal::Running(asked.attempt.clone())),
            None if !is_over => Err(not_measured(asked).into()),
            _ => Ok(known),
        }
    }
}
