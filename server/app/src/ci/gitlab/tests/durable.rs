//! Hooks that wait in the store: what a stop, a takeover and a store that takes nothing leave of them.

use super::{
    super::waiting_hooks::{WaitingHook, WaitingHooks},
    *,
};

/// The hooks in the store: of each, whether it waits for its attempt.
async fn stored(store: &Store) -> Vec<bool> {
    let hooks = StoredHook::read_all(store).await.unwrap();
    hooks.iter().map(|hook| hook.record.applied.is_some()).collect()
}

async fn until(what: &str, store: &Store, expected: &[bool]) {
    eventually(what, async || stored(store).await, |found| found == expected).await;
}

#[tokio::test]
async fn an_accepted_hook_survives_a_takeover() {
    let store = Store::memory();
    let hook = ended(9, "failed", "zlib@1.3 /abcdefg");
    {
        // a GitLab that says nothing: the hook cannot be settled
        let silent = Fake::start([("projects/a%2Fb/jobs/9/trace", vec![Say::Nothing])]).await;
        let house = House::over(&silent, store.clone()).await;
        assert_eq!(house.hooks.accept(hook.clone(), Some("d")).await, HookResult::Later);
        assert_eq!(stored(&store).await, [false], "in the store before it is answered");
        assert_eq!(house.hooks.accept(hook.clone(), Some("d")).await, HookResult::Repeated);
        house.end().await;
    }
    let fake = Fake::start([
        ("projects/a%2Fb/jobs/9/trace", vec![ok(KILLED)]),
        ("projects/a%2Fb/pipelines/3/jobs", vec![ok("[]")]),
    ])
    .await;
    let house = House::over(&fake, store.clone()).await;
    assert_eq!(house.hooks.accept(hook, None).await, HookResult::Repeated, "it is known again");
    house.until("judged", 1).await;
    // it is unmeasured: the report waits for an agent
    until("the hook waits for its attempt", &store, &[true]).await;
    let key = plimsoll_core::validated::key(Some(ended(9, "failed", "zlib@1.3 /abcdefg").job.key)).unwrap();
    assert!(fixture::verdicts(&house.ingest).after_memory_end(&key).await.unwrap().is_some());
    house.end().await;
}

#[tokio::test]
async fn early_reports_settle_attempts_after_a_restart() {
    let log = "==> No need to rebuild zlib, found hash match at: \n";
    let fake = Fake::start([("projects/a%2Fb/jobs/5/trace", vec![ok(log)])]).await;
    let store = Store::memory();
    let house = House::over(&fake, store.clone()).await;
    house.hooks.accept(ended(5, "success", "zlib@1.3 /abcdefg"), None).await;
    until("the hook waits for its attempt", &store, &[true]).await;
    house.end().await;
    // meanwhile the attempt has ended, and its summary is in the store
    let summary = test_summary("5", "zlib", "1.3", 10);
    fixture::put(&store, std::slice::from_ref(&summary), &[]).await;
    let house = House::over(&fake, store.clone()).await;
    until("no hook is in the store", &store, &[]).await;
    let settled = store::read_summary(&store, &summary.attempt).await.unwrap().unwrap();
    assert!(settled.unneeded, "as GitLab's log said before the restart");
    assert_eq!(fake.asked().len(), 1, "GitLab is not asked again");
    house.end().await;
}

#[tokio::test]
async fn the_record_name_of_a_hook_is_stable() {
    let (fake, store) = (Fake::start([]).await, Store::memory());
    let house = House::over(&fake, store.clone()).await;
    house.hooks.accept(ended(5, "canceled", "x"), None).await;
    house.end().await;
    let [hook] = &StoredHook::read_all(&store).await.unwrap()[..] else { panic!("one hook") };
    assert_eq!(hook.record.name, "17514fcbf5e755d4");
}

