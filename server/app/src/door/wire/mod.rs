//! Converts messages of the wire to and from the rooms' types, for gRPC and for the web page's JSON. No decisions are made here, and
//! neither tonic nor axum is used.
//!
//! | module | messages of |
//! |---|---|
//! | [`delivery`] | agents: an attempt, its samples, its end |
//! | [`sizing`] | `Predict`, `Explain` |
//! | [`verdicts`], [`next_size`] | `ShouldRetry` |
//! | [`attempts`], [`rows`] | attempts, ended and running; their series |
//! | [`filter`], [`statistics`] | `GetStats`: the question, the answer |
//! | [`paging`] | `ListAttempts`: the page and its token |
//! | [`recommendations`] | `Recommend` |
//! | [`tickets`], [`pools`] | `Placement` |

pub(crate) mod attempts;
pub(crate) mod delivery;
pub(crate) mod filter;
mod next_size;
pub(crate) mod paging;
pub(crate) mod pools;
pub(crate) mod recommendations;
pub(crate) mod rows;
pub(crate) mod sizing;
pub(crate) mod statistics;
pub(crate) mod tickets;
pub(crate) mod verdicts;

use plimsoll_core::{
    domain::{AttemptId, Bytes, Cause, Cores, Exit, FieldViolation, Key, TicketId},
    validated::Validated,
};
use plimsoll_proto::{limits, v1 as pb};

pub(crate) fn attempt_id(field: &str, text: &str) -> Validated<AttemptId> {
    AttemptId::parse(text).map_err(|why| FieldViolation::new(field, why))
}

pub(crate) fn ticket_id(field: &str, text: &str) -> Validated<TicketId> {
    TicketId::parse(text).map_err(|why| FieldViolation::new(field, why))
}

fn at_most(field: &str, value: u64, limit: u64) -> Validated<u64> {
    if value > limit {
        Err(FieldViolation::new(field, format!("is {value}, at most {limit} is allowed")))
    } else {
        Ok(value)
    }
}

/// A value of a wire enum. An unknown number is an error; it must not be treated like an unset
/// value.
pub(crate) fn known<E: TryFrom<i32>>(field: &str, number: i32) -> Validated<E> {
    E::try_from(number).map_err(|_unknown| {
        FieldViolation::new(
            field,
            format!("is {number}, which this server does not know; leave it out, or update the server"),
        )
    })
}

fn check_memory(field: &str, value: u64) -> Validated<Bytes> {
    at_most(field, value, limits::MEMORY_BYTES).map(Bytes)
}

fn check_cores(field: &str, value: f64) -> Validated<Cores> {
    if value.is_finite() && value > 0.0 && value <= limits::CORES {
        Ok(Cores(value))
    } else {
        Err(FieldViolation::new(
            field,
            format!("is {value}; it must be above 0 and at most {}", limits::CORES),
        ))
    }
}

fn read_exit(wire: Option<pb::Exit>) -> Validated<Option<Exit>> {
    match wire {
        None | Some(pb::Exit { code: None, signal: None }) => Ok(None),
        Some(pb::Exit { code: Some(code), signal: None }) => Ok(Some(Exit::Code(code))),
        Some(pb::Exit { code: None, signal: Some(signal @ 1..=64) }) => Ok(Some(Exit::Signal(signal))),
        Some(pb::Exit { signal: Some(signal), code: None }) => {
            Err(FieldViolation::new("exit.signal", format!("is {signal}; it must be 1 to 64")))
        }
        Some(pb::Exit { code: Some(_), signal: Some(_) }) => {
            Err(FieldViolation::new("exit", "has both a code and a signal; an end has one of them"))
        }
    }
}

pub(crate) fn key(key: &Key) -> pb::Key {
    let mut wire = pb::Key {
        labels: key.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        hints: Some(pb::Hints { build_jobs: key.hints.build_jobs, input_bytes: key.hints.input_bytes }),
        ..pb::Key::default()
    };
    wire.texts_mut().into_iter().zip(key.texts()).for_each(|(to, from)| from.clone_into(to));
    wire
}

/// Parses the cause in a correction: any cause except unknown and undecided.
fn read_cause(field: &str, wire: i32) -> Validated<Cause> {
    let decides = |known: &Cause| !matches!(known, Cause::Unknown | Cause::Undecided);
    let named = |known: &Cause| decides(known) && i32::from(known.to_wire()) == wire;
    Cause::ALL.into_iter().find(named).ok_or_else(|| {
        let all: Vec<&str> = Cause::ALL.into_iter().filter(decides).map(Cause::as_str).collect();
        FieldViolation::new(field, format!("is not known or not set; take one of {}", all.join(", ")))
    })
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_code_or_a_signal() {
        let wire = |code, signal| Some(pb::Exit { code, signal });
        assert_eq!(read_exit(None), Ok(None));
        assert_eq!(read_exit(wire(Some(2), None)), Ok(Some(Exit::Code(2))));
        assert_eq!(read_exit(wire(None, Some(9))), Ok(Some(Exit::Signal(9))));
        assert!(read_exit(wire(None, Some(65))).is_err());
        assert!(read_exit(wire(Some(1), Some(9))).is_err());
    }
}
