//! What is answered is on the disk, and a restart takes it up.

mod claims;
mod hosts;
mod numbered;
mod unticketed;
mod upstream;
mod upstream_records;

use std::fs;

use plimsoll_core::{
    domain::{Key, OpeningRecord, PoolSlot, Resources, Ticket, test_attempt},
    placement::tickets::{TicketEnd, TicketRefusal},
};

use super::*;

const POOLS: &str = r#"
[[pool]]
name = "big"
at_once = 1
tags = ["beefy"]
[[pool]]
name = "other"
by_rule = true
allowed = ['team/.*']
[[rule]]
name = "main"
ref_class = "default"
pool = "other"
when_busy = "big"
busy_from = 1
[tickets]
each_owner = 5
[tickets.tag]
licence = 3
"#;

/// A server's tickets over a store, with a file of pools.
struct Site {
    dir: tempfile::TempDir,
    store: Store,
    pools: PoolRegistry,
    metrics: Arc<Metrics>,
}

impl Site {
    fn new() -> Self {
        Self::with(POOLS)
    }

    fn with(text: &str) -> Self {
        let (dir, path) = plimsoll_support::temporary::file_with("pools.toml", text);
        let metrics = Arc::new(Metrics::new());
        let pools = PoolRegistry::open(Some(path), Arc::clone(&metrics)).unwrap();
        Self { dir, store: Store::memory(), pools, metrics }
    }

    fn tickets(&self) -> (TicketRegistry, Keeper) {
        TicketRegistry::new(self.store.clone(), self.pools.clone(), Arc::clone(&self.metrics), Clock)
    }

    /// Works with a server until `story` is over; its attempts are `open` when it starts. Then it is gone, as after a kill.
    async fn run<T>(&self, open: &[Attempt], story: impl AsyncFnOnce(&TicketRegistry) -> T) -> T {
        let (tickets, keeper) = self.tickets();
        tickets.resume(open).await.unwrap();
        tokio::select! {
            () = keeper.run(tokio_util::sync::CancellationToken::new()) => panic!("it works until it is stopped"),
            status = story(&tickets) => status,
        }
    }

    async fn on_disk(&self) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        store::load(&self.store, |ticket| tickets.push(ticket)).await.unwrap();
        tickets
    }
}

impl TicketRegistry {
    /// Tickets that want or hold a place in a pool, and attempts that run there without one.
    fn wanted(&self, pool: &str) -> u32 {
        self.0.state().tickets.wanted(pool)
    }
}

fn id(name: &str) -> TicketId {
    TicketId::parse(name).unwrap()
}

fn claim(asked: u64) -> TicketClaim {
    let (owner, pool, kind, by) = ("o".into(), "big".into(), "explicit".into(), "anyone".into());
    TicketClaim { owner, pool, kind, by, asked, ..TicketClaim::default() }
}

fn attempt(name: &str, ticket: &str) -> Attempt {
    let opening = OpeningRecord { ticket: Some(id(ticket)), ..OpeningRecord::default() };
    Attempt { key: Key::default(), opening, ..test_attempt(name) }
}

async fn open(tickets: &TicketRegistry, name: &str, asked: u64) -> &'static str {
    word(&tickets.open(&id(name), claim(asked)).await.unwrap())
}

fn word(view: &View) -> &'static str {
    match view {
        View::Open(status) if status.ticket.granted_unix_ms.is_some() => "granted",
        View::Open(_) => "queued",
        View::Ended(TicketEnd::Closed, _) => "closed",
        View::Ended(TicketEnd::Expired, _) => "expired",
    }
}

fn state(tickets: &[Ticket]) -> Vec<(&str, bool)> {
    tickets.iter().map(|ticket| (ticket.id.as_str(), ticket.granted_unix_ms.is_some())).collect()
}

