//! Machines of servers upstream, for tickets of pools that have one: Resalloc starts them, and this server decides who gets one.
//!
//! A ticket of such a pool first gets its slot, as any other. Then a ticket is taken upstream, and the ticket here is ready once the one
//! there has its machine. When it ends, the one there is closed, until the upstream confirms it.
//!
//! Each upstream has a worker, which makes one call at a time and holds no lock meanwhile. What a worker may have taken is on disk
//! ([`plimsoll_core::placement::upstream::UpstreamLedger`] says what each crash leaves behind).
//!
//! | module | content |
//! |---|---|
//! | `calls` | calls of Resalloc, within bounds |
//! | `events` | what becomes of tickets here: they want a machine, get it, or lose it |
//! | `worker` | the calls in their order, and what their answers change |

mod calls;
mod events;
mod worker;

use std::{collections::HashSet, sync::Arc};

use anyhow::anyhow;
use calls::UpstreamClient;
use plimsoll_core::{
    domain::{UpstreamServer, UpstreamTicket},
    placement::upstream::{LedgerWrite, PoolUpstream},
};
use plimsoll_store::{self as store, Batch, RecordError, Store, StoreError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::TicketRegistryState;

/// The stored records of all upstreams.
#[derive(Debug, Default)]
pub(super) struct UpstreamRecords {
    pub(super) servers: Vec<UpstreamServer>,
    pub(super) tickets: Vec<UpstreamTicket>,
}

/// Reads the stored records of all upstreams. A single damaged record is logged and skipped.
pub(super) async fn read(store: &Store) -> Result<UpstreamRecords, StoreError> {
    let mut records = UpstreamRecords::default();
    store::load(store, |server| records.servers.push(server)).await?;
    store::load(store, |ticket| records.tickets.push(ticket)).await?;
    Ok(records)
}

/// Runs a worker for each upstream until `stop`.
pub(super) async fn run(shared: Arc<TicketRegistryState>, stop: CancellationToken) {
    let (mut workers, mut at_work) = (JoinSet::new(), HashSet::new());
    let changed = Arc::clone(&shared.state().upstreams.changed);
    loop {
        let known = shared.state().upstream_addresses();
        for address in known.into_iter().filter(|address| at_work.insert(address.clone())) {
            workers.spawn(worker::run(Arc::clone(&shared), address, stop.clone()));
        }
        tokio::select! {
            () = changed.notified() => {}
            Some(done) = workers.join_next() => {
                if let Ok(address) = done {
                    at_work.remove(&address);
                }
            }
            () = stop.cancelled() => break,
        }
    }
    // each worker ends at once: a call that it has begun is continued after the next start of the server
    while workers.join_next().await.is_some() {}
}

/// The commit of these changes.
fn batch_of(writes: &[LedgerWrite]) -> Result<Batch, RecordError> {
    let mut batch = Batch::default();
    for write in writes {
        match write {
            LedgerWrite::Server(server) => store::put(&mut batch, server)?,
            LedgerWrite::Put(ticket) => store::put(&mut batch, ticket)?,
            LedgerWrite::Delete(ticket) => store::remove(&mut batch, ticket)?,
        }
    }
    Ok(batch)
}

/// Makes a call that changes nothing at an upstream.
/// Errors: there is no usable answer.
pub(crate) async fn check_upstream(upstream: &PoolUpstream) -> anyhow::Result<()> {
    let client = UpstreamClient::new(upstream)?;
    client.collect(1).await.map(drop).map_err(|failure| anyhow!(failure.text()))
}
