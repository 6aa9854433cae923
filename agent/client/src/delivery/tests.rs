//! The promises of delivery, against a real server on a socket that breaks the network in one way at a time.

mod sim;
mod tls;

use std::{fs, path::PathBuf, time::Duration};

use plimsoll_proto::v1::{Exit, Finish, Hello, Sample, Totals};
use plimsoll_support::collector::{CollectorEvent, CollectorFaults, FakeCollector, HeldAttempt};
use tempfile::TempDir;
use tonic::Code;

use crate::{id_token::IdTokenSource, token::Token};

use super::{
    Delivery, DeliveryReport, Settings, Trust,
    backlog::{Backlog, MEMORY_SAMPLES},
    destination::SpoolDestination,
    quota::list_files,
    spool::Spool,
};

/// Far more than any test needs: a test that waits this long has failed.
pub(super) const LONG: Duration = Duration::from_mins(1);

pub(super) fn settings(dir: &TempDir, url: &str) -> Settings {
    Settings {
        server: Some(url.to_owned()),
        trust: Trust::default(),
        spool_dir: dir.path().join("spool"),
        spool_bytes: 1 << 20,
    }
}

pub(super) fn hello(attempt: &str) -> Hello {
    Hello { attempt: attempt.to_owned(), session: format!("s-{attempt}"), ..Hello::default() }
}

pub(super) fn sample(number: u64) -> Sample {
    Sample { elapsed_ms: number * 10, need_bytes: number, ..Sample::default() }
}

/// The end of an attempt of which little is known.
pub(super) fn ended(wall_ms: u64, exit: Option<Exit>) -> Finish {
    Finish { wall_ms, exit, totals: Some(Totals::default()), ..Finish::default() }
}

pub(super) async fn finish(delivery: Delivery) -> DeliveryReport {
    let exit = Exit { code: Some(0), signal: None };
    delivery.finish_with(ended(1_234_000, Some(exit)), LONG).await
}

pub(super) fn files(dir: &TempDir, suffix: &str) -> Vec<PathBuf> {
    list_files(&dir.path().join("spool"), suffix).into_iter().map(|entry| entry.path).collect()
}

/// Leaves a file behind as an agent that is killed does: no server, no end.
pub(super) fn leave_behind(dir: &TempDir, attempt: &str, samples: u64) -> PathBuf {
    let spool = Spool::create(&dir.path().join("spool"), 1 << 20, &hello(attempt)).unwrap();
    let mut backlog = Backlog::new(hello(attempt), Some(spool));
    (1..=samples).for_each(|number| backlog.push(sample(number)));
    backlog.path().unwrap().to_owned()
}

/// Runs an attempt that has nothing to deliver itself, until the collector has seen the end of another one.
pub(super) async fn run_until_finished(dir: &TempDir, fake: &mut FakeCollector, attempt: &str) {
    let delivery = Delivery::start(&settings(dir, &fake.url), hello("own"));
    fake.wait_for(|seen| matches!(seen, CollectorEvent::Finish(finish) if finish.attempt == attempt)).await;
    assert!(finish(delivery).await.delivered);
}

pub(super) fn assert_in_order_once(held: &HeldAttempt, last: u64) {
    let expected: Vec<(u64, Sample)> = (1..=last).map(|number| (number, sample(number))).collect();
    assert_eq!(held.samples, expected);
}

/// A server that refuses these attempts with these codes.
async fn refusing(attempts: &[(&str, Code)]) -> FakeCollector {
    let refuse = attempts.iter().map(|(attempt, code)| ((*attempt).to_owned(), *code)).collect();
    FakeCollector::start(CollectorFaults { refuse, ..CollectorFaults::default() }).await
}

/// Starts the delivery of attempt `a` with one sample.
fn start_one(dir: &TempDir, url: &str) -> Delivery {
    let mut delivery = Delivery::start(&settings(dir, url), hello("a"));
    delivery.push(sample(1));
    delivery
}

#[tokio::test]
async fn delivery_reconnects_after_a_server_restart() {
    let dir = TempDir::new().unwrap();
    let mut fake =
        FakeCollector::start(CollectorFaults { advice_ms: Some(1), ..CollectorFaults::default() }).await;
    let mut delivery = start_one(&dir, &fake.url);
    for _ in 0..2 {
        fake.wait_for(|seen| matches!(seen, CollectorEvent::Hello)).await;
    }
    delivery.push(sample(2));
    assert!(finish(delivery).await.delivered);
    assert_in_order_once(&fake.attempt("a"), 2);
}

#[tokio::test]
async fn a_lost_acknowledgement_does_not_repeat_the_end() {
    let dir = TempDir::new().unwrap();
    let fake = FakeCollector::start(CollectorFaults { swallow_seals: 1, ..CollectorFaults::default() }).await;
    let report = finish(start_one(&dir, &fake.url)).await;
    assert!(report.delivered, "{report:?}");
    assert_in_order_once(&fake.attempt("a"), 1);
}

