//! No schedule of opens, closes, expiries, other limits and restarts breaks a limit, loses a ticket or starves an owner.

use proptest::prelude::*;

use super::*;
use crate::placement::Kind;

const SOON: u64 = 100;

fn claim(owner: &str, tags: &[&str]) -> Claim {
    Claim {
        owner: owner.into(),
        pool: "p".into(),
        arch: String::new(),
        kind: Kind::Explicit,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    }
}

fn limits(each_owner: Option<u32>, most: &[(Counter, u32)]) -> Limits {
    Limits { each_owner, most: most.iter().cloned().collect() }
}

fn tag(name: &str) -> Counter {
    Counter::Tag(name.to_owned())
}

fn granted(changes: &[Change]) -> Vec<&str> {
    let names = changes.iter().filter_map(|change| match change {
        Change::Granted(id) => Some(id.as_str()),
        Change::Expired(_) => None,
    });
    names.collect()
}

#[test]
fn a_thousand_jobs_of_one_owner_do_not_starve_the_first_of_another() {
    let mut tickets = Tickets::new(limits(None, &[(Counter::All, 2)]), 10_000);
    for n in 0..1000 {
        tickets.open(&format!("a{n}"), claim("a", &[]), SOON).unwrap();
    }
    assert!(tickets.open("b0", claim("b", &[]), SOON).unwrap().is_empty());
    tickets.open("b1", claim("b", &[]), SOON).unwrap();
    let first = tickets.close("a0", "a").unwrap();
    let second = tickets.close("a1", "a").unwrap();
    let all = [granted(&first), granted(&second)].concat();
    assert!(all.contains(&"b0"), "{all:?}");
    assert!(tickets.ahead("b1") <= 3, "{}", tickets.ahead("b1"));
    assert_eq!(tickets.estimate("b0", Millis(10)), Some(Millis(0)));
}

#[test]
fn those_who_come_later_do_not_pass_those_who_wait() {
    let mut tickets = Tickets::new(limits(None, &[(Counter::All, 1)]), 10_000);
    tickets.open("old0", claim("old", &[]), SOON).unwrap();
    tickets.open("old1", claim("old", &[]), SOON).unwrap();
    let mut running = "old0".to_owned();
    for n in 0..20 {
        // somebody new each time
        tickets.open(&format!("new{n}"), claim(&format!("new{n}"), &[]), SOON).unwrap();
        let owner = tickets.get(&running).unwrap().claim.owner.clone();
        let changes = tickets.close(&running, &owner).unwrap();
        granted(&changes)[0].clone_into(&mut running);
        if running == "old1" {
            return;
        }
    }
    panic!("20 newcomers passed it");
}

#[test]
fn a_ticket_that_needs_two_places_is_not_passed_over_for_ever() {
    let mut tickets = Tickets::new(limits(None, &[(tag("x"), 1), (tag("y"), 1)]), 10_000);
    let mut open = vec!["x0".to_owned(), "y0".to_owned()];
    tickets.open("x0", claim("u", &["x"]), SOON).unwrap();
    tickets.open("y0", claim("v", &["y"]), SOON).unwrap();
    tickets.open("both", claim("w", &["x", "y"]), SOON).unwrap();
    for n in 1..10 * PATIENCE {
        // one of each waits always, and they end in turns: never are both places free at once
        let (kind, owner) = if n % 2 == 0 { ("x", "u") } else { ("y", "v") };
        tickets.open(&format!("{kind}{n}"), claim(owner, &[kind]), SOON).unwrap();
        let at = open.iter().position(|id| id.starts_with(kind));
        let Some(at) = at else { continue };
        let changes = tickets.close(&open.remove(at), owner).unwrap();
        open.extend(granted(&changes).into_iter().map(ToOwned::to_owned));
        if open.iter().any(|id| id == "both") {
            return;
        }
    }
    panic!("passed over {} times", 10 * PATIENCE);
}

