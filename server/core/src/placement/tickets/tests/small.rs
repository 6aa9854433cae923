//! Every schedule of a few tickets, not only some: all sequences of events up to a length, each state checked.

use std::collections::HashSet;

use super::{
    schedules::{check, held},
    *,
};

/// Two owners with two tickets each, of which some need one tag and some two.
const WANTED: [(&str, &str, &[&str]); 4] =
    [("a0", "a", &["x"]), ("a1", "a", &["x", "y"]), ("b0", "b", &["y"]), ("b1", "b", &[])];

#[derive(Debug, Clone, Copy)]
enum Step {
    Open(usize),
    Close(usize),
    Begin(usize),
    End(usize),
    /// Time passes until what is not heard of is gone.
    Expire,
    /// The limits change.
    Limit(u32),
    Restart,
}

fn steps() -> impl Iterator<Item = Step> {
    let each = |step: fn(usize) -> Step| (0..WANTED.len()).map(step);
    each(Step::Open).chain(each(Step::Close)).chain(each(Step::Begin)).chain(each(Step::End)).chain([
        Step::Expire,
        Step::Limit(1),
        Step::Limit(2),
        Step::Restart,
    ])
}

fn with_all(all: u32) -> TicketTerms {
    terms(limits(Some(1), &[(LimitKey::All, all), (tag("x"), 1), (tag("y"), 1)]), 100)
}

/// A state as a list of what led to it cannot be compared; what is in it can.
fn picture(tickets: &Tickets) -> String {
    let mut lines: Vec<String> = tickets
        .iter()
        .map(|t| format!("{} {} {} {} {:?}", t.id, t.round, t.number, t.granted_unix_ms.is_some(), t.attempt))
        .collect();
    lines.sort();
    format!(
        "{lines:?} {} {} {:?}",
        tickets.round,
        tickets.next,
        tickets.terms.limits.limit_of(&LimitKey::All)
    )
}

fn apply(tickets: &mut Tickets, step: Step, now: &mut u64) -> Vec<TicketChange> {
    let named = |n: usize| id(WANTED[n].0);
    let attempt = |n: usize| AttemptId::parse(WANTED[n].0).unwrap();
    match step {
        Step::Open(n) => tickets.open(&named(n), claim(WANTED[n].1, WANTED[n].2), at(*now)).unwrap(),
        Step::Close(n) => tickets.close(&named(n), at(*now)).unwrap_or_default(),
        Step::Begin(n) => {
            tickets.begin(&named(n), &attempt(n));
            Vec::new()
        }
        Step::End(n) => tickets.end(&named(n), &attempt(n), at(*now)),
        Step::Expire => {
            *now += 2 * PATIENT.start_within_ms;
            tickets.expire(100, at(*now))
        }
        Step::Limit(all) => tickets.limit(with_all(all), at(*now)),
        Step::Restart => {
            let kept: Vec<Ticket> = tickets.iter().cloned().collect();
            *tickets = Tickets::new(tickets.terms.clone());
            tickets.taken_up(kept, at(*now))
        }
    }
}

/// Runs a schedule from the start: the machine is not copied, so that it needs no way to be.
fn run(schedule: &[Step]) -> Tickets {
    let (mut machine, mut now) = (Tickets::new(with_all(2)), 0);
    let mut has_place: HashSet<TicketId> = HashSet::new();
    for (n, step) in schedule.iter().enumerate() {
        let before = held(&machine);
        for change in apply(&mut machine, *step, &mut now) {
            match change {
                TicketChange::Granted(id) => assert!(has_place.insert(id), "granted twice: {schedule:?}"),
                TicketChange::Ended(ticket, _) => drop(has_place.remove(&ticket.id)),
            }
        }
        if n + 1 == schedule.len() {
            check(&machine, &before);
            let holds: HashSet<TicketId> =
                machine.iter().filter(|t| t.granted_unix_ms.is_some()).map(|t| t.id.clone()).collect();
            assert_eq!(holds, has_place, "{schedule:?}");
        }
    }
    machine
}

#[test]
fn no_schedule_of_a_few_tickets_breaks_a_limit_grants_twice_or_leaks_a_place() {
    let mut seen = HashSet::new();
    let mut reached: Vec<Vec<Step>> = vec![Vec::new()];
    for _ in 0..6 {
        let longer = |schedule: &Vec<Step>| {
            let schedule = schedule.clone();
            steps().map(move |step| [schedule.as_slice(), &[step]].concat())
        };
        let next = reached.iter().flat_map(longer).filter(|schedule| seen.insert(picture(&run(schedule))));
        reached = next.collect();
    }
    // what is left of each of them ends, and nothing stays
    for schedule in &reached {
        let mut machine = run(schedule);
        let open: Vec<TicketId> = machine.iter().map(|ticket| ticket.id.clone()).collect();
        for id in open {
            machine.close(&id, at(0)).unwrap();
        }
        assert!(machine.leaves_nothing(), "{schedule:?}");
    }
    assert!(seen.len() > 2000, "{} states", seen.len());
}
