//! Commits that wait for a synchronous standby are interrupted: what was acknowledged is on the standby.

use std::sync::Arc;

use plimsoll_support::{patience::eventually, postgres::PostgresServer};
use tokio::task::{JoinSet, spawn_blocking};

use super::{database::open, fixture::one};
use crate::{CommitError, Store};

/// What happens to a commit that waits for a standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interruption {
    /// PostgreSQL ends the wait, answers with a warning, and shows the commit.
    Cancel,
    /// The same, and the answer is not sent.
    Terminate,
    /// The same; the server starts again.
    StopPrimary,
}

/// A primary that waits for its standby with each commit.
struct Pair {
    primary: PostgresServer,
    standby: PostgresServer,
}

impl Pair {
    fn start() -> Option<Arc<Self>> {
        let wait = |_: &std::path::Path| vec!["synchronous_standby_names=ANY 1 (*)".to_owned()];
        let primary = PostgresServer::start(wait)?;
        let standby = primary.new_standby();
        Some(Arc::new(Self { primary, standby }))
    }

    /// Process ids of the sessions that wait for the standby.
    async fn waiting(self: &Arc<Self>) -> Vec<String> {
        let sql = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let rows = self.on_thread(move |pair| pair.primary.sql("postgres", sql)).await;
        rows.lines().map(str::to_owned).collect()
    }

    /// Waits until a session other than this one waits for the standby; returns its process id.
    async fn next_waiting(self: &Arc<Self>, before: Option<&String>) -> String {
        let look = async || self.waiting().await.into_iter().find(|pid| Some(pid) != before);
        let found = eventually("a commit waits for the standby", look, Option::is_some).await;
        found.unwrap()
    }

    async fn interrupt(self: &Arc<Self>, interruption: Interruption, pid: String) {
        let call = move |pair: &Self| {
            let name = match interruption {
                Interruption::Cancel => "pg_cancel_backend",
                Interruption::Terminate => "pg_terminate_backend",
                Interruption::StopPrimary => {
                    pair.primary.stop_fast();
                    return pair.primary.start_again();
                }
            };
            drop(pair.primary.sql("postgres", &format!("SELECT {name}({pid})")));
        };
        self.on_thread(call).await;
    }

    async fn on_thread<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let pair = Arc::clone(self);
        spawn_blocking(move || call(&pair)).await.unwrap()
    }
}

/// A commit that goes on while the test does other things.
fn begin_commit(store: &Store, key: String) -> JoinSet<Result<String, CommitError>> {
    let (mut commits, store) = (JoinSet::new(), store.clone());
    commits.spawn(async move { store.commit(one(key.as_bytes(), b"v")).await.map(|_receipt| key) });
    commits
}

/// Interrupts so many commits while the standby is away. At the end the primary goes, and the standby takes its place.
async fn interrupt_commits(interruption: Interruption, rounds: u32) {
    let Some(pair) = Pair::start() else { return };
    let store = open(&pair.primary.url("postgres"));
    let mut acknowledged = Vec::new();
    for round in 0..rounds {
        let is_last = round + 1 == rounds;
        let ready = async || store.commit(one(b"ready", b"v")).await.is_ok();
        eventually("the store is writable", ready, |written| *written).await;
        let safe = format!("{interruption:?} before {round}");
        let with_standby = async || store.commit(one(safe.as_bytes(), b"v")).await.is_ok();
        eventually("a commit is acknowledged", with_standby, |written| *written).await;
        acknowledged.push(safe);
        pair.on_thread(|pair| pair.standby.crash()).await;
        let mut commit = begin_commit(&store, format!("{interruption:?} {round}"));
        let sent = pair.next_waiting(None).await;
        pair.interrupt(interruption, sent.clone()).await;
        // the writer asks what became of the commit, and that waits as well
        let asked = pair.next_waiting(Some(&sent)).await;
        if interruption == Interruption::Cancel {
            pair.interrupt(interruption, asked.clone()).await;
            pair.next_waiting(Some(&asked)).await;
        }
        // after 10 s it is refused, on a slow machine before this point
        let answer = commit.try_join_next().map(Result::unwrap);
        assert!(!matches!(answer, Some(Ok(_))), "acknowledged without the standby: {answer:?}");
        if is_last {
            pair.on_thread(|pair| pair.primary.crash()).await;
        }
        pair.on_thread(|pair| pair.standby.start_again()).await;
        if let (false, None) = (is_last, answer) {
            acknowledged.extend(commit.join_next().await.unwrap().unwrap().ok());
        }
    }
    let keys = "SELECT convert_from(k, 'UTF8') FROM plimsoll.entry";
    let kept =
        pair.on_thread(move |pair| (pair.standby.promote(), pair.standby.sql("postgres", keys)).1).await;
    for key in acknowledged {
        assert!(kept.lines().any(|kept| kept == key), "{key} is not on the standby: {kept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_commits_are_acknowledged_only_when_replicated() {
    interrupt_commits(Interruption::Cancel, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_commits_are_acknowledged_only_when_replicated() {
    interrupt_commits(Interruption::Terminate, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_commits_are_acknowledged_only_when_replicated() {
    interrupt_commits(Interruption::StopPrimary, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: the same with twenty interruptions of each kind"]
async fn repeated_interruptions_never_acknowledge_unreplicated_commits() {
    for interruption in [Interruption::Cancel, Interruption::Terminate, Interruption::StopPrimary] {
        interrupt_commits(interruption, 20).await;
    }
}
