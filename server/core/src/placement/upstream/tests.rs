//! Whatever ends when: each ticket upstream is in use or gets closed.

mod answers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::domain::{TicketId, UpstreamServer, UpstreamTicket};

const ADDRESS: &str = "http://resalloc:49100/RPC2";

fn server() -> UpstreamServer {
    UpstreamServer { address: ADDRESS.to_owned(), ..UpstreamServer::default() }
}

fn holder(number: u64) -> TicketHolder {
    (TicketId::parse(&format!("t{number}")).unwrap(), number)
}

/// A server upstream.
#[derive(Debug, Default)]
struct Upstream {
    last: u32,
    open: BTreeSet<u32>,
    ready: BTreeSet<u32>,
    failed: BTreeSet<u32>,
    forgotten: BTreeSet<u32>,
    /// Numbers that it has given out and does not show yet: their takes are not finished.
    unfinished: BTreeSet<u32>,
    /// Takes that it will see late, when their callers are gone.
    late: u32,
    /// When it sees all of them at the latest.
    late_until: u64,
}

impl Upstream {
    fn take(&mut self) -> u32 {
        self.last += 1;
        self.open.insert(self.last);
        self.last
    }

    fn take_late(&mut self) {
        for _ in 0..std::mem::take(&mut self.late) {
            self.take();
        }
    }

    fn collect(&self, number: u32) -> CollectAnswer {
        let hidden = [&self.forgotten, &self.unfinished];
        if number > self.last || hidden.iter().any(|hidden| hidden.contains(&number)) {
            CollectAnswer::Unknown
        } else if !self.open.contains(&number) {
            CollectAnswer::Closed
        } else if self.failed.contains(&number) {
            CollectAnswer::Failed
        } else if self.ready.contains(&number) {
            CollectAnswer::Ready(format!("machine {number}"))
        } else {
            CollectAnswer::Waits
        }
    }
}

/// What becomes of a call or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallFate {
    Done,
    CrashBeforeWrite,
    CrashBeforeCall,
    CrashAfterCall,
    CrashAfterWrite,
    NotSent,
    Lost,
    Late,
    Fault,
}

const FATES: [CallFate; 12] = [
    CallFate::Done,
    CallFate::Done,
    CallFate::Done,
    CallFate::Done,
    CallFate::CrashBeforeWrite,
    CallFate::CrashBeforeCall,
    CallFate::CrashAfterCall,
    CallFate::CrashAfterWrite,
    CallFate::NotSent,
    CallFate::Lost,
    CallFate::Late,
    CallFate::Fault,
];

/// A server with its disk, and the upstream.
#[derive(Debug)]
struct World {
    upstream: Upstream,
    server: UpstreamServer,
    tickets: BTreeMap<u32, UpstreamTicket>,
    open: BTreeSet<TicketHolder>,
    ledger: UpstreamLedger,
    wanted: VecDeque<TicketHolder>,
    opened: u64,
    now: u64,
}

impl World {
    fn new(given_out: u32) -> Self {
        let upstream = Upstream { last: given_out, ..Upstream::default() };
        let ledger = UpstreamLedger::new(server(), []);
        let (server, wanted) = (server(), VecDeque::new());
        let (tickets, open) = (BTreeMap::new(), BTreeSet::new());
        Self { upstream, server, tickets, open, ledger, wanted, opened: 0, now: 0 }
    }

    fn crash(&mut self) {
        self.ledger = UpstreamLedger::new(self.server.clone(), self.tickets.values().cloned());
        let holders: Vec<_> = self.ledger.tickets().filter_map(|ticket| ticket.holder.clone()).collect();
        for ended in holders.iter().filter(|holder| !self.open.contains(holder)) {
            self.ledger.release(ended);
        }
        self.wanted = self.open.iter().filter(|holder| !holders.contains(holder)).cloned().collect();
    }

    fn end(&mut self, holder: &TicketHolder) {
        self.open.remove(holder);
        self.wanted.retain(|other| other != holder);
        self.ledger.release(holder);
    }

