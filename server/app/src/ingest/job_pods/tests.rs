//! Which pods are remembered, and which one is meant.

use plimsoll_core::domain::Bytes;
use plimsoll_store::{PageLimit, Store};

use super::*;
use crate::ingest::fixture;

const NOW: u64 = 1_800_000_000_000;

fn pod(job: &str, mib: u64) -> JobPod {
    let sizes = Resources { memory_limit: Some(Bytes(mib << 20)), ..Resources::default() };
    let (host, project, namespace) = ("gitlab.example".into(), "a/b".into(), "ci-builds".into());
    JobPod { job: job.into(), host, project, namespace, sizes, seen_unix_ms: NOW }
}

fn note(pods: &JobPods, pod: JobPod) -> Vec<AttemptId> {
    pods.note(pod.id().unwrap(), pod).unwrap_or_default()
}

fn limit(pods: &JobPods, attempt: &str, project: &str) -> Option<u64> {
    let had = pods.of(&AttemptId::parse(attempt).unwrap(), project)?;
    had.memory_limit.map(|limit| limit.0 >> 20)
}

#[test]
fn the_newest_pods_and_each_jobs_first_count() {
    let pods = JobPods::default();
    let mut forgotten = Vec::new();
    for job in 0..MAX_PODS + 3 {
        forgotten.extend(note(&pods, pod(&job.to_string(), 1)));
        forgotten.extend(note(&pods, pod(&job.to_string(), 2)));
    }
    let newest = pods.0.lock().unwrap();
    let counts = (newest.pods.len(), newest.order.len(), newest.hosts.len());
    assert_eq!(counts, (MAX_PODS, MAX_PODS, MAX_PODS));
    drop(newest);
    let names: Vec<&str> = forgotten.iter().map(AttemptId::as_str).collect();
    assert_eq!(names, ["gitlab.example:0", "gitlab.example:1", "gitlab.example:2"]);
    assert_eq!((limit(&pods, "2", "a/b"), limit(&pods, "3", "a/b")), (None, Some(1)));
    let within = |most: Option<u64>| pod("1", 8).is_within(most.map(|mib| Bytes(mib << 20)));
    assert_eq!([within(None), within(Some(8)), within(Some(7))], [true, true, false]);
}

#[test]
fn pods_match_only_their_gitlab_and_project() {
    let pods = JobPods::default();
    note(&pods, pod("7", 1));
    let knows = |attempt: &str, project: &str| limit(&pods, attempt, project).is_some();
    assert!(knows("7", "") && knows("gitlab.example:7", "a/b") && knows("gitlab.example:7.2/3", "a/b"));
    assert!(!knows("other.example:7", "a/b") && !knows("7", "c/d") && !knows("8", "a/b"));
}

#[test]
fn equal_job_ids_on_two_hosts_stay_separate() {
    let pods = JobPods::default();
    let of_host = |host: &str, mib| JobPod { host: host.into(), ..pod("7", mib) };
    note(&pods, of_host("gitlab.example", 1));
    note(&pods, of_host("other.example", 2));
    let of = |attempt: &str, project: &str| limit(&pods, attempt, project);
    assert_eq!((of("gitlab.example:7", "a/b"), of("other.example:7", "a/b")), (Some(1), Some(2)));
    assert_eq!((of("7", "a/b"), of("third.example:7", "a/b")), (None, None));
    note(&pods, JobPod { project: "c/d".into(), ..of_host("third.example", 3) });
    assert_eq!(of("7", "c/d"), Some(3), "the project tells it apart");
}

#[test]
fn what_no_job_has_is_not_remembered() {
    let long = "x".repeat(1 << 20);
    let with = |job: &str, host: &str, project: &str| JobPod {
        job: job.into(),
        host: host.into(),
        project: project.into(),
        ..pod("7", 1)
    };
    for odd in [
        with("", "h", ""),
        with("7a", "h", ""),
        with(&long, "h", ""),
        with("7", &long, ""),
        with("7", "h", &long),
    ] {
        assert_eq!(odd.id(), None);
    }
}

/// How many pods the store holds.
async fn on_disk(store: &Store) -> usize {
    let mut count = 0;
    store::load::<JobPod>(store, |_pod| count += 1).await.unwrap();
    count
}

#[tokio::test]
async fn recent_pods_survive_a_restart_and_old_expire() {
    let store = Store::memory();
    let (ingest, mut worker) = fixture::ingest(&store, 10);
    for (job, mib) in [("1", 1), ("2", 1), ("2", 2)] {
        ingest.note_pod(pod(job, mib));
    }
    let mut queued = Vec::new();
    while let Some(request) = worker.next_queued() {
        queued.push(request);
    }
    worker.handle_requests(queued.into_iter()).await;
    worker.commit_all().await;
    let mut batch = Batch::default();
    let now = crate::runtime::clock::Clock.now_unix_ms();
    store::put_pod(&mut batch, &JobPod { seen_unix_ms: now - REMEMBERED_MS - 1000, ..pod("3", 1) }).unwrap();
    store::put_pod(&mut batch, &JobPod { seen_unix_ms: now + 10 * REMEMBERED_MS, ..pod("4", 1) }).unwrap();
    store.commit(batch).await.unwrap();
    assert_eq!(on_disk(&store).await, 4);
    let (ingest, mut worker) = fixture::ingest(&store, 10);
    worker.resume().await.unwrap();
    let pods = &ingest.parts.job_pods;
    let known = ["1", "2", "3", "4"].map(|job| limit(pods, job, "a/b").is_some());
    assert_eq!((known, on_disk(&store).await), ([true, true, false, true], 3));
    assert_eq!(limit(pods, "2", "a/b"), Some(1), "a later review replaces nothing on disk either");
    assert!(
        store
            .scan(b"p", None, PageLimit::PAGE)
            .await
            .unwrap()
            .entries
            .iter()
            .all(|entry| entry.key[0] == b'p')
    );
}
