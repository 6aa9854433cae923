//! No schedule of opens, closes, expiries, attempts, other limits and restarts breaks a limit, loses a ticket or starves an owner.

use proptest::prelude::*;

use super::*;

/// What may happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    Open {
        name: u8,
        owner: u8,
        kind: u8,
        tags: u8,
        raised: bool,
    },
    Close {
        name: u8,
    },
    Ask {
        name: u8,
    },
    Watch {
        name: u8,
        holds: bool,
    },
    Unwatch {
        name: u8,
        held: bool,
    },
    Begin {
        name: u8,
    },
    End {
        name: u8,
    },
    Pass {
        ms: u64,
    },
    Limit {
        all: u32,
        owner: u32,
        tag: u32,
        kind: u32,
        pool: u32,
    },
    /// An attempt begins, or ends, without a ticket.
    Occupy,
    Vacate,
    /// The attempt ends, and another try may follow in its place.
    Leave {
        name: u8,
    },
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let (name, yes) = (0..40_u8, any::<bool>());
    prop_oneof![
        8 => (name.clone(), 0..4_u8, 0..2_u8, 0..4_u8, 0..8_u8)
            .prop_map(|(name, owner, kind, tags, raised)| Event::Open { name, owner, kind, tags, raised: raised == 0 }),
        4 => name.clone().prop_map(|name| Event::Close { name }),
        1 => name.clone().prop_map(|name| Event::Ask { name }),
        1 => (name.clone(), yes).prop_map(|(name, holds)| Event::Watch { name, holds }),
        1 => (name.clone(), yes).prop_map(|(name, held)| Event::Unwatch { name, held }),
        2 => name.clone().prop_map(|name| Event::Begin { name }),
        1 => name.clone().prop_map(|name| Event::End { name }),
        1 => name.prop_map(|name| Event::Leave { name }),
        1 => Just(Event::Occupy),
        1 => Just(Event::Vacate),
        2 => (1..400_u64).prop_map(|ms| Event::Pass { ms }),
        1 => (1..6_u32, 1..4_u32, 1..3_u32, 1..4_u32, 1..6_u32)
            .prop_map(|(all, owner, tag, kind, pool)| Event::Limit { all, owner, tag, kind, pool }),
        1 => Just(Event::Restart),
    ]
}

fn some_limits(all: u32, owner: u32, of_tag: u32, kind: u32, pool: u32) -> TicketLimits {
    let (auto, pool) = ((LimitKey::Kind("auto".into()), kind), (LimitKey::Pool("p".into()), pool));
    limits(Some(owner), &[(LimitKey::All, all), (tag("x"), of_tag), auto, pool])
}

fn some_claim(owner: u8, kind: u8, tags: u8) -> TicketClaim {
    let tags: Vec<&str> =
        [("x", 1), ("y", 2)].into_iter().filter(|(_, bit)| tags & bit > 0).map(|(name, _)| name).collect();
    let kind = if kind == 0 { "explicit" } else { "auto" };
    TicketClaim {
        kind: kind.into(),
        wall: Millis(u64::from(owner) * 7),
        ..claim(&format!("owner{owner}"), &tags)
    }
}

fn attempt(name: u8) -> AttemptId {
    AttemptId::parse(&format!("attempt{name}")).unwrap()
}

/// How many hold, counted anew.
pub(super) fn held(tickets: &Tickets) -> HashMap<LimitKey, u32> {
    let mut held: HashMap<LimitKey, u32> = HashMap::new();
    for ticket in tickets.iter().filter(|ticket| ticket.granted_unix_ms.is_some()) {
        for counter in claim::scopes_with_owner(&ticket.claim) {
            *held.entry(counter).or_default() += 1;
        }
    }
    held
}

