//! A hook and a question that came before the attempt that they name.

use plimsoll_proto::v1 as pb;
use plimsoll_tests::eventually;

use super::site::{HOST, Site, key};

const GIB: u64 = 1 << 30;
/// What builds of `b/one` need.
const NEED: u64 = 9 * GIB;

/// What a project's hook said of an attempt, when it is known.
async fn settled(site: &Site, id: &str) -> pb::Summary {
    let shown = async || site.shown(id).await.summary.unwrap();
    eventually("the end is known", shown, |summary| summary.outcome() != pb::Outcome::Lost).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_of_one_project_settles_no_attempt_of_another_whichever_came_first() {
    let site = Site::start().await;
    for job in 1..=10 {
        site.deliver("b-agent", &format!("{HOST}:{job}"), "b/one", NEED).await;
        assert_eq!(site.hook("b-hook", job, "b/one", "success"), 200);
        settled(&site, &format!("{HOST}:{job}")).await;
    }
    assert!(site.request("b/one").await > NEED);
    // builds that fail early: small, if a caller says that they succeeded
    for job in 100..112 {
        let id = format!("{HOST}:{job}");
        for status in ["success", "failed"] {
            assert_eq!(
                site.hook("a-hook", job, "a/one", status),
                200,
                "of its own project, as far as is known"
            );
        }
        site.deliver("b-agent", &id, "b/one", GIB / 2).await;
        assert_eq!(site.shown(&id).await.summary.unwrap().outcome(), pb::Outcome::Lost, "{id}");
        assert_eq!(site.hook("a-hook", job, "a/one", "canceled"), 200);
        assert_eq!(site.hook("b-hook", job, "b/one", "failed"), 200);
        let summary = settled(&site, &id).await;
        assert_eq!((summary.outcome(), summary.cause()), (pb::Outcome::Failed, pb::Cause::Unknown), "{id}");
    }
    let after = site.request("b/one").await;
    assert!(after > NEED, "no build succeeded with less: {after}");
    let log = site.server().log().unwrap();
    assert!(
        log.contains("ignored the end of a job: the caller has no grant for the project of its attempt"),
        "{log}"
    );
}

fn killed(id: &str, project: &str) -> pb::ShouldRetryRequest {
    let reason = "OOMKilled".to_owned();
    pb::ShouldRetryRequest {
        attempt: id.to_owned(),
        key: Some(key(project)),
        container_reason: reason,
        ..Default::default()
    }
}

fn failed(id: &str, project: &str) -> pb::ShouldRetryRequest {
    let log = b"x.c:1:1: error: unknown type name 'y'\n".to_vec();
    let exit = Some(pb::Exit { code: Some(1), signal: None });
    pb::ShouldRetryRequest {
        attempt: id.to_owned(),
        key: Some(key(project)),
        exit,
        log_tail: log,
        ..Default::default()
    }
}

/// The same of another attempt.
fn without_names(verdict: pb::Verdict) -> pb::Verdict {
    pb::Verdict { attempt: String::new(), given_unix_ms: 0, ..verdict }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_one_project_asked_for_is_none_of_another_projects_attempt() {
    let site = Site::start().await;
    let (measured, unmeasured, twin) = (format!("{HOST}:7"), format!("{HOST}:8"), format!("{HOST}:9"));
    for id in [&measured, &unmeasured] {
        let planted = site.ask("a-caller", killed(id, "a/one")).await.unwrap();
        assert_eq!(planted.cause(), pb::Cause::Oom);
    }
    // as many as one project may leave
    for number in 2..70 {
        let _refused =
            site.ask("a-caller", pb::ShouldRetryRequest { number, ..killed(&measured, "a/one") }).await;
    }
    for id in [&measured, &twin] {
        site.deliver("b-agent", id, "b/one", NEED).await;
        let shown = site.shown(id).await;
        assert_eq!((shown.verdict, shown.earlier_verdicts.len()), (None, 0), "{id}");
        assert_ne!(shown.summary.unwrap().cause(), pb::Cause::Oom, "{id}");
    }
    // answered, and nothing is left behind
    site.ask("a-caller", killed(&measured, "a/one")).await.unwrap();
    let [own, of_twin] = [&measured, &twin].map(|id| failed(id, "b/one"));
    let (own, of_twin) =
        (site.ask("b-caller", own).await.unwrap(), site.ask("b-caller", of_twin).await.unwrap());
    assert_eq!((own.cause(), own.action()), (pb::Cause::Deterministic, pb::Action::No), "{own:?}");
    assert_eq!(own.evidence, of_twin.evidence);
    let of_unmeasured = site.ask("b-caller", failed(&unmeasured, "b/one")).await.unwrap();
    assert_eq!(of_unmeasured.cause(), pb::Cause::Deterministic, "{of_unmeasured:?}");
    let shown = site.shown(&measured).await;
    let (verdict, earlier) = (shown.verdict.map(without_names), shown.earlier_verdicts.len());
    assert_eq!((verdict, earlier), (Some(without_names(own)), 0));
}