#[tokio::test]
async fn a_hook_is_accepted_only_once_stored() {
    let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
    let store = Store::Memory(memory.clone());
    let fake = Fake::start([]).await;
    let house = House::over(&fake, store.clone()).await;
    let hooks = house.hooks.clone();
    memory.refuse_commits("the disk is full");
    for _again in 0..2 {
        assert_eq!(hooks.accept(ended(5, "canceled", "x"), None).await, HookResult::Dropped);
    }
    memory.accept_commits();
    house.end().await;
    // the follower has stopped: the next server works on what comes now
    assert_eq!(hooks.accept(ended(5, "canceled", "x"), None).await, HookResult::Later);
    assert_eq!(hooks.accept(ended(5, "canceled", "x"), None).await, HookResult::Repeated);
    assert_eq!(stored(&store).await, [false]);
}

#[tokio::test]
async fn dead_agents_job_reports_survive_a_late_restart() {
    let (store, fake, mut batch) = (Store::memory(), Fake::start([]).await, store::Batch::default());
    let attempt = fixture::attempt("5");
    store::put(&mut batch, &attempt).unwrap();
    store.commit(batch).await.unwrap();
    let house = House::over(&fake, store.clone()).await;
    for job in [5, 6] {
        house.hooks.accept(ended(job, "canceled", "x"), None).await;
    }
    until("two hooks wait for their attempts", &store, &[true, true]).await;
    house.end().await;
    let house = House::over(&fake, store.clone()).await;
    house.until("remembered", 2).await;
    let mut waits = WaitingHooks::default();
    for stored in StoredHook::read_all(&store).await.unwrap() {
        let since = std::time::UNIX_EPOCH + Duration::from_millis(stored.record.applied.unwrap().at_unix_ms);
        waits.add(WaitingHook {
            since,
            attempts: stored_hooks::ended(&stored.record).unwrap().reported.attempts,
            stored,
        });
    }
    let mut later = crate::runtime::clock::Clock.now_unix_ms();
    let mut hours_later = async |ingest: &crate::ingest::Ingest| {
        later += 2 * 3_600_000;
        let now = std::time::UNIX_EPOCH + Duration::from_millis(later);
        StoredHook::remove(waits.give_up(now, ingest).await).await;
        stored(&store).await.len()
    };
    assert_eq!(hours_later(&house.ingest).await, 1, "the other one is unmeasured");
    assert_eq!(hours_later(&house.ingest).await, 1);
    // what a silent attempt ends with
    let stream = crate::ingest::StreamHandle::new();
    house.ingest.open(attempt.clone(), &stream, false).await.unwrap();
    let finish = crate::ingest::Finish { exit: None, ..fixture::finish(attempt.id.clone()) };
    house.ingest.finish(finish, &stream).await.unwrap();
    let settled = store::read_summary(&store, &attempt.id).await.unwrap().unwrap();
    assert_eq!(settled.cause, Some(Cause::Canceled));
    assert_eq!(hours_later(&house.ingest).await, 0);
    house.end().await;
}

#[tokio::test]
async fn a_store_that_takes_nothing_costs_no_hook() {
    let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
    let lost = Summary { outcome: Outcome::Lost, exit: None, ..test_summary("5", "zlib", "1.3", 10) };
    let store = Store::Memory(memory.clone());
    fixture::put(&store, std::slice::from_ref(&lost), &[]).await;
    let fake = Fake::start([]).await;
    let stopped = House::over(&fake, store.clone()).await;
    let hooks = stopped.hooks.clone();
    stopped.end().await;
    hooks.accept(ended(5, "canceled", "x"), None).await;
    memory.refuse_commits("the disk is full");
    let house = House::over(&fake, store.clone()).await;
    house.until("unwritable", 1).await;
    house.end().await;
    assert_eq!(stored(&store).await, [false]);
    memory.accept_commits();
    let house = House::over(&fake, store.clone()).await;
    until("no hook is in the store", &store, &[]).await;
    let settled = store::read_summary(&house.store, &lost.attempt).await.unwrap().unwrap();
    assert_eq!(settled.cause, Some(Cause::Canceled));
    house.end().await;
}