    fn write(&mut self, writes: Vec<LedgerWrite>) {
        for write in writes {
            match write {
                LedgerWrite::Server(server) => self.server = server,
                LedgerWrite::Put(ticket) => drop(self.tickets.insert(ticket.number, ticket)),
                LedgerWrite::Delete(ticket) => drop(self.tickets.remove(&ticket.number)),
            }
        }
    }

    fn apply(&mut self, effects: LedgerEffects, fate: CallFate) {
        assert_eq!((effects.foreign, effects.restarted), (0, false), "this server is the only client");
        if [CallFate::CrashAfterCall, CallFate::CrashBeforeWrite].contains(&fate) {
            return self.crash();
        }
        self.write(effects.writes);
        if fate == CallFate::CrashAfterWrite {
            return self.crash();
        }
        for event in effects.events {
            match event {
                LedgerEvent::Ready(..) | LedgerEvent::Failed(_) => {}
                LedgerEvent::Gone(holder) => self.end(&holder),
                LedgerEvent::Again(holder) => self.wanted.push_back(holder),
            }
        }
    }

    fn step(&mut self, fate: CallFate) {
        if self.now >= self.upstream.late_until {
            self.upstream.take_late();
        }
        let step = self.ledger.next(!self.wanted.is_empty(), self.now);
        match step {
            LedgerStep::Wait(until) => self.now = until.max(self.now + 1),
            LedgerStep::Take => self.take(fate),
            LedgerStep::Close(number) => {
                let record = self.tickets.get(&number).and_then(|ticket| ticket.holder.as_ref());
                let in_use = record.filter(|holder| self.open.contains(holder));
                assert_eq!(in_use, None, "{number} is in use");
                match fate {
                    CallFate::CrashBeforeCall => self.crash(),
                    CallFate::NotSent => self.ledger.unreachable(self.now),
                    CallFate::Fault => self.ledger.fault(step, self.now),
                    CallFate::Lost | CallFate::Late => {
                        self.upstream.open.remove(&number);
                        self.ledger.no_answer(step, self.now);
                    }
                    _ => self.close(number, fate),
                }
            }
            _ if fate == CallFate::NotSent => self.ledger.unreachable(self.now),
            _ if fate == CallFate::Fault => self.ledger.fault(step, self.now),
            _ if [CallFate::Lost, CallFate::Late].contains(&fate) => self.ledger.no_answer(step, self.now),
            LedgerStep::Collect(number) => {
                let answer = self.upstream.collect(number);
                let effects = self.ledger.collected(number, answer, self.now);
                self.apply(effects, fate);
            }
            LedgerStep::Look(number) => {
                let is_given_out = self.upstream.collect(number) != CollectAnswer::Unknown;
                let effects = self.ledger.looked(number, is_given_out, self.now);
                self.apply(effects, fate);
            }
        }
    }

    fn close(&mut self, number: u32, fate: CallFate) {
        let is_unknown = self.upstream.collect(number) == CollectAnswer::Unknown;
        self.upstream.open.remove(&number);
        let effects = if is_unknown {
            self.ledger.unknown_at_close(number, self.now)
        } else {
            self.ledger.closed(number)
        };
        self.apply(effects, fate);
    }

    fn take(&mut self, fate: CallFate) {
        let Some(holder) = self.wanted.pop_front() else { return };
        let intended = self.ledger.intend();
        if fate == CallFate::CrashBeforeWrite {
            return self.crash();
        }
        self.write(vec![intended]);
        match fate {
            CallFate::CrashBeforeCall => return self.crash(),
            CallFate::NotSent | CallFate::Fault => self.ledger.not_taken(false, self.now),
            CallFate::Lost => {
                self.upstream.take();
                self.ledger.not_taken(true, self.now);
                self.ledger.no_answer(LedgerStep::Take, self.now);
            }
            CallFate::Late => {
                self.upstream.late += 1;
                self.upstream.late_until = self.now + 300_000;
                self.ledger.not_taken(true, self.now);
            }
            _ => {
                let number = self.upstream.take();
                let effects = self.ledger.taken(number, holder);
                return self.apply(effects, fate);
            }
        }
        self.wanted.push_front(holder);
    }

