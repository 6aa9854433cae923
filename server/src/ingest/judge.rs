//! ShouldRetry: join what the caller saw with what was measured, judge, put the verdict on disk, answer. The same question
//! gets the stored answer.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use super::{Ingest, Parts, Refusal};
use crate::{
    domain::{Bytes, Cause, Evidence, Fault, Growth, JobName, Key, ListedRun, Millis, Summary, Verdict},
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

/// The same number for the same question, in this and every later release: it is part of a key on disk. FNV-1a, 64 bits
/// (draft-eastlake-fnv), over the fields with their lengths. A question without a key of the build, or without listed runs,
/// adds nothing for them.
fn fingerprint(asked: &Evidence) -> u64 {
    let exit = asked.exit.map(|exit| exit.to_string()).unwrap_or_default();
    let number = asked.number.to_string();
    let reasons = [&asked.failure_reason, &asked.container_reason, &asked.pod_reason];
    let key = if asked.key == Key::default() { Vec::new() } else { words_of(&asked.key) };
    let said = [&exit, &number, &asked.log_tail].into_iter().chain(reasons).map(String::as_str);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let listed: Vec<Cow<'_, str>> = asked.listed.iter().flat_map(words_of_run).collect();
    for part in said.chain(key.iter().chain(&listed).map(AsRef::as_ref)) {
        for byte in (part.len() as u64).to_be_bytes().into_iter().chain(part.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
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
    let Parts { judging, learned, predict, placing, .. } = parts;
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

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        domain::{Action, AttemptId, Exit, Hints, Outcome, Resources, test_summary},
        ingest::fixture,
        metrics::Kind,
        placing::Placing,
        store::Store,
    };

    fn question() -> Evidence {
        let about = Evidence::about(AttemptId::parse("a").unwrap());
        Evidence { exit: Some(Exit::Code(2)), log_tail: "error".into(), ..about }
    }

    #[test]
    fn fingerprints_stay_the_same_over_releases() {
        assert_eq!(fingerprint(&question()), FINGERPRINT_OF_RELEASE_0_1);
    }

    #[test]
    fn fingerprints_of_questions_with_a_key_stay_the_same_over_releases() {
        let key = Key { package: "zlib".into(), ..Key::default() };
        assert_eq!(fingerprint(&Evidence { key, ..question() }), FINGERPRINT_WITH_A_KEY);
    }

    #[test]
    fn a_retry_in_the_largest_pool_is_not_called_bigger() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pools.toml");
        std::fs::write(&path, "[[pool]]\nname = \"one\"\nmemory = \"280MiB\"\n").unwrap();
        let (ingest, _worker) = fixture::ingest(&Store::memory(), 10);
        let with = |file: Option<&std::path::Path>, jobs: u32| {
            let placing =
                Placing::open(file.map(ToOwned::to_owned), Arc::clone(&ingest.parts.metrics)).unwrap();
            let parts = Parts { placing, ..ingest.parts.clone() };
            let hints = Hints { build_jobs: Some(jobs), input_bytes: None };
            let killed = test_summary("7", "zlib", "1", 270);
            let resources = Resources { memory_limit: Some(Bytes(280 << 20)), ..Resources::default() };
            let (key, exit) = (Key { hints, ..killed.key.clone() }, Some(Exit::Code(2)));
            let failed = Outcome::Failed;
            let killed =
                Summary { key: key.clone(), oom_kill: Some(1), outcome: failed, exit, resources, ..killed };
            placed(&Evidence { key, measured: Some(Arc::new(killed)), ..question() }, &parts)
        };
        assert_eq!(with(None, 8).action, Action::Bigger);
        let fewer = with(Some(&path), 8);
        assert_eq!(fewer.action, Action::FewerJobs, "{fewer:?}");
        let next = fewer.next.unwrap();
        assert_eq!((next.build_jobs.value, next.placed.pool.as_str()), (4, "one"));
        assert!(next.memory_limit.value <= 280 << 20);
        let last = with(Some(&path), 1);
        assert_eq!((last.action, last.next), (Action::No, None));
    }

    const FINGERPRINT_WITH_A_KEY: u64 = 6_341_605_501_733_212_899;
    const FINGERPRINT_OF_RELEASE_0_1: u64 = 17_028_770_182_063_689_586;

    #[test]
    fn every_word_of_the_question_counts() {
        let labels = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into_iter().collect();
        let hints = Hints { build_jobs: Some(4), input_bytes: None };
        let key = |key| Evidence { key, ..question() };
        let changed = [
            key(Key { package: "zlib".into(), ..Key::default() }),
            key(Key { version: "zlib".into(), ..Key::default() }),
            key(Key { owner: "zlib".into(), ..Key::default() }),
            key(Key { labels: labels("a", "bc"), ..Key::default() }),
            key(Key { labels: labels("ab", "c"), ..Key::default() }),
            key(Key { hints, ..Key::default() }),
            Evidence { exit: Some(Exit::Signal(2)), ..question() },
            Evidence { number: 2, ..question() },
            Evidence { log_tail: "errors".into(), ..question() },
            Evidence { container_reason: "error".into(), log_tail: String::new(), ..question() },
            Evidence { pod_reason: "Evicted".into(), ..question() },
            Evidence { listed: vec![ListedRun::default()], ..question() },
            Evidence { listed: vec![ListedRun { id: "7".into(), ..ListedRun::default() }], ..question() },
            Evidence {
                listed: vec![ListedRun { finished_unix_ms: Some(7), ..ListedRun::default() }],
                ..question()
            },
        ];
        let mut seen = std::collections::HashSet::from([fingerprint(&question())]);
        for other in changed {
            assert!(seen.insert(fingerprint(&other)), "{other:?}");
        }
    }

    async fn ask(ingest: &Ingest, code: i32) -> Result<Verdict, Refusal> {
        ingest.judge(Evidence { exit: Some(Exit::Code(code)), ..question() }).await
    }

    async fn ask_all_and_one_more(ingest: &Ingest) {
        let first = ask(ingest, 1).await.unwrap();
        for code in 2..=64 {
            ask(ingest, code).await.unwrap();
        }
        assert_eq!(ask(ingest, 65).await, Err(Refusal::Judged { attempt: question().attempt, most: 64 }));
        assert_eq!(ask(ingest, 1).await, Ok(first));
        let other = Evidence { attempt: AttemptId::parse("b").unwrap(), ..question() };
        assert_eq!(ingest.judge(other.clone()).await.unwrap().attempt, other.attempt);
        assert_eq!(ingest.parts.metrics.refusals.get_or_create(&Kind::of("judged")).get(), 1);
    }

    #[tokio::test]
    async fn the_verdicts_on_one_attempt_are_bounded_and_those_that_were_given_stand() {
        let (ingest, worker) = fixture::ingest(&Store::memory(), 10);
        tokio::select! {
            () = worker.run(CancellationToken::new()) => panic!("it works until it is stopped"),
            () = ask_all_and_one_more(&ingest) => {}
        }
    }

    async fn ask_aside(ingest: &Ingest, store: &Store) {
        let asked = |code| Evidence { exit: Some(Exit::Code(code)), ..question() };
        for code in 1..=65 {
            assert!(ingest.judge_aside(asked(code)).await.unwrap().given_unix_ms.is_some());
        }
        assert_eq!(store::count_verdicts(store, &question().attempt, 100).await, Ok(0));
        let kept = ingest.judge(asked(1)).await.unwrap();
        assert_eq!(ingest.judge_aside(asked(1)).await, Ok(kept), "the same question, the same verdict");
    }

    #[tokio::test]
    async fn what_is_asked_aside_leaves_nothing_behind_and_takes_no_place() {
        let store = Store::memory();
        let (ingest, worker) = fixture::ingest(&store, 10);
        tokio::select! {
            () = worker.run(CancellationToken::new()) => panic!("it works until it is stopped"),
            () = ask_aside(&ingest, &store) => {}
        }
    }

    async fn last_of_three(ingest: &Ingest, store: &Store) {
        let weighed = ingest.weigh(question()).await.unwrap().1;
        let mut batch = store::Batch::default();
        for (fingerprint, given_unix_ms) in [(1, Some(20)), (2, Some(30)), (3, None)] {
            let verdict = Verdict { given_unix_ms, ..weighed.clone() };
            store::put_verdict(&mut batch, fingerprint, &verdict).unwrap();
        }
        store.commit(batch).await.unwrap();
        let last = ingest.last_verdict(&question().attempt).await.unwrap().unwrap();
        assert_eq!(last.given_unix_ms, Some(30));
        assert_eq!(ingest.last_verdict(&AttemptId::parse("other").unwrap()).await, Ok(None));
    }

    #[tokio::test]
    async fn the_verdict_that_is_shown_is_the_one_given_last() {
        let store = Store::memory();
        let (ingest, worker) = fixture::ingest(&store, 10);
        tokio::select! {
            () = worker.run(CancellationToken::new()) => panic!("it works until it is stopped"),
            () = last_of_three(&ingest, &store) => {}
        }
    }

    /// What is kept and answered of a log with a token in the line that says what went wrong.
    async fn ask_with_a_secret(ingest: &Ingest, store: &Store) {
        let token = "glpat-aB3dE6gH9jK2mN5pQ8sT";
        let log_tail =
            format!("x.c:1:1: error: 'foo' undeclared in https://robot:{token}@gitlab.example/x\n");
        let labels = [("mirror".to_owned(), token.to_owned())].into_iter().collect();
        let key = Key { package: "zlib".into(), labels, ..Key::default() };
        let asked = Evidence { key, log_tail, failure_reason: token.into(), ..question() };
        let verdict = ingest.judge(asked.clone()).await.unwrap();
        assert_eq!(verdict.cause, Cause::Deterministic, "{verdict:?}");
        let aside = ingest.judge_aside(Evidence { number: 2, ..asked }).await.unwrap();
        let kept = store::read_verdicts(store, &question().attempt, 10).await.unwrap();
        let shown = format!("{verdict:?} {aside:?} {kept:?}");
        assert!(shown.contains("[MASKED]") && !shown.contains("aB3dE6gH"), "{shown}");
    }

    #[tokio::test]
    async fn no_secret_of_a_log_is_kept_or_answered() {
        let store = Store::memory();
        let (ingest, worker) = fixture::ingest(&store, 10);
        tokio::select! {
            () = worker.run(CancellationToken::new()) => panic!("it works until it is stopped"),
            () = ask_with_a_secret(&ingest, &store) => {}
        }
    }
}
