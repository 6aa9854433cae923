//! Pools and kinds of the operator's file.

use toml::Spanned;

use super::{
    Reading,
    tables::{KindTable, PoolTable},
};
use crate::{
    domain::{Bytes, Cores},
    placement::{
        Placement,
        kind::{BuildKind, KindPolicy},
        names,
        node::NodePlacement,
        os::OperatingSystem,
        pool::{Pool, PoolMaximums, PoolPrice},
        subject,
    },
};

/// Longest name, bytes.
const NAME_BYTES: usize = 63;

impl Reading<'_> {
    pub(super) fn pool(&mut self, line: usize, table: PoolTable) -> Pool {
        let at = format!("pool {}", table.name.get_ref());
        let name = table.name.into_inner();
        if !is_name(&name) {
            self.wrong(line, format!("pool {name:?}: a name is 1 to {NAME_BYTES} of A-Z a-z 0-9 . _ -"));
        }
        let mut size = |field: &str, text: Option<Spanned<String>>| self.size(&at, field, text);
        let memory = size("memory", table.memory);
        let disk = size("disk", table.disk);
        let most = table.overwrite_max.unwrap_or_default();
        let (max_request, max_limit) = (
            size("overwrite_max.memory_request", most.memory_request),
            size("overwrite_max.memory_limit", most.memory_limit),
        );
        let cores = self.cores(&at, "cores", table.cores);
        let cpu_request = self.cores(&at, "overwrite_max.cpu_request", most.cpu_request);
        let cpu_limit = self.cores(&at, "overwrite_max.cpu_limit", most.cpu_limit);
        if table.at_once == Some(0) {
            self.wrong(line, format!("{at}: at_once is 0, so nothing could run; leave the pool out"));
        }
        for (field, price) in
            [("price_gib_hour", table.price_gib_hour), ("price_core_hour", table.price_core_hour)]
        {
            if !(0.0..=1e9).contains(&price) {
                self.wrong(line, format!("{at}: {field} is {price}; it must be 0 to 1000000000"));
            }
        }
        let allowed =
            table.allowed.into_iter().filter_map(|text| self.pattern(&at, "allowed", &text)).collect();
        let least = |one: Option<Bytes>, other: Option<Bytes>| one.into_iter().chain(other).min();
        let least_cores = |one: Option<Cores>, other: Option<Cores>| {
            one.into_iter().chain(other).min_by(|one, other| one.0.total_cmp(&other.0))
        };
        let place = NodePlacement {
            node_selector: table.node_selector,
            tolerations: table.tolerations,
            priority_class: table.priority_class,
        };
        let place = self.place(line, &at, place);
        Pool {
            line,
            os: self.operating_system(&at, table.os),
            arch: self.family(line, &at, &table.arch),
            builder: (cores, memory),
            largest: PoolMaximums {
                memory_request: least(memory, max_request),
                memory_limit: least(memory, max_limit),
                cpu_request: least_cores(cores, cpu_request),
                cpu_limit: cpu_limit.or(cores),
            },
            name,
            disk,
            price: PoolPrice { gib_hour: table.price_gib_hour, core_hour: table.price_core_hour },
            at_once: table.at_once,
            on_demand: table.on_demand,
            by_rule: table.by_rule,
            tags: [table.tags, table.tags_on_demand.clone()].concat(),
            tags_on_demand: table.tags_on_demand,
            allowed,
            place,
        }
    }

    /// The operating system; Linux by default.
    fn operating_system(&mut self, at: &str, text: Option<Spanned<String>>) -> OperatingSystem {
        let Some(text) = text else { return OperatingSystem::default() };
        let line = self.line(&text);
        OperatingSystem::parse(text.get_ref()).unwrap_or_else(|| {
            let known = OperatingSystem::ALL.map(OperatingSystem::as_str).join(", ");
            self.wrong(line, format!("{at}: os {:?} is none of {known}", text.get_ref()));
            OperatingSystem::default()
        })
    }

    fn family(&mut self, line: usize, at: &str, arch: &str) -> String {
        let family = subject::family(arch);
        if family.is_empty() && !arch.is_empty() {
            self.wrong(line, format!("{at}: arch {arch:?} is not known; write it as x86_64 or aarch64"));
        }
        family.to_owned()
    }

    fn place(&mut self, line: usize, at: &str, place: NodePlacement) -> NodePlacement {
        for toleration in &place.tolerations {
            if let Some(why) = toleration.mistake() {
                self.wrong(line, format!("{at}: toleration: {why}"));
            }
        }
        for (label, value) in &place.node_selector {
            if let Some(why) = names::wrong_key(label) {
                self.wrong(line, format!("{at}: node_selector: label {why}"));
            }
            if let Some(why) = names::wrong_value(value) {
                self.wrong(line, format!("{at}: node_selector: {label}: {why}"));
            }
        }
        self.class(line, at, "priority_class", &place.priority_class);
        place
    }

    /// The name of a priority class; empty for none.
    fn class(&mut self, line: usize, at: &str, field: &str, class: &str) {
        if let Some(why) = names::wrong_class(class).filter(|_| !class.is_empty()) {
            self.wrong(line, format!("{at}: {field} {why}"));
        }
    }

    pub(super) fn policy(&mut self, kind: BuildKind, table: Spanned<KindTable>) -> KindPolicy {
        let line = self.line(&table);
        let table = table.into_inner();
        let at = format!("kind {}", kind.as_str());
        if table.at_once == Some(0) {
            self.wrong(line, format!("{at}: at_once is 0, so nothing of this kind could run"));
        }
        self.class(line, &at, "raised_priority_class", &table.raised_priority_class);
        let place = NodePlacement {
            node_selector: table.node_selector,
            tolerations: table.tolerations,
            priority_class: table.priority_class,
        };
        let place = self.place(line, &at, place);
        KindPolicy { place, raised_priority_class: table.raised_priority_class, at_once: table.at_once }
    }

    /// Checks for duplicate names, and for node labels on which a pool and a kind contradict each other.
    pub(super) fn contradictions(&mut self, line: usize, pool: &Pool, before: &Placement) {
        if before.pool(&pool.name).is_some() {
            self.wrong(line, format!("pool {} is there twice", pool.name));
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
                self.wrong(line, text);
            }
        }
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let fits = (1..=NAME_BYTES).contains(&name.len());
    fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
