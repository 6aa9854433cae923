//! Hosts of a pool: standing machines, each given to one ticket at a time.
//!
//! | a host | is given to |
//! |---|---|
//! | is free | any ticket of its pool |
//! | was given back by a ticket with a sandbox, less than `reuse_opportunity_time` ago | tickets of this sandbox, until `reuse_max_count` or `reuse_max_time` is reached |
//! | did not answer its check | no ticket for [`QUARANTINE_MS`], twice as long after each further failed check, at most [`LONGEST_QUARANTINE_MS`] |
//!
//! The names and meanings of the three settings are Resalloc's. Which host a ticket holds is in the ticket; the rest is forgotten by a restart.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
};

use crate::domain::TicketId;

/// After the first failed check: a machine that reboots is back by then. Milliseconds.
pub const QUARANTINE_MS: u64 = 60_000;
/// The longest time for which a host is not used after failed checks, milliseconds. So a repaired machine is used again after at most this
/// time, and a machine that is gone is checked only this often.
pub const LONGEST_QUARANTINE_MS: u64 = 16 * QUARANTINE_MS;

/// The one spelling of a host's name or address: DNS knows no case and ends each name with a dot, and an IPv6 address can be written in
/// several ways.
pub fn one_spelling(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_not_an_address) => host.trim_end_matches('.').to_ascii_lowercase(),
    }
}

/// The hosts of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolHosts {
    /// Names or addresses of the hosts, as [`one_spelling`] writes them; empty if the pool has no hosts.
    pub names: Vec<String>,
    /// The operator's limit of tickets, which may be below the number of hosts.
    pub at_once: Option<u32>,
    /// TCP port that a host must answer on before it is given out.
    pub check_port: u16,
    /// How long a host that was given back is kept for its sandbox, milliseconds; 0: not at all.
    pub reuse_opportunity_ms: u64,
    /// How many tickets of one sandbox may have a host one after the other; 0: any number.
    pub reuse_max_count: u32,
    /// How long a host is kept for one sandbox since its first ticket got it, milliseconds.
    pub reuse_max_ms: u64,
}

impl PoolHosts {
    /// How many tickets may have a slot at once, while tickets hold `removed` hosts that were taken off the list; `None` in a pool without
    /// hosts.
    pub fn slots(&self, removed: u32) -> Option<u32> {
        let listed = u32::try_from(self.names.len()).ok().filter(|count| *count > 0)?;
        let slots = listed.saturating_add(removed);
        Some(self.at_once.map_or(slots, |most| most.min(slots)))
    }

    /// Whether a host is on the list.
    pub fn lists(&self, name: &str) -> bool {
        self.names.iter().any(|listed| listed == name)
    }
}

/// Hosts of a pool, by what can be done with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Number of hosts that any ticket can get.
    pub free: u32,
    /// Number of hosts that a ticket holds, or is about to get.
    pub held: u32,
    /// Number of hosts that are kept for tickets of the sandbox that used them last.
    pub kept: u32,
    /// Number of hosts that did not answer their last check.
    pub quarantined: u32,
}

/// What is known of a host.
#[derive(Debug, Clone, Default)]
struct Host {
    holder: Option<TicketId>,
    /// The sandbox of the host's last ticket. Only tickets of the same sandbox can get the host while it is kept; empty if that ticket had
    /// no sandbox.
    sandbox: String,
    /// Number of tickets of this sandbox that had the host.
    uses: u32,
    /// When the first of these tickets got the host, milliseconds.
    since_ms: u64,
    /// Until when the host is kept for the sandbox, milliseconds.
    kept_until_ms: u64,
    quarantined_until_ms: u64,
    /// Number of failed checks since the last successful one.
    failures: u32,
}

/// Hosts of a pool that can be given out at one moment, in the order in which they are.
#[derive(Debug, Default)]
pub struct FreeHosts {
    /// For any ticket; those that failed their last check come last.
    any: VecDeque<String>,
    /// For tickets of the sandbox that had it last.
    kept: HashMap<String, VecDeque<String>>,
}

/// The state of each host that a ticket holds, that is kept for a sandbox, or that failed a check. All other hosts are free.
#[derive(Debug, Default)]
pub struct Hosts(HashMap<String, Host>);

impl Hosts {
    /// The hosts of a pool that can be given out now. Looks at each host once, for any number of tickets.
    pub fn free(&self, pool: &PoolHosts, now_ms: u64) -> FreeHosts {
        let (mut free, mut failed) = (FreeHosts::default(), Vec::new());
        for name in &pool.names {
            match self.0.get(name) {
                Some(host) if host.holder.is_some() || host.quarantined_until_ms > now_ms => {}
                Some(host) if host.kept_until_ms > now_ms => {
                    free.kept.entry(host.sandbox.clone()).or_default().push_back(name.clone());
                }
                Some(host) if host.failures > 0 => failed.push(name.clone()),
                _ => free.any.push_back(name.clone()),
            }
        }
        free.any.extend(failed);
        free
    }