#[tokio::test]
async fn an_attempt_closed_elsewhere_is_not_called_delivered() {
    let dir = TempDir::new().unwrap();
    let fake = FakeCollector::start(CollectorFaults::default()).await;
    for expected in [true, false] {
        let report = finish(start_one(&dir, &fake.url)).await;
        assert_eq!(report.delivered, expected, "{report:?}");
        assert_eq!(report.problem.is_some_and(|text| text.contains("already closed")), !expected);
    }
}

#[tokio::test]
async fn a_hung_server_costs_at_most_the_timeout() {
    let dir = TempDir::new().unwrap();
    let mut fake = FakeCollector::start(CollectorFaults { mute: true, ..CollectorFaults::default() }).await;
    let mut delivery = Delivery::start(&settings(&dir, &fake.url), hello("a"));
    fake.wait_for(|seen| matches!(seen, CollectorEvent::Hello)).await;
    delivery.push(sample(1));
    let report = delivery.finish_with(ended(1, None), Duration::from_millis(50)).await;
    assert!(!report.delivered && report.kept.is_some());
    assert!(report.problem.unwrap().contains("within 50ms"));
}

#[tokio::test]
async fn acknowledgements_of_other_attempts_are_ignored() {
    let dir = TempDir::new().unwrap();
    let mut fake =
        FakeCollector::start(CollectorFaults { mistaken: true, ..CollectorFaults::default() }).await;
    let delivery = start_one(&dir, &fake.url);
    // the second Hello comes after the first answer was read
    fake.wait_for(|seen| matches!(seen, CollectorEvent::Hello)).await;
    fake.wait_for(|seen| matches!(seen, CollectorEvent::Hello)).await;
    let report = delivery.finish_with(ended(1, None), Duration::from_millis(50)).await;
    assert!(!report.delivered && report.kept.is_some());
    assert!(report.problem.unwrap().contains(r"about another attempt: another\u{1b}[2J"));
}

#[tokio::test]
async fn without_a_server_address_nothing_is_written() {
    let dir = TempDir::new().unwrap();
    let measure_only = Settings { server: None, ..settings(&dir, "") };
    let mut delivery = Delivery::start(&measure_only, hello("a"));
    delivery.push(sample(1));
    assert_eq!(finish(delivery).await, DeliveryReport::default());
    assert!(!measure_only.spool_dir.try_exists().unwrap());
}

#[tokio::test]
async fn an_unwritable_spool_loses_no_samples_while_online() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("spool"), "a file where the directory should be").unwrap();
    let fake = FakeCollector::start(CollectorFaults::default()).await;
    let report = finish(start_one(&dir, &fake.url)).await;
    assert_eq!((report.delivered, report.lost, report.kept), (true, 0, None));
    assert!(report.problem.unwrap().starts_with("cannot keep samples in"));
}

#[tokio::test]
async fn dropped_numbers_are_declared_lost() {
    let dir = TempDir::new().unwrap();
    let mut fake =
        FakeCollector::start(CollectorFaults { cut_after: vec![1], ..CollectorFaults::default() }).await;
    let full = Settings { spool_bytes: 10, ..settings(&dir, &fake.url) };
    let mut delivery = Delivery::start(&full, hello("a"));
    let last = MEMORY_SAMPLES as u64 + 500;
    (1..=last).for_each(|number| delivery.push(sample(number)));
    fake.wait_for(|seen| matches!(seen, CollectorEvent::Refused)).await;
    let report = finish(delivery).await;
    assert_eq!((report.delivered, report.lost), (true, 500));
    let held = fake.attempt("a");
    assert_eq!((held.lost, held.acknowledged, held.samples.len()), (500, last, MEMORY_SAMPLES));
}

