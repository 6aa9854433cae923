//! How many clients may wait for their tickets at once at a listener. A wait may last for hours and holds a connection. So waits leave
//! connections to other requests: to those that close tickets, for which the clients wait.
//!
//! A client that gets no slot comes back later. Clients of Resalloc repeat a call that fails every 3 s, and find their tickets open.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    access::{
        Refusal, Reply,
        guard::Caller,
        identity::{Bound, UsageSlot},
    },
    runtime::metrics::{KindLabel, Metrics},
};

/// The slots of one listener.
#[derive(Debug)]
pub(crate) struct WaitSlots {
    of_jobs: Pool,
    of_others: Pool,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Pool {
    kind: &'static str,
    what: &'static str,
    most: usize,
    free: Arc<Semaphore>,
}

impl Pool {
    fn new(kind: &'static str, what: &'static str, most: usize) -> Self {
        Self { kind, what, most, free: Arc::new(Semaphore::new(most)) }
    }
}

/// The slot of a client that waits; freed on drop.
#[derive(Debug)]
pub(crate) struct WaitSlot {
    _places: (OwnedSemaphorePermit, UsageSlot),
    waiting: Gauge,
}

impl WaitSlots {
    /// The slots of a listener on which each client waits on a connection of its own: a quarter of them for jobs and pods, and half for
    /// other callers. A quarter of the connections is left to other requests.
    pub(crate) fn over_http(connections: usize, metrics: Arc<Metrics>) -> Self {
        Self::new(connections / 4, connections / 2, metrics)
    }

    /// The slots of a listener: for all jobs and pods together, and for other callers.
    pub(crate) fn new(of_jobs: usize, of_others: usize, metrics: Arc<Metrics>) -> Self {
        Self {
            of_jobs: Pool::new("job", "waits for tickets of jobs", of_jobs),
            of_others: Pool::new("other", "waits for tickets", of_others),
            metrics,
        }
    }

    /// Takes a slot.
    /// Errors: there is none, or the caller has all of its own; counted.
    pub(crate) fn take(&self, caller: &Caller) -> Reply<WaitSlot> {
        self.take_uncounted(caller).inspect_err(|_refusal| {
            self.metrics.ticket_waits_refused.inc();
        })
    }

    fn take_uncounted(&self, caller: &Caller) -> Reply<WaitSlot> {
        let Pool { kind, what, most, free } = if caller.is_of_job { &self.of_jobs } else { &self.of_others };
        let own = caller.within(|caller| caller.place(Bound::Waits)).map_err(Refusal::Exceeded)?;
        let place = Arc::clone(free).try_acquire_owned();
        let place = place.map_err(|_full| Refusal::Crowded { what, most: *most })?;
        let waiting = self.metrics.ticket_waits.get_or_create(&KindLabel::of(kind)).clone();
        waiting.inc();
        Ok(WaitSlot { _places: (place, own), waiting })
    }
}

impl Drop for WaitSlot {
    fn drop(&mut self) {
        self.waiting.dec();
    }
}