    /// Gives a free host to a ticket that names this sandbox, first one that is kept for the sandbox; `None` if there is none.
    pub fn take(
        &mut self,
        free: &mut FreeHosts,
        (ticket, sandbox): (&TicketId, &str),
        now_ms: u64,
    ) -> Option<String> {
        let name =
            free.kept.get_mut(sandbox).and_then(VecDeque::pop_front).or_else(|| free.any.pop_front())?;
        self.hold(&name, (ticket, sandbox), now_ms).then_some(name)
    }

    /// A ticket holds this host, since now or since before a restart. Returns false if another ticket holds it.
    pub fn hold(&mut self, name: &str, (ticket, sandbox): (&TicketId, &str), now_ms: u64) -> bool {
        let host = self.0.entry(name.to_owned()).or_default();
        if host.holder.as_ref().is_some_and(|holder| holder != ticket) {
            return false;
        }
        if host.kept_until_ms <= now_ms || host.sandbox != sandbox {
            let failures = host.failures;
            *host = Host { sandbox: sandbox.to_owned(), since_ms: now_ms, failures, ..Host::default() };
        }
        host.holder = Some(ticket.clone());
        host.uses += 1;
        true
    }

    /// Notes that a host answered its check, so that earlier failures no longer count.
    pub fn answered(&mut self, name: &str) {
        if let Some(host) = self.0.get_mut(name) {
            host.failures = 0;
        }
    }

    /// The holder gives a host back. `pool` is as the file says now; `None` if it lists the host no longer.
    pub fn give_back(&mut self, name: &str, pool: Option<&PoolHosts>, now_ms: u64) {
        let Some(host) = self.0.get_mut(name) else { return };
        host.holder = None;
        host.kept_until_ms = 0;
        if let Some(pool) = pool {
            let is_worn = pool.reuse_max_count > 0 && host.uses >= pool.reuse_max_count;
            let end = host.since_ms.saturating_add(pool.reuse_max_ms);
            if !host.sandbox.is_empty() && !is_worn {
                host.kept_until_ms = now_ms.saturating_add(pool.reuse_opportunity_ms).min(end);
            }
        }
        if host.kept_until_ms <= now_ms && host.failures == 0 {
            self.0.remove(name);
        }
    }

    /// Notes that a host did not answer its check. Its ticket loses it, and no ticket gets it for the returned time, milliseconds.
    pub fn quarantine(&mut self, name: &str, now_ms: u64) -> u64 {
        let failures = self.0.get(name).map_or(0, |host| host.failures).saturating_add(1);
        let doublings = (failures - 1).min(LONGEST_QUARANTINE_MS.ilog2());
        let time = QUARANTINE_MS.saturating_mul(1 << doublings).min(LONGEST_QUARANTINE_MS);
        let quarantined_until_ms = now_ms.saturating_add(time);
        self.0.insert(name.to_owned(), Host { quarantined_until_ms, failures, ..Host::default() });
        time
    }

    /// Forgets hosts that no ticket holds and no list has.
    pub fn forget_unlisted(&mut self, is_listed: impl Fn(&str) -> bool) {
        self.0.retain(|name, host| host.holder.is_some() || is_listed(name));
    }

    /// Hosts with the tickets that hold them.
    pub fn held(&self) -> impl Iterator<Item = (&str, &TicketId)> {
        self.0.iter().filter_map(|(name, host)| Some((name.as_str(), host.holder.as_ref()?)))
    }

    /// Sandboxes for which hosts of a pool are kept.
    pub fn kept<'h>(&'h self, pool: &'h PoolHosts, now_ms: u64) -> impl Iterator<Item = &'h str> {
        let kept = move |host: &&Host| host.holder.is_none() && host.kept_until_ms > now_ms;
        pool.names.iter().filter_map(|name| self.0.get(name)).filter(kept).map(|host| host.sandbox.as_str())
    }

