//! Whose word is kept.

use std::time::Duration;

use plimsoll_core::domain::{AttemptId, Exit, test_summary};
use plimsoll_store::Store;
use tokio::time::timeout;

use super::*;
use crate::{
    access::{
        identity::{ProvenClaims, TokenJob},
        privacy::PrivacySettings,
    },
    door::fixture::verdicts,
    ingest::fixture,
};

/// A caller with the token of job 7 of the project `a`.
fn job(trusted: bool) -> Identity {
    let job = Some(TokenJob { host: "ci".into(), id: "7".into() });
    let proven = ProvenClaims { project: "a".into(), job, ..ProvenClaims::default() };
    let projects = vec!["a".to_owned()].into();
    Identity { projects, proven, trusted, ..Identity::clone(&Identity::anyone()) }
}

#[tokio::test]
async fn an_untrusted_job_keeps_verdicts_only_on_itself() {
    let store = Store::memory();
    let measured = [("ci:7", "a", true), ("ci:7.2", "a", false), ("ci:8", "a", true), ("ci:9", "b", true)];
    let measured = measured.map(|(id, project, untrusted)| {
        let mut summary = test_summary(id, "zlib", "1", 10);
        summary.key.project = project.into();
        summary.opening.untrusted = untrusted;
        summary
    });
    fixture::put(&store, &measured, &[]).await;
    let service = verdicts(&store).await;
    let kept = async |caller: Identity, id: &str| {
        let mut question = Evidence::about(AttemptId::parse(id).unwrap());
        let found = service.ingest.find(&question.attempt).await.unwrap();
        let measured = found.as_ref().map(|(summary, _running)| &**summary);
        let how = service.scope(&caller, &mut question, measured);
        how.map(|(scope, _asker)| scope).map_err(|refusal| refusal.to_string())
    };
    for (id, if_not_trusted) in [
        ("ci:7", VerdictScope::Kept),
        // it is learned from, also if it was delivered without a token
        ("ci:7.2", VerdictScope::NotKept),
        ("ci:7.3", VerdictScope::NotKept),
        ("ci:8", VerdictScope::NotKept),
        ("ci:10", VerdictScope::NotKept),
    ] {
        assert_eq!(kept(job(false), id).await, Ok(if_not_trusted), "{id}");
        assert_eq!(kept(job(true), id).await, Ok(VerdictScope::Kept), "{id}");
    }
    let stranger = Identity { trusted: false, ..Identity::clone(&Identity::anyone()) };
    for (id, is_anonymous) in [("ci:7", false), ("ci:8", false), ("ci:10", false), ("ci:8", true)] {
        let caller = Identity { is_anonymous, ..stranger.clone() };
        let scope = kept(caller, id).await;
        assert_eq!(scope, Ok(VerdictScope::NotKept), "for all jobs, and proven for none: {id}");
    }
    let unknown = Identity { is_anonymous: true, roles: Role::Caller.into(), ..stranger.clone() };
    assert!(learns_nothing(&unknown) && !learns_nothing(&stranger), "no attempt is looked up for it");
    for trusted in [false, true] {
        assert_eq!(kept(job(trusted), "ci:9").await, Ok(VerdictScope::WithoutAttempt));
    }
}

