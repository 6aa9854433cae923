//! ShouldRetry: join what the caller saw with what was measured, judge, put the verdict on disk, answer. The same question
//! gets the stored answer.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use super::{Ingest, Parts, Refusal};
use crate::{
    domain::{Bytes, Cause, Evidence, Fault, Fnv, Growth, JobName, Key, ListedRun, Millis, Summary, Verdict},
    mask, predict,
    retry::Flaky,
    store,
};

/// The end of an attempt over which its growth is measured: a few samples at the default interval.
const GROWING: Millis = Millis(10_000);
/// Most samples of it that are held.
const SAMPLES: usize = 1024;

/// Whether anything that a caller says shows that the attempt has ended.
fn says_how_it_ended(asked: &Evidence) -> bool {
    let said = [&asked.failure_reason, &asked.container_reason, &asked.pod_reason, &asked.log_tail];
    asked.exit.is_some() || said.iter().any(|text| !text.is_empty())
}

/// The same number for the same question, in this and every later release: it is part of a key on disk. [`Fnv`] over
/// the fields with their lengths. A question without a key of the build, or without listed runs,
/// adds nothing for them.
fn fingerprint(asked: &Evidence) -> u64 {
    let exit = asked.exit.map(|exit| exit.to_string()).unwrap_or_default();
    let number = asked.number.to_string();
    let reasons = [&asked.failure_reason, &asked.container_reason, &asked.pod_reason];
    let key = if asked.key == Key::default() { Vec::new() } else { words_of(&asked.key) };
    let said = [&exit, &number, &asked.log_tail].into_iter().chain(reasons).map(String::as_str);
    let listed: Vec<Cow<'_, str>> = asked.listed.iter().flat_map(words_of_run).collect();
    said.chain(key.iter().chain(&listed).map(AsRef::as_ref)).fold(Fnv::default(), Fnv::with_part).value()
}

/// What a caller says together with what was measured, which knows better what was built; the caller knows better how it ended.
fn joined(asked: Evidence, measured: Option<Arc<Summary>>, growth: Option<Growth>) -> Evidence {
    let Some(summary) = measured else { return Evidence { growth, ..asked } };
    Evidence {
        key: summary.key.clone(),
        number: summary.number,
        exit: asked.exit.or(summary.exit),
        measured: Some(summary),
        growth,
        ..asked
    }
}

/// All that a key says, in an order that stays: what is new goes to the end, and only where it is set.
fn words_of(key: &Key) -> Vec<Cow<'_, str>> {
    let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
    let numbers = [number(key.hints.build_jobs.map(u64::from)), number(key.hints.input_bytes)];
    let labels = key.labels.iter().flat_map(|(name, value)| [name, value]);
    let mut words: Vec<Cow<'_, str>> = Vec::new();
    words.extend(key.texts().map(|(_, text)| Cow::Borrowed(text)));
    words.extend(numbers.map(Cow::Owned));
    words.extend(labels.map(|text| Cow::Borrowed(text.as_str())));
    words
}

/// All that a listed run says.
fn words_of_run(run: &ListedRun) -> [Cow<'_, str>; 6] {
    let ListedRun { id, name, status, failure_reason, created_unix_ms, finished_unix_ms } = run;
    let time = |time: &Option<u64>| Cow::Owned(time.map(|ms| ms.to_string()).unwrap_or_default());
    let [id, name, status, reason] =
        [id, name, status, failure_reason].map(|text| Cow::Borrowed(text.as_str()));
    [id, name, status, reason, time(created_unix_ms), time(finished_unix_ms)]
}

fn not_measured(asked: &Evidence) -> Fault {
    let description =
        format!("{} was not measured here; say how it ended: exit, log_tail or a reason", asked.attempt);
    Fault::new("attempt", description)
}

/// Both are known, and differ.
fn is_of_another(asked: &str, measured: &str) -> bool {
    !asked.is_empty() && !measured.is_empty() && asked != measured
}

/// The verdict, with the place of its next size. If no pool takes that size, it is judged once more with what the pool takes as the
/// most memory there is: lowered afterwards, the size that it had would be called a bigger one.
fn placed(evidence: &Evidence, parts: &Parts) -> Verdict {
    let Parts { judging, learned, predict, placing, pods, .. } = parts;
    let evidence = &*pods.join(evidence);
    let memory = |verdict: &Verdict| verdict.next.as_ref().map(|next| next.memory_limit.value);
    let judge = |settings: &predict::Settings| {
        let mut verdict = judging.judge(evidence, learned, settings);
        let wanted = memory(&verdict);
        verdict.next = verdict.next.map(|next| placing.put(&evidence.key, next));
        (verdict, wanted)
    };
    let (verdict, wanted) = judge(predict);
    match memory(&verdict).filter(|taken| wanted.is_some_and(|wanted| *taken < wanted)) {
        Some(most) => judge(&predict::Settings { memory_cap: Some(Bytes(most)), ..(**predict).clone() }).0,
        None => verdict,
    }
}