    /// How many hosts of a pool can be given out, and why the others cannot.
    pub fn count(&self, pool: &PoolHosts, now_ms: u64) -> HostCounts {
        let mut counts = HostCounts::default();
        for name in &pool.names {
            let of = match self.0.get(name) {
                Some(host) if host.holder.is_some() => &mut counts.held,
                Some(host) if host.quarantined_until_ms > now_ms => &mut counts.quarantined,
                Some(host) if host.kept_until_ms > now_ms => &mut counts.kept,
                _ => &mut counts.free,
            };
            *of += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(names: &[&str]) -> PoolHosts {
        PoolHosts {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            at_once: None,
            check_port: 22,
            reuse_opportunity_ms: 100,
            reuse_max_count: 3,
            reuse_max_ms: 1000,
        }
    }

    fn take_from(hosts: &mut Hosts, pool: &PoolHosts, who: (&TicketId, &str), now_ms: u64) -> Option<String> {
        let mut free = hosts.free(pool, now_ms);
        hosts.take(&mut free, who, now_ms)
    }

    #[test]
    fn a_host_serves_one_ticket_and_its_sandbox() {
        let (pool, mut hosts) = (pool(&["a", "b"]), Hosts::default());
        let id = TicketId::parse("t").unwrap();
        let take = |hosts: &mut Hosts, sandbox: &str, now_ms: u64| {
            take_from(hosts, &pool, (&id, sandbox), now_ms).unwrap_or_default()
        };
        assert_eq!(take(&mut hosts, "s", 0), "a");
        assert_eq!(take(&mut hosts, "", 0), "b");
        assert_eq!(take(&mut hosts, "s", 0), "", "both are out");
        hosts.give_back("a", Some(&pool), 10);
        assert_eq!(take(&mut hosts, "other", 50), "", "it is kept for s");
        hosts.give_back("b", Some(&pool), 50);
        assert_eq!(take(&mut hosts, "s", 60), "a", "the one that it had, and not b");
        assert_eq!(take(&mut hosts, "other", 60), "b", "a ticket without a sandbox leaves none behind");
        hosts.give_back("a", Some(&pool), 70);
        assert_eq!(take(&mut hosts, "s", 80), "a");
        hosts.give_back("a", Some(&pool), 90);
        assert_eq!(take(&mut hosts, "third", 90), "a", "three tickets of s had it");
        hosts.give_back("a", Some(&pool), 100);
        assert_eq!(take(&mut hosts, "s", 200), "a", "the time of third is over");
        hosts.give_back("a", None, 200);
        assert_eq!(take(&mut hosts, "x", 200), "a", "its pool is gone from the file, or lists it no longer");
    }

    #[test]
    fn a_sandbox_reuses_a_host_only_so_long() {
        let (pool, mut hosts) = (PoolHosts { reuse_max_count: 0, ..pool(&["a"]) }, Hosts::default());
        let id = TicketId::parse("t").unwrap();
        for start in (0..950).step_by(50) {
            assert_eq!(take_from(&mut hosts, &pool, (&id, "s"), start).as_deref(), Some("a"), "{start}");
            hosts.give_back("a", Some(&pool), start + 40);
        }
        assert_eq!(take_from(&mut hosts, &pool, (&id, "x"), 999), None);
        assert_eq!(take_from(&mut hosts, &pool, (&id, "x"), 1000).as_deref(), Some("a"));
    }

    #[test]
    fn an_unresponsive_host_is_quarantined_with_backoff() {
        let (pool, mut hosts) = (pool(&["a"]), Hosts::default());
        let id = TicketId::parse("t").unwrap();
        let mut now = 0;
        for minutes in [1, 2, 4, 8, 16, 16] {
            assert!(take_from(&mut hosts, &pool, (&id, "s"), now).is_some(), "{minutes}");
            assert_eq!(hosts.quarantine("a", now), minutes * 60_000);
            assert_eq!(hosts.count(&pool, now), HostCounts { quarantined: 1, ..HostCounts::default() });
            now += minutes * 60_000;
            assert_eq!(take_from(&mut hosts, &pool, (&id, "s"), now - 1), None, "{minutes}");
        }
        assert!(take_from(&mut hosts, &pool, (&id, "s"), now).is_some());
        hosts.answered("a");
        hosts.give_back("a", Some(&pool), now);
        assert!(take_from(&mut hosts, &pool, (&id, "s"), now).is_some());
        assert_eq!(hosts.quarantine("a", now), QUARANTINE_MS, "it has answered in between");
    }

    #[test]
    fn two_tickets_never_hold_one_host_after_restart() {
        let mut hosts = Hosts::default();
        let [one, other] = ["one", "other"].map(|id| TicketId::parse(id).unwrap());
        assert!(hosts.hold("a", (&one, ""), 0) && hosts.hold("a", (&one, ""), 0));
        assert!(!hosts.hold("a", (&other, ""), 0));
        assert_eq!(hosts.held().collect::<Vec<_>>(), [("a", &one)]);
    }
}
