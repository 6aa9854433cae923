//! Which run delivers a file that an earlier run left behind.

use std::time::Duration;

use plimsoll_proto::v1::{Hello, Key};
use plimsoll_support::collector::{CollectorEvent, CollectorFaults, FakeCollector};
use tempfile::TempDir;

use super::{
    super::{Delivery, Settings, Trust, backlog::Backlog, destination::SpoolDestination, spool::Spool},
    ended, files, finish, hello, sample, settings,
};
use crate::token::Token;

#[tokio::test]
async fn what_waits_for_one_server_goes_to_no_other_and_to_no_other_caller() {
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
async fn after_a_change_of_the_token_a_run_of_the_same_project_delivers_what_waits_for_its_server() {
    let dir = TempDir::new().unwrap();
    let of = |attempt: &str, project: &str| {
        let key = Some(Key { project: project.into(), ..Key::default() });
        Hello { key, ..hello(attempt) }
    };
    let mut fake = FakeCollector::start(CollectorFaults::default()).await;
    let with_token = |token: &str| {
        let trust = Trust { token: Some(Token::Text(token.into())), ..Trust::default() };
        Settings { trust, ..settings(&dir, &fake.url) }
    };
    let before = SpoolDestination::of(&fake.url, &with_token("old").trust);
    for named in [of("mine", "g/a"), of("theirs", "g/b"), of("without", "")] {
        let spool = Spool::create_for(&dir.path().join("spool"), 1 << 20, &named, Some(&before)).unwrap();
        Backlog::new(named, Some(spool)).push(sample(1));
    }
    let new = with_token("new");
    // a run without a project takes none of them
    assert!(finish(Delivery::start(&new, hello("none"))).await.delivered);
    assert_eq!(files(&dir, "spool").len(), 3);
    let delivery = Delivery::start(&new, of("now", "g/a"));
    fake.wait_for(|seen| matches!(seen, CollectorEvent::Finish(finish) if finish.attempt == "mine")).await;
    assert!(finish(delivery).await.delivered);
    let samples = |attempt: &str| fake.attempt(attempt).samples.len();
    assert_eq!((samples("mine"), samples("theirs"), samples("without")), (1, 0, 0));
    assert_eq!((files(&dir, "spool").len(), files(&dir, "refused").len()), (2, 0), "the others wait");
}
