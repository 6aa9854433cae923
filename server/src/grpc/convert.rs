//! Wire to domain: the only place, with `checked` for keys, that decides what an absent, unknown or absurd field means.
//!
//! Each function either returns a checked value or a [`Fault`] that names the field as the sender spells it.

use plimsoll_proto::{limits, v1 as pb};

use crate::{
    checked::{Checked, key, key_or_empty, text},
    domain::{AttemptId, Bytes, Cores, Evidence, Exit, Fault, Key, ListedRun, TicketId},
};

mod delivery;
mod ticket;

pub(super) use delivery::{batch, finish, hello, runner_tags};
pub(super) use ticket::opening;

pub(super) fn attempt_id(field: &str, text: &str) -> Checked<AttemptId> {
    AttemptId::parse(text).map_err(|why| Fault::new(field, why))
}

pub(super) fn ticket_id(field: &str, text: &str) -> Checked<TicketId> {
    TicketId::parse(text).map_err(|why| Fault::new(field, why))
}

fn at_most(field: &str, value: u64, limit: u64) -> Checked<u64> {
    if value > limit {
        Err(Fault::new(field, format!("is {value}, at most {limit} is allowed")))
    } else {
        Ok(value)
    }
}

/// An enum of the wire. A number without a meaning here is a fault, and not the same as not said.
pub(super) fn known<E: TryFrom<i32>>(field: &str, number: i32) -> Checked<E> {
    E::try_from(number).map_err(|_unknown| {
        Fault::new(
            field,
            format!("is {number}, which this server does not know; leave it out, or update the server"),
        )
    })
}

fn memory(field: &str, value: u64) -> Checked<Bytes> {
    at_most(field, value, limits::MEMORY_BYTES).map(Bytes)
}

fn cores(field: &str, value: f64) -> Checked<Cores> {
    if value.is_finite() && value > 0.0 && value <= limits::CORES {
        Ok(Cores(value))
    } else {
        Err(Fault::new(field, format!("is {value}; it must be above 0 and at most {}", limits::CORES)))
    }
}

/// What a prediction is asked for: the key, and the memory that the attempt may have at most.
pub(super) fn ask(wire: pb::PredictRequest) -> Checked<(Key, Option<Bytes>)> {
    let limit = wire.memory_limit_bytes.map(|bytes| match bytes {
        0 => Err(Fault::new("memory_limit_bytes", "is 0; leave it out if there is no limit")),
        bytes => memory("memory_limit_bytes", bytes),
    });
    Ok((key(wire.key)?, limit.transpose()?))
}

fn exit(wire: Option<pb::Exit>) -> Checked<Option<Exit>> {
    match wire {
        None | Some(pb::Exit { code: None, signal: None }) => Ok(None),
        Some(pb::Exit { code: Some(code), signal: None }) => Ok(Some(Exit::Code(code))),
        Some(pb::Exit { code: None, signal: Some(signal @ 1..=64) }) => Ok(Some(Exit::Signal(signal))),
        Some(pb::Exit { signal: Some(signal), code: None }) => {
            Err(Fault::new("exit.signal", format!("is {signal}; it must be 1 to 64")))
        }
        Some(pb::Exit { code: Some(_), signal: Some(_) }) => {
            Err(Fault::new("exit", "has both a code and a signal; an end has one of them"))
        }
    }
}

/// What a caller of `ShouldRetry` says.
pub(super) fn question(wire: pb::ShouldRetryRequest) -> Checked<Evidence> {
    if wire.log_tail.len() > limits::LOG_TAIL_BYTES {
        let description =
            format!("has {} bytes; send the last {} of the log", wire.log_tail.len(), limits::LOG_TAIL_BYTES);
        return Err(Fault::new("log_tail", description));
    }
    let reason = |name: &str, value: String| text(name, value, limits::REASON_BYTES);
    Ok(Evidence {
        key: key_or_empty(wire.key)?,
        number: wire.number.max(1),
        exit: exit(wire.exit)?,
        log_tail: String::from_utf8_lossy(&wire.log_tail).into_owned(),
        failure_reason: reason("failure_reason", wire.failure_reason)?,
        container_reason: reason("container_reason", wire.container_reason)?,
        pod_reason: reason("pod_reason", wire.pod_reason)?,
        listed: listed(wire.include_retried)?,
        ..Evidence::about(attempt_id("attempt", &wire.attempt)?)
    })
}

