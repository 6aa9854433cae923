//! A pool of builders: the sizes that fit, the price and the nodes.

use std::collections::BTreeSet;

use super::{
    hosts::PoolHosts,
    node::NodePlacement,
    os::OperatingSystem,
    pattern::Pattern,
    subject::{ResourceNeeds, RuleSubject},
    upstream::PoolUpstream,
};
use crate::domain::{Bytes, Cores, Resources};

/// A named kind of builder.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Name of the pool; 1 to 63 bytes.
    pub name: String,
    /// Line of the pool in the file, from 1.
    pub(super) line: usize,
    /// Operating system of the pool's builders.
    pub os: OperatingSystem,
    /// Architecture of the builders as `uname -m` names it; empty: any.
    pub arch: String,
    /// Cores and memory of one builder, if the file names them.
    pub builder: (Option<Cores>, Option<Bytes>),
    /// Largest sizes that the pool accepts.
    pub maximums: PoolMaximums,
    /// Disk of the largest build that the pool accepts.
    pub disk: Option<Bytes>,
    /// Price of a reservation in the pool.
    pub price: PoolPrice,
    /// Most attempts that run in the pool at once.
    pub at_once: Option<u32>,
    /// Whether builders are created on demand. At equal cost, a pool that is not on demand is preferred.
    pub on_demand: bool,
    /// Whether only a rule puts an attempt here, and the default choice never does.
    pub by_rule: bool,
    /// Tags by which rules, runners and tickets name the pool.
    pub tags: Vec<String>,
    /// Some of the tags: a ticket that is placed by tags must name one of these. Empty: no such condition.
    pub(super) tags_on_demand: Vec<String>,
    /// The pool's standing machines, if it has some: each is given to one ticket at a time.
    pub hosts: PoolHosts,
    /// The server upstream that starts machines for its tickets, if it has one.
    pub upstream: Option<PoolUpstream>,
    /// Projects that may use the pool, as `owner/project`; empty: all.
    pub(super) allowed: Vec<Pattern>,
    /// Node selector, tolerations and priority class for pods in the pool.
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
    /// Price of a build with these needs for one hour.
    pub fn of(self, needs: &ResourceNeeds) -> f64 {
        let gib = needs.memory_request.as_f64() / Bytes::GIB.as_f64();
        self.gib_hour * gib + self.core_hour * needs.cpu_request.0
    }
}

impl Pool {
    /// Whether each of its tickets gets a machine of its own: a host, or one of the upstream.
    pub fn gives_hosts(&self) -> bool {
        !self.hosts.names.is_empty() || self.upstream.is_some()
    }

    /// Tags for the upstream, of a ticket that names these: those that the pool names for it, else the ticket's, else the pool's that are
    /// not on demand.
    /// Each once: Resalloc refuses a ticket that names a tag twice.
    pub fn upstream_tags(&self, asked: &[String]) -> Vec<String> {
        let mut tags = match &self.upstream {
            Some(upstream) if !upstream.tags.is_empty() => upstream.tags.clone(),
            _ if !asked.is_empty() => asked.to_vec(),
            _ => self.tags.iter().filter(|tag| !self.tags_on_demand.contains(tag)).cloned().collect(),
        };
        let mut known = BTreeSet::new();
        tags.retain(|tag| known.insert(tag.clone()));
        tags
    }

    /// Whether a build for this architecture can run here. A build that names no architecture can.
    pub(super) fn runs_arch(&self, family: &str) -> bool {
        self.arch.is_empty() || family.is_empty() || self.arch == family
    }

    /// Whether the pool has the operating system and the architecture of a build.
    pub(super) fn suits(&self, subject: &RuleSubject<'_>) -> bool {
        self.os == subject.os && self.runs_arch(subject.family)
    }

    /// Whether a ticket that names these tags may be put here: the pool has all of them, and one of `tags_on_demand` is among them, if
    /// there are any.
    pub(super) fn has_tags<'t>(&self, mut tags: impl Iterator<Item = &'t String> + Clone) -> bool {
        let on_demand = &self.tags_on_demand;
        let is_wanted = on_demand.is_empty() || tags.clone().any(|tag| on_demand.contains(tag));
        is_wanted && tags.all(|tag| self.tags.contains(tag))
    }

    /// Says why a build with another operating system or architecture cannot run here, for people.
    pub(super) fn mismatch_reason(&self, subject: &RuleSubject<'_>) -> String {
        if self.os == subject.os {
            return format!("pool {} runs {}, and not {}", self.name, self.arch, subject.arch_words());
        }
        format!("pool {} runs {}, and not {}", self.name, self.os.as_str(), subject.os.as_str())
    }

    /// Whether this `owner/project` may use the pool.
    pub(super) fn allows(&self, owner_project: &str) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|allowed| allowed.is_match(owner_project))
    }

    /// Whether a build with these needs fits.
    pub fn fits(&self, needs: &ResourceNeeds) -> bool {
        self.exceeded_maximums(needs).is_empty()
    }

    /// The requested sizes, lowered to the pool's maximums.
    pub fn lowered_to_maximums(&self, asked: &Resources) -> Resources {
        let PoolMaximums { memory_request, memory_limit, cpu_request, cpu_limit } = self.maximums;
        let memory = |asked: Bytes| memory_request.or(memory_limit).map_or(asked, |most| asked.min(most));
        let cpu = |asked: Cores| cpu_request.or(cpu_limit).map_or(asked, |most| Cores(asked.0.min(most.0)));
        Resources {
            memory_request: asked.memory_asked().map(memory),
            cpu_request: asked.cpu_asked().map(cpu),
            ..*asked
        }
    }

    /// Describes which needs exceed the pool's maximums; empty if the build fits. A CPU limit above the maximum does not count: it only
    /// slows a build down.
    pub(super) fn exceeded_maximums(&self, needs: &ResourceNeeds) -> Vec<String> {
        let PoolMaximums { memory_request, memory_limit, cpu_request, .. } = self.maximums;
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

    /// Orders pools by memory, then by cores. A pool without a limit is the largest.
    pub(super) fn compare_size(&self, other: &Self) -> std::cmp::Ordering {
        let memory = |pool: &Self| pool.maximums.memory_limit.map_or(u64::MAX, |most| most.0);
        let cores = |pool: &Self| pool.maximums.cpu_request.map_or(f64::INFINITY, |most| most.0);
        memory(self).cmp(&memory(other)).then(cores(self).total_cmp(&cores(other)))
    }
}
