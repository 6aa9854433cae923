//! Two servers take the store from each other while they append to lists, over connections that are cut: the history that their callers
//! saw must be one that a single server over a single disk could have given.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use plimsoll_support::postgres::PostgresServer;
use tokio::{
    runtime::Runtime,
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};

use super::{
    database::{open, settings},
    database_proxy::CuttingProxy,
    list_history::{Append, HistoryOfLists, LastRead, ListEntry},
};
use crate::{Batch, PageLimit, Store};

/// Lists that all servers append to.
const LISTS: u8 = 16;
/// A server that lost the store takes it again when the other one has so many more acknowledged commits, or does not get on.
const TURN: u64 = 150;
const WAIT_WITHIN: Duration = Duration::from_secs(1);

/// One clock for all servers.
#[derive(Debug, Default)]
struct Clock {
    now: AtomicU64,
    /// Acknowledged commits of all servers.
    acknowledged: watch::Sender<u64>,
}

impl Clock {
    /// A later time at each call.
    fn tick(&self) -> u64 {
        self.now.fetch_add(1, SeqCst) + 1
    }

    fn acknowledged(&self) -> u64 {
        *self.acknowledged.borrow()
    }
}

/// Takes the store again and again, and appends while it has it, until all servers together have so many acknowledged commits.
fn take_turns(url: &str, server: u64, clock: &Arc<Clock>, commits: u64) -> HistoryOfLists {
    let mut history = HistoryOfLists::default();
    let runtime = Runtime::new().unwrap();
    let mut turn = 0;
    while clock.acknowledged() < commits {
        // a start whose connection is cut fails
        let Ok(store) = Store::open_postgres(&settings(url)) else { continue };
        turn += 1;
        let mut tasks = JoinSet::new();
        for list in 0..LISTS {
            let first_id = (server << 56) | (turn << 32) | (u64::from(list) << 24);
            tasks.spawn_on(
                append_until_lost(store.clone(), list, first_id, Arc::clone(clock), commits),
                runtime.handle(),
            );
        }
        for (read, appends) in runtime.block_on(tasks.join_all()) {
            history.reads.extend(read);
            history.appends.extend(appends);
        }
        drop(runtime.block_on(store.close()));
        let next = commits.min(clock.acknowledged() + TURN);
        let mut acknowledged = clock.acknowledged.subscribe();
        let waited =
            async { timeout(WAIT_WITHIN, acknowledged.wait_for(|count| *count >= next)).await.is_ok() };
        let _is_next = runtime.block_on(waited);
    }
    history
}

/// Appends to a list what follows the last entry there, until a commit fails.
async fn append_until_lost(
    store: Store,
    list: u8,
    first_id: u64,
    clock: Arc<Clock>,
    commits: u64,
) -> (Option<LastRead>, Vec<Append>) {
    let begun = clock.tick();
    let Ok(last) = store.get(&[list]).await else { return (None, Vec::new()) };
    let last = last.map_or_else(|| vec![0; 16], |found| found.value);
    let (mut index, mut before) = (number(&last[..8]), number(&last[8..]));
    let (read, mut appends) = (LastRead { list, begun, id: before }, Vec::new());
    while clock.acknowledged() < commits {
        index += 1;
        let id = first_id + index;
        let mut batch = Batch::default();
        batch.put(vec![list], [index.to_be_bytes(), id.to_be_bytes()].concat());
        batch.put(
            [&[list], index.to_be_bytes().as_slice()].concat(),
            [id.to_be_bytes(), before.to_be_bytes()].concat(),
        );
        let begun = clock.tick();
        let outcome = store.commit(batch).await;
        let acknowledged = outcome.as_ref().ok().map(|receipt| (clock.tick(), receipt.version));
        appends.push(Append { list, id, begun, acknowledged });
        if outcome.is_err() {
            break;
        }
        clock.acknowledged.send_modify(|count| *count += 1);
        before = id;
    }
    (Some(read), appends)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// The entries of a list, in order.
async fn entries_of(store: &Store, list: u8) -> Vec<ListEntry> {
    let (mut entries, mut after) = (Vec::new(), vec![list]);
    loop {
        let page = store.scan(&[list], Some(&after), PageLimit::PAGE).await.unwrap();
        entries.extend(page.entries.iter().map(|found| {
            let (id, before) = found.value.value.split_at(8);
            ListEntry { id: number(id), before: number(before), version: found.value.version }
        }));
        match page.next_after() {
            Some(last) => after = last,
            None => return entries,
        }
    }
}

/// Two servers make so many commits; returns their history, and how often one took the store.
async fn append_from_two_servers(commits: u64) -> Option<(HistoryOfLists, u64)> {
    let server = PostgresServer::shared()?;
    let database = server.new_database();
    let (clock, mut proxies, mut servers) = (Arc::new(Clock::default()), Vec::new(), Vec::new());
    for number in 1..=2 {
        let proxy = CuttingProxy::start(server.port).await;
        proxy.arm(usize::try_from(commits / 400).unwrap());
        let (url, clock) = (proxy.url(server, &database), Arc::clone(&clock));
        servers.push(spawn_blocking(move || take_turns(&url, number, &clock, commits)));
        proxies.push(proxy);
    }
    let mut all = HistoryOfLists::default();
    for server in servers {
        let HistoryOfLists { appends, reads, .. } = server.await.unwrap();
        all.appends.extend(appends);
        all.reads.extend(reads);
    }
    for proxy in proxies {
        proxy.let_late_ones_arrive().await;
    }
    let epochs = server.sql(&database, "SELECT epoch FROM plimsoll.lease").parse().unwrap();
    let store = open(&server.url(&database));
    for list in 0..LISTS {
        all.lists.insert(list, entries_of(&store, list).await);
    }
    Some((all, epochs))
}

async fn check_two_servers(commits: u64) {
    let Some((history, epochs)) = append_from_two_servers(commits).await else { return };
    assert_eq!(history.anomalies(), []);
    let acknowledged = history.appends.iter().filter(|append| append.acknowledged.is_some()).count() as u64;
    assert!(acknowledged >= commits, "{acknowledged} commits, {epochs} epochs");
    assert!(epochs > commits / TURN / 4, "{acknowledged} commits, {epochs} epochs");
}

#[tokio::test(flavor = "multi_thread")]
async fn alternating_servers_append_one_history() {
    check_two_servers(2000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes about a minute: the same with more commits"]
async fn two_servers_append_twenty_thousand_times_as_one() {
    check_two_servers(20_000).await;
}