#[tokio::test]
async fn ticket_answers_are_durable_and_survive_restarts() {
    let site = Site::new();
    site.run(&[], async |tickets: &TicketRegistry| {
        assert_eq!(open(tickets, "a", 1).await, "granted");
        assert_eq!(state(&site.on_disk().await), [("a", true)]);
        assert_eq!((open(tickets, "b", 2).await, open(tickets, "c", 3).await), ("queued", "queued"));
        assert_eq!(state(&site.on_disk().await), [("a", true), ("b", false), ("c", false)]);
    })
    .await;
    site.run(&[], async |tickets: &TicketRegistry| {
        // the same question finds the same ticket, another one does not get it
        assert_eq!((open(tickets, "a", 1).await, open(tickets, "b", 2).await), ("granted", "queued"));
        let taken = tickets.open(&id("a"), claim(9)).await;
        assert_eq!(taken, Err(TicketRefusal::Taken(id("a")).into()));
        let caller = Identity::anyone();
        assert_eq!(word(&tickets.close(&id("a"), "o", &caller).await.unwrap()), "closed");
        assert_eq!(state(&site.on_disk().await), [("b", true), ("c", false)]);
        // late repetitions change nothing
        assert_eq!(word(&tickets.close(&id("a"), "o", &caller).await.unwrap()), "closed");
        assert_eq!(open(tickets, "a", 1).await, "closed");
    })
    .await;
}

#[tokio::test]
async fn attempts_of_other_projects_cannot_use_a_ticket() {
    let site = Site::new();
    site.run(&[], async |tickets: &TicketRegistry| {
        let of_project = TicketClaim { project: "x".into(), ..claim(1) };
        tickets.open(&id("a"), of_project).await.unwrap();
        tickets.begin(&attempt("stranger", "a"));
        assert_eq!(tickets.demand()[0].attended, 0);
        let mut own = attempt("own", "a");
        own.key.project = "x".into();
        tickets.begin(&own);
        assert_eq!(tickets.demand()[0].attended, 1);
        // without a project it is of no project, and not of each
        tickets.close(&id("a"), "o", &Identity::anyone()).await.unwrap();
        tickets.open(&id("b"), claim(2)).await.unwrap();
        let of_project = Attempt { opening: attempt("own", "b").opening, ..own };
        tickets.begin(&of_project);
        assert_eq!(tickets.demand()[0].attended, 0);
        tickets.begin(&attempt("none", "b"));
        assert_eq!(tickets.demand()[0].attended, 1);
    })
    .await;
}

#[tokio::test]
async fn an_attempt_learns_why_its_ticket_is_unusable() {
    let site = Site::new();
    site.run(&[], async |tickets: &TicketRegistry| {
        let why =
            |name: &str, project: &str| tickets.no_place(&id(name), &AttemptId::parse("1").unwrap(), project);
        assert_eq!(why("a", "").unwrap(), "project \"\" has no open ticket with this id");
        assert_eq!((open(tickets, "a", 1).await, open(tickets, "b", 2).await), ("granted", "queued"));
        assert_eq!(why("b", "").unwrap(), "it waits in line and has no place yet");
        // nothing is said of the tickets of others
        assert_eq!(why("b", "x").unwrap(), "project \"x\" has no open ticket with this id");
        tickets.begin(&attempt("1", "a"));
        assert_eq!(why("a", ""), None);
        let other = tickets.no_place(&id("a"), &AttemptId::parse("2").unwrap(), "");
        assert_eq!(other.unwrap(), "attempt 1 runs in its place");
        tickets.close(&id("a"), "o", &Identity::anyone()).await.unwrap();
        assert_eq!(why("a", "").unwrap(), "it has been closed");
    })
    .await;
}

