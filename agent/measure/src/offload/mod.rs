//! Detects builds that have their work done elsewhere: by the daemon of docker, on the machines of distcc, in a cluster. For such a build,
//! the agent measures only the need of a client.
//!
//! Four times a second at first, each four seconds after a minute, the processes of the build that are clients of such a service are counted. If there are some and the build
//! used little CPU, the time since the count before is taken as work done elsewhere. "Little" is at most [`IDLE_USEC`] a second for each
//! client; for all clients together it is at most [`MAX_USEC`] and at most half of the CPUs, because a build may have many clients
//! that fall back to working on this machine. A build counts as done elsewhere if that applies to **at least half of its time**. So a
//! single `docker --version` does not matter, and neither does a `kubectl port-forward` during a compile. A build with the daemon among its
//! own processes does not count as done elsewhere either, because its work is measured.
//!
//! A build is not detected if its clients only poll: a client must run while the work is done.
//!
//! Of clients that are not known by name, the work is suspected to be elsewhere ([`PartlyMeasured::OpenConnection`]) if the build used less than 1 % of a
//! core over its whole time, and held a connection to another program for at least half of it. Connections are looked for rarely, and only
//! while the build is so idle.

pub mod connections;
mod programs;
#[cfg(test)]
mod tests;

use std::{thread, time::Duration};

use plimsoll_proto::measured::PartlyMeasured;

pub use self::programs::ServicePrograms;
pub(crate) use self::programs::is_bazel;
use self::programs::{SERVICES, Service};

/// CPU time of the build in a second, in microseconds for each client, below which its work is done elsewhere. This is an estimate: a
/// client sends files and shows results, which takes some percent of a core; a preprocessor before distcc takes a fifth of what its
/// compiler takes.
const IDLE_USEC: u64 = 250_000;
/// CPU time in a second, in microseconds, for all clients together: two cores. This is an estimate: a build that uses more does its work
/// itself.
const MAX_USEC: u64 = 2_000_000;
/// A build counts as done elsewhere if clients of a service waited for at least this share of its time.
const MIN_SHARE: f64 = 0.5;
/// Least time between two counts of the processes: a build of two seconds still has several counts.
const STEP: Duration = Duration::from_millis(250);
/// The next count follows after one part in so many of the time so far, but within [`LONGEST_STEP`]: a share of the time needs no more.
const PAUSE: u32 = 16;
/// Longest time between two cheap counts: a client that waits for a build runs longer.
const LONGEST_STEP: Duration = Duration::from_secs(4);
/// A count of processes costs more if there are more processes. The next count follows after at least this many times its CPU time, so
/// counting takes 1 % of one core.
const MIN_IDLE_FACTOR: u32 = 99;

/// A build that used less than one part in so many of a core, over its whole time, did no work here.
const IDLE_PARTS: u128 = 100;
/// CPU time in microseconds that such a build may use at its start, when it is not yet decided: a client of a large program starts in less.
const START_USEC: u128 = 1_000_000;
/// Connections are looked for again after this part of the time so far: some 40 times in the first hour.
const CONNECTION_PAUSE: u32 = 4;

/// Sums up the counts of service clients in one build.
#[derive(Debug)]
pub(crate) struct OffloadWatch {
    /// CPU time of the build in a second, in microseconds, above which it does its work itself, however many clients it has.
    most_usec: u64,
    services: [ServiceTime; SERVICES.len()],
    /// Time between the first and the last count.
    seen: Duration,
    last: Duration,
    last_usec: u64,
    next: Duration,
    connections: ConnectionTime,
}

/// The time for which an idle build held a connection.
#[derive(Debug, Clone, Copy, Default)]
struct ConnectionTime {
    held: Duration,
    last: Duration,
    next: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct ServiceTime {
    elsewhere: Duration,
    has_daemon: bool,
}

impl OffloadWatch {
    /// Starts without a count, for a build that may use this many CPUs.
    pub(crate) fn new(cpus: u64) -> Self {
        Self {
            most_usec: MAX_USEC.min(cpus.saturating_mul(500_000)),
            services: [ServiceTime::default(); SERVICES.len()],
            seen: Duration::ZERO,
            last: Duration::ZERO,
            last_usec: 0,
            next: Duration::ZERO,
            connections: ConnectionTime::default(),
        }
    }

    /// Starts without a count, for the CPUs that this process may use.
    pub(crate) fn here() -> Self {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        Self::new(u64::try_from(cpus).unwrap_or(u64::MAX))
    }

    /// Whether it is time for the next count.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Adds a count of `programs`, made at `now` after the start. `cpu_usec`: CPU time of the build until then; `cost`: CPU time that the
    /// count took.
    pub(crate) fn add(&mut self, now: Duration, cpu_usec: u64, programs: &ServicePrograms, cost: Duration) {
        let passed = now.saturating_sub(self.last);
        let used = u128::from(cpu_usec.saturating_sub(self.last_usec));
        for (time, presence) in self.services.iter_mut().zip(programs.0) {
            let idle_usec = IDLE_USEC.saturating_mul(presence.clients.into()).min(self.most_usec);
            let most = u128::from(idle_usec) * passed.as_micros() / 1_000_000;
            time.has_daemon |= presence.has_daemon;
            if presence.clients > 0 && used <= most {
                time.elsewhere += passed;
            }
        }
        self.seen += passed;
        (self.last, self.last_usec) = (now, cpu_usec);
        let step = (now / PAUSE).clamp(STEP, LONGEST_STEP);
        self.next = now.saturating_add(step.max(cost.saturating_mul(MIN_IDLE_FACTOR)));
    }

    /// Whether it is time to look for connections, of a build that used `cpu_usec` until `now`.
    pub(crate) fn is_connection_due(&self, now: Duration, cpu_usec: u64) -> bool {
        now >= self.connections.next && u128::from(cpu_usec) < now.as_micros() / IDLE_PARTS + START_USEC
    }

    /// Adds a look for connections at `now` that took `cost` of CPU time.
    pub(crate) fn add_connection(&mut self, now: Duration, is_held: bool, cost: Duration) {
        let time = &mut self.connections;
        if is_held {
            time.held += now.saturating_sub(time.last);
        }
        time.last = now;
        time.next =
            now.saturating_add(STEP.max(now / CONNECTION_PAUSE).max(cost.saturating_mul(MIN_IDLE_FACTOR)));
    }

    /// The service that did the work of the build for most of the time; [`PartlyMeasured::OpenConnection`] if none did, and that is suspected of an unknown
    /// one; else `None`. The build ended at `now` and used `cpu_usec`.
    pub(crate) fn service(&self, now: Duration, cpu_usec: u64) -> Option<&'static str> {
        let least = self.seen.mul_f64(MIN_SHARE);
        let counts = |(_, time): &(&Service, &ServiceTime)| {
            !time.has_daemon && !time.elsewhere.is_zero() && time.elsewhere >= least
        };
        let found = SERVICES.iter().zip(&self.services).filter(counts);
        let named = found.max_by_key(|(_, time)| time.elsewhere).map(|(service, _)| service.name);
        let is_idle = u128::from(cpu_usec) * IDLE_PARTS < now.as_micros();
        let held = self.connections.held;
        let is_suspected = is_idle && !held.is_zero() && held >= now.mul_f64(MIN_SHARE);
        named.or_else(|| is_suspected.then(|| PartlyMeasured::OpenConnection.name()))
    }
}
