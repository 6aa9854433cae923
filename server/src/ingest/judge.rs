//! ShouldRetry: join what the caller saw with what was measured and what was said before, judge, put the verdict on disk, answer. A
//! question that adds nothing to what is known gets the verdict in force.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use super::{
    Ingest, Parts, Refusal,
    known_verdicts::{Asker, KnownVerdicts, VERDICTS, evidence_number},
};
use crate::{
    domain::{
        AttemptId, Bytes, Cause, Evidence, EvidenceSource, Fault, Fnv, Growth, JobName, Key, ListedRun,
        MatchedLine, Millis, ReportedEvidence, Summary, Verdict, VerdictBasis,
    },
    mask, predict,
    privacy::HIDDEN,
    retry::Flaky,
};

/// Whether what is known here of an attempt counts.
#[derive(Debug, Clone, Copy)]
enum Known {
    Here,
    /// As if the attempt were not there.
    Nowhere,
}

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

/// A question with all that is known of its attempt.
#[derive(Debug)]
struct Case {
    asked: Evidence,
    /// The number of the question.
    question: u64,
    asker: Asker,
    known: KnownVerdicts,
    /// What was measured, and whether the attempt is running.
    measured: Option<(Arc<Summary>, bool)>,
    growth: Option<Growth>,
}

/// What becomes of a question.
#[derive(Debug)]
struct Weighed {
    verdict: Verdict,
    /// What a new verdict stands on, and its number; `None` if nothing more is known than the verdict in force stands on.
    new: Option<(Evidence, u64)>,
    /// What the asker said himself of the log; `None` if he may read all.
    readable: Option<OwnLog>,
}

/// What an asker said of the log.
#[derive(Debug, Default)]
struct OwnLog {
    /// Lines that a rule knows.
    lines: Vec<MatchedLine>,
    /// The first and the last line that speak of an error, where no rule knows one.
    words: [Option<String>; 2],
}

impl OwnLog {
    fn of(said: &ReportedEvidence) -> Self {
        Self { lines: said.log.clone(), words: [said.first_words.clone(), said.last_words.clone()] }
    }

    /// A line of evidence is one of these.
    fn has(&self, text: &str) -> bool {
        self.lines.iter().any(|line| !line.line.is_empty() && text == format!("{}: {}", line.rule, line.line))
    }

    /// The line that says first what went wrong is one of these.
    fn begins(&self, first: &str) -> bool {
        let lines = self.lines.iter().flat_map(|own| [&own.line, &own.first]);
        lines.chain(self.words.iter().flatten()).any(|own| !own.is_empty() && own == first)
    }
}

impl Weighed {
    /// The verdict as the asker gets it: without lines of logs that others sent, if he may not read them.
    fn answer(self) -> Verdict {
        let Self { mut verdict, readable, .. } = self;
        let Some(own) = readable else { return verdict };
        let mut hidden = false;
        for line in verdict.evidence.iter_mut().filter(|line| line.source == EvidenceSource::Log) {
            if !own.has(&line.text) {
                HIDDEN.clone_into(&mut line.text);
                hidden = true;
            }
        }
        if hidden {
            // it repeats what decided
            HIDDEN.clone_into(&mut verdict.reason);
        }
        let named = verdict.outlook.signature.as_mut().filter(|named| !named.line.is_empty());
        if let Some(named) = named.filter(|named| hidden || !own.begins(&named.first)) {
            HIDDEN.clone_into(&mut named.line);
            named.first.clear();
        }
        verdict
    }
}

