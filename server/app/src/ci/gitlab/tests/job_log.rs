//! What the log of a job settles, and what it does not.

use super::*;

#[tokio::test]
async fn a_build_that_found_its_work_done_is_known_by_its_log() {
    let log = "==> No need to rebuild zlib, found hash match at: \n==>     s3://mirror/zlib\n";
    let fake = Fake::start([("projects/a%2Fb/jobs/5/trace", vec![ok(log)])]).await;
    let house = House::of(&fake).await;
    let summary = test_summary("5", "zlib", "1.3", 10);
    assert_eq!(summary.outcome, Outcome::Succeeded);
    fixture::put(&house.store, std::slice::from_ref(&summary), &[]).await;
    house.hooks.accept(ended(5, "success", "zlib@1.3 /abcdefg"), None).await;
    let marked =
        async || store::read_summary(&house.store, &summary.attempt).await.unwrap().unwrap().unneeded;
    eventually("the summary says so", marked, |marked| *marked).await;
    house.end().await;
}

#[tokio::test]
async fn a_line_of_a_log_alone_does_not_settle_that_memory_ended_a_build() {
    let line = "g++: fatal error: Killed signal terminated program cc1plus\n";
    let fake = Fake::start([
        ("projects/a%2Fb/jobs/5/trace", vec![ok(line)]),
        ("projects/a%2Fb/jobs/6/trace", vec![ok(KILLED)]),
        ("projects/a%2Fb/pipelines/3/jobs", vec![ok("[]")]),
    ])
    .await;
    let house = House::of(&fake).await;
    let lost = ["5", "6"].map(|id| {
        let mut summary = test_summary(id, "zlib", "1.3", 10);
        summary.key.project = "a/b".into();
        Summary { outcome: Outcome::Lost, exit: None, ..summary }
    });
    fixture::put(&house.store, &lost, &[]).await;
    for job in [5, 6] {
        let mut hook = ended(job, "failed", "zlib@1.3 /abcdefg");
        "script_failure".clone_into(&mut hook.reported.reason);
        house.hooks.accept(hook, None).await;
    }
    house.until("settled", 2).await;
    let settled = async |id: &str| {
        let id = AttemptId::parse(id).unwrap();
        let summary = store::read_summary(&house.store, &id).await.unwrap().unwrap();
        (summary.outcome, summary.cause.is_some_and(Cause::is_memory), summary.censored)
    };
    assert_eq!(
        settled("5").await,
        (Outcome::Failed, true, false),
        "shown as the cause, and no proof of a need"
    );
    assert_eq!(settled("6").await, (Outcome::Failed, true, true));
    house.end().await;
}