#[tokio::test]
async fn only_project_readers_see_corrections() {
    let (store, mut summary) = (Store::memory(), test_summary("ci:7", "zlib", "1", 10));
    summary.key.project = "a".into();
    fixture::put(&store, &[summary], &[]).await;
    let reads = async |private: bool, roles: &[Role], caller: Identity| {
        let private = PrivacySettings { logs: private, ..PrivacySettings::default() };
        let service = Verdicts { private: Arc::new(private), ..verdicts(&store).await };
        let caller = Identity { roles: roles.iter().copied().collect(), ..caller };
        let mut question = Evidence::about(AttemptId::parse("ci:7").unwrap());
        question.key.project = caller.projects.whole_names().next().unwrap_or_default().to_owned();
        let found = service.ingest.find(&question.attempt).await.unwrap();
        let measured = found.as_ref().map(|(summary, _running)| &**summary);
        let (_scope, asker) = service.scope(&caller, &mut question, measured).unwrap();
        (asker.readable_words.logs, asker.readable_words.corrections)
    };
    let everywhere = || Identity { projects: Vec::new().into(), ..job(false) };
    let other = |projects: &[&str]| {
        let projects = projects.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into();
        Identity { proven: ProvenClaims::default(), projects, ..job(true) }
    };
    assert_eq!(reads(false, &[Role::Agent, Role::Caller], job(true)).await, (true, false), "its own log");
    assert_eq!(reads(false, &[Role::Agent, Role::Caller], everywhere()).await, (true, false));
    assert_eq!(reads(false, &[Role::Caller, Role::Reader], job(false)).await, (true, true));
    assert_eq!(reads(true, &[Role::Caller, Role::Reader], everywhere()).await, (true, false), "private");
    assert_eq!(reads(true, &[Role::Caller, Role::Reader], other(&["a"])).await, (true, true));
    assert_eq!(reads(false, &[Role::Caller, Role::Reader], other(&["b"])).await, (false, false));
    assert_eq!(reads(false, &[Role::Caller, Role::Operator], other(&["a"])).await, (true, true));
    assert_eq!(reads(false, &[Role::Caller, Role::Operator], other(&["b"])).await, (false, false));
}

#[tokio::test(start_paused = true)]
async fn an_unstored_question_does_not_wait_its_turn() {
    let store = Store::memory();
    let mut summary = test_summary("ci:8", "zlib", "1", 10);
    summary.key.project = "a".into();
    fixture::put(&store, &[summary], &[]).await;
    let service = verdicts(&store).await;
    let attempt = AttemptId::parse("ci:8").unwrap();
    let question = Evidence { exit: Some(Exit::Code(2)), ..Evidence::about(attempt.clone()) };
    let ask = |trusted| {
        let caller = Caller::from(Arc::new(job(trusted)));
        let (service, question) = (service.clone(), question.clone());
        let asked = async move {
            timeout(Duration::from_hours(1), service.should_retry(&caller, (question, false))).await
        };
        Box::pin(asked)
    };
    let turn = service.queue.wait_for_turn(&attempt).await;
    assert!(ask(false).await.expect("it needs no turn").is_ok());
    assert!(ask(true).await.is_err(), "a stored verdict waits");
    drop(turn);
    assert!(ask(true).await.expect("its turn has come").is_ok());
}

#[tokio::test]
async fn a_question_reads_its_attempt_twice_at_most() {
    let store = Store::memory();
    fixture::with_server(&store, 10, async |ingest| {
        for (caller, newest_run) in [(job(true), false), (job(false), false), (job(true), true)] {
            let (ingest, mut looked_up) = fixture::with_lookups(ingest);
            let caller = Caller::from(Arc::new(caller));
            let attempt = AttemptId::parse("ci:7").unwrap();
            let question = Evidence { exit: Some(Exit::Code(2)), ..Evidence::about(attempt.clone()) };
            let asked = fixture::verdicts(&ingest).should_retry(&caller, (question, newest_run)).await;
            asked.unwrap();
            let mut ids = Vec::new();
            looked_up.recv_many(&mut ids, 64).await;
            let times = ids.iter().filter(|id| **id == attempt).count();
            // to find out whether the caller may ask, and in its turn
            assert!(times <= 2, "{newest_run}: {times}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_question_costs_no_core() {
    let service = verdicts(&Store::memory()).await;
    let _all = [service.queue.core().await, service.queue.core().await];
    let ask = async |project: &str| {
        let mut question =
            Evidence { exit: Some(Exit::Code(2)), ..Evidence::about(AttemptId::parse("ci:9").unwrap()) };
        question.key.project = project.into();
        let caller = Caller::from(Arc::new(job(true)));
        timeout(Duration::from_hours(1), service.should_retry(&caller, (question, false))).await
    };
    assert!(matches!(ask("b").await, Ok(Err(Refusal::Forbidden(_)))), "its log need not be masked");
    assert!(ask("a").await.is_err(), "it waits for a core");
}
