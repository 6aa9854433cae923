//! Distinguishes a build that does its work itself from one whose work is done elsewhere: by the daemon of docker, on the machines of
//! distcc, in a cluster. For the second kind, the agent measures the need of a client, not of the build.
//!
//! At each look the processes of the build are counted that are clients of such a service. The time since the look before counts as done
//! elsewhere if there is one, and the build used less than [`IDLE_USEC`] of CPU time a second for each of them, and less than half of the
//! CPUs and [`MOST_USEC`] for all of them, as a build may have many clients whose work falls back to its own machine. A build that compiles
//! beside `kubectl port-forward` works itself. So does one with the daemon among its own processes: its work is measured. The rule: **at
//! least half of the time was done elsewhere.** A single `docker --version` is far from that.
//!
//! Not seen is a build that only polls: the client must run while the work is done.

mod programs;
#[cfg(test)]
mod tests;

use std::{thread, time::Duration};

pub use self::programs::ServicePrograms;
use self::programs::{SERVICES, Service};

/// CPU time of the build in a second, microseconds, for each client. An estimate: a client sends files and shows results, which takes some
/// percent of a core; a preprocessor before distcc takes a fifth of what its compiler takes.
const IDLE_USEC: u64 = 250_000;
/// The same for all clients together: two cores. An estimate: a build that uses more does its work itself.
const MOST_USEC: u64 = 2_000_000;
/// Least share of the time done elsewhere for the build to count as done elsewhere: most of the time.
const LEAST_SHARE: f64 = 0.5;
/// Least time between two counts of the processes: a build of two seconds still has several.
const STEP: Duration = Duration::from_millis(250);
/// A count costs more the more processes there are. After it no count follows for this many times its CPU time, so it takes 1 % of one
/// core.
const REST: u32 = 99;

/// The counts of service clients in one build.
#[derive(Debug)]
pub(crate) struct OffloadWatch {
    /// CPU time of a build in a second, microseconds, above which it does its work itself, however many clients it has.
    most_usec: u64,
    services: [ServiceTime; SERVICES.len()],
    /// Time between the first and the last count.
    seen: Duration,
    last: Duration,
    last_usec: u64,
    next: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct ServiceTime {
    elsewhere: Duration,
    has_daemon: bool,
}

impl OffloadWatch {
    /// A watch without a count yet, for a build that may use this many CPUs.
    pub(crate) fn new(cpus: u64) -> Self {
        Self {
            most_usec: MOST_USEC.min(cpus.saturating_mul(500_000)),
            services: [ServiceTime::default(); SERVICES.len()],
            seen: Duration::ZERO,
            last: Duration::ZERO,
            last_usec: 0,
            next: Duration::ZERO,
        }
    }

    /// A watch for the CPUs that this process may use.
    pub(crate) fn here() -> Self {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        Self::new(u64::try_from(cpus).unwrap_or(u64::MAX))
    }

    /// Whether it is time for the next count.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Adds a count at `now` after the start, with the CPU time of the build until then, and the CPU time that the count took (`cost`).
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
        self.next = now.saturating_add(STEP.max(cost.saturating_mul(REST)));
    }

    /// The service that did the work of the build for most of the time; `None` if none did.
    pub(crate) fn service(&self) -> Option<&'static str> {
        let least = self.seen.mul_f64(LEAST_SHARE);
        let counts = |(_, time): &(&Service, &ServiceTime)| {
            !time.has_daemon && !time.elsewhere.is_zero() && time.elsewhere >= least
        };
        let found = SERVICES.iter().zip(&self.services).filter(counts);
        found.max_by_key(|(_, time)| time.elsewhere).map(|(service, _)| service.name)
    }
}