/// What the CI system lists of a job.
fn listed(wire: Vec<pb::RetriedJob>) -> Checked<Vec<ListedRun>> {
    if wire.len() > limits::RETRIED_JOBS {
        let description =
            format!("lists {} runs; send the last {} of the job", wire.len(), limits::RETRIED_JOBS);
        return Err(Fault::new("include_retried", description));
    }
    wire.into_iter().enumerate().map(|(at, run)| listed_run(at, run)).collect()
}

fn listed_run(at: usize, wire: pb::RetriedJob) -> Checked<ListedRun> {
    let field = |name: &str| format!("include_retried[{at}].{name}");
    if wire.id.is_empty() {
        return Err(Fault::new(field("id"), "is empty; send the CI system's id of the run"));
    }
    if wire.finished_unix_ms.zip(wire.created_unix_ms).is_some_and(|(ended, made)| ended < made) {
        return Err(Fault::new(field("finished_unix_ms"), "is before created_unix_ms"));
    }
    let short = |name: &str, value: String| text(&field(name), value, limits::REASON_BYTES);
    Ok(ListedRun {
        id: text(&field("id"), wire.id, limits::ATTEMPT_BYTES)?,
        name: short("name", wire.name)?,
        status: short("status", wire.status)?,
        failure_reason: short("failure_reason", wire.failure_reason)?,
        created_unix_ms: wire.created_unix_ms,
        finished_unix_ms: wire.finished_unix_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(package: &str) -> pb::Key {
        pb::Key { package: package.into(), ..pb::Key::default() }
    }

    #[test]
    fn a_limit_of_nothing_or_of_more_than_there_is_is_named() {
        let limit = |bytes| {
            ask(pb::PredictRequest { key: Some(named("zlib")), memory_limit_bytes: bytes })
                .map(|(_, limit)| limit)
        };
        assert_eq!((limit(None), limit(Some(7))), (Ok(None), Ok(Some(Bytes(7)))));
        for bytes in [0, u64::MAX] {
            assert_eq!(limit(Some(bytes)).unwrap_err().field, "memory_limit_bytes", "{bytes}");
        }
    }

    #[test]
    fn an_end_is_a_code_or_a_signal() {
        let wire = |code, signal| Some(pb::Exit { code, signal });
        assert_eq!(exit(None), Ok(None));
        assert_eq!(exit(wire(Some(2), None)), Ok(Some(Exit::Code(2))));
        assert_eq!(exit(wire(None, Some(9))), Ok(Some(Exit::Signal(9))));
        assert!(exit(wire(None, Some(65))).is_err());
        assert!(exit(wire(Some(1), Some(9))).is_err());
    }

    #[test]
    fn a_list_of_runs_is_checked_run_by_run() {
        let run = |id: &str| pb::RetriedJob { id: id.into(), name: "build".into(), ..Default::default() };
        let asked = |list: Vec<pb::RetriedJob>| {
            question(pb::ShouldRetryRequest {
                attempt: "a".into(),
                include_retried: list,
                ..Default::default()
            })
        };
        let backwards = pb::RetriedJob { created_unix_ms: Some(2), finished_unix_ms: Some(1), ..run("3") };
        let cases = [
            (vec![run("1"), run("")], "include_retried[1].id"),
            (vec![run(&"1".repeat(129))], "include_retried[0].id"),
            (vec![pb::RetriedJob { name: "a\n".into(), ..run("1") }], "include_retried[0].name"),
            (vec![pb::RetriedJob { status: "s".repeat(257), ..run("1") }], "include_retried[0].status"),
            (vec![run("1"), run("2"), backwards], "include_retried[2].finished_unix_ms"),
            (vec![run("1"); 101], "include_retried"),
        ];
        for (list, field) in cases {
            assert_eq!(asked(list).unwrap_err().field, field);
        }
        assert_eq!(asked(vec![run("1"); 100]).unwrap().listed.len(), 100);
    }

    #[test]
    fn a_log_may_hold_any_bytes_but_not_too_many() {
        let wire = |log_tail| pb::ShouldRetryRequest { attempt: "a".into(), log_tail, ..Default::default() };
        assert_eq!(question(wire(vec![0xff, b'x'])).unwrap().log_tail, "\u{fffd}x");
        assert_eq!(question(wire(vec![0; limits::LOG_TAIL_BYTES + 1])).unwrap_err().field, "log_tail");
    }
}
