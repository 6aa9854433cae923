//! Limits that several pools share: what is given back in one is granted at once in another, and none starves for it.

use proptest::prelude::*;

use super::{schedules::held, *};

const POOLS: [&str; 3] = ["p", "q", "r"];

/// What a ticket wants, as some small numbers.
type Wanted = (u8, usize, u8, u8, u8, bool);

fn wanted() -> impl Strategy<Value = Wanted> {
    (0..4_u8, 0..POOLS.len(), 0..2_u8, 0..2_u8, 0..2_u8, prop::bool::weighted(0.1))
}

fn claim_of((owner, pool, arch, kind, tagged, raised): Wanted) -> TicketClaim {
    let of = |bit: u8, words: [&str; 2]| words[usize::from(bit)].to_owned();
    TicketClaim {
        pool: POOLS[pool].into(),
        arch: of(arch, ["x86_64", "aarch64"]),
        kind: of(kind, ["explicit", "auto"]),
        raised,
        ..claim(&format!("owner{owner}"), if tagged == 0 { &[] } else { &["x"] })
    }
}

/// Three pools, each with a limit of its own or none, under limits that all of them share.
fn shared() -> TicketLimits {
    let named = |name: &str| name.to_owned();
    let mut limits = limits(
        Some(2),
        &[
            (LimitKey::All, 4),
            (LimitKey::Arch(named("aarch64")), 2),
            (LimitKey::Kind(named("auto")), 2),
            (tag("x"), 1),
            (LimitKey::Pool(named("p")), 2),
            (LimitKey::Pool(named("q")), 1),
        ],
    );
    limits.pools = POOLS.map(named).into();
    limits
}

/// Each that waits is held up by a limit that is full now, unless its place is kept for one that has waited longer.
fn check(tickets: &Tickets) {
    let held = held(tickets);
    let taken =
        |counter: &LimitKey| held.get(counter).copied().unwrap_or(0) + tickets.counts.unticketed(counter);
    let most = |counter: &LimitKey| tickets.terms.limits.limit_of(counter);
    for counter in held.keys().filter(|counter| tickets.counts.unticketed(counter) == 0) {
        assert!(most(counter).is_none_or(|most| taken(counter) <= most), "{counter} is broken");
    }
    let has_room = |counter: LimitKey| most(&counter).is_none_or(|most| taken(&counter) < most);
    let mut waiting = tickets.iter().filter(|ticket| ticket.granted_unix_ms.is_none());
    let forgotten = waiting.find(|ticket| claim::scopes_with_owner(&ticket.claim).all(has_room));
    let kept = tickets.classes.iter().any(|(_, class)| class.passed_over >= MAX_PASSED_OVER);
    assert!(kept || forgotten.is_none(), "{forgotten:?} is forgotten");
}

#[test]
fn slots_freed_in_one_pool_serve_another() {
    let one = |what: LimitKey| {
        let mut limits = limits(None, &[(what, 1)]);
        limits.pools = POOLS.map(str::to_owned).into();
        limits
    };
    let named = |name: &str| name.to_owned();
    for what in [
        LimitKey::All,
        LimitKey::Owner(named("o")),
        LimitKey::Arch(named("x86_64")),
        LimitKey::Kind(named("explicit")),
        tag("x"),
    ] {
        let mut tickets = tickets(one(what.clone()), 100);
        let of = |pool: &str| TicketClaim { pool: pool.into(), arch: "x86_64".into(), ..claim("o", &["x"]) };
        assert_eq!(tickets.opened("p0", of("p")), ["p0"]);
        assert!(tickets.opened("q0", of("q")).is_empty() && tickets.opened("r0", of("r")).is_empty());
        assert_eq!(tickets.status(&id("q0"), at(0)).unwrap().waits_for, [format!("{what}: 1 of 1")]);
        assert_eq!(tickets.closed("p0"), ["q0"], "{what}");
        // by an end, by silence, and by other limits, too
        let attempt = AttemptId::parse("1").unwrap();
        tickets.begin(&id("q0"), &attempt);
        assert_eq!(granted(&tickets.end(&id("q0"), &attempt, at(0))), ["r0"], "{what}");
        tickets.opened("p1", of("p"));
        tickets.watch(&id("p1"), false, at(0));
        assert_eq!(granted(&tickets.expire(1, at(1001))), ["p1"], "{what}");
        tickets.opened("q1", of("q"));
        let two = TicketLimits { other_limits: [(what.clone(), 2)].into(), ..one(what.clone()) };
        assert_eq!(granted(&tickets.limit(terms(two, 100), at(0))), ["q1"], "{what}");
    }
}

/// As many sorts as there may be, all of which wait for the one place under a limit; gives what a look at them costs.
fn looks_of_a_close(shared: &LimitKey) -> usize {
    let mut tickets = tickets(limits(None, &[(shared.clone(), 1)]), 10_000);
    assert_eq!(tickets.opened("first", claim("o", &["x"])), ["first"]);
    for n in 0..CLASSES {
        let mut tags: Vec<String> =
            (0..12).filter(|bit| n >> bit & 1 == 1).map(|bit| format!("t{bit}")).collect();
        tags.push("x".to_owned());
        let claim = TicketClaim { tags, ..claim(&format!("owner{}", n % 100), &[]) };
        assert!(tickets.opened(&format!("w{n}"), claim).is_empty());
    }
    assert_eq!(tickets.classes.len(), CLASSES);
    tickets.lineup.examined = 0;
    assert_eq!(tickets.closed("first"), ["w0"]);
    tickets.lineup.examined
}

#[test]
fn a_grant_examines_few_of_many_waiting_queues() {
    for shared in [LimitKey::All, tag("x"), LimitKey::Pool("p".into())] {
        let looks = looks_of_a_close(&shared);
        assert!(looks < 100, "{shared}: {looks}");
    }
}

proptest! {
    #[test]
    fn no_pool_forgets_a_ticket(
        events in prop::collection::vec((0..5_u8, 0..30_u8, wanted()), 1..150)
    ) {
        let mut tickets = tickets(shared(), 1000);
        let mut beside = [0_u32; POOLS.len()];
        for (what, name, wanted) in events {
            let (name, pool) = (id(&format!("t{name}")), wanted.1);
            match what {
                0 => drop(tickets.close(&name, at(0))),
                1 => {
                    beside[pool] += 1;
                    tickets.occupy(POOLS[pool]);
                }
                2 if beside[pool] > 0 => {
                    beside[pool] -= 1;
                    tickets.vacate(POOLS[pool], at(0));
                }
                _ => drop(tickets.open(&name, claim_of(wanted), at(0))),
            }
            check(&tickets);
        }
    }

    #[test]
    fn waiting_is_bounded_despite_other_pools(
        flow in prop::collection::vec((0..4_u8, 0..POOLS.len(), 0..2_u8, any::<bool>()), 3000),
        (pool, tagged) in (0..POOLS.len(), 0..2_u8),
    ) {
        let others = flow.iter().enumerate().map(|(number, (owner, pool, tagged, raised))| {
            claim_of((*owner, *pool, 1, 1, *tagged, *raised && number % 4 == 0))
        });
        let mine = claim_of((9, pool, 1, 1, tagged, false));
        let granted = is_granted(tickets(shared(), 10_000), &mine, others);
        prop_assert!(granted, "it waited for {} grants", flow.len() - BEFORE);
    }
}