impl Case {
    /// The verdict on what was said now and before together with what was measured, which knows better what was built; callers know better
    /// how it ended. Reads the log: not for a thread that serves others.
    fn weigh(self, parts: &Parts) -> Weighed {
        let before = self.known.reported();
        let was_asked = self.known.was_asked(self.question);
        let said = if was_asked && self.asker.reads_logs { None } else { Some(self.reported(parts)) };
        let readable = (!self.asker.reads_logs).then(|| said.as_ref().map(OwnLog::of).unwrap_or_default());
        let own = said.filter(|_| !was_asked).unwrap_or_default();
        let mut reported = before.clone();
        reported.join(&own);
        let number =
            evidence_number(&reported, self.measured.as_ref().map(|(one, running)| (&**one, *running)));
        let adds = ReportedEvidence { project: before.project.clone(), ..reported.clone() } != before;
        if let Some(verdict) = self.known.standing(number).filter(|_| !adds) {
            return Weighed { verdict: verdict.clone(), new: None, readable };
        }
        let evidence = self.evidence(reported);
        let mut verdict = placed(&evidence, parts);
        verdict.basis = VerdictBasis {
            question: Some(self.question),
            evidence: Some(number),
            by_untrusted: !self.asker.is_trusted,
            reported: own,
            ..verdict.basis
        };
        Weighed { verdict, new: Some((evidence, number)), readable }
    }

    fn reported(&self, parts: &Parts) -> ReportedEvidence {
        let measured = self.measured.as_ref().map(|(summary, _running)| Arc::clone(summary));
        parts.judging.reported(&Evidence { measured, ..self.asked.clone() })
    }