/// What holds at every moment. `before` are the counts before the event.
pub(super) fn check(tickets: &Tickets, before: &HashMap<LimitKey, u32>) {
    let held = held(tickets);
    for count in tickets.counts.iter() {
        assert_eq!(held.get(&count.scope).copied().unwrap_or(0), count.held.slots, "{}", count.scope);
        assert_eq!(count.predicted_ends.len(), count.held.slots as usize);
        assert_eq!(count.waiting.len(), count.queued.slots as usize);
    }
    let beside = |counter: &LimitKey| tickets.counts.unticketed(counter);
    for (counter, count) in &held {
        let over = tickets.terms.limits.limit_of(counter).is_some_and(|most| *count + beside(counter) > most);
        // a limit that was lowered, and who comes without a ticket, take no other's place; no new one is granted
        assert!(!over || before.get(counter).is_some_and(|was| was >= count), "{counter}: {count}");
    }
    let has_room = |counter: LimitKey| {
        let taken = held.get(&counter).copied().unwrap_or(0) + beside(&counter);
        tickets.terms.limits.limit_of(&counter).is_none_or(|most| taken < most)
    };
    let waiting = tickets.iter().filter(|ticket| ticket.granted_unix_ms.is_none());
    let could = waiting.filter(|ticket| claim::scopes_with_owner(&ticket.claim).all(has_room));
    let kept = tickets.classes.iter().any(|(_, class)| class.passed_over >= MAX_PASSED_OVER);
    assert!(kept || could.count() == 0, "one waits although there is a place");
    assert!(tickets.classes.iter().all(|(at, class)| class.first().is_none()
        || tickets.lineup.overdue().chain(tickets.lineup.all_not_overdue()).any(|seated| seated == at)));
    check_status(tickets);
}

/// Positions are those that counting gives.
fn check_status(tickets: &Tickets) {
    let mut waiting: Vec<&Ticket> =
        tickets.iter().filter(|ticket| ticket.granted_unix_ms.is_none()).collect();
    waiting.sort_by_key(|ticket| (ticket.round, ticket.number));
    for (n, ticket) in waiting.iter().enumerate() {
        assert_eq!(tickets.status(&ticket.id, at(0)).unwrap().position, n + 1);
    }
}

/// The machine, and what is expected of it.
struct Run {
    tickets: Tickets,
    open: HashMap<TicketId, (TicketClaim, bool)>,
    /// Attempts without a ticket: a restart finds them again.
    beside: u32,
    now: u64,
}

impl Run {
    fn apply(&mut self, event: Event) -> Vec<TicketChange> {
        let now = at(self.now);
        let tickets = &mut self.tickets;
        let named = |name: u8| id(&format!("t{name}"));
        match event {
            Event::Open { name, owner, kind, tags, raised } => {
                let claim = TicketClaim { raised, ..some_claim(owner, kind, tags) };
                let opened = tickets.open(&named(name), claim.clone(), now);
                if opened.is_ok() {
                    self.open.entry(named(name)).or_insert((claim, false));
                }
                opened.unwrap_or_default()
            }
            Event::Close { name } => {
                let closed = tickets.close(&named(name), now);
                assert_eq!(closed.is_ok(), self.open.contains_key(&named(name)));
                closed.unwrap_or_default()
            }
            Event::Ask { name } => {
                tickets.ask(&named(name), now);
                Vec::new()
            }
            Event::Watch { name, holds } => {
                assert_eq!(tickets.watch(&named(name), holds, now), self.open.contains_key(&named(name)));
                Vec::new()
            }
            Event::Unwatch { name, held } => {
                let number = tickets.get(&named(name)).map_or(0, |ticket| ticket.number);
                tickets.unwatch(&named(name), number, held, now);
                Vec::new()
            }
            Event::Begin { name } => {
                tickets.begin(&named(name), &attempt(name));
                Vec::new()
            }
            Event::End { name } => tickets.end(&named(name), &attempt(name), now),
            Event::Pass { ms } => {
                self.now += ms;
                tickets.expire(1000, at(self.now))
            }
            Event::Limit { all, owner, tag, kind, pool } => {
                tickets.limit(terms(some_limits(all, owner, tag, kind, pool), 30), now)
            }
            Event::Leave { name } => {
                tickets.vacate_for_retry(&named(name), &attempt(name), now);
                Vec::new()
            }
            Event::Occupy => self.occupy(),
            Event::Vacate => self.vacate(now),
            Event::Restart => {
                let kept: Vec<Ticket> = tickets.iter().cloned().collect();
                *tickets = Tickets::new(tickets.terms.clone());
                tickets.restore(kept, now);
                (0..self.beside).for_each(|_| tickets.occupy("p"));
                tickets.grant(now)
            }
        }
    }