#[tokio::test]
async fn a_ticket_state_not_stored_is_not_answered() {
    let site = Site::new();
    let Store::Memory(memory) = &site.store else { panic!("in memory") };
    site.run(&[], async |tickets: &TicketRegistry| {
        open(tickets, "a", 1).await;
        let caller = Identity::anyone();
        memory.refuse_commits("the disk is full");
        let refused = tickets.close(&id("a"), "o", &caller).await;
        assert!(
            matches!(refused, Err(Refusal::TicketUnwritable(ref why)) if why.contains("full")),
            "{refused:?}"
        );
        assert!(matches!(tickets.open(&id("b"), claim(2)).await, Err(Refusal::TicketUnwritable(_))));
        assert_eq!(state(&site.on_disk().await), [("a", true)]);
    })
    .await;
    // what the restart finds is what was answered last
    let Store::Memory(memory) = &site.store else { panic!("in memory") };
    memory.accept_commits();
    site.run(&[], async |tickets: &TicketRegistry| assert_eq!(open(tickets, "b", 2).await, "queued")).await;
}

#[tokio::test(start_paused = true)]
async fn a_watched_ticket_is_granted_then_expires_unwatched() {
    let site = Site::new();
    site.run(&[], async |tickets: &TicketRegistry| {
        open(tickets, "a", 1).await;
        open(tickets, "b", 2).await;
        let caller = Identity::anyone();
        let (a, mut watching) = (id("a"), tickets.watch(&id("b"), true, &caller).unwrap());
        assert_eq!(word(&watching.view().await.unwrap()), "queued");
        let (closed, ()) = tokio::join!(tickets.close(&a, "o", &caller), watching.changed());
        closed.unwrap();
        assert_eq!(word(&watching.view().await.unwrap()), "granted");
        tokio::time::sleep(std::time::Duration::from_hours(2)).await;
        assert_eq!(word(&watching.view().await.unwrap()), "granted");
        drop(watching);
        tokio::time::sleep(std::time::Duration::from_hours(2)).await;
        assert_eq!(open(tickets, "b", 2).await, "expired");
        assert_eq!(site.on_disk().await, []);
        assert!(tickets.0.state().is_quiet());
    })
    .await;
}

#[tokio::test]
async fn watching_an_ended_ticket_keeps_no_successor_alive() {
    let site = Site::new();
    site.run(&[], async |tickets: &TicketRegistry| {
        let caller = Identity::anyone();
        open(tickets, "a", 1).await;
        open(tickets, "b", 2).await;
        let old = tickets.watch(&id("b"), true, &caller).unwrap();
        tickets.close(&id("b"), "o", &caller).await.unwrap();
        assert_eq!(open(tickets, "b", 3).await, "queued", "another question takes the id");
        let new = tickets.watch(&id("b"), true, &caller).unwrap();
        assert_eq!(old.view().await, Err(TicketRefusal::Unknown(id("b")).into()));
        drop(old);
        tickets.close(&id("a"), "o", &caller).await.unwrap();
        let late = ClockReading { unix_ms: 0, steady_ms: u64::MAX - 1 };
        assert_eq!(tickets.0.state().tickets.expire(10, late), [], "who watches it now keeps it");
        assert_eq!(word(&new.view().await.unwrap()), "granted");
    })
    .await;
}

#[tokio::test]
async fn the_largest_ticket_fits_into_one_part() {
    let long = |n: usize| "\"".repeat(n);
    let mut ticket = Ticket {
        id: id(&"x".repeat(128)),
        claim: TicketClaim {
            owner: long(256),
            pool: "x".repeat(63),
            arch: "x86_64".into(),
            kind: "explicit".into(),
            tags: vec!["x".repeat(63); 16],
            raised: true,
            project: long(256),
            by: long(64),
            sandbox: long(256),
            on_host: true,
            upstream_tags: vec!["x".repeat(32); 8],
            asked: u64::MAX,
            ..claim(0)
        },
        round: u64::MAX,
        number: u64::MAX,
        opened_unix_ms: u64::MAX,
        granted_unix_ms: Some(u64::MAX),
        attempt: None,
        collected: Some(true),
        host: Some("x".repeat(253)),
        machine: None,
    };
    ticket.attempt = AttemptId::parse(&"x".repeat(128)).ok();
    let mut batch = store::Batch::default();
    store::put(&mut batch, &ticket).unwrap();
    assert_eq!(batch.operations(), 1);
}
