//! A hook that came before the attempt that it names.

use plimsoll_proto::v1 as pb;
use plimsoll_tests::eventually;

use super::site::{HOST, Site};

const GIB: u64 = 1 << 30;
/// What builds of `b/one` need.
const NEED: u64 = 9 * GIB;

/// What a project's hook said of an attempt, when it is known.
async fn settled(site: &Site, id: &str) -> pb::Summary {
    let shown = async || site.shown(id).await.summary.unwrap();
    eventually("the end is known", shown, |summary| summary.outcome() != pb::Outcome::Lost).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_one_project_settle_no_others_attempts() {
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
            let came = site.hook("a-hook", job, "a/one", status);
            assert_eq!(came, 200, "of its own project, as far as is known");
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
