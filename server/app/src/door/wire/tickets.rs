//! Tickets: parses requests, and builds the status of a ticket.

use plimsoll_core::{
    domain::{FieldViolation, Ticket, TicketId},
    placement::{BuildKind, tickets::TicketEnd},
    validated::{self, Validated, text},
};
use plimsoll_proto::{limits, v1 as pb};
use ulid::Ulid;

use super::ticket_id;
use crate::tickets::{View, ticket_service::TicketQuestion};

/// Parses a request to open a ticket: its id (generated if the request has none) and the other
/// fields.
pub(crate) fn opening(wire: pb::OpenTicketRequest) -> Validated<(TicketId, TicketQuestion)> {
    let pb::OpenTicketRequest { ticket, key, kind, owner, pool, tags } = wire;
    let id = match ticket.as_str() {
        "" => ticket_id("ticket", &Ulid::new().to_string())?,
        id => ticket_id("ticket", id)?,
    };
    if tags.len() > limits::TICKET_TAGS {
        let description = format!("has {} tags, at most {} are allowed", tags.len(), limits::TICKET_TAGS);
        return Err(FieldViolation::new("tags", description));
    }
    let tags = tags.into_iter().map(|tag| text("tags", tag, limits::LABEL_BYTES));
    Ok((
        id,
        TicketQuestion {
            key: validated::key(key)?,
            kind: read_kind(&text("kind", kind, limits::LABEL_BYTES)?)?,
            owner: text("owner", owner, limits::OWNER_BYTES)?,
            pool: text("pool", pool, limits::LABEL_BYTES)?,
            tags: tags.collect::<Validated<_>>()?,
        },
    ))
}

fn read_kind(word: &str) -> Validated<Option<BuildKind>> {
    if word.is_empty() {
        return Ok(None);
    }
    let unknown = || {
        let known = BuildKind::ALL.map(BuildKind::as_str).join(", ");
        FieldViolation::new("kind", format!("is {word:?}; known are {known}"))
    };
    BuildKind::parse(word).map(Some).ok_or_else(unknown)
}

/// The status of a ticket.
pub(crate) fn ticket(view: &View) -> pb::Ticket {
    let ticket = view.ticket();
    let Ticket { id, claim, opened_unix_ms, granted_unix_ms, attempt, .. } = ticket;
    let state = match view {
        View::Open(_) if ticket.is_ready() => pb::TicketState::Granted,
        View::Open(_) => pb::TicketState::Queued,
        View::Ended(TicketEnd::Closed, _) => pb::TicketState::Closed,
        View::Ended(TicketEnd::Expired, _) => pb::TicketState::Expired,
    };
    let (position, wait, waits_for) = match view {
        View::Open(status) => (status.position, status.wait.0, status.waits_for.clone()),
        View::Ended(..) => (0, 0, Vec::new()),
    };
    pb::Ticket {
        ticket: id.to_string(),
        state: state.into(),
        owner: claim.owner.clone(),
        pool: claim.pool.clone(),
        kind: claim.kind.clone(),
        position: u32::try_from(position).unwrap_or(u32::MAX),
        estimated_wait_ms: wait,
        waits_for,
        opened_unix_ms: *opened_unix_ms,
        granted_unix_ms: *granted_unix_ms,
        attempt: attempt.as_ref().map(ToString::to_string).unwrap_or_default(),
        host: ticket.host_output().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_bounded_in_number_and_length() {
        for tags in [vec!["x".to_owned(); 9], vec!["x".repeat(129)]] {
            let key = Some(pb::Key { package: "zlib".into(), ..Default::default() });
            let wire = pb::OpenTicketRequest { key, tags, ..Default::default() };
            assert_eq!(opening(wire).unwrap_err().field, "tags");
        }
    }
}