    /// All that is known.
    fn evidence(&self, reported: ReportedEvidence) -> Evidence {
        let measured = self.measured.as_ref().map(|(summary, _running)| Arc::clone(summary));
        let about = Evidence::about(self.asked.attempt.clone());
        let (key, number, ended) = match measured.as_deref() {
            Some(summary) => (summary.key.clone(), summary.number, summary.exit),
            None => (reported.key.as_deref().cloned().unwrap_or_default(), reported.number.max(1), None),
        };
        let exit = reported.exit.or(ended);
        let failure_reason = measured.as_deref().map(|summary| summary.ci_reason.clone()).unwrap_or_default();
        let (time_limit, growth) = (reported.time_limit, self.growth);
        Evidence { key, number, measured, exit, failure_reason, time_limit, growth, reported, ..about }
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
    ///
    /// It stands on all that is known: what was measured, what this caller says, and what others said before. If that is no more than the
    /// verdict in force stands on, the answer is that verdict.
    pub(crate) async fn judge(&self, asked: Evidence, asker: Asker) -> Result<Verdict, Refusal> {
        let asked = self.masked(asked).await?;
        // two questions about one attempt would not know of each other
        let _turn = self.line.turn_on(&asked.attempt).await;
        let case = self.case(asked, asker, Known::Here).await?;
        let (stored, time) = (case.known.stored, case.known.next_time(self.parts.clock.now_unix_ms()));
        let earlier = case.known.in_force().cloned();
        let attempt = case.asked.attempt.clone();
        let mut weighed = self.weighed(case).await?;
        let Some((evidence, number)) = weighed.new.take() else { return Ok(weighed.answer()) };
        if stored >= VERDICTS {
            return Err(self.line.counted(Refusal::Judged { attempt, most: VERDICTS }));
        }
        weighed.verdict.given_unix_ms = Some(time);
        let names_job = weighed.verdict.cause.is_memory() && !evidence.is_untrusted();
        weighed.verdict.job = names_job.then(|| JobName::of(&evidence.key)).flatten();
        // of its own: the same may be known again after other words, and is another verdict then
        let record = Fnv::default().with_part(&number.to_string()).with_part(&time.to_string()).value();
        let verdict = self.record(record, weighed.verdict).await?;
        if !evidence.is_untrusted() {
            self.learn_verdict(&evidence.key, &verdict, earlier.as_ref());
        }
        self.parts.learned.judged(&verdict, earlier.as_ref());
        self.parts.metrics.judged(verdict.cause, verdict.action);
        Ok(Weighed { verdict, new: None, readable: weighed.readable }.answer())
    }

    /// The verdict for a caller whose word is not to be kept: the one in force if he says nothing new, else the one of now. Nothing
    /// learns from it, and it is none of those that an attempt may have.
    pub(crate) async fn judge_aside(&self, asked: Evidence, asker: Asker) -> Result<Verdict, Refusal> {
        self.judge_and_forget(asked, asker, Known::Here).await
    }

    /// The verdict for a caller who may not see this attempt: what it would be if nothing were known of it here. Nothing is kept.
    pub(crate) async fn judge_unseen(&self, asked: Evidence) -> Result<Verdict, Refusal> {
        self.judge_and_forget(asked, Asker::STRANGER, Known::Nowhere).await
    }

    async fn judge_and_forget(
        &self,
        asked: Evidence,
        asker: Asker,
        known: Known,
    ) -> Result<Verdict, Refusal> {
        let asked = self.masked(asked).await?;
        let case = self.case(asked, asker, known).await?;
        let weighed = self.weighed(case).await?;
        if weighed.new.is_none() {
            return Ok(weighed.answer());
        }
        self.parts.metrics.judged(weighed.verdict.cause, weighed.verdict.action);
        Ok(Verdict { given_unix_ms: Some(self.parts.clock.now_unix_ms()), ..weighed.answer() })
    }

    /// The verdict on what is known of an attempt; nothing is kept of it.
    pub(super) async fn weigh(&self, attempt: AttemptId) -> Result<Verdict, Refusal> {
        let case = self.case(Evidence::about(attempt), Asker::TRUSTED, Known::Here).await?;
        Ok(self.weighed(case).await?.verdict)
    }

    /// Learns a verdict that is on disk in the place of the one that was in force before.
    fn learn_verdict(&self, key: &Key, verdict: &Verdict, earlier: Option<&Verdict>) {
        let name = |verdict: &Verdict| verdict.outlook.signature.as_ref().map(|named| named.id.clone());
        let differs = |earlier: &Verdict| name(earlier) != name(verdict) || earlier.action != verdict.action;
        if earlier.is_some_and(differs) {
            self.parts.judging.unlearn(&verdict.attempt);
        }
        self.parts.judging.learn(key, verdict);
        self.note_verdict(verdict);
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

    /// A question with all that is known of its attempt.
    async fn case(&self, asked: Evidence, asker: Asker, known: Known) -> Result<Case, Refusal> {
        let question = fingerprint(&asked);
        let (known, measured) = match known {
            Known::Here => self.known(&asked, asker, question).await?,
            Known::Nowhere if !says_how_it_ended(&asked) => return Err(not_measured(&asked).into()),
            Known::Nowhere => (KnownVerdicts::default(), None),
        };
        let growth = self.growth(measured.as_ref().map(|(summary, _running)| &**summary)).await?;
        Ok(Case { asked, question, asker, known, measured, growth })
    }

    async fn weighed(&self, case: Case) -> Result<Weighed, Refusal> {
        let parts = self.parts.clone();
        // nobody closes it
        let turn = Arc::clone(&self.weighing).acquire_owned().await;
        let weighed = tokio::task::spawn_blocking(move || {
            // the work goes on if nobody waits for it any more, and so must its turn
            let _turn = turn;
            case.weigh(&parts)
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

    /// What is known of the attempt that a question is about.
    async fn known(
        &self,
        asked: &Evidence,
        asker: Asker,
        question: u64,
    ) -> Result<(KnownVerdicts, Option<(Arc<Summary>, bool)>), Refusal> {
        let found = self.find(&asked.attempt).await?;
        let project = found.as_ref().map(|(summary, _running)| summary.key.project.as_str());
        if project.is_some_and(|measured| is_of_another(&asked.key.project, measured)) {
            let description = format!(
                "is {:?}, but {} belongs to another project; ask for an attempt of your own",
                asked.key.project, asked.attempt
            );
            return Err(Fault::new("key.project", description).into());
        }
        let whose = (project.unwrap_or(&asked.key.project), project.is_some());
        let known = KnownVerdicts::read(&self.parts.store, &asked.attempt, asker, whose).await?;
        let known = known.with_answer(&self.parts.store, &asked.attempt, question).await?;
        let is_over = says_how_it_ended(asked) || known.in_force().is_some();
        match found {
            Some((_, true)) if !is_over => Err(Refusal::Running(asked.attempt.clone())),
            None if !is_over => Err(not_measured(asked).into()),
            found => Ok((known, found)),
        }
    }
}