    fn disturb(&mut self, what: u8, which: u8) {
        let pick =
            |numbers: &BTreeSet<u32>| numbers.iter().nth(usize::from(which) % numbers.len().max(1)).copied();
        match what {
            0 => {
                self.opened += 1;
                self.open.insert(holder(self.opened));
                self.wanted.push_back(holder(self.opened));
            }
            1 => {
                let ended = self.open.iter().nth(usize::from(which) % self.open.len().max(1)).cloned();
                if let Some(holder) = ended {
                    self.end(&holder);
                }
            }
            2 => self.crash(),
            3 => self.now += 10_000,
            4 if self.upstream.late > 0 => {
                self.upstream.late -= 1;
                self.upstream.take();
            }
            5 => self.upstream.ready.extend(pick(&self.upstream.open)),
            6 => self.upstream.failed.extend(pick(&self.upstream.open)),
            7 => {
                let closed = pick(&self.upstream.open);
                self.upstream.open.retain(|number| Some(*number) != closed);
                self.upstream.forgotten.extend(closed.filter(|_| which.is_multiple_of(2)));
            }
            _ => {}
        }
    }

    fn settle(&mut self) {
        self.upstream.take_late();
        for _ in 0..3000 {
            if self.is_settled() {
                break;
            }
            self.upstream.ready.extend(&self.upstream.open);
            self.step(CallFate::Done);
        }
        (0..50).for_each(|_| self.step(CallFate::Done));
    }

    fn is_settled(&self) -> bool {
        let (held, open) = (self.tickets.len(), self.open.len());
        held == open && self.upstream.open.len() == open && self.ledger.counts().ready as usize == open
    }

    fn check(&self) {
        let held = self.tickets.values().filter_map(|ticket| {
            let holder = ticket.holder.as_ref().filter(|holder| self.open.contains(holder))?;
            Some((holder.clone(), ticket.number))
        });
        let held: Vec<(TicketHolder, u32)> = held.collect();
        let numbers: BTreeSet<u32> = held.iter().map(|(_, number)| *number).collect();
        assert_eq!(self.upstream.open, numbers, "open upstream, and in use");
        let holders: BTreeSet<TicketHolder> = held.iter().map(|(holder, _)| holder.clone()).collect();
        assert_eq!((holders.len(), &holders), (held.len(), &self.open), "each has one");
        assert!(self.tickets.values().all(|ticket| ticket.output.is_some()), "all are ready");
    }
}

#[test]
fn a_crashed_take_is_closed_and_repeated() {
    for fate in FATES {
        for steps in 0..12 {
            let mut world = World::new(5);
            world.disturb(0, 0);
            (0..steps).for_each(|_| world.step(CallFate::Done));
            world.step(fate);
            world.settle();
            world.check();
            assert_eq!(world.open.len(), 1, "{fate:?} {steps}");
        }
    }
}

#[test]
fn a_lost_number_is_closed_without_further_takes() {
    let mut world = World::new(1000);
    world.disturb(0, 0);
    while world.ledger.next(true, world.now) != LedgerStep::Take {
        world.step(CallFate::Done);
    }
    assert_eq!(world.server.last, Some(1000), "found by looking");
    world.step(CallFate::CrashAfterCall);
    world.disturb(1, 0);
    assert_eq!((world.upstream.open.len(), world.wanted.len()), (1, 0));
    world.settle();
    assert_eq!(world.upstream.open.len(), 0);
}

proptest! {
    #[test]
    fn every_upstream_ticket_is_used_or_closed(
        given_out in prop_oneof![Just(0_u32), 0..3000_u32],
        story in prop::collection::vec((0..20_u8, any::<u8>()), 0..300),
    ) {
        let mut world = World::new(given_out);
        for (what, which) in story {
            world.disturb(what, which);
            if what > 7 {
                world.step(FATES[usize::from(which) % FATES.len()]);
            }
        }
        world.settle();
        world.check();
    }
}
