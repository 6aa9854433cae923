//! Who gets a place, and the status of those who wait.

mod lives;
mod pools;
mod schedules;

use std::collections::VecDeque;

use super::*;
use crate::domain::{AttemptId, Millis};

const PATIENT: TicketTimeouts =
    TicketTimeouts { ask_within_ms: 100, start_within_ms: 1000, silent_within_ms: 1000 };

fn at(ms: u64) -> ClockReading {
    ClockReading { unix_ms: 1_000_000 + ms, steady_ms: ms }
}

fn id(name: &str) -> TicketId {
    TicketId::parse(name).unwrap()
}

fn claim(owner: &str, tags: &[&str]) -> TicketClaim {
    TicketClaim {
        owner: owner.into(),
        pool: "p".into(),
        kind: "explicit".into(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        wall: Millis(10),
        ..TicketClaim::default()
    }
}

fn limits(each_owner: Option<u32>, most: &[(LimitKey, u32)]) -> TicketLimits {
    TicketLimits { each_owner, other_limits: most.iter().cloned().collect(), pools: ["p".to_owned()].into() }
}

fn terms(limits: TicketLimits, most_open: usize) -> TicketTerms {
    TicketTerms { limits, timeouts: PATIENT, most_open }
}

fn tickets(limits: TicketLimits, most_open: usize) -> Tickets {
    Tickets::new(terms(limits, most_open))
}

fn tag(name: &str) -> LimitKey {
    LimitKey::Tag(name.to_owned())
}

/// Tickets that come before the one of [`is_granted`].
const BEFORE: usize = 50;

/// Whether `mine` gets its place while the others never stop asking. They end in the order in which they began, and twice as many come as
/// end, so that there always are some who could have any place that is given back.
fn is_granted(
    mut tickets: Tickets,
    mine: &TicketClaim,
    others: impl IntoIterator<Item = TicketClaim>,
) -> bool {
    let mut running = VecDeque::new();
    for (number, claim) in others.into_iter().enumerate() {
        if number == BEFORE {
            running.extend(tickets.opened("mine", mine.clone()));
        }
        running.extend(tickets.opened(&format!("t{number}"), claim));
        if number % 2 == 0 {
            continue;
        }
        let Some(first) = running.pop_front() else { continue };
        if first == "mine" {
            return true;
        }
        running.extend(tickets.closed(&first));
    }
    false
}

fn granted(changes: &[TicketChange]) -> Vec<String> {
    let names = changes.iter().filter_map(|change| match change {
        TicketChange::Granted(id) => Some(id.to_string()),
        TicketChange::Ended(..) => None,
    });
    names.collect()
}

impl Tickets {
    /// All open tickets, in no order.
    fn iter(&self) -> impl Iterator<Item = &Ticket> {
        self.known.values().map(|entry| &entry.ticket)
    }

    fn opened(&mut self, name: &str, claim: TicketClaim) -> Vec<String> {
        granted(&self.open(&id(name), claim, at(0)).unwrap())
    }

    fn closed(&mut self, name: &str) -> Vec<String> {
        granted(&self.close(&id(name), at(0)).unwrap())
    }

    /// As after a restart when no attempt runs without a ticket.
    fn taken_up(&mut self, kept: Vec<Ticket>, now: ClockReading) -> Vec<TicketChange> {
        self.restore(kept, now);
        self.grant(now)
    }

    fn leaves_nothing(&self) -> bool {
        self.known.is_empty()
            && self.owners.is_empty()
            && self.deadlines.is_empty()
            && self.classes.is_empty()
            && self.sorts.is_empty()
            && self.lineup.is_empty()
            && self.counts.iter().count() == 0
    }
}

#[test]
fn an_owners_thousand_jobs_do_not_starve_another() {
    let mut tickets = tickets(limits(None, &[(LimitKey::All, 2)]), 10_000);
    for n in 0..1000 {
        tickets.opened(&format!("a{n}"), claim("a", &[]));
    }
    assert!(tickets.opened("b0", claim("b", &[])).is_empty());
    tickets.opened("b1", claim("b", &[]));
    let all = [tickets.closed("a0"), tickets.closed("a1")].concat();
    assert!(all.contains(&"b0".to_owned()), "{all:?}");
    let status = tickets.status(&id("b1"), at(0)).unwrap();
    assert!(status.position <= 3, "{status:?}");
}

#[test]
fn rounds_elsewhere_do_not_delay_this_pools_tickets() {
    let mut two = limits(None, &[(LimitKey::Pool("p".into()), 1)]);
    two.pools.insert("wide".into());
    let mut tickets = tickets(two, 10_000);
    for n in 0..100 {
        tickets.opened(&format!("a{n}"), claim("a", &[]));
    }
    let wide = |owner: &str| TicketClaim { pool: "wide".into(), ..claim(owner, &[]) };
    for n in 0..200 {
        let name = format!("b{n}");
        assert_eq!(tickets.opened(&name, wide("b")).len(), 1);
    }
    // what it wants elsewhere does not count against it here
    tickets.opened("elsewhere", wide("c"));
    tickets.opened("c", claim("c", &[]));
    assert!(tickets.status(&id("c"), at(0)).unwrap().position <= 2);
    let kept: Vec<Ticket> = tickets.iter().cloned().collect();
    tickets = Tickets::new(tickets.terms.clone());
    tickets.taken_up(kept, at(0));
    tickets.opened("d", claim("d", &[]));
    assert!(tickets.status(&id("d"), at(0)).unwrap().position <= 3, "nor after a restart");
}

#[test]
fn a_blocked_first_ticket_lets_no_newcomers_pass() {
    let mut tickets = tickets(limits(None, &[(LimitKey::All, 1), (tag("x"), 1)]), 10_000);
    tickets.opened("first", claim("o", &[]));
    tickets.opened("stuck", claim("s", &["x"]));
    tickets.limit(terms(limits(None, &[(LimitKey::All, 1), (tag("x"), 0)]), 10_000), at(0));
    for n in 0..10 {
        tickets.opened(&format!("old{n}"), claim("old", &[]));
    }
    let mut running = "first".to_owned();
    for n in 0..200 {
        tickets.opened(&format!("new{n}"), claim(&format!("new{n}"), &[]));
        running = tickets.closed(&running).remove(0);
        if running == "old9" {
            return;
        }
    }
    panic!("200 newcomers passed those who waited");
}

#[test]
fn newcomers_do_not_pass_waiting_tickets() {
    let mut tickets = tickets(limits(None, &[(LimitKey::All, 1)]), 10_000);
    tickets.opened("old0", claim("old", &[]));
    tickets.opened("old1", claim("old", &[]));
    let mut running = "old0".to_owned();
    for n in 0..20 {
        // a new one each time
        tickets.opened(&format!("new{n}"), claim(&format!("new{n}"), &[]));
        running = tickets.closed(&running).remove(0);
        if running == "old1" {
            return;
        }
    }
    panic!("20 newcomers passed it");
}

#[test]
fn a_ticket_needing_two_slots_is_eventually_granted() {
    let mut tickets = tickets(limits(None, &[(tag("x"), 1), (tag("y"), 1)]), 10_000);
    let mut open = vec!["x0".to_owned(), "y0".to_owned()];
    tickets.opened("x0", claim("u", &["x"]));
    tickets.opened("y0", claim("v", &["y"]));
    tickets.opened("both", claim("w", &["x", "y"]));
    for n in 1..10 * MAX_PASSED_OVER {
        // one of each waits always, and they end in turns: never are both places free at once
        let (kind, owner) = if n % 2 == 0 { ("x", "u") } else { ("y", "v") };
        tickets.opened(&format!("{kind}{n}"), claim(owner, &[kind]));
        let Some(at) = open.iter().position(|id| id.starts_with(kind)) else { continue };
        let ended = open.remove(at);
        open.extend(tickets.closed(&ended));
        if open.iter().any(|id| id == "both") {
            return;
        }
    }
    panic!("passed over {} times", 10 * MAX_PASSED_OVER);
}

#[test]
fn raised_tickets_go_first_without_starving_others() {
    let mut tickets = tickets(limits(None, &[(LimitKey::All, 1)]), 10_000);
    tickets.opened("first", claim("o", &[]));
    tickets.opened("plain", claim("a", &[]));
    let raised = || TicketClaim { raised: true, ..claim("b", &[]) };
    tickets.opened("fix0", raised());
    let mut running = tickets.closed("first").remove(0);
    assert_eq!(running, "fix0");
    for n in 1..10 * MAX_PASSED_OVER {
        tickets.opened(&format!("fix{n}"), raised());
        running = tickets.closed(&running).remove(0);
        if running == "plain" {
            return;
        }
    }
    panic!("passed over {} times", 10 * MAX_PASSED_OVER);
}

#[test]
fn raised_tickets_of_one_owner_take_turns() {
    let mut tickets = tickets(limits(None, &[(LimitKey::All, 1)]), 10_000);
    tickets.opened("first", claim("o", &[]));
    for n in 0..1000 {
        tickets.opened(&format!("fix{n}"), TicketClaim { raised: true, ..claim("a", &[]) });
    }
    tickets.opened("plain", claim("b", &[]));
    tickets.opened("raised", TicketClaim { raised: true, ..claim("c", &[]) });
    let position = |name: &str| tickets.status(&id(name), at(0)).unwrap().position;
    assert_eq!((position("fix0"), position("raised"), position("fix1"), position("plain")), (1, 2, 3, 4));
}

#[test]
fn an_owner_leaves_room_for_others() {
    let mut tickets = tickets(limits(None, &[]), 100);
    let fill = |tickets: &mut Tickets, owner: &str| {
        let open = |n: &i32| tickets.open(&id(&format!("{owner}{n}")), claim(owner, &[]), at(0)).is_ok();
        (0..100).take_while(open).count()
    };
    assert_eq!(fill(&mut tickets, "a"), 80);
    let crowded = TicketRefusal::Crowded { of_owner: 80, most: 100 };
    assert_eq!(tickets.open(&id("more"), claim("a", &[]), at(0)), Err(crowded));
    assert!(tickets.open(&id("a0"), claim("a", &[]), at(0)).is_ok(), "one that is open is found again");
    assert_eq!((fill(&mut tickets, "b"), fill(&mut tickets, "c"), fill(&mut tickets, "d")), (16, 4, 0));
}

#[test]
fn what_is_wrong_changes_nothing_and_says_why() {
    let mut tickets = tickets(limits(None, &[(tag("off"), 0)]), 2);
    let mut open = |name: &str, claim: TicketClaim| tickets.open(&id(name), claim, at(0));
    assert_eq!(granted(&open("a", claim("o", &[])).unwrap()), ["a"]);
    // the same again is the same ticket, and is granted once
    assert_eq!(open("a", claim("o", &[])), Ok(Vec::new()));
    assert_eq!(open("a", TicketClaim { asked: 1, ..claim("o", &[]) }), Err(TicketRefusal::Taken(id("a"))));
    let other = TicketClaim { by: "x".into(), ..claim("o", &[]) };
    assert_eq!(open("a", other), Err(TicketRefusal::Taken(id("a"))));
    assert_eq!(open("b", claim("o", &["off"])), Err(TicketRefusal::Never("tag off".into())));
    let gone = TicketClaim { pool: "gone".into(), ..claim("o", &[]) };
    assert_eq!(open("b", gone), Err(TicketRefusal::Never("pool gone".into())));
    open("c", claim("o", &[])).unwrap();
    assert_eq!(open("d", claim("o", &[])), Err(TicketRefusal::Full(2)));
    assert_eq!(tickets.close(&id("b"), at(0)), Err(TicketRefusal::Unknown(id("b"))));
    assert_eq!((tickets.iter().count(), tickets.held(&LimitKey::All)), (2, 2));
}

#[test]
fn no_slot_is_granted_in_a_removed_pool() {
    let mut tickets = tickets(limits(None, &[(LimitKey::Pool("p".into()), 1)]), 10);
    tickets.opened("a", claim("o", &[]));
    tickets.opened("b", claim("o", &[]));
    let mut gone = limits(None, &[]);
    gone.pools.clear();
    assert_eq!(tickets.limit(terms(gone, 10), at(0)), []);
    assert!(tickets.closed("a").is_empty());
    assert_eq!(tickets.status(&id("b"), at(0)).unwrap().waits_for, ["pool p: 0 of 0"]);
    assert_eq!(granted(&tickets.limit(terms(limits(None, &[]), 10), at(0))), ["b"]);
}

#[test]
fn a_removed_pool_blocks_no_slots_of_others() {
    let all = [(LimitKey::All, 2)];
    let mut both = limits(None, &all);
    both.pools.insert("gone".into());
    let mut tickets = tickets(both, 10_000);
    let of_gone = || TicketClaim { pool: "gone".into(), ..claim("o", &[]) };
    tickets.opened("g0", of_gone());
    tickets.opened("g1", of_gone());
    tickets.opened("g2", of_gone());
    tickets.limit(terms(limits(None, &all), 10_000), at(0));
    tickets.closed("g0");
    tickets.closed("g1");
    for n in 0..2 * MAX_PASSED_OVER {
        tickets.opened(&format!("p{n}"), claim("p", &[]));
        tickets.closed(&format!("p{n}"));
    }
    assert_eq!(tickets.opened("a", claim("p", &[])), ["a"]);
    assert_eq!(tickets.opened("b", claim("p", &[])), ["b"], "both places are free for any that fits");
}

#[test]
fn position_and_wait_follow_from_tickets_ahead() {
    let mut tickets = tickets(limits(None, &[(LimitKey::Pool("p".into()), 2)]), 10);
    for (n, wall) in [60, 20, 40, 40, 40, 40].into_iter().enumerate() {
        let sized = TicketClaim {
            wall: Millis(wall),
            memory: crate::domain::Bytes(10),
            milli_cores: 500,
            ..claim("o", &[])
        };
        tickets.opened(&format!("t{n}"), sized);
    }
    let status = |name: &str, ms: u64| {
        let status = tickets.status(&id(name), at(ms)).unwrap();
        (status.position, status.wait.0)
    };
    assert_eq!((status("t0", 5), status("t2", 5), status("t3", 5)), ((0, 0), (1, 15), (2, 55)));
    // one round more: each place is held for 40 in the mean
    assert_eq!((status("t4", 5), status("t5", 5)), ((3, 55), (4, 95)));
    assert_eq!(status("t2", 30), (1, 0), "it should have ended already");
    assert_eq!(tickets.status(&id("t2"), at(5)).unwrap().waits_for, ["pool p: 2 of 2"]);
    let amount = |places: u32| TicketAmount {
        slots: places,
        memory_bytes: 10 * u64::from(places),
        milli_cores: 500 * u64::from(places),
    };
    let demand = PoolTickets { pool: "p".into(), queued: amount(4), held: amount(2), attended: 0 };
    assert_eq!(tickets.demand(), [demand]);
}

#[test]
fn demand_covers_pools_in_the_file_and_poolless() {
    let mut two = limits(None, &[(LimitKey::Pool("p".into()), 1)]);
    two.pools.insert("b".into());
    let mut tickets = tickets(two, 10);
    for (n, pool) in ["p", "", "b", "p"].into_iter().enumerate() {
        tickets.opened(
            &format!("t{n}"),
            TicketClaim { pool: pool.into(), ..claim(&format!("owner{n}"), &["x"]) },
        );
    }
    let demand = tickets.demand();
    let status: Vec<_> = demand.iter().map(|d| (d.pool.as_str(), d.held.slots, d.queued.slots)).collect();
    assert_eq!(status, [("", 1, 0), ("b", 1, 0), ("p", 1, 1)]);
    assert_eq!(tickets.demand_in("p").as_ref(), demand.last());
    assert_eq!(tickets.demand_in("owner0"), None);
}

#[test]
fn newcomers_do_not_pass_after_a_restart() {
    let mut before = tickets(limits(None, &[(LimitKey::All, 1)]), 100);
    for n in 0..50 {
        before.opened(&format!("old{n}"), claim("old", &[]));
    }
    let kept: Vec<Ticket> =
        before.iter().filter(|ticket| ticket.granted_unix_ms.is_none()).cloned().collect();
    let mut after = tickets(limits(None, &[(LimitKey::All, 1)]), 100);
    assert_eq!(granted(&after.taken_up(kept, at(0))), ["old1"]);
    after.opened("new", claim("new", &[]));
    assert_eq!(after.closed("old1"), ["old2"], "its round is the one of the newcomer, and it was first");
}
