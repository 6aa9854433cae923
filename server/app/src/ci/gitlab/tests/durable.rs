//! Hooks that wait on disk: what a stop, a kill and damage leave of them.

use std::{fs, path::Path};

use super::{
    super::{
        spool::KeptHook,
        waiting_hooks::{self, WaitingHooks},
    },
    *,
};

fn open(dir: &Path, metrics: &Arc<Metrics>) -> (Spool, Vec<FoundHook>) {
    Spool::open(dir, metrics).unwrap()
}

/// Names of the files, without those that are being written.
fn files(dir: &Path) -> Vec<String> {
    let all = fs::read_dir(dir.join("hooks")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut all: Vec<_> = all.map(|name| name.into_string().unwrap()).collect();
    all.sort();
    all
}

/// Waits until the names of the files are as they should be.
async fn until(what: &str, dir: &Path, done: impl Fn(&[String]) -> bool) {
    eventually(what, async || files(dir), |names| done(names)).await;
}

/// Whether this is the name of a hook that waits for its attempt.
fn is_applied(name: &str) -> bool {
    Path::new(name).extension() == Some("told".as_ref())
}

#[tokio::test]
async fn what_was_taken_is_worked_on_after_a_stop_and_then_its_file_goes() {
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let store = Store::memory();
    let hook = ended(9, "failed", "zlib@1.3 /abcdefg");
    {
        // a GitLab that says nothing: the hook cannot be settled
        let silent = Fake::start([("projects/a%2Fb/jobs/9/trace", vec![Say::Nothing])]).await;
        let house = House::over(&silent, store.clone(), Some(open(dir.path(), &metrics)));
        assert_eq!(house.hooks.accept(hook.clone(), Some("d")).await, HookResult::Later);
        assert_eq!(files(dir.path()).len(), 1, "on disk before it is answered");
        assert_eq!(house.hooks.accept(hook.clone(), Some("d")).await, HookResult::Repeated);
        house.end().await;
    }
    assert_eq!(files(dir.path()).len(), 1, "a stop leaves it for the next start");
    let fake = Fake::start([
        ("projects/a%2Fb/jobs/9/trace", vec![ok(KILLED)]),
        ("projects/a%2Fb/pipelines/3/jobs", vec![ok("[]")]),
    ])
    .await;
    let house = House::over(&fake, store, Some(open(dir.path(), &metrics)));
    assert_eq!(house.hooks.accept(hook, None).await, HookResult::Repeated, "it is known again");
    house.until("judged", 1).await;
    // it is unmeasured: the report waits for an agent
    until("each hook waits for its attempt", dir.path(), |names| names.iter().all(|name| is_applied(name)))
        .await;
    let key = plimsoll_core::validated::key(Some(ended(9, "failed", "zlib@1.3 /abcdefg").job.key)).unwrap();
    assert!(fixture::verdicts(&house.ingest).after_memory_end(&key).await.unwrap().is_some());
    house.end().await;
}

#[tokio::test]
async fn an_end_that_was_reported_before_its_attempts_settles_it_after_a_restart() {
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let log = "==> No need to rebuild zlib, found hash match at: \n";
    let fake = Fake::start([("projects/a%2Fb/jobs/5/trace", vec![ok(log)])]).await;
    let house = House::over(&fake, Store::memory(), Some(open(dir.path(), &metrics)));
    house.hooks.accept(ended(5, "success", "zlib@1.3 /abcdefg"), None).await;
    until("a hook waits for its attempt", dir.path(), |names| names.iter().any(|name| is_applied(name)))
        .await;
    house.end().await;
    // meanwhile the attempt has ended, and its summary is on disk
    let (store, summary) = (Store::memory(), test_summary("5", "zlib", "1.3", 10));
    fixture::put(&store, std::slice::from_ref(&summary), &[]).await;
    let house = House::over(&fake, store, Some(open(dir.path(), &metrics)));
    until("no hook is on disk", dir.path(), <[String]>::is_empty).await;
    let settled = store::read_summary(&house.store, &summary.attempt).await.unwrap().unwrap();
    assert!(settled.unneeded, "as GitLab's log said before the restart");
    assert_eq!(fake.asked().len(), 1, "GitLab is not asked again");
    house.end().await;
}

#[tokio::test]
async fn a_hook_has_the_same_file_in_every_release() {
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let fake = Fake::start([]).await;
    let house = House::over(&fake, Store::memory(), Some(open(dir.path(), &metrics)));
    house.hooks.accept(ended(5, "canceled", "x"), None).await;
    house.end().await;
    let name = files(dir.path()).remove(0);
    assert!(name.starts_with("17514fcbf5e755d4."), "{name}");
}

#[tokio::test]
async fn a_hook_that_comes_while_the_server_stops_is_worked_on_after_the_next_start() {
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let fake = Fake::start([]).await;
    let house = House::over(&fake, Store::memory(), Some(open(dir.path(), &metrics)));
    let hooks = house.hooks.clone();
    house.end().await;
    assert_eq!(hooks.accept(ended(5, "canceled", "x"), None).await, HookResult::Later);
    assert_eq!(hooks.accept(ended(5, "canceled", "x"), None).await, HookResult::Repeated);
    let (_spool, found) = open(dir.path(), &metrics);
    assert_eq!((found.len(), &found[0].ended), (1, &ended(5, "canceled", "x")));
    fs::remove_dir_all(dir.path().join("hooks")).unwrap();
    assert_eq!(
        hooks.accept(ended(6, "canceled", "x"), None).await,
        HookResult::Dropped,
        "and else not taken"
    );
}

#[tokio::test]
async fn the_report_on_a_job_of_a_dead_agent_is_known_after_a_restart_hours_later() {
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let (store, fake, mut batch) = (Store::memory(), Fake::start([]).await, store::Batch::default());
    let attempt = fixture::attempt("5");
    store::put(&mut batch, &attempt).unwrap();
    store.commit(batch).await.unwrap();
    let house = House::resumed(&fake, store.clone(), Some(open(dir.path(), &metrics))).await;
    for job in [5, 6] {
        house.hooks.accept(ended(job, "canceled", "x"), None).await;
    }
    until("two hooks wait for their attempts", dir.path(), |names| {
        names.iter().filter(|name| is_applied(name)).count() == 2
    })
    .await;
    house.end().await;
    let house = House::resumed(&fake, store.clone(), Some(open(dir.path(), &metrics))).await;
    house.until("remembered", 2).await;
    let (_spool, found) = open(dir.path(), &metrics);
    let mut waits = WaitingHooks::default();
    for FoundHook { ended, kept_hook, applied_since } in found {
        waits.add(waiting_hooks::WaitingHook {
            since: applied_since.unwrap(),
            attempts: ended.reported.attempts,
            kept_hook,
        });
    }
    let mut later = crate::runtime::clock::Clock.now_unix_ms();
    let mut hours_later = async |ingest: &crate::ingest::Ingest| {
        later += 2 * 3_600_000;
        let now = std::time::UNIX_EPOCH + Duration::from_millis(later);
        waits.give_up(now, ingest).await.into_iter().for_each(KeptHook::remove_file);
        files(dir.path()).len()
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
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
    let lost = Summary { outcome: Outcome::Lost, exit: None, ..test_summary("5", "zlib", "1.3", 10) };
    let store = Store::Memory(memory.clone());
    fixture::put(&store, std::slice::from_ref(&lost), &[]).await;
    memory.refuse_commits("the disk is full");
    let fake = Fake::start([]).await;
    let house = House::over(&fake, store.clone(), Some(open(dir.path(), &metrics)));
    house.hooks.accept(ended(5, "canceled", "x"), None).await;
    house.until("unwritable", 1).await;
    house.end().await;
    assert_eq!(files(dir.path()).len(), 1);
    memory.accept_commits();
    let house = House::over(&fake, store, Some(open(dir.path(), &metrics)));
    until("no hook is on disk", dir.path(), <[String]>::is_empty).await;
    let settled = store::read_summary(&house.store, &lost.attempt).await.unwrap().unwrap();
    assert_eq!(settled.cause, Some(Cause::Canceled));
    house.end().await;
}

#[tokio::test]
async fn damaged_and_half_written_files_cost_themselves_alone() {
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let fake = Fake::start([("projects/a%2Fb/jobs/9/trace", vec![Say::Nothing])]).await;
    let house = House::over(&fake, Store::memory(), Some(open(dir.path(), &metrics)));
    house.hooks.accept(ended(9, "failed", "x"), None).await;
    house.end().await;
    let hooks = dir.path().join("hooks");
    let whole = fs::read(hooks.join(&files(dir.path())[0])).unwrap();
    for (name, bytes) in [
        ("a.hook", &whole[..whole.len() / 2]),
        ("b.hook", b""),
        ("c.hook", b"{\"format\":2}"),
        ("d.new", &whole[..]),
        ("e.txt", &whole[..]),
    ] {
        fs::write(hooks.join(name), bytes).unwrap();
    }
    let (_spool, found) = open(dir.path(), &metrics);
    assert_eq!((found.len(), files(dir.path()).len()), (1, 1));
    assert_eq!(found[0].ended, ended(9, "failed", "x"));
    assert_eq!(metrics.hooks_on_disk.get(), 1);
    // one that was applied, and whose first file a crash left behind
    let first = hooks.join(&files(dir.path())[0]);
    fs::copy(&first, first.with_extension("told")).unwrap();
    let (_spool, found) = open(dir.path(), &Arc::new(Metrics::new()));
    assert!(found.len() == 1 && found[0].applied_since.is_some());
    assert!(files(dir.path()).iter().all(|name| is_applied(name)));
}

#[test]
fn what_is_no_directory_in_the_place_of_that_of_hooks_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let hooks = dir.path().join("hooks");
    Spool::check(dir.path()).unwrap();
    let wrong = || {
        let opened = Spool::open(dir.path(), &Arc::new(Metrics::new())).map(drop).unwrap_err();
        let checked = Spool::check(dir.path()).unwrap_err();
        assert!(checked.to_string().ends_with("hooks is no directory; move it away"), "{checked}");
        assert_eq!(opened.to_string(), checked.to_string());
    };
    fs::write(&hooks, "").unwrap();
    wrong();
    fs::remove_file(&hooks).unwrap();
    std::os::unix::fs::symlink("nowhere", &hooks).unwrap();
    wrong();
    fs::remove_file(&hooks).unwrap();
    fs::create_dir(&hooks).unwrap();
    Spool::check(dir.path()).unwrap();
}

#[tokio::test]
async fn without_room_on_the_disk_a_hook_is_taken_all_the_same_and_counted() {
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let fake = Fake::start([]).await;
    let house = House::over(&fake, Store::memory(), Some(open(dir.path(), &metrics)));
    fs::remove_dir(dir.path().join("hooks")).unwrap();
    assert_eq!(house.hooks.accept(ended(1, "canceled", "x"), None).await, HookResult::Later);
    house.until("not_kept", 1).await;
    assert_eq!(metrics.hooks_on_disk.get(), 0);
    house.end().await;
}

#[test]
fn a_folder_of_another_program_is_neither_read_nor_cleared() {
    let (dir, metrics) = (tempfile::tempdir().unwrap(), Arc::new(Metrics::new()));
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("passwd"), "root").unwrap();
    std::os::unix::fs::symlink(other.path(), dir.path().join("hooks")).unwrap();
    let refused = Spool::open(dir.path(), &metrics).unwrap_err().to_string();
    assert!(refused.ends_with("/hooks is no directory; move it away"), "{refused}");
    assert_eq!(fs::read(other.path().join("passwd")).unwrap(), b"root");
}
