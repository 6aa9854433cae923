//! Stores and reads what was taken at servers upstream.

use plimsoll_core::domain::{UpstreamServer, UpstreamTicket};

use super::{
    Store,
    envelope::{self, RecordError},
    errors::StoreError,
    keys::{self, KeyKind},
    kv::Batch,
    load::{LoadReport, load, log_unreadable},
};

/// Adds the record with the numbers of an upstream server.
/// Errors: it is too large.
pub fn put_upstream_server(batch: &mut Batch, server: &UpstreamServer) -> Result<(), RecordError> {
    envelope::put(batch, &keys::upstream_prefix(KeyKind::UpstreamServer, &server.key()), server)
}

/// Removes the record with the numbers of an upstream server.
/// Errors: the record is too large.
pub fn delete_upstream_server(batch: &mut Batch, server: &UpstreamServer) -> Result<(), RecordError> {
    envelope::delete(batch, &keys::upstream_prefix(KeyKind::UpstreamServer, &server.key()), server)
}

/// Adds the record of a ticket that was taken upstream.
/// Errors: it is too large.
pub fn put_upstream_ticket(batch: &mut Batch, ticket: &UpstreamTicket) -> Result<(), RecordError> {
    envelope::put(batch, &keys::upstream_prefix(KeyKind::UpstreamTicket, &ticket.key()), ticket)
}

/// Removes the record of a ticket that is closed upstream.
/// Errors: the record is too large.
pub fn delete_upstream_ticket(batch: &mut Batch, ticket: &UpstreamTicket) -> Result<(), RecordError> {
    envelope::delete(batch, &keys::upstream_prefix(KeyKind::UpstreamTicket, &ticket.key()), ticket)
}

/// Passes the numbers of each server upstream to `take`.
/// Errors: the store cannot be read. A damaged record is logged and skipped.
pub async fn load_upstream_servers(
    store: &Store,
    take: impl FnMut(UpstreamServer) + Send,
) -> Result<LoadReport, StoreError> {
    load(store, KeyKind::UpstreamServer, take, &mut log_unreadable).await
}

/// Passes each ticket that was taken upstream to `take`.
/// Errors: the store cannot be read. A damaged record is logged and skipped.
pub async fn load_upstream_tickets(
    store: &Store,
    take: impl FnMut(UpstreamTicket) + Send,
) -> Result<LoadReport, StoreError> {
    load(store, KeyKind::UpstreamTicket, take, &mut log_unreadable).await
}
