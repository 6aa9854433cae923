//! Verdicts that are asked for, kept and shown again.

use plimsoll_core::domain::{
    Action, AttemptId, Exit, Hints, ListedRun, LogOrder, MatchedLine, Outcome, Reporter, Resources,
    test_summary,
};
use plimsoll_store::{self as store, Store};

use super::{super::case::with_pool, *};
use crate::{
    access::{own_log::OwnLog, privacy::ReadableWords},
    ingest::{causes::judged_early, fixture},
    pools::PoolRegistry,
    runtime::metrics::KindLabel,
};

fn question() -> Evidence {
    let about = Evidence::about(AttemptId::parse("a").unwrap());
    Evidence { exit: Some(Exit::Code(2)), log_tail: "error".into(), ..about }
}

/// The verdict that is not stored.
async fn ask_aside(verdicts: &Verdicts, asked: Evidence) -> Verdict {
    let asked = verdicts.masked(asked).await.unwrap();
    verdicts.judge_without_storing(asked, Asker::TRUSTED, VerdictScope::NotKept, None).await.unwrap()
}

#[test]
fn fingerprints_stay_the_same_over_releases() {
    assert_eq!(fingerprint(&question()), FINGERPRINT_OF_RELEASE_0_1);
}

#[test]
fn question_fingerprints_with_a_key_are_stable() {
    let key = Key { package: "zlib".into(), ..Key::default() };
    assert_eq!(fingerprint(&Evidence { key, ..question() }), FINGERPRINT_WITH_A_KEY);
}

