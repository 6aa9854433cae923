//! The server's token reads more than the sender of a hook may.

use super::*;

#[tokio::test]
async fn hooks_cannot_read_jobs_of_other_projects() {
    // the number is that of another project, whose job this is
    let fake = Fake::start([
        ("projects/2/jobs/9/trace", vec![ok("a secret line\n")]),
        ("projects/2/pipelines/3/jobs", vec![ok("[]")]),
    ])
    .await;
    let house = House::of(&fake).await;
    let mut failed = ended(9, "failed", "zlib@1.3 /abcdefg");
    assert_eq!((failed.job.project, failed.job.key.project.as_str()), (Some(2), "a/b"));
    assert_eq!(house.hooks.accept(failed.clone(), None).await, HookResult::Later);
    house.until("not_asked", 1).await;
    assert_eq!(fake.asked(), ["projects/a%2Fb/jobs/9/trace"]);
    // what is no path is asked for by no number either
    failed.job.key.project = "a/../b".to_owned();
    failed.reported.end = plimsoll_core::domain::JobStatus::Succeeded;
    assert_eq!(house.hooks.accept(failed, None).await, HookResult::Later);
    let attempt = AttemptId::parse("127.0.0.1:9").unwrap();
    assert_eq!(store::read_verdicts(&house.store, &attempt).await.unwrap(), []);
    house.end().await;
    assert_eq!(fake.asked().len(), 1, "{:?}", fake.asked());
}
