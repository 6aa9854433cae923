//! Parses the pools and kinds of the operator's file.

use std::net::Ipv6Addr;

use plimsoll_proto::limits;
use toml::Spanned;

use super::{
    PlacementReader, shortened,
    tables::{KindTable, PoolTable},
};
use crate::{
    domain::{Bytes, Cores},
    placement::{
        Placement,
        hosts::{PoolHosts, one_spelling},
        kind::{BuildKind, KindPolicy},
        names,
        node::NodePlacement,
        os::OperatingSystem,
        pool::{Pool, PoolMaximums, PoolPrice},
        subject,
    },
};

/// Longest name of a pool or tag, bytes.
const NAME_BYTES: usize = 63;
/// Longest name of a host, bytes (RFC 1035, section 2.3.4).
const HOST_BYTES: usize = 253;
/// Most hosts in the operator's file, over all pools.
const MAX_HOSTS: usize = 1000;
/// Most errors that are reported for one file of hosts: a file with more is not a file of hosts.
const MAX_HOST_MISTAKES: usize = 10;
/// Default port to check: SSH, which clients use to log in to builders.
const CHECK_PORT: u16 = 22;
/// Default of `reuse_max_time` in seconds, the same as Resalloc's.
const REUSE_MAX_TIME: u32 = 3600;