#[test]
fn what_is_wrong_changes_nothing_and_says_why() {
    let mut tickets = Tickets::new(limits(None, &[(tag("off"), 0)]), 2);
    assert_eq!(granted(&tickets.open("a", claim("o", &[]), SOON).unwrap()), ["a"]);
    // the same again is the same ticket, and is granted once
    assert_eq!(tickets.open("a", claim("o", &[]), SOON), Ok(Vec::new()));
    assert_eq!(tickets.open("a", claim("other", &[]), SOON), Err(Refused::Taken("a".into())));
    assert_eq!(tickets.open("b", claim("o", &["off"]), SOON), Err(Refused::Never("tag off".into())));
    assert_eq!(tickets.close("a", "other"), Err(Refused::NotYours("a".into())));
    assert_eq!(tickets.close("b", "o"), Err(Refused::Unknown("b".into())));
    assert_eq!(tickets.hear("b", 1), Err(Refused::Unknown("b".into())));
    tickets.open("c", claim("o", &[]), SOON).unwrap();
    assert_eq!(tickets.open("d", claim("o", &[]), SOON), Err(Refused::Full(2)));
    assert_eq!((tickets.iter().count(), tickets.held(&Counter::All)), (2, 2));
}

#[test]
fn a_ticket_that_nobody_is_heard_of_gives_its_place_back() {
    let mut tickets = Tickets::new(limits(Some(1), &[]), 10);
    for (id, until) in [("a", 10), ("b", 20)] {
        tickets.open(id, claim("o", &[]), until).unwrap();
    }
    assert_eq!(tickets.expire(10), []);
    tickets.hear("b", 40).unwrap();
    assert_eq!(tickets.expire(30), [Change::Expired("a".into()), Change::Granted("b".into())]);
    assert_eq!(tickets.expire(41), [Change::Expired("b".into())]);
    assert!(tickets.owners.is_empty() && tickets.held.is_empty() && tickets.deadlines.is_empty());
}

/// What may happen.
#[derive(Debug, Clone)]
enum Event {
    Open { id: u8, owner: u8, kind: u8, tags: u8, until: u64 },
    Close { id: u8 },
    Hear { id: u8, until: u64 },
    Expire { now: u64 },
    Limit { all: u32, owner: u32, tag: u32, kind: u32 },
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..40_u8, 0..4_u8, 0..2_u8, 0..4_u8, 0..100_u64)
            .prop_map(|(id, owner, kind, tags, until)| Event::Open { id, owner, kind, tags, until }),
        4 => (0..40_u8).prop_map(|id| Event::Close { id }),
        1 => (0..40_u8, 0..200_u64).prop_map(|(id, until)| Event::Hear { id, until }),
        1 => (0..100_u64).prop_map(|now| Event::Expire { now }),
        1 => (1..6_u32, 1..4_u32, 1..3_u32, 1..4_u32)
            .prop_map(|(all, owner, tag, kind)| Event::Limit { all, owner, tag, kind }),
        1 => Just(Event::Restart),
    ]
}

fn some_limits(all: u32, owner: u32, of_tag: u32, kind: u32) -> Limits {
    let most = [(Counter::All, all), (tag("x"), of_tag), (Counter::Kind(Kind::Auto), kind)];
    limits(Some(owner), &most)
}

fn some_claim(owner: u8, kind: u8, tags: u8) -> Claim {
    let tags: Vec<&str> =
        [("x", 1), ("y", 2)].into_iter().filter(|(_, bit)| tags & bit > 0).map(|(name, _)| name).collect();
    let kind = if kind == 0 { Kind::Explicit } else { Kind::Auto };
    Claim { kind, ..claim(&format!("owner{owner}"), &tags) }
}

/// What holds at every moment. `before` are the counts before the event.
fn check(tickets: &Tickets, before: &HashMap<Counter, u32>) {
    let mut held: HashMap<Counter, u32> = HashMap::new();
    for (_, ticket) in tickets.iter().filter(|(_, ticket)| ticket.standing == Standing::Granted) {
        for counter in ticket.claim.counters() {
            *held.entry(counter).or_default() += 1;
        }
    }
    assert_eq!(held, tickets.held, "counts are those of the tickets");
    for (counter, count) in &held {
        let over = tickets.limits.of(counter).is_some_and(|most| *count > most);
        // a limit that was lowered takes nobody's place; nobody new gets one
        assert!(!over || before.get(counter).is_some_and(|was| was >= count), "{counter}: {count}");
    }
    let waiting = tickets.iter().filter(|(_, ticket)| ticket.standing == Standing::Waiting);
    let could =
        waiting.filter(|(_, ticket)| ticket.claim.counters().all(|counter| tickets.has_room(&counter)));
    let kept = tickets.classes.iter().any(|class| class.passed >= PATIENCE);
    assert!(kept || could.count() == 0, "somebody waits although there is a place");
}

