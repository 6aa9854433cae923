//! What a ticket is opened for.

use plimsoll_proto::{limits, v1 as pb};
use ulid::Ulid;

use super::{Checked, key, text, ticket_id};
use crate::{domain::Fault, domain::TicketId, placement::Kind, ticketing::Asked};

/// The id, given or made, and the question.
pub(in crate::grpc) fn opening(wire: pb::OpenTicketRequest) -> Checked<(TicketId, Asked)> {
    let id = match wire.ticket.as_str() {
        "" => ticket_id("ticket", &Ulid::new().to_string())?,
        id => ticket_id("ticket", id)?,
    };
    if wire.tags.len() > limits::TICKET_TAGS {
        let description =
            format!("has {} tags, at most {} are allowed", wire.tags.len(), limits::TICKET_TAGS);
        return Err(Fault::new("tags", description));
    }
    let tags = wire.tags.into_iter().map(|tag| text("tags", tag, limits::LABEL_BYTES));
    Ok((
        id,
        Asked {
            key: key(wire.key)?,
            kind: kind(&text("kind", wire.kind, limits::LABEL_BYTES)?)?,
            owner: text("owner", wire.owner, limits::OWNER_BYTES)?,
            pool: text("pool", wire.pool, limits::LABEL_BYTES)?,
            tags: tags.collect::<Checked<_>>()?,
        },
    ))
}

fn kind(word: &str) -> Checked<Option<Kind>> {
    if word.is_empty() {
        return Ok(None);
    }
    let unknown = || {
        let known = Kind::ALL.map(Kind::as_str).join(", ");
        Fault::new("kind", format!("is {word:?}; known are {known}"))
    };
    Kind::parse(word).map(Some).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_ticket_names_the_field() {
        let right = || pb::OpenTicketRequest {
            ticket: "job-1".into(),
            key: Some(pb::Key { package: "zlib".into(), ..Default::default() }),
            ..Default::default()
        };
        assert_eq!(opening(right()).unwrap().0.as_str(), "job-1");
        assert_eq!(
            opening(pb::OpenTicketRequest { ticket: String::new(), ..right() }).unwrap().0.as_str().len(),
            26
        );
        let cases = [
            ("ticket", pb::OpenTicketRequest { ticket: "a b".into(), ..right() }),
            ("key", pb::OpenTicketRequest { key: None, ..right() }),
            ("kind", pb::OpenTicketRequest { kind: "lazy".into(), ..right() }),
            ("owner", pb::OpenTicketRequest { owner: "x".repeat(1 << 20), ..right() }),
            ("tags", pb::OpenTicketRequest { tags: vec!["x".into(); 9], ..right() }),
            ("tags", pb::OpenTicketRequest { tags: vec!["x".repeat(129)], ..right() }),
            ("pool", pb::OpenTicketRequest { pool: "x\n".into(), ..right() }),
        ];
        for (field, wire) in cases {
            assert_eq!(opening(wire).unwrap_err().field, field);
        }
    }
}
