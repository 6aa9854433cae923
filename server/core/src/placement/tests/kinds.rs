//! Kinds of builds and tickets: what the file says of a kind is a limit that holds beside all others.

use super::*;
use crate::{
    domain::{TicketClaim, TicketId},
    placement::tickets::{ClockReading, LimitKey, TicketChange, Tickets},
};

const KINDS: &str = "[kind.auto]\nat_once = 3\n[kind.scratch]\nat_once = 1\n";

/// Tickets under the limits that the file names.
fn tickets(placement: &Placement) -> Tickets {
    Tickets::new(placement.terms().clone())
}

/// Opens a ticket; whether it has its place at once.
fn open(tickets: &mut Tickets, name: &str, kind: BuildKind, pool: &str) -> bool {
    let claim = TicketClaim {
        owner: "bot".into(),
        pool: pool.into(),
        kind: kind.as_str().into(),
        ..TicketClaim::default()
    };
    let id = TicketId::parse(name).unwrap();
    let changes = tickets.open(&id, claim, ClockReading::default()).unwrap();
    changes.contains(&TicketChange::Granted(id))
}

#[test]
fn automatic_rebuilds_without_end_leave_places_for_explicit_builds() {
    let mut tickets = tickets(&parse(KINDS));
    let granted =
        (0..1000).filter(|n| open(&mut tickets, &format!("auto-{n}"), BuildKind::Auto, "small")).count();
    assert_eq!(granted, 3, "the throttle of the kind");
    // the same owner, the same pool, after a thousand that wait
    assert!(open(&mut tickets, "asked-for", BuildKind::Explicit, "small"));
    assert!(open(&mut tickets, "a-fix", BuildKind::Isolated, "small"));
    // a place that an automatic one gives back goes to the next of them
    let closed = tickets.close(&TicketId::parse("auto-0").unwrap(), ClockReading::default()).unwrap();
    assert!(closed.contains(&TicketChange::Granted(TicketId::parse("auto-3").unwrap())), "{closed:?}");
    assert_eq!(tickets.held(&LimitKey::Kind("auto".into())), 3);
}

#[test]
fn a_kinds_limit_holds_in_all_pools_together_and_beside_that_of_the_pool() {
    let mut tickets = tickets(&parse(KINDS));
    assert!(open(&mut tickets, "s0", BuildKind::Scratch, "small"));
    assert!(!open(&mut tickets, "s1", BuildKind::Scratch, "big"), "one scratch build in all");
    // two places in the big pool
    assert!(
        open(&mut tickets, "a0", BuildKind::Auto, "big") && open(&mut tickets, "a1", BuildKind::Auto, "big")
    );
    assert!(!open(&mut tickets, "a2", BuildKind::Auto, "big"), "the pool is full, the kind is not");
    assert!(open(&mut tickets, "a3", BuildKind::Auto, "small"), "the kind is not");
}