impl PlacementReader<'_> {
    pub(super) fn read_pool(&mut self, line: usize, mut table: PoolTable) -> Pool {
        let at = format!("pool {}", table.name.get_ref());
        self.check_numbers(line, &at, &table);
        let hosts = self.read_pool_hosts(&at, &mut table);
        let upstream = self.read_upstream(&at, &mut table, &hosts);
        let name = table.name.into_inner();
        if !is_name(&name) {
            let text = format!("pool {name:?}: a name is 1 to {NAME_BYTES} of A-Z a-z 0-9 . _ -");
            self.add_mistake(line, text);
        }
        let mut size = |field: &str, text: Option<Spanned<String>>| self.read_size(&at, field, text);
        let memory = size("memory", table.memory);
        let disk = size("disk", table.disk);
        let most = table.overwrite_max.unwrap_or_default();
        let max_request = size("overwrite_max.memory_request", most.memory_request);
        let max_limit = size("overwrite_max.memory_limit", most.memory_limit);
        let cores = self.read_cores(&at, "cores", table.cores);
        let cpu_request = self.read_cores(&at, "overwrite_max.cpu_request", most.cpu_request);
        let cpu_limit = self.read_cores(&at, "overwrite_max.cpu_limit", most.cpu_limit);
        if table.at_once == Some(0) {
            self.add_mistake(line, format!("{at}: at_once is 0, so nothing could run; leave the pool out"));
        }
        let allowed =
            table.allowed.into_iter().filter_map(|text| self.read_pattern(&at, "allowed", &text)).collect();
        let least = |one: Option<Bytes>, other: Option<Bytes>| one.into_iter().chain(other).min();
        let least_cores = |one: Option<Cores>, other: Option<Cores>| {
            one.into_iter().chain(other).min_by(|one, other| one.0.total_cmp(&other.0))
        };
        let place = NodePlacement {
            node_selector: table.node_selector,
            tolerations: table.tolerations,
            priority_class: table.priority_class,
        };
        let place = self.read_place(line, &at, place);
        Pool {
            line,
            os: self.read_operating_system(&at, table.os),
            arch: self.read_family(line, &at, &table.arch),
            builder: (cores, memory),
            maximums: PoolMaximums {
                memory_request: least(memory, max_request),
                memory_limit: least(memory, max_limit),
                cpu_request: least_cores(cores, cpu_request),
                cpu_limit: cpu_limit.or(cores),
            },
            name,
            disk,
            price: PoolPrice { gib_hour: table.price_gib_hour, core_hour: table.price_core_hour },
            at_once: hosts.slots(0).or(table.at_once),
            hosts,
            upstream,
            on_demand: table.on_demand,
            by_rule: table.by_rule,
            tags: [table.tags, table.tags_on_demand.clone()].concat(),
            tags_on_demand: table.tags_on_demand,
            allowed,
            place,
        }
    }

    fn check_numbers(&mut self, line: usize, at: &str, table: &PoolTable) {
        if let Some(jobs) = table.build_jobs.filter(|jobs| !(1..=limits::BUILD_JOBS).contains(jobs)) {
            let most = limits::BUILD_JOBS;
            self.add_mistake(line, format!("{at}: build_jobs is {jobs}; it must be 1 to {most}"));
        }
        for (field, price) in
            [("price_gib_hour", table.price_gib_hour), ("price_core_hour", table.price_core_hour)]
        {
            if !(0.0..=1e9).contains(&price) {
                self.add_mistake(line, format!("{at}: {field} is {price}; it must be 0 to 1000000000"));
            }
        }
    }

    /// Parses the hosts of a pool, and removes their fields from its table.
    fn read_pool_hosts(&mut self, at: &str, table: &mut PoolTable) -> PoolHosts {
        let check_port = table.check_port.take().map_or(CHECK_PORT, |port| {
            if *port.get_ref() == 0 {
                self.add_mistake(
                    self.line_of(&port),
                    format!("{at}: check_port is 0; it must be 1 to 65535"),
                );
            }
            port.into_inner()
        });
        let mut names = Vec::new();
        for name in std::mem::take(&mut table.hosts) {
            let line = self.line_of(&name);
            names.extend(self.read_host(line, at, "", name.get_ref()));
        }
        if let Some(file) = table.hosts_file.take() {
            names.extend(self.hosts_of_file(at, &file));
        }
        PoolHosts {
            names,
            at_once: table.at_once,
            check_port,
            reuse_opportunity_ms: u64::from(table.reuse_opportunity_time) * 1000,
            reuse_max_count: table.reuse_max_count,
            reuse_max_ms: u64::from(table.reuse_max_time.unwrap_or(REUSE_MAX_TIME)) * 1000,
        }
    }

    /// Parses a file of hosts: one host on each line, with blank lines and comments.
    fn hosts_of_file(&mut self, at: &str, file: &Spanned<String>) -> Vec<String> {
        let line = self.line_of(file);
        let text = match (self.files)(file.get_ref()) {
            Ok(text) => text,
            Err(why) => {
                self.add_mistake(line, format!("{at}: hosts_file: {why}"));
                return Vec::new();
            }
        };
        let mut names = Vec::new();
        let (mut is_empty, before) = (true, self.mistakes.len());
        for (n, name) in text.lines().enumerate() {
            let name = name.split('#').next().unwrap_or_default().trim();
            if name.is_empty() {
                continue;
            }
            is_empty = false;
            let of_file = format!("{} line {}: ", shortened(file.get_ref()), n + 1);
            names.extend(self.read_host(line, at, &of_file, name));
            if self.mistakes.len() - before == MAX_HOST_MISTAKES {
                break;
            }
        }
        if is_empty {
            // the file is just being written, or was emptied by mistake
            self.add_mistake(line, format!("{at}: hosts_file {:?} names no host", shortened(file.get_ref())));
        }
        names
    }

    /// Checks the name of a host, and returns it as [`one_spelling`] writes it. Two pools may not have the same host. `of_file`: the host's
    /// position, if it is in a file of hosts.
    fn read_host(&mut self, line: usize, at: &str, of_file: &str, name: &str) -> Option<String> {
        let same = one_spelling(name);
        if !is_host_name(name) {
            self.add_mistake(
                line,
                format!("{at}: {of_file}host {:?} is no name or address", shortened(name)),
            );
        } else if let Some(other) = self.hosts.get(&same) {
            let where_else =
                if other == at { "is there twice".to_owned() } else { format!("is also in {other}") };
            self.add_mistake(line, format!("{at}: {of_file}host {name:?} {where_else}"));
        } else {
            // only the first host too many is reported
            if self.hosts.len() == MAX_HOSTS {
                self.add_mistake(line, format!("{at}: {of_file}more than {MAX_HOSTS} hosts in one file"));
            }
            if self.hosts.len() <= MAX_HOSTS {
                self.hosts.insert(same.clone(), at.to_owned());
                return Some(same);
            }
        }
        None
    }

    /// Parses the operating system; Linux by default.
    fn read_operating_system(&mut self, at: &str, text: Option<Spanned<String>>) -> OperatingSystem {
        let Some(text) = text else { return OperatingSystem::default() };
        let line = self.line_of(&text);
        OperatingSystem::parse(text.get_ref()).unwrap_or_else(|| {
            let known = OperatingSystem::ALL.map(OperatingSystem::as_str).join(", ");
            self.add_mistake(line, format!("{at}: os {:?} is none of {known}", text.get_ref()));
            OperatingSystem::default()
        })
    }

    fn read_family(&mut self, line: usize, at: &str, arch: &str) -> String {
        let family = subject::family_of_arch(arch);
        if family.is_empty() && !arch.is_empty() {
            self.add_mistake(
                line,
                format!("{at}: arch {arch:?} is not known; write it as x86_64 or aarch64"),
            );
        }
        family.to_owned()
    }

    fn read_place(&mut self, line: usize, at: &str, place: NodePlacement) -> NodePlacement {
        for toleration in &place.tolerations {
            if let Some(why) = toleration.mistake() {
                self.add_mistake(line, format!("{at}: toleration: {why}"));
            }
        }
        for (label, value) in &place.node_selector {
            if let Some(why) = names::key_mistake(label) {
                self.add_mistake(line, format!("{at}: node_selector: label {why}"));
            }
            if let Some(why) = names::value_mistake(value) {
                self.add_mistake(line, format!("{at}: node_selector: {label}: {why}"));
            }
        }
        self.check_class(line, at, "priority_class", &place.priority_class);
        place
    }

    /// Checks the name of a priority class; an empty name means none.
    fn check_class(&mut self, line: usize, at: &str, field: &str, class: &str) {
        if let Some(why) = names::class_mistake(class).filter(|_| !class.is_empty()) {
            self.add_mistake(line, format!("{at}: {field} {why}"));
        }
    }

    pub(super) fn read_policy(&mut self, kind: BuildKind, table: Spanned<KindTable>) -> KindPolicy {
        let line = self.line_of(&table);
        let table = table.into_inner();
        let at = format!("kind {}", kind.as_str());
        if table.at_once == Some(0) {
            self.add_mistake(line, format!("{at}: at_once is 0, so nothing of this kind could run"));
        }
        self.check_class(line, &at, "raised_priority_class", &table.raised_priority_class);
        let place = NodePlacement {
            node_selector: table.node_selector,
            tolerations: table.tolerations,
            priority_class: table.priority_class,
        };
        let place = self.read_place(line, &at, place);
        KindPolicy { place, raised_priority_class: table.raised_priority_class, at_once: table.at_once }
    }

    /// Checks for duplicate names, and for node labels on which a pool and a kind contradict each other.
    pub(super) fn check_contradictions(&mut self, line: usize, pool: &Pool, before: &Placement) {
        if before.pool(&pool.name).is_some() {
            self.add_mistake(line, format!("pool {} is there twice", pool.name));
        }
        for (kind, policy) in &before.kinds {
            let other = policy.place.node_selector.iter().find(|(label, value)| {
                pool.place.node_selector.get(*label).is_some_and(|of_pool| of_pool != *value)
            });
            if let Some((label, value)) = other {
                let (name, kind) = (&pool.name, kind.as_str());
                let text = format!(
                    "pool {name}: label {label:?} is another than {value:?}, which kind {kind} wants: no node has both"
                );
                self.add_mistake(line, text);
            }
        }
    }
}

/// Whether a text is a host name or an IP address, without a port.
fn is_host_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let is_name =
        text.bytes().all(is_plain) && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= HOST_BYTES && (is_name || text.parse::<Ipv6Addr>().is_ok())
}

pub(super) fn is_name(name: &str) -> bool {
    let fits = (1..=NAME_BYTES).contains(&name.len());
    fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