#[tokio::test]
async fn a_refused_orphan_is_quarantined_and_blocks_none() {
    let dir = TempDir::new().unwrap();
    for attempt in ["bad", "held", "good"] {
        leave_behind(&dir, attempt, 3);
    }
    let mut fake = refusing(&[("bad", Code::InvalidArgument), ("held", Code::AlreadyExists)]).await;
    run_until_finished(&dir, &mut fake, "good").await;
    assert_eq!(files(&dir, "refused").len(), 2);
    assert_eq!(files(&dir, "spool"), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn another_jobs_orphan_stays_and_blocks_none() {
    let dir = TempDir::new().unwrap();
    let theirs = leave_behind(&dir, "theirs", 3);
    leave_behind(&dir, "good", 3);
    let mut fake = refusing(&[("theirs", Code::PermissionDenied)]).await;
    run_until_finished(&dir, &mut fake, "good").await;
    assert_eq!((files(&dir, "spool"), files(&dir, "refused")), (vec![theirs], Vec::new()));
}

#[tokio::test]
async fn an_out_of_sequence_orphan_is_retried_once() {
    let dir = TempDir::new().unwrap();
    leave_behind(&dir, "odd", 3);
    leave_behind(&dir, "odd2", 3);
    let mut fake = refusing(&[("odd", Code::FailedPrecondition)]).await;
    let delivery = Delivery::start(&settings(&dir, &fake.url), hello("own"));
    for _ in 0..2 {
        fake.wait_for(|seen| matches!(seen, CollectorEvent::Refused)).await;
    }
    fake.wait_for(|seen| matches!(seen, CollectorEvent::Finish(finish) if finish.attempt == "odd2")).await;
    assert!(finish(delivery).await.delivered);
    assert_eq!(files(&dir, "refused").len(), 1);
}

#[tokio::test]
async fn a_duplicate_run_continues_under_its_new_id() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let fake = FakeCollector::start(CollectorFaults::default()).await;
    let run = |session: &str| Hello { session: session.into(), takes_new_id: true, ..hello("h:7") };
    let mut other = Delivery::start(&settings(&first, &fake.url), run("one"));
    other.push(sample(1));
    assert!(finish(other).await.delivered);
    let mut delivery = Delivery::start(&settings(&second, &fake.url), run("two"));
    (1..=3).for_each(|number| delivery.push(sample(number)));
    let report = finish(delivery).await;
    assert_eq!((report.delivered, report.runs_as.as_deref()), (true, Some("h:7.2")));
    assert_eq!((fake.attempt("h:7").samples.len(), fake.attempt("h:7.2").samples.len()), (1, 3));
    assert!(files(&second, "spool").is_empty() && files(&second, "refused").is_empty());
}

#[tokio::test]
async fn nothing_is_kept_for_an_ended_job() {
    let dir = TempDir::new().unwrap();
    let source = IdTokenSource::new("http://127.0.0.1:1/token", "x", "plimsoll");
    let trust = Trust { token: Some(Token::Issued(source)), ..Trust::default() };
    let to = Settings { trust, ..settings(&dir, "http://127.0.0.1:1") };
    let mut delivery = Delivery::start(&to, hello("a"));
    delivery.push(sample(1));
    assert_eq!(files(&dir, "spool").len(), 1);
    let report = delivery.finish_with(ended(10, None), Duration::ZERO).await;
    assert_eq!((report.delivered, report.kept, files(&dir, "spool")), (false, None, Vec::new()));
}

#[tokio::test]
async fn spooled_samples_go_only_to_their_destination() {
    let dir = TempDir::new().unwrap();
    let with_token = |url: &str, token: &str| {
        let trust = Trust { token: Some(Token::Text(token.into())), ..Trust::default() };
        Settings { trust, ..settings(&dir, url) }
    };
    let away = "http://127.0.0.1:1";
    for (attempt, to) in [("for-a", with_token(away, "a")), ("for-none", settings(&dir, away))] {
        let mut delivery = Delivery::start(&to, hello(attempt));
        delivery.push(sample(1));
        let report = delivery.finish_with(ended(10, None), Duration::ZERO).await;
        assert!(!report.delivered && report.kept.is_some(), "{report:?}");
    }
    let other = FakeCollector::start(CollectorFaults::default()).await;
    assert!(finish(Delivery::start(&settings(&dir, &other.url), hello("b"))).await.delivered);
    assert_eq!(files(&dir, "spool").len(), 2, "they wait");
    assert!(other.attempt("for-a").samples.is_empty() && other.attempt("for-none").samples.is_empty());

    // an earlier run left one for this server; another token is another caller
    let mut own = FakeCollector::start(CollectorFaults::default()).await;
    let to_own = SpoolDestination::of(&own.url, &with_token("", "a").trust);
    let named = hello("for-own");
    let spool = Spool::create_for(&dir.path().join("spool"), 1 << 20, &named, Some(&to_own)).unwrap();
    Backlog::new(named, Some(spool)).push(sample(1));
    assert!(finish(Delivery::start(&with_token(&own.url, "b"), hello("c"))).await.delivered);
    assert_eq!(files(&dir, "spool").len(), 3);
    let delivery = Delivery::start(&with_token(&own.url, "a"), hello("d"));
    own.wait_for(|seen| matches!(seen, CollectorEvent::Finish(finish) if finish.attempt == "for-own")).await;
    assert!(finish(delivery).await.delivered);
    assert_eq!(own.attempt("for-own").samples.len(), 1);
}

#[tokio::test]
async fn a_refused_own_attempt_is_quarantined() {
    for code in [Code::InvalidArgument, Code::OutOfRange] {
        let dir = TempDir::new().unwrap();
        let fake = refusing(&[("a", code)]).await;
        let report = finish(start_one(&dir, &fake.url)).await;
        assert_eq!((report.delivered, report.kept), (false, files(&dir, "refused").pop()), "{code:?}");
        assert!(report.problem.unwrap().contains("refused"), "{code:?}");
    }
}

#[tokio::test]
async fn an_authentication_refusal_keeps_the_file_without_delay() {
    let dir = TempDir::new().unwrap();
    let mut fake = refusing(&[("a", Code::Unauthenticated)]).await;
    let report = finish(start_one(&dir, &fake.url)).await;
    assert_eq!((report.delivered, report.kept), (false, files(&dir, "spool").pop()));
    assert!(report.problem.unwrap().contains("refused"));
    let mut tries = 0;
    while fake.seen.try_recv().is_ok() {
        tries += 1;
    }
    assert!(tries <= 2, "{tries}: one, and one more at the end");
}
