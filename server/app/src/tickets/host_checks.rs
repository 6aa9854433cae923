//! Hosts for tickets of pools that have some: a ticket with its slot gets one that answers over TCP.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use plimsoll_core::{
    domain::{Ticket, TicketId},
    placement::{
        Pool,
        hosts::{HostCounts, PoolHosts, one_spelling},
        tickets::ClockReading,
    },
};
use tokio::{net::TcpStream, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{TicketRegistryState, TicketState};
use crate::runtime::metrics::{KindLabel, PoolLabels};

/// Time limit for the answer of a host. A host that works answers within some milliseconds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How often it is checked whether hosts have become free.
const HOST_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Most checks at the same time. Each needs a file descriptor.
const MAX_CHECKS: usize = 64;

/// A check of a host for a ticket, which holds the host meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostCheck {
    pub(super) ticket: TicketId,
    /// Distinguishes the ticket from a later one with the same id.
    pub(super) number: u64,
    pub(super) host: String,
    pub(super) port: u16,
}

/// Checks hosts for tickets until `stop`.
pub(super) async fn run(shared: Arc<TicketRegistryState>, stop: CancellationToken) {
    let mut checks = JoinSet::new();
    loop {
        shared.apply_pools();
        let wanted = shared.state().hosts_to_check(shared.now(), MAX_CHECKS - checks.len());
        for check in wanted {
            let shared = Arc::clone(&shared);
            checks.spawn(async move {
                let connecting = TcpStream::connect((check.host.as_str(), check.port));
                let answered = timeout(ANSWERS_WITHIN, connecting).await.is_ok_and(|stream| stream.is_ok());
                shared.apply_pools();
                shared.state().host_checked(&check, answered, shared.now());
                shared.wake.notify_one();
            });
        }
        tokio::select! {
            () = shared.host_wanted.notified() => {}
            Some(_checked) = checks.join_next() => {}
            () = tokio::time::sleep(HOST_CHECK_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

impl TicketState {
    /// The hosts of a ticket's pool. `None` if the pools file lacks the pool, or if `host` is given and the pool does not list it.
    fn hosts_of(&self, ticket: &Ticket, host: Option<&str>) -> Option<PoolHosts> {
        let pool = self.placement.as_ref()?.pool(&ticket.claim.pool)?;
        host.is_none_or(|host| pool.hosts.lists(host)).then(|| pool.hosts.clone())
    }

    /// Restores tickets after a restart, and which hosts they hold.
    pub(super) fn restore(&mut self, mut kept: Vec<Ticket>, now: ClockReading) {
        for ticket in &mut kept {
            ticket.host = ticket.host.take().map(|host| one_spelling(&host));
            if !self.want_host(ticket, now) {
                let host = ticket.host.take();
                tracing::error!(ticket = %ticket.id, host, "another ticket holds this host, too: this one gets another");
                self.want_host(ticket, now);
            }
        }
        self.tickets.restore(kept, now);
        self.apply_on_host(now);
    }

    /// Applies which pools have hosts or an upstream now. Tickets of other pools are ready with their slot; waiting tickets of these pools
    /// are queued for a host again.
    pub(super) fn apply_on_host(&mut self, now: ClockReading) {
        let placement = self.placement.clone().unwrap_or_default();
        let gives_hosts = |pool: &str| placement.pool(pool).map(Pool::gives_hosts);
        for id in self.tickets.set_on_host(gives_hosts, now) {
            self.changed(&id, "adapted");
            if let Some(ticket) = self.tickets.get(&id).cloned() {
                self.want_host(&ticket, now);
            }
        }
        let waiting: Vec<TicketId> = std::mem::take(&mut self.hostless)
            .into_iter()
            .map(|(_, id)| id)
            .chain(self.upstreams.take_wanted())
            .collect();
        for ticket in waiting.iter().filter_map(|id| self.tickets.get(id).cloned()).collect::<Vec<_>>() {
            self.want_host(&ticket, now);
        }
    }

    /// Queues a ticket for the host that it needs, or records the host that it holds. Returns false if another ticket holds that host.
    pub(super) fn want_host(&mut self, ticket: &Ticket, now: ClockReading) -> bool {
        if let Some(host) = &ticket.host {
            let sandbox = ticket.claim.sandbox_of_project();
            return self.hosts.hold(host, (&ticket.id, &sandbox), now.steady_ms);
        }
        self.want_none(ticket);
        let turn = (ticket.number, ticket.id.clone());
        if !ticket.claim.on_host {
            return true;
        }
        if ticket.machine.is_some() || self.upstreams.has(ticket) {
            return true;
        }
        if ticket.granted_unix_ms.is_some() {
            if let Some(upstream) = self.upstream_of(ticket) {
                self.upstreams.want(upstream.address.shown(), ticket);
                return true;
            }
            self.hostless.insert(turn);
        } else if !ticket.claim.sandbox.is_empty() {
            self.sandboxed.entry(sandbox_of(ticket)).or_default().insert(turn);
        }
        true
    }

    /// Removes a ticket from all queues for hosts.
    fn want_none(&mut self, ticket: &Ticket) {
        let turn = (ticket.number, ticket.id.clone());
        self.hostless.remove(&turn);
        self.upstreams.want_none(ticket);
        if let Some(alike) = self.sandboxed.get_mut(&sandbox_of(ticket)) {
            alike.remove(&turn);
            if alike.is_empty() {
                self.sandboxed.remove(&sandbox_of(ticket));
            }
        }
    }

    /// Frees the host of a ticket that has ended, and removes the ticket from all queues for hosts.
    pub(super) fn free_host(&mut self, ticket: &Ticket, now: ClockReading) {
        self.want_none(ticket);
        self.upstreams.ended(ticket);
        if let Some(host) = &ticket.host {
            self.give_back(ticket, host, now);
        }
    }

    fn give_back(&mut self, ticket: &Ticket, host: &str, now: ClockReading) {
        let hosts = self.hosts_of(ticket, Some(host));
        self.is_list_new |= hosts.is_none();
        self.hosts.give_back(host, hosts.as_ref(), now.steady_ms);
    }

    /// Applies a changed list of hosts. A host that is no longer listed keeps its slot in the pool until its ticket returns it.
    fn apply_lists(&mut self, now: ClockReading) {
        let placement = self.placement.clone().unwrap_or_default();
        let pools = || placement.pools().iter();
        let lists = pools().flat_map(|pool| pool.hosts.names.iter().map(|name| (name.as_str(), &*pool.name)));
        let listed: HashMap<&str, &str> = lists.collect();
        self.hosts.forget_unlisted(|host| listed.contains_key(host));
        self.metrics.pool_hosts.clear();
        let mut removed: HashMap<&str, u32> = HashMap::new();
        for (host, holder) in self.hosts.held() {
            let pool = self.tickets.get(holder).and_then(|ticket| placement.pool(&ticket.claim.pool));
            if let Some(pool) = pool.filter(|pool| listed.get(host) != Some(&&*pool.name)) {
                *removed.entry(&pool.name).or_default() += 1;
            }
        }
        let slots = removed.into_iter().filter_map(|(name, removed)| {
            Some((name.to_owned(), placement.pool(name)?.hosts.slots(removed)?))
        });
        let slots = slots.collect();
        let changes = self.tickets.set_slots(slots, now);
        self.note(changes, now);
    }

    /// Grants slots out of turn to tickets for which a host is kept, because no other ticket may have that host.
    fn grant_kept(&mut self, now: ClockReading) {
        let placement = self.placement.clone().unwrap_or_default();
        let mut changes = Vec::new();
        let (held, served) = (self.held_by_pool(), self.hostless_sandboxes());
        for pool in placement.pools().iter().filter(|pool| !pool.hosts.names.is_empty()) {
            let room = room_in(&pool.hosts, held.get(&pool.name)) as usize;
            let sandboxes: BTreeSet<&str> = self.hosts.kept(&pool.hosts, now.steady_ms).collect();
            let next = sandboxes.into_iter().filter_map(|sandbox| self.next_of(&pool.name, sandbox, &served));
            let next: Vec<TicketId> = next.take(room).collect();
            changes.extend(next.iter().filter_map(|id| self.tickets.grant_kept(id, now)));
        }
        self.note(changes, now);
    }

    /// The next ticket of a sandbox that waits for its slot in a pool, unless one that has its slot is to get the host that is kept:
    /// `served` are those.
    fn next_of(&self, pool: &str, sandbox: &str, served: &HashSet<(String, String)>) -> Option<TicketId> {
        let who = (pool.to_owned(), sandbox.to_owned());
        let (_, next) = self.sandboxed.get(&who)?.first()?;
        (!served.contains(&who)).then(|| next.clone())
    }

    /// Pools and sandboxes of the tickets that have their slot and are to get a host.
    fn hostless_sandboxes(&self) -> HashSet<(String, String)> {
        self.hostless.iter().filter_map(|(_, id)| self.tickets.get(id)).map(sandbox_of).collect()
    }

    /// Number of hosts that tickets of each pool hold, including hosts that are being checked or no longer listed.
    fn held_by_pool(&self) -> HashMap<String, u32> {
        let mut held = HashMap::new();
        for (_, holder) in self.hosts.held() {
            if let Some(ticket) = self.tickets.get(holder) {
                *held.entry(ticket.claim.pool.clone()).or_default() += 1;
            }
        }
        held
    }

    /// Takes free hosts for at most `most` tickets, those that have waited longest first. No pool gets more hosts than it may have at once.
    pub(super) fn hosts_to_check(&mut self, now: ClockReading, most: usize) -> Vec<HostCheck> {
        if std::mem::take(&mut self.is_list_new) {
            self.apply_lists(now);
        }
        self.grant_kept(now);
        let mut checks = Vec::new();
        let (mut held, mut free) = (self.held_by_pool(), HashMap::new());
        for (number, id) in &self.hostless {
            if checks.len() == most {
                break;
            }
            let Some(ticket) = self.tickets.get(id) else { continue };
            let pool = self.placement.as_ref().and_then(|placement| placement.pool(&ticket.claim.pool));
            let Some(hosts) = pool.map(|pool| &pool.hosts) else { continue };
            if room_in(hosts, held.get(&ticket.claim.pool)) == 0 {
                continue;
            }
            let sandbox = ticket.claim.sandbox_of_project();
            let free =
                free.entry(&ticket.claim.pool).or_insert_with(|| self.hosts.free(hosts, now.steady_ms));
            if let Some(host) = self.hosts.take(free, (id, &sandbox), now.steady_ms) {
                *held.entry(ticket.claim.pool.clone()).or_default() += 1;
                checks.push(HostCheck { ticket: id.clone(), number: *number, host, port: hosts.check_port });
            }
        }
        for check in &checks {
            self.hostless.remove(&(check.number, check.ticket.clone()));
        }
        self.show_hosts(now);
        checks
    }

    /// Applies the result of a check: if the host has answered, its ticket keeps it; otherwise the ticket waits for another one.
    pub(super) fn host_checked(&mut self, check: &HostCheck, answered: bool, now: ClockReading) {
        let HostCheck { ticket: id, number, host, port } = check;
        self.metrics
            .host_checks
            .get_or_create(&KindLabel::of(if answered { "answered" } else { "failed" }))
            .inc();
        if answered {
            self.hosts.answered(host);
        } else {
            let seconds = self.hosts.quarantine(host, now.steady_ms) / 1000;
            tracing::warn!(host, port, seconds, "a host does not answer: no ticket gets it for a while");
        }
        let Some(ticket) = self.tickets.get(id).filter(|ticket| ticket.number == *number).cloned() else {
            // the host may be one that is no longer listed, with a slot until now
            self.is_list_new = true;
            if answered {
                self.hosts.give_back(host, None, now.steady_ms);
            }
            return;
        };
        let is_listed = self.hosts_of(&ticket, Some(host)).is_some();
        self.is_list_new |= !is_listed;
        if answered && is_listed && ticket.claim.on_host {
            self.tickets.set_host(id, host, now);
            self.changed(id, "hosted");
            return;
        }
        if answered {
            // it was taken off the list meanwhile, or the whole list was
            self.give_back(&ticket, host, now);
        }
        self.want_host(&ticket, now);
    }

    fn show_hosts(&self, now: ClockReading) {
        let placement = self.placement.as_ref();
        for pool in placement.into_iter().flat_map(|placement| placement.pools()) {
            if pool.hosts.names.is_empty() {
                continue;
            }
            let HostCounts { free, held, kept, quarantined } = self.hosts.count(&pool.hosts, now.steady_ms);
            let states = [("free", free), ("held", held), ("kept", kept), ("quarantined", quarantined)];
            let label = |state| PoolLabels { pool: pool.name.clone(), state };
            for (state, hosts) in states {
                self.metrics.pool_hosts.get_or_create(&label(state)).set(i64::from(hosts));
            }
        }
    }
}

/// How many hosts tickets of a pool may hold in addition to the `held` ones.
fn room_in(hosts: &PoolHosts, held: Option<&u32>) -> u32 {
    hosts.at_once.map_or(u32::MAX, |most| most.saturating_sub(held.copied().unwrap_or_default()))
}

/// For which tickets a host is kept: the pool, and the sandbox with its project.
fn sandbox_of(ticket: &Ticket) -> (String, String) {
    (ticket.claim.pool.clone(), ticket.claim.sandbox_of_project())
}