proptest! {
    #[test]
    fn no_schedule_breaks_a_limit_or_loses_a_ticket(events in prop::collection::vec(event(), 1..120)) {
        let mut tickets = Tickets::new(some_limits(3, 2, 1, 2), 30);
        let mut expected: HashMap<TicketId, (Claim, Standing)> = HashMap::new();
        for event in events {
            let before = tickets.held.clone();
            let changes = match event {
                Event::Open { id, owner, kind, tags, until } => {
                    let (id, claim) = (format!("t{id}"), some_claim(owner, kind, tags));
                    let opened = tickets.open(&id, claim.clone(), until);
                    if opened.is_ok() {
                        expected.entry(id).or_insert((claim, Standing::Waiting));
                    }
                    opened.unwrap_or_default()
                }
                Event::Close { id } => {
                    let id = format!("t{id}");
                    let owner = tickets.get(&id).map(|ticket| ticket.claim.owner.clone()).unwrap_or_default();
                    let closed = tickets.close(&id, &owner);
                    prop_assert_eq!(closed.is_ok(), expected.remove(&id).is_some());
                    closed.unwrap_or_default()
                }
                Event::Hear { id, until } => {
                    let id = format!("t{id}");
                    prop_assert_eq!(tickets.hear(&id, until).is_ok(), expected.contains_key(&id));
                    Vec::new()
                }
                Event::Expire { now } => tickets.expire(now),
                Event::Limit { all, owner, tag, kind } => tickets.limit(some_limits(all, owner, tag, kind)),
                Event::Restart => {
                    let kept: Vec<_> = tickets.iter().map(|(id, ticket)| (id.clone(), ticket.clone())).collect();
                    tickets = Tickets::new(tickets.limits.clone(), 30);
                    tickets.restore(kept)
                }
            };
            for change in changes {
                match change {
                    Change::Granted(id) => {
                        let was = expected.get_mut(&id).expect("an open ticket");
                        prop_assert_eq!(was.1, Standing::Waiting, "granted twice");
                        was.1 = Standing::Granted;
                    }
                    Change::Expired(id) => prop_assert!(expected.remove(&id).is_some()),
                }
            }
            let now: HashMap<_, _> =
                tickets.iter().map(|(id, ticket)| (id.clone(), (ticket.claim.clone(), ticket.standing))).collect();
            prop_assert_eq!(&now, &expected);
            check(&tickets, &before);
        }
        // everybody gets a place when those who have one end
        let mut left: Vec<TicketId> = expected.keys().cloned().collect();
        left.sort();
        for _ in 0..left.len() {
            let holds = |id: &&TicketId| tickets.get(id).is_some_and(|ticket| ticket.standing == Standing::Granted);
            let Some(done) = left.iter().find(holds).cloned() else { break };
            let owner = tickets.get(&done).unwrap().claim.owner.clone();
            tickets.close(&done, &owner).unwrap();
            left.retain(|id| *id != done);
        }
        prop_assert!(left.is_empty(), "never granted: {:?}", left);
        prop_assert!(tickets.held.is_empty() && tickets.owners.is_empty() && tickets.classes.is_empty());
    }

    #[test]
    fn whoever_waits_is_granted_within_a_bound_whatever_the_others_do(
        flow in prop::collection::vec((0..5_u8, 0..2_u8, 0..4_u8), 3000),
        mine in 0..4_u8,
    ) {
        let mut tickets = Tickets::new(some_limits(3, 2, 1, 2), 10_000);
        let mut running: std::collections::VecDeque<TicketId> = std::collections::VecDeque::new();
        for (number, (owner, kind, tags)) in flow.iter().enumerate() {
            if number == 50 {
                running.extend(granted(&tickets.open("mine", some_claim(9, 1, mine), SOON).unwrap()).into_iter().map(str::to_owned));
            }
            // the others never stop asking, and end in the order in which they began
            let opened = tickets.open(&format!("t{number}"), some_claim(*owner, *kind, *tags), SOON).unwrap();
            running.extend(granted(&opened).into_iter().map(str::to_owned));
            let Some(first) = running.pop_front() else { continue };
            if first == "mine" {
                return Ok(());
            }
            let owner = tickets.get(&first).unwrap().claim.owner.clone();
            let closed = tickets.close(&first, &owner).unwrap();
            running.extend(granted(&closed).into_iter().map(str::to_owned));
        }
        prop_assert!(false, "it waited for {} grants", flow.len() - 50);
    }
}