#[test]
fn retries_in_the_largest_pool_are_not_bigger() {
    let (_dir, path) = plimsoll_support::temporary::file_with(
        "pools.toml",
        "[[pool]]\nname = \"one\"\nmemory = \"280MiB\"\n",
    );
    let (ingest, _worker) = fixture::ingest(&Store::memory(), 10);
    let with = |file: Option<&std::path::Path>, jobs: u32| {
        let pools =
            PoolRegistry::open(file.map(ToOwned::to_owned), Arc::clone(&fixture::metrics(&ingest))).unwrap();
        let parts = VerdictParts { pools, ..fixture::verdict_parts(&ingest) };
        let hints = Hints { build_jobs: Some(jobs), input_bytes: None };
        let killed = test_summary("7", "zlib", "1", 270);
        let resources = Resources { memory_limit: Some(Bytes(280 << 20)), ..Resources::default() };
        let (key, exit) = (Key { hints, ..killed.key.clone() }, Some(Exit::Code(2)));
        let failed = Outcome::Failed;
        let killed =
            Summary { key: key.clone(), oom_kill: Some(1), outcome: failed, exit, resources, ..killed };
        with_pool(&Evidence { key, measured: Some(Arc::new(killed)), ..question() }, &parts)
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

async fn ask(verdicts: &Verdicts, code: i32) -> Reply<Verdict> {
    verdicts.judge(Evidence { exit: Some(Exit::Code(code)), ..question() }, Asker::TRUSTED).await
}

async fn ask_all_and_one_more(verdicts: &Verdicts) {
    let mut last = ask(verdicts, 1).await.unwrap();
    for code in 2..=64 {
        last = ask(verdicts, code).await.unwrap();
    }
    assert_eq!(ask(verdicts, 65).await, Err(Refusal::Judged { attempt: question().attempt, most: 64 }));
    assert_eq!(ask(verdicts, 1).await, Ok(last), "nothing new: the verdict in force");
    // as a version that made other fingerprints left them
    let (id, mut batch) = (question().attempt, store::Batch::default());
    let mut last = store::read_verdicts(&verdicts.parts.store, &id).await.unwrap().pop().unwrap();
    last.basis.evidence = Some(1);
    verdicts.ingest.forget_verdicts(&id, |given| given.given_unix_ms == last.given_unix_ms).await.unwrap();
    store::put_verdict(&mut batch, 1, &last).unwrap();
    verdicts.parts.store.commit(batch).await.unwrap();
    assert_eq!(ask(verdicts, 1).await, Ok(last), "it stays in force");
    let other = Evidence { attempt: AttemptId::parse("b").unwrap(), ..question() };
    let judged = verdicts.judge(other.clone(), Asker::TRUSTED).await.unwrap();
    assert_eq!(judged.attempt, other.attempt);
    assert_eq!(verdicts.parts.metrics.refusals.get_or_create(&KindLabel::of("judged")).get(), 1);
}

#[tokio::test]
async fn verdicts_on_an_attempt_are_bounded_and_kept() {
    fixture::with_verdicts(&Store::memory(), ask_all_and_one_more).await;
}

async fn ask_often_aside(verdicts: &Verdicts, store: &Store) {
    let asked = |code| Evidence { exit: Some(Exit::Code(code)), ..question() };
    for code in 1..=65 {
        assert!(ask_aside(verdicts, asked(code)).await.given_unix_ms.is_some());
    }
    assert_eq!(store::read_verdicts(store, &question().attempt).await, Ok(Vec::new()));
    let kept = verdicts.judge(asked(1), Asker::TRUSTED).await.unwrap();
    assert_eq!(ask_aside(verdicts, asked(1)).await, kept, "the same question, the same verdict");
}

#[tokio::test]
async fn unstored_questions_leave_nothing_and_take_no_slot() {
    let store = Store::memory();
    fixture::with_verdicts(&store, async |verdicts| ask_often_aside(verdicts, &store).await).await;
}

async fn last_of_three(verdicts: &Verdicts, store: &Store) {
    let weighed = ask_aside(verdicts, question()).await;
    let mut batch = store::Batch::default();
    for (fingerprint, given_unix_ms) in [(1, Some(20)), (2, Some(30)), (3, None)] {
        let verdict = Verdict { given_unix_ms, ..weighed.clone() };
        store::put_verdict(&mut batch, fingerprint, &verdict).unwrap();
    }
    store.commit(batch).await.unwrap();
    let shown = verdicts.given(&question().attempt, "").await.unwrap();
    let given: Vec<Option<u64>> = shown.iter().map(|verdict| verdict.given_unix_ms).collect();
    assert_eq!(given, [Some(30), Some(20), None]);
    assert_eq!(verdicts.given(&AttemptId::parse("other").unwrap(), "").await, Ok(Vec::new()));
}

#[tokio::test]
async fn the_latest_verdict_is_shown() {
    let store = Store::memory();
    fixture::with_verdicts(&store, async |verdicts| last_of_three(verdicts, &store).await).await;
}

/// What is kept and answered of a log with a token in the line that says what went wrong.
async fn ask_with_a_secret(verdicts: &Verdicts, store: &Store) {
    let token = "glpat-aB3dE6gH9jK2mN5pQ8sT";
    let log_tail = format!("x.c:1:1: error: 'foo' undeclared in https://robot:{token}@gitlab.example/x\n");
    let labels = [("mirror".to_owned(), token.to_owned())].into_iter().collect();
    let key = Key { package: "zlib".into(), labels, ..Key::default() };
    let asked = Evidence { key, log_tail, failure_reason: token.into(), ..question() };
    let verdict = verdicts.judge(asked.clone(), Asker::TRUSTED).await.unwrap();
    assert_eq!(verdict.cause, Cause::Deterministic, "{verdict:?}");
    let aside = ask_aside(verdicts, Evidence { number: 2, ..asked }).await;
    let kept = store::read_verdicts(store, &question().attempt).await.unwrap();
    let shown = format!("{verdict:?} {aside:?} {kept:?}");
    assert!(shown.contains("[MASKED]") && !shown.contains("aB3dE6gH"), "{shown}");
}

#[tokio::test]
async fn log_secrets_are_neither_stored_nor_answered() {
    let store = Store::memory();
    fixture::with_verdicts(&store, async |verdicts| Box::pin(ask_with_a_secret(verdicts, &store)).await)
        .await;
}

async fn ask_with_other_words(verdicts: &Verdicts, store: &Store) {
    let with = |words: &str| Evidence { log_tail: words.into(), ..question() };
    let words = ["error: frobnicate", "error: the moon is full", "error: frobnicate"];
    for (number, words) in words.into_iter().enumerate() {
        let answer = verdicts.judge(with(words), Asker::TRUSTED).await.unwrap();
        let kept = store::read_verdicts(store, &question().attempt).await.unwrap();
        assert!(kept.contains(&answer) && kept.len() <= number + 1, "what was answered is kept: {kept:?}");
        assert_eq!(verdicts.given(&question().attempt, "").await.unwrap().first(), Some(&answer));
    }
}

#[tokio::test]
async fn a_verdict_on_unmatched_lines_is_kept() {
    let store = Store::memory();
    fixture::with_verdicts(&store, async |verdicts| ask_with_other_words(verdicts, &store).await).await;
}

async fn ask_again_after_the_retry(verdicts: &Verdicts) {
    let failed = Summary {
        outcome: Outcome::Failed,
        exit: Some(Exit::Code(1)),
        cause: Some(Cause::Unknown),
        ..test_summary("a", "zlib", "1", 100)
    };
    verdicts.parts.history.learn(&failed);
    let asked =
        || Evidence { key: failed.key.clone(), log_tail: "error: the moon is full".into(), ..question() };
    let first = verdicts.judge(asked(), Asker::TRUSTED).await.unwrap();
    assert_eq!((first.cause, first.action), (Cause::Unknown, Action::AsIs));
    assert_eq!(verdicts.judge(asked(), Asker::TRUSTED).await, Ok(first), "nothing is new");
    let retry =
        Summary { number: 2, retries: Some(failed.attempt.clone()), ..test_summary("b", "zlib", "1", 100) };
    verdicts.parts.history.learn(&retry);
    let again = verdicts.judge(asked(), Asker::TRUSTED).await.unwrap();
    assert_eq!((again.cause, again.action), (Cause::Flaky, Action::AsIs), "{again:?}");
    assert_eq!(verdicts.judge(asked(), Asker::TRUSTED).await, Ok(again), "and it stays so");
}

#[tokio::test]
async fn a_question_repeated_after_passing_is_flaky() {
    fixture::with_verdicts(&Store::memory(), ask_again_after_the_retry).await;
}

async fn ask_for_another_project(verdicts: &Verdicts) {
    let key = Key { project: "a/one".into(), package: "zlib".into(), ..Key::default() };
    let killed = Evidence { key, container_reason: "OOMKilled".into(), ..question() };
    let verdict = verdicts.judge(killed, Asker::TRUSTED).await.unwrap();
    assert_eq!(verdict.cause, Cause::Oom);
    let id = &question().attempt;
    assert_eq!(verdicts.given(id, "a/one").await.unwrap().len(), 1);
    assert_eq!(verdicts.given(id, "b/two").await, Ok(Vec::new()));
    let VerdictParts { store, classifier, .. } = &verdicts.parts;
    let of = |project: &str| {
        let failed = test_summary(id.as_str(), "zlib", "1", 100);
        let key = Key { project: project.into(), ..failed.key.clone() };
        let (outcome, exit) = (Outcome::Failed, Some(Exit::Code(1)));
        Summary { key, outcome, exit, cause: Some(Cause::Unknown), ..failed }
    };
    let (mut own, mut foreign) = (of("a/one"), of("b/two"));
    assert!(judged_early(store, classifier, &mut own).await);
    assert!(!judged_early(store, classifier, &mut foreign).await);
    assert_eq!((own.cause, foreign.cause), (Some(Cause::Oom), Some(Cause::Unknown)));
}

#[tokio::test]
async fn evidence_of_another_project_does_not_count() {
    fixture::with_verdicts(&Store::memory(), ask_for_another_project).await;
}

async fn ask_again_without_reading_logs(verdicts: &Verdicts) {
    let own = Asker { readable_words: ReadableWords::NONE, by: Reporter::of_all("agent"), ..Asker::TRUSTED };
    let line = "x.c:1:1: error: 'foo' undeclared";
    let ask = async |log: &str, asker: &Asker| {
        let asked = Evidence { log_tail: log.into(), ..question() };
        verdicts.judge(asked, asker.clone()).await.unwrap()
    };
    for log in [line, line, "x.c:2:1: error: 'bar' undeclared", "something else failed", ""] {
        let verdict = ask(log, &own).await;
        assert!(verdict.reason.contains("undeclared"), "{log}: {}", verdict.reason);
        assert!(verdict.outlook.signature.unwrap().first.contains("undeclared"), "{log}");
    }
    for other in [Reporter::of_all("another"), Reporter::of("", Vec::new())] {
        assert_eq!(ask("", &Asker { by: other, ..own.clone() }).await.reason, "***");
    }
}

#[tokio::test]
async fn a_caller_sees_its_own_line_again() {
    fixture::with_verdicts(&Store::memory(), ask_again_without_reading_logs).await;
}

#[test]
fn log_lines_sent_by_others_are_not_shown() {
    let line = |text: &str| MatchedLine { rule: "disk".into(), line: text.into(), ..own_line() };
    let own = OwnLog { lines: vec![line("No space left on device")], words: vec!["error: mine".into()] };
    assert!(own.has_line("disk: No space left on device"));
    assert!(!own.has_line("disk: /home/x/secret: No space left on device"));
    assert!(own.begins_with_line("error: mine"));
    assert!(!own.begins_with_line("error: another's"));
    assert!(!own.begins_with_line(""));
}

fn own_line() -> MatchedLine {
    let (rule, line, first) = Default::default();
    MatchedLine { rule, cause: Cause::DiskFull, line, first, root: None, order: LogOrder::Alone }
}
