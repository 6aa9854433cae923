//! Tells a build that works itself from one that has its work done elsewhere: by the daemon of docker, on the machines of distcc, in a
//! cluster. What is measured of the second kind is the need of a client, and not of the build.
//!
//! At each look the processes of the build are counted that are clients of such a service. The time since the look before counts as done
//! elsewhere if there is one, and the build used less than [`IDLE_USEC`] of CPU time a second for each of them, and less than half of the
//! CPUs and [`MOST_USEC`] for all of them, as a build may have many clients whose work falls back to its own machine. A build that compiles beside
//! `kubectl port-forward` works itself. So does one with the daemon among its own processes: its work is measured. The rule:
//! **at least half of the time was done elsewhere.** A single `docker --version` is far from that.
//!
//! Not seen is a build that only polls: the client must run while the work is done.

mod programs;
#[cfg(test)]
mod tests;

use std::{thread, time::Duration};

pub use self::programs::ServicePrograms;
use self::programs::{SERVICES, Service};

/// CPU time of the build in a second, microseconds, for each client. A judgement: a client sends files and shows what comes back, which takes
/// some percent of a core; a preprocessor before distcc takes a fifth of what its compiler takes.
const IDLE_USEC: u64 = 250_000;
/// The same for all clients together: two cores. A judgement: a build that uses more works itself.
const MOST_USEC: u64 = 2_000_000;
/// Part of the time that was done elsewhere from which the build counts as done there. A judgement: most of it.
const LEAST_SHARE: f64 = 0.5;
/// Least time between two looks: a build of two seconds gets some.
const STEP: Duration = Duration::from_millis(250);
/// A look costs more the more processes there are. For each moment of CPU time that it took it rests this many, which is 1 % of one core.
const REST: u32 = 99;

/// The looks at one build.
#[derive(Debug)]
pub(crate) struct OffloadWatch {
    /// CPU time of a build in a second, microseconds, from which on it works itself, however many clients it has.
    most_usec: u64,
    services: [ServiceTime; SERVICES.len()],
    /// Time that was looked at.
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
    /// No look yet at a build that may use these CPUs.
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

    /// The same for the CPUs that this process may use.
    pub(crate) fn here() -> Self {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        Self::new(u64::try_from(cpus).unwrap_or(u64::MAX))
    }

    /// Whether it is time for a look.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Takes in a look at `now` after the start, with the CPU time of the build until then, and the CPU time that the look `cost`.
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

    /// The service that did the work of the build, if one did: that of most of the time.
    pub(crate) fn service(&self) -> Option<&'static str> {
        let least = self.seen.mul_f64(LEAST_SHARE);
        let counts = |(_, time): &(&Service, &ServiceTime)| {
            !time.has_daemon && !time.elsewhere.is_zero() && time.elsewhere >= least
        };
        let found = SERVICES.iter().zip(&self.services).filter(counts);
        found.max_by_key(|(_, time)| time.elsewhere).map(|(service, _)| service.name)
    }
}
