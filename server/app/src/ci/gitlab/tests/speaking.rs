//! Hooks of those who may speak of some projects alone.

use plimsoll_core::domain::JobHook;

use super::*;

/// A failed job of `a/b`, as this one tells of it.
fn reported_by(job: u64, name: &str, projects: &str) -> Box<EndedJob> {
    let mut hook = ended(job, "failed", "zlib@1.3 /abcdefg");
    hook.reported.by = Reporter::of(name, vec![projects.to_owned()]);
    hook
}

#[tokio::test]
async fn only_the_reporters_own_project_is_requested() {
    let fake = Fake::start([
        ("projects/a%2Fb/jobs/9/trace", vec![ok(KILLED)]),
        ("projects/a%2Fb/pipelines/3/jobs", vec![ok("[]")]),
        // the number that a hook says may be that of any project
        ("projects/2/jobs/9/trace", vec![ok("another project's log")]),
    ])
    .await;
    let house = House::of(&fake).await;
    assert_eq!(house.hooks.accept(reported_by(9, "a", "a/*"), None).await, HookResult::Later);
    house.until("judged", 1).await;
    assert!(fake.asked().iter().all(|asked| asked.starts_with("projects/a%2Fb/")), "{:?}", fake.asked());
    assert_eq!(house.hooks.accept(reported_by(10, "c", "c/*"), None).await, HookResult::Later);
    house.until("remembered", 2).await;
    assert_eq!(fake.asked().len(), 2, "of what the speaker may not speak of, nothing is asked");
    house.end().await;
}

#[tokio::test]
async fn duplicate_hooks_are_detected_per_sender() {
    let fake = Fake::start([]).await;
    let house = House::of(&fake).await;
    for (name, expected) in [("a", HookResult::Later), ("b", HookResult::Later), ("a", HookResult::Repeated)]
    {
        assert_eq!(house.hooks.accept(reported_by(9, name, "a/*"), Some("key")).await, expected, "{name}");
    }
    house.end().await;
}

#[test]
fn a_stored_hook_requires_its_sender() {
    let hook = reported_by(9, "a", "a/*");
    let mut json = serde_json::to_value(stored_hooks::record(&hook, None)).unwrap();
    let record: JobHook = serde_json::from_value(json.clone()).unwrap();
    let by = stored_hooks::ended(&record).unwrap().reported.by;
    assert!(by.may_report_on("a/b") && !by.may_report_on("c/b") && !by.may_report_on(""));
    assert!(json.as_object_mut().unwrap().remove("by").is_some());
    assert!(serde_json::from_value::<JobHook>(json).is_err());
}
