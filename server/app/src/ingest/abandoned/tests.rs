//! What silence ends, and what not.

use plimsoll_core::domain::{Bytes, Millis, Outcome, Rescue, Ticket, TicketClaim, TicketId};
use plimsoll_proto::v1::ActsNow;
use plimsoll_store::{Batch, Store, put};

use super::*;
use crate::ingest::{ending::tests::held, fixture, stream_handle::StreamHandle};

/// Lets time pass, and looks for silent attempts.
async fn swept_after(worker: &mut Worker, time: Duration) -> usize {
    tokio::time::advance(time).await;
    worker.close_abandoned().await;
    worker.sessions.len()
}

#[tokio::test(start_paused = true)]
async fn store_failures_do_not_close_silent_attempts() {
    let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
    let (mut worker, _stream) = held(&Store::Memory(memory.clone()), &StreamHandle::new());
    let minute = Duration::from_mins(1);
    memory.refuse_commits("the disk is full");
    assert_eq!(swept_after(&mut worker, fixture::ABANDON_AFTER * 2).await, 1);
    memory.accept_commits();
    assert_eq!(swept_after(&mut worker, minute).await, 1, "its agent is given time to come back");
    assert_eq!(swept_after(&mut worker, fixture::ABANDON_AFTER).await, 0, "it did not");
}

#[tokio::test(start_paused = true)]
async fn empty_untrusted_attempts_are_deleted_after_an_hour() {
    let store = Store::memory();
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    worker.parts.abandon_after = Duration::from_hours(24);
    for (id, untrusted, acknowledged) in [("empty", true, 0), ("fed", true, 1), ("trusted", false, 0)] {
        let mut attempt = fixture::attempt(id);
        attempt.opening.untrusted = untrusted;
        let mut batch = Batch::default();
        put(&mut batch, &attempt).unwrap();
        store.commit(batch).await.unwrap();
        let session = Session { acknowledged, ..Session::new(attempt.clone().into(), worker.now()) };
        worker.sessions.insert(session);
    }
    assert_eq!(swept_after(&mut worker, Duration::from_mins(59)).await, 3);
    assert_eq!(swept_after(&mut worker, Duration::from_mins(2)).await, 2);
    let open = plimsoll_store::open_attempts(&store).await.unwrap();
    let mut open: Vec<&str> = open.iter().map(|attempt| attempt.id.as_str()).collect();
    open.sort_unstable();
    assert_eq!(open, ["fed", "trusted"]);
    let gone = plimsoll_core::domain::AttemptId::parse("empty").unwrap();
    assert_eq!(plimsoll_store::read_summary(&store, &gone).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_silent_agents_ticket_slot_is_freed_first() {
    let store = Store::memory();
    let id = TicketId::parse("t").unwrap();
    let ticket = Ticket {
        id: id.clone(),
        claim: TicketClaim::default(),
        round: 1,
        number: 1,
        opened_unix_ms: 0,
        granted_unix_ms: Some(0),
        attempt: None,
        collected: None,
        host: None,
        machine: None,
    };
    let mut batch = Batch::default();
    put(&mut batch, &ticket).unwrap();
    store.commit(batch).await.unwrap();
    let (_ingest, mut worker) = fixture::ingest(&store, 10);
    let mut attempt = fixture::attempt("a");
    attempt.opening.ticket = Some(id);
    worker.sessions.insert(Session::new(attempt.clone().into(), worker.now()));
    worker.parts.tickets.resume([&attempt]).await.unwrap();
    let places = |worker: &mut Worker| {
        worker.free_silent();
        worker.parts.tickets.demand().iter().map(|demand| demand.held.slots).sum::<u32>()
    };
    tokio::time::advance(Duration::from_mins(9)).await;
    assert_eq!(places(&mut worker), 1);
    tokio::time::advance(Duration::from_mins(2)).await;
    assert_eq!((places(&mut worker), worker.sessions.len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn silent_unticketed_agents_occupy_no_pool_slot() {
    let (_ingest, mut worker) = fixture::ingest(&Store::memory(), 10);
    let mut attempt = fixture::attempt("a");
    attempt.opening.pool = "big".to_owned();
    let place = worker.parts.pools.hold(&attempt);
    let session = Session { slot: place, ..Session::new(attempt.clone().into(), worker.now()) };
    worker.sessions.insert(session);
    let mut busy = async |minutes| {
        tokio::time::advance(Duration::from_mins(minutes)).await;
        worker.free_silent();
        let busy = worker.parts.pools.busy("big");
        // its agent is back
        let now = worker.now();
        worker.sessions.get_mut(&attempt.id).unwrap().last_message = now;
        busy
    };
    assert_eq!((busy(9).await, busy(11).await, busy(1).await), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_attempt_keeps_what_rescue_did() {
    let store = Store::memory();
    let (mut worker, _stream) = held(&store, &StreamHandle::new());
    let acts = ActsNow { memory_limit_bytes: Some(3 << 30), paused: 2, pauses: 5, paused_ms: 900, raises: 1 };
    let id = fixture::attempt("a").id;
    worker.sessions.get_mut(&id).unwrap().acts = Some(acts);
    assert_eq!(swept_after(&mut worker, fixture::ABANDON_AFTER * 2).await, 0);
    let summary = plimsoll_store::read_summary(&store, &id).await.unwrap().unwrap();
    let time = Millis(900);
    let rescue =
        Rescue { pauses: 5, paused: time, paused_process_time: time, raises: 1, ..Rescue::default() };
    assert_eq!((summary.outcome, summary.rescue), (Outcome::Lost, Some(rescue)));
    assert_eq!(summary.resources.memory_limit, Some(Bytes(3 << 30)));
}