    fn occupy(&mut self) -> Vec<TicketChange> {
        self.beside += 1;
        self.tickets.occupy("p");
        Vec::new()
    }

    fn vacate(&mut self, now: ClockReading) -> Vec<TicketChange> {
        if self.beside == 0 {
            return Vec::new();
        }
        self.beside -= 1;
        self.tickets.vacate("p", now)
    }

    fn expect(&mut self, changes: Vec<TicketChange>) {
        for change in changes {
            match change {
                TicketChange::Granted(id) => {
                    let was = self.open.get_mut(&id).expect("an open ticket");
                    assert!(!was.1, "{id} is granted twice");
                    was.1 = true;
                }
                TicketChange::Ended(ticket, _) => {
                    assert!(self.open.remove(&ticket.id).is_some(), "{} ends twice", ticket.id);
                }
            }
        }
        let of =
            |ticket: &Ticket| (ticket.id.clone(), (ticket.claim.clone(), ticket.granted_unix_ms.is_some()));
        let now: HashMap<_, _> = self.tickets.iter().map(of).collect();
        assert_eq!(now, self.open);
    }
}

proptest! {
    #[test]
    fn no_schedule_breaks_limits_or_loses_tickets(events in prop::collection::vec(event(), 1..120)) {
        let tickets = tickets(some_limits(3, 2, 1, 2, 3), 30);
        let mut run = Run { tickets, open: HashMap::new(), beside: 0, now: 0 };
        for event in events {
            let before = held(&run.tickets);
            let changes = run.apply(event);
            run.expect(changes);
            check(&run.tickets, &before);
        }
        // every ticket gets a place when those that have one end
        while run.beside > 0 {
            run.apply(Event::Vacate);
        }
        let mut left: Vec<TicketId> = run.open.keys().cloned().collect();
        left.sort();
        for _ in 0..left.len() {
            let holds = |id: &&TicketId| run.tickets.get(id).is_some_and(|ticket| ticket.granted_unix_ms.is_some());
            let Some(done) = left.iter().find(holds).cloned() else { break };
            run.tickets.close(&done, at(run.now)).unwrap();
            left.retain(|id| *id != done);
        }
        prop_assert!(left.is_empty(), "never granted: {:?}", left);
        prop_assert!(run.tickets.leaves_nothing());
    }

    #[test]
    fn every_inactive_ticket_eventually_expires(events in prop::collection::vec(event(), 1..120)) {
        let tickets = tickets(some_limits(3, 2, 1, 2, 3), 30);
        let mut run = Run { tickets, open: HashMap::new(), beside: 0, now: 0 };
        for event in events {
            let changes = run.apply(event);
            run.expect(changes);
        }
        // no one watches, and every attempt ends
        run.apply(Event::Restart);
        for name in 0..40 {
            run.apply(Event::End { name });
        }
        for _ in 0..100 {
            run.apply(Event::Pass { ms: 1001 });
        }
        prop_assert!(run.tickets.leaves_nothing());
    }

    #[test]
    fn waiting_is_bounded_despite_other_tickets(
        flow in prop::collection::vec((0..5_u8, 0..2_u8, 0..4_u8, 0..4_u8), 3000),
        mine in 0..4_u8,
    ) {
        let others = flow.iter().map(|(owner, kind, tags, raised)| {
            TicketClaim { raised: *raised == 0, ..some_claim(*owner, *kind, *tags) }
        });
        let tickets = tickets(some_limits(3, 2, 1, 2, 3), 10_000);
        let granted = is_granted(tickets, &some_claim(9, 1, mine), others);
        prop_assert!(granted, "it waited for {} grants", flow.len() - BEFORE);
    }
}
