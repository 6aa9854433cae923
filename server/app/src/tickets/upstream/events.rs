//! What becomes of tickets with an upstream: they want a machine, get it, or lose it.

use std::collections::{BTreeSet, HashMap};

use plimsoll_core::{
    domain::{Ticket, TicketId, UpstreamMachine, UpstreamTicket},
    placement::{
        tickets::{ClockReading, TicketStatus},
        upstream::{LedgerEvent, PoolUpstream, TicketHolder},
    },
};

use super::UpstreamRecords;
use crate::tickets::TicketState;

/// A ticket for which a ticket is to be taken upstream.
#[derive(Debug)]
pub(super) struct WantedMachine {
    pub(super) holder: TicketHolder,
    pub(super) tags: Vec<String>,
    pub(super) sandbox: String,
}

impl TicketState {
    /// The upstream of a ticket's pool.
    pub(in crate::tickets) fn upstream_of(&self, ticket: &Ticket) -> Option<PoolUpstream> {
        self.placement.as_ref()?.pool(&ticket.claim.pool)?.upstream.clone()
    }

    /// The upstream with this address, if a pool names it.
    pub(super) fn upstream_at(&self, address: &str) -> Option<PoolUpstream> {
        let mut upstreams = self.placement.as_ref()?.pools().iter().filter_map(|pool| pool.upstream.as_ref());
        upstreams.find(|upstream| upstream.address.shown() == address).cloned()
    }

    /// Addresses of all upstreams that pools name, or that have tickets.
    pub(in crate::tickets) fn upstream_addresses(&self) -> BTreeSet<String> {
        let pools = self.placement.iter().flat_map(|placement| placement.pools());
        let named = pools.filter_map(|pool| Some(pool.upstream.as_ref()?.address.shown().to_owned()));
        named.chain(self.upstreams.queues.keys().cloned()).collect()
    }

    /// Restores the tickets that were taken upstream; called before the tickets here are restored.
    pub(in crate::tickets) fn restore_machines(&mut self, kept: &mut [Ticket], records: UpstreamRecords) {
        let mut held: HashMap<TicketHolder, UpstreamTicket> = HashMap::new();
        for record in records.tickets {
            if let Some(holder) = &record.holder {
                self.tickets.skip_number(holder.1);
                held.insert(holder.clone(), record.clone());
            }
            self.upstreams.of(&record.address).tickets.push(record);
        }
        for server in records.servers {
            let address = server.address.clone();
            self.upstreams.of(&address).server = Some(server);
        }
        for ticket in kept {
            let Some(record) = held.remove(&(ticket.id.clone(), ticket.number)) else { continue };
            let machine = |output: String| UpstreamMachine { output: output.into(), failed: record.failed };
            ticket.machine = record.output.filter(|_| ticket.claim.on_host).map(machine);
            self.upstreams.taken.insert(ticket.id.clone(), (ticket.number, record.address));
        }
    }

    /// Whether the ticket that holds a ticket upstream is still open.
    pub(super) fn holds(&self, (id, number): &TicketHolder) -> bool {
        self.tickets.get(id).is_some_and(|ticket| ticket.number == *number)
    }

    /// Whether a ticket is open and needs a machine to be ready. False if its pool has lost its upstream.
    fn waits_for_machine(&self, (id, number): &TicketHolder) -> bool {
        self.tickets.get(id).is_some_and(|ticket| ticket.number == *number && ticket.claim.on_host)
    }

    /// The next ticket that wants a machine of an upstream. It leaves the queue, because a ticket is now taken upstream for it.
    pub(super) fn next_wanted(&mut self, address: &str) -> Option<WantedMachine> {
        let (number, id) = self.upstreams.of(address).take_next_wanted()?;
        let claim = &self.tickets.get(&id).filter(|ticket| ticket.number == number)?.claim;
        let pool = self.placement.as_ref()?.pool(&claim.pool)?;
        let (tags, sandbox) = (pool.upstream_tags(&claim.upstream_tags), claim.upstream_sandbox());
        self.upstreams.taken.insert(id.clone(), (number, address.to_owned()));
        Some(WantedMachine { holder: (id, number), tags, sandbox })
    }

    /// Queues a ticket for a machine again, because no ticket, or no usable one, was taken upstream for it.
    pub(super) fn want_again(&mut self, holder: &TicketHolder, now: ClockReading) {
        self.upstreams.give_up(holder);
        if let Some(ticket) = self.tickets.get(&holder.0).filter(|ticket| ticket.number == holder.1).cloned()
        {
            self.want_host(&ticket, now);
        }
    }

    /// Applies an event of an upstream to the ticket here.
    pub(super) fn apply_upstream(&mut self, event: LedgerEvent, now: ClockReading) {
        match event {
            LedgerEvent::Ready(holder, output) if self.waits_for_machine(&holder) => {
                self.set_machine(&holder.0, UpstreamMachine { output: output.into(), failed: false }, now);
            }
            LedgerEvent::Failed(holder) if self.holds(&holder) => {
                let machine = self.tickets.get(&holder.0).and_then(|ticket| ticket.machine.clone());
                if let Some(machine) = machine {
                    tracing::warn!(ticket = %holder.0, "the upstream has declared the machine of a ticket failed");
                    self.set_machine(&holder.0, UpstreamMachine { failed: true, ..machine }, now);
                }
            }
            LedgerEvent::Gone(holder) if self.holds(&holder) => {
                tracing::warn!(ticket = %holder.0, "the upstream has ended a ticket that is in use: it ends here, too");
                if let Ok(changes) = self.tickets.close(&holder.0, now) {
                    self.note(changes, now);
                }
            }
            LedgerEvent::Again(holder) => self.want_again(&holder, now),
            LedgerEvent::Ready(..) | LedgerEvent::Failed(_) | LedgerEvent::Gone(_) => {}
        }
    }

    fn set_machine(&mut self, id: &TicketId, machine: UpstreamMachine, now: ClockReading) {
        if self.tickets.set_machine(id, machine, now) {
            self.changed(id, "hosted");
        }
    }

    /// Adds to the status of a ticket that waits for a machine which upstream it waits for.
    pub(in crate::tickets) fn name_upstream(&self, status: &mut TicketStatus) {
        let waits = status.ticket.granted_unix_ms.is_some() && !status.ticket.is_ready();
        if let Some(upstream) = self.upstream_of(&status.ticket).filter(|_| waits) {
            let (pool, address) = (&status.ticket.claim.pool, upstream.address.shown());
            status.waits_for = vec![format!("pool {pool}: a machine of {address}")];
        }
    }
}