impl Ingest {
    /// The verdict on an ended attempt, on disk before it is returned. Secrets are masked before anything looks at it.
    pub(crate) async fn judge(&self, asked: Evidence) -> Result<Verdict, Refusal> {
        let asked = self.masked(asked).await?;
        let fingerprint = fingerprint(&asked);
        if let Some(verdict) = self.given(&asked, fingerprint).await? {
            return Ok(verdict);
        }
        let _one_of_few = self.line.ask_about(&self.parts.store, &asked.attempt).await?;
        let (evidence, mut verdict) = self.weigh(asked).await?;
        verdict.given_unix_ms = Some(self.parts.clock.now_unix_ms());
        let names_job = verdict.cause.is_memory() && !evidence.is_untrusted();
        verdict.job = names_job.then(|| JobName::of(&evidence.key)).flatten();
        let verdict = self.record(fingerprint, verdict).await?;
        if !evidence.is_untrusted() {
            self.parts.judging.learn(&evidence.key, &verdict);
            self.note_verdict(&verdict);
        }
        self.parts.learned.judged(&verdict);
        self.parts.metrics.judged(verdict.cause, verdict.action);
        Ok(verdict)
    }

    /// The verdict for somebody whose word is not to be kept: the stored one on the same question, else the one of now. Nothing
    /// learns from it, and it is none of those that an attempt may have.
    pub(crate) async fn judge_aside(&self, asked: Evidence) -> Result<Verdict, Refusal> {
        let asked = self.masked(asked).await?;
        if let Some(verdict) = self.given(&asked, fingerprint(&asked)).await? {
            return Ok(verdict);
        }
        let (_evidence, verdict) = self.weigh(asked).await?;
        self.parts.metrics.judged(verdict.cause, verdict.action);
        Ok(Verdict { given_unix_ms: Some(self.parts.clock.now_unix_ms()), ..verdict })
    }

    /// The verdict for somebody who may not see this attempt: what it would be if nothing were known of it here. Nothing is kept.
    pub(crate) async fn judge_unseen(&self, asked: Evidence) -> Result<Verdict, Refusal> {
        let asked = self.masked(asked).await?;
        if !says_how_it_ended(&asked) {
            return Err(not_measured(&asked).into());
        }
        let (_evidence, verdict) = self.weighed(asked, None).await?;
        self.parts.metrics.judged(verdict.cause, verdict.action);
        Ok(Verdict { given_unix_ms: Some(self.parts.clock.now_unix_ms()), ..verdict })
    }

    /// The question without secrets. A long log takes its time, so it takes its turn as judging does.
    async fn masked(&self, asked: Evidence) -> Result<Evidence, Refusal> {
        // nobody closes it
        let turn = Arc::clone(&self.weighing).acquire_owned().await;
        let masked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            mask::evidence(asked)
        });
        masked.await.map_err(|error| Refusal::Unreadable(format!("masking ended badly: {error}")))
    }

    /// The stored verdict on this question.
    async fn given(&self, asked: &Evidence, fingerprint: u64) -> Result<Option<Verdict>, Refusal> {
        let stored = store::read_verdict(&self.parts.store, &asked.attempt, fingerprint).await;
        stored.map_err(|error| Refusal::Unreadable(error.to_string()))
    }

    /// The verdict that would be given now, and what it stands on; nothing is kept of it.
    pub(super) async fn weigh(&self, asked: Evidence) -> Result<(Evidence, Verdict), Refusal> {
        let measured = self.measured(&asked).await?;
        self.weighed(asked, measured).await
    }

    async fn weighed(
        &self,
        asked: Evidence,
        measured: Option<Arc<Summary>>,
    ) -> Result<(Evidence, Verdict), Refusal> {
        let growth = self.growth(measured.as_deref()).await?;
        let evidence = joined(asked, measured, growth);
        let parts = self.parts.clone();
        // nobody closes it
        let turn = Arc::clone(&self.weighing).acquire_owned().await;
        let weighed = tokio::task::spawn_blocking(move || {
            // the work goes on if nobody waits for it any more, and so must its turn
            let _turn = turn;
            let verdict = placed(&evidence, &parts);
            (evidence, verdict)
        });
        weighed.await.map_err(|error| Refusal::Unreadable(format!("judging ended badly: {error}")))
    }

    /// Failures with retries whose end is known, most retries first.
    pub(crate) fn flaky(&self, most: usize) -> Vec<Flaky> {
        self.parts.learned.read(|history| self.parts.judging.flaky(history, most))
    }

    /// How the need grew before memory ended it; for other causes nobody asks.
    async fn growth(&self, measured: Option<&Summary>) -> Result<Option<Growth>, Refusal> {
        let Some(summary) = measured.filter(|summary| summary.cause.is_some_and(Cause::is_memory)) else {
            return Ok(None);
        };
        let mut end: VecDeque<(Millis, Bytes)> = VecDeque::new();
        let read = self.series(&summary.attempt, |sample| {
            end.push_back((sample.elapsed, sample.need_peak()));
            let since = sample.elapsed.saturating_sub(GROWING);
            while end.len() > SAMPLES || end.front().is_some_and(|first| first.0 < since) {
                end.pop_front();
            }
        });
        read.await.map_err(|error| Refusal::Unreadable(error.to_string()))?;
        Ok(end.front().zip(end.back()).map(|(first, last)| Growth::between(*first, *last)))
    }

    async fn measured(&self, asked: &Evidence) -> Result<Option<Arc<Summary>>, Refusal> {
        match self.find(&asked.attempt).await? {
            Some((_, true)) if !says_how_it_ended(asked) => Err(Refusal::Running(asked.attempt.clone())),
            Some((summary, _)) if is_of_another(&asked.key.project, &summary.key.project) => {
                let description = format!(
                    "is {:?}, but {} belongs to another project; ask for an attempt of your own",
                    asked.key.project, asked.attempt
                );
                Err(Fault::new("key.project", description).into())
            }
            Some((summary, _)) => Ok(Some(summary)),
            None if says_how_it_ended(asked) => Ok(None),
            None => Err(not_measured(asked).into()),
        }
    }
}
