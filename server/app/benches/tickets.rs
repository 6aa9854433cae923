//! Time of one decision about tickets while 100,000 are open: open, close with the grant that it makes, a heartbeat's end, where a ticket
//! stands. Limit for the 99th of 100: 1 ms; for the rate: 1,000 changes a second on one core.
//!
//! `cargo bench -p plimsoll-server --bench tickets`

#[path = "parts/mix.rs"]
mod mix;

use std::{
    collections::VecDeque,
    io::{self, Write as _},
    process::ExitCode,
    time::{Duration, Instant},
};

use mix::mix;
use plimsoll_core::{
    domain::{Bytes, Millis, TicketClaim, TicketId},
    placement::tickets::{ClockReading, LimitKey, TicketChange, TicketLimits, TicketTerms, Tickets},
};

const OPEN: u32 = 100_000;
const OWNERS: u64 = 500;
const POOLS: u64 = 16;
const ROUNDS: u32 = 50_000;
const LIMIT: Duration = Duration::from_millis(1);
/// Changes a second.
const RATE: f64 = 1000.0;

fn now(n: u64) -> ClockReading {
    ClockReading { unix_ms: 1_700_000_000_000 + n, steady_ms: n }
}

/// One in `of`, as these bits fall.
fn one_in(of: u64, bits: u64) -> bool {
    bits.is_multiple_of(of)
}

/// A few owners have most tickets, as in life.
fn claim(n: u64) -> TicketClaim {
    let random = mix(n);
    let owner = (random % OWNERS) * (random >> 32 & 1023) / 1023;
    let tags = (0..4).filter(|bit| one_in(8, random >> (40 + bit))).map(|bit| format!("tag-{bit}"));
    TicketClaim {
        owner: format!("owner-{owner}"),
        pool: format!("pool-{}", random >> 8 & (POOLS - 1)),
        arch: (if one_in(4, random >> 16) { "aarch64" } else { "x86_64" }).to_owned(),
        kind: match random >> 20 & 3 {
            0 => "explicit",
            1 => "auto",
            2 => "scratch",
            _ => "isolated",
        }
        .to_owned(),
        tags: tags.collect(),
        raised: one_in(64, random >> 50),
        memory: Bytes(1 << 30),
        milli_cores: 2000,
        wall: Millis(60_000 + random % 3_600_000),
        ..TicketClaim::default()
    }
}

/// Everything is limited, so that everything is looked at.
fn terms() -> TicketTerms {
    let mut most = vec![(LimitKey::All, 2000)];
    most.extend((0..POOLS).map(|pool| (LimitKey::Pool(format!("pool-{pool}")), 150)));
    most.extend(["auto", "scratch"].map(|kind| (LimitKey::Kind(kind.to_owned()), 500)));
    most.extend((0..4).map(|tag| (LimitKey::Tag(format!("tag-{tag}")), 300)));
    most.push((LimitKey::Arch("aarch64".to_owned()), 600));
    let pools = (0..POOLS).map(|pool| format!("pool-{pool}")).collect();
    let limits = TicketLimits { each_owner: Some(50), other_limits: most.into_iter().collect(), pools };
    TicketTerms { limits, most_open: 200_000, ..TicketTerms::default() }
}

fn id(n: u64) -> TicketId {
    #[expect(clippy::expect_used, reason = "digits are an id")]
    TicketId::parse(&n.to_string()).expect("an id")
}

/// Those that hold, in the order of their grants.
fn note(held: &mut VecDeque<TicketId>, changes: Vec<TicketChange>) {
    held.extend(changes.into_iter().filter_map(|change| match change {
        TicketChange::Granted(id) => Some(id),
        TicketChange::Ended(..) => None,
    }));
}

/// Says the times of one kind of decision; whether they are within the limit.
fn tell(what: &str, mut times: Vec<Duration>) -> io::Result<bool> {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 1000).copied().unwrap_or(Duration::MAX);
    let longest = times.last().copied().unwrap_or_default();
    writeln!(
        io::stdout(),
        "{what}: median {:.1?}, p99 {:.1?}, p99.9 {:.1?}, longest {longest:.1?}; limit for p99 {LIMIT:?}",
        at(500),
        at(990),
        at(999),
    )?;
    Ok(at(990) < LIMIT)
}

fn main() -> io::Result<ExitCode> {
    let (mut tickets, mut held) = (Tickets::new(terms()), VecDeque::new());
    let began = Instant::now();
    for n in 0..u64::from(OPEN) {
        note(&mut held, tickets.open(&id(n), claim(n), now(n)).unwrap_or_default());
    }
    let filled = f64::from(OPEN) / began.elapsed().as_secs_f64();
    writeln!(
        io::stdout(),
        "{} open, {} of them hold a place; opened at {filled:.0}/s",
        tickets.len(),
        held.len()
    )?;
    let (mut opened, mut closed, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    let began = Instant::now();
    for n in (OPEN..OPEN + ROUNDS).map(u64::from) {
        let (new, claim) = (id(n), claim(n));
        let before = Instant::now();
        let changes = tickets.open(&new, claim, now(n)).unwrap_or_default();
        opened.push(before.elapsed());
        note(&mut held, changes);
        let before = Instant::now();
        std::hint::black_box(tickets.status(&new, now(n)));
        asked.push(before.elapsed());
        let Some(done) = held.pop_front() else { continue };
        let before = Instant::now();
        let changes = tickets.close(&done, now(n)).unwrap_or_default();
        closed.push(before.elapsed());
        note(&mut held, changes);
    }
    let rate = 2.0 * f64::from(ROUNDS) / began.elapsed().as_secs_f64();
    let within = [
        tell("opened, and granted or put in line", opened)?,
        tell("closed, and the place granted to the next", closed)?,
        tell("told its position and its time", asked)?,
    ];
    writeln!(io::stdout(), "{} open; {rate:.0} changes a second; limit {RATE}", tickets.len())?;
    let all = within.into_iter().all(|within| within) && rate >= RATE;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
