//! A pool of builders: what fits, its price, its nodes.

use super::{
    hosts::PoolHosts,
    node::NodePlacement,
    os::OperatingSystem,
    pattern::Pattern,
    subject::{ResourceNeeds, RuleSubject},
};
use crate::domain::{Bytes, Cores, Resources};

/// A named kind of builder.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Its name; 1 to 63 bytes.
    pub name: String,
    /// Line of the file, from 1.
    pub(super) line: usize,
    /// Operating system of its builders.
    pub os: OperatingSystem,
    /// Architecture as `uname -m` names it; empty: any.
    pub arch: String,
    /// Cores and memory of one builder, if the file names them.
    pub builder: (Option<Cores>, Option<Bytes>),
    /// Largest sizes that it accepts.
    pub largest: PoolMaximums,
    /// Disk of the largest build.
    pub disk: Option<Bytes>,
    /// Price.
    pub price: PoolPrice,
    /// Most attempts in it at once.
    pub at_once: Option<u32>,
    /// Builders are created on demand. At equal cost, a pool that is not on demand is preferred.
    pub on_demand: bool,
    /// Only a rule puts an attempt here, never the default choice.
    pub by_rule: bool,
    /// Tags by which rules, runners and tickets name it.
    pub tags: Vec<String>,
    /// Those of its tags one of which a ticket must name to be put here by its tags; empty: no such condition.
    pub(super) tags_on_demand: Vec<String>,
    /// Its standing machines, if it has some: each is given to one ticket at a time.
    pub hosts: PoolHosts,
    /// Projects that may use it, as `owner/project`; empty: all.
    pub(super) allowed: Vec<Pattern>,
    /// Its nodes.
    pub place: NodePlacement,
}

/// Largest sizes that a build may request. `None`: unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PoolMaximums {
    /// Memory request.
    pub memory_request: Option<Bytes>,
    /// Memory limit.
    pub memory_limit: Option<Bytes>,
    /// CPU request.
    pub cpu_request: Option<Cores>,
    /// CPU limit.
    pub cpu_limit: Option<Cores>,
}

/// Price of a reservation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PoolPrice {
    /// One GiB for one hour.
    pub gib_hour: f64,
    /// One core for one hour.
    pub core_hour: f64,
}

impl PoolPrice {
    /// Price of a build of this size for one hour.
    pub fn of(self, needs: &ResourceNeeds) -> f64 {
        let gib = needs.memory_request.as_f64() / Bytes::GIB.as_f64();
        self.gib_hour * gib + self.core_hour * needs.cpu_request.0
    }
}

impl Pool {
    /// Whether a build for this architecture can run here. A build that names none can.
    pub(super) fn runs(&self, family: &str) -> bool {
        self.arch.is_empty() || family.is_empty() || self.arch == family
    }

    /// Whether a build's operating system and architecture match.
    pub(super) fn suits(&self, subject: &RuleSubject<'_>) -> bool {
        self.os == subject.os && self.runs(subject.family)
    }

    /// Whether a ticket that names these tags may be put here: it has all of them, and one on demand is among them if it has some.
    pub(super) fn has_tags<'t>(&self, mut tags: impl Iterator<Item = &'t String> + Clone) -> bool {
        let on_demand = &self.tags_on_demand;
        let is_wanted = on_demand.is_empty() || tags.clone().any(|tag| on_demand.contains(tag));
        is_wanted && tags.all(|tag| self.tags.contains(tag))
    }

    /// Why a build that does not match cannot run here, for people.
    pub(super) fn mismatch_reason(&self, subject: &RuleSubject<'_>) -> String {
        if self.os == subject.os {
            return format!("pool {} runs {}, and not {}", self.name, self.arch, subject.processors());
        }
        format!("pool {} runs {}, and not {}", self.name, self.os.as_str(), subject.os.as_str())
    }

    /// Whether this `owner/project` may use the pool.
    pub(super) fn allows(&self, owner_project: &str) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|allowed| allowed.is_match(owner_project))
    }

    /// Whether a build of this size fits.
    pub fn takes(&self, needs: &ResourceNeeds) -> bool {
        self.exceeded_maximums(needs).is_empty()
    }

    /// The requested sizes, lowered to the pool's maximums.
    pub fn lowered(&self, asked: &Resources) -> Resources {
        let PoolMaximums { memory_request, memory_limit, cpu_request, cpu_limit } = self.largest;
        let memory = |asked: Bytes| memory_request.or(memory_limit).map_or(asked, |most| asked.min(most));
        let cpu = |asked: Cores| cpu_request.or(cpu_limit).map_or(asked, |most| Cores(asked.0.min(most.0)));
        Resources {
            memory_request: asked.memory_asked().map(memory),
            cpu_request: asked.cpu_asked().map(cpu),
            ..*asked
        }
    }

    /// Which needs exceed the maximums, in words; empty if the build fits. A CPU limit above the maximum does not count: it only slows a
    /// build down.
    pub(super) fn exceeded_maximums(&self, needs: &ResourceNeeds) -> Vec<String> {
        let PoolMaximums { memory_request, memory_limit, cpu_request, .. } = self.largest;
        let mut words = Vec::new();
        let mut memory = |name: &str, need: Bytes, most: Option<Bytes>| {
            if let Some(most) = most.filter(|most| *most < need) {
                words.push(format!("{name} of {need} is above its {most}"));
            }
        };
        memory("memory request", needs.memory_request, memory_request);
        memory("memory limit", needs.memory_limit, memory_limit);
        memory("disk", needs.disk, self.disk);
        if let Some(most) = cpu_request.filter(|most| most.0 < needs.cpu_request.0) {
            words.push(format!("CPU request of {} is above its {most}", needs.cpu_request));
        }
        words
    }

    /// Orders pools by memory, then by cores. Unlimited is the largest.
    pub(super) fn by_size(&self, other: &Self) -> std::cmp::Ordering {
        let memory = |pool: &Self| pool.largest.memory_limit.map_or(u64::MAX, |most| most.0);
        let cores = |pool: &Self| pool.largest.cpu_request.map_or(f64::INFINITY, |most| most.0);
        memory(self).cmp(&memory(other)).then(cores(self).total_cmp(&cores(other)))
    }
}
