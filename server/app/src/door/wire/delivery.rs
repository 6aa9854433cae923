//! Parses the messages of an agent: the opening of an attempt, its samples, its end.
//!
//! An invalid value is skipped and recorded in [`SkippedFacts`]; the rest of the message is used. A
//! sample with an invalid time, memory or CPU time is skipped as a whole, and counts as lost. A
//! message with an invalid id of the attempt or session, project, package or sample number is
//! refused, because access and the order of the delivery depend on these.

mod processes;

use std::{collections::HashMap, mem};

use plimsoll_core::{
    domain::{
        Attempt, CpuMicros, FieldViolation, FinalTotals, Key, Micros, Millis, OomOrigin, OpeningRecord,
        Phase, Resources, Sample, SessionId,
    },
    validated::{self, Validated, text},
};
use plimsoll_proto::{key::KEY_TEXTS, limits, v1 as pb};
use processes::{read_largest, read_rescue};

use super::{at_most, attempt_id, check_cores, check_memory, known, read_exit, ticket_id};
use crate::{
    ingest::{Append, Finish},
    runtime::skipped_facts::{MessagePart, SkippedFacts},
};

/// Parses requests and limits. A size of 0 means that none is set, as in GitLab and Kubernetes.
fn read_resources(wire: Option<pb::Resources>, skipped: &mut SkippedFacts) -> Resources {
    let pb::Resources { memory_request_bytes, memory_limit_bytes, cpu_request_cores, cpu_limit_cores } =
        wire.unwrap_or_default();
    let mut sizes = skipped.part("hello.resources");
    let mut bytes =
        |name, value: Option<u64>| sizes.usable(name, value.filter(|bytes| *bytes > 0), check_memory);
    let memory_request = bytes("memory_request_bytes", memory_request_bytes);
    let memory_limit = bytes("memory_limit_bytes", memory_limit_bytes);
    let mut cpu = |name, value: Option<f64>| sizes.usable(name, value.filter(|cpu| *cpu != 0.0), check_cores);
    let (cpu_request, cpu_limit) =
        (cpu("cpu_request_cores", cpu_request_cores), cpu("cpu_limit_cores", cpu_limit_cores));
    Resources { memory_request, memory_limit, cpu_request, cpu_limit }
}

/// Parses the key. Invalid fields other than project and package are skipped.
fn read_key(wire: Option<pb::Key>, skipped: &mut SkippedFacts) -> Validated<Key> {
    let wire = wire.map(|mut wire| {
        let needed = ["project", "package"];
        for ((name, most), value) in KEY_TEXTS.into_iter().zip(wire.texts_mut()) {
            if !needed.contains(&name) {
                let fact = text(name, mem::take(value), most).map_err(|fault| fault.within("hello.key"));
                *value = skipped.keep(fact).unwrap_or_default();
            }
        }
        let hints = wire.hints.map(|hints| validated::hints(hints).map(|_| hints));
        wire.hints = hints.and_then(|hints| skipped.keep(hints.map_err(|fault| fault.within("hello"))));
        wire.labels = read_labels(wire.labels, skipped);
        wire
    });
    validated::key(wire).map_err(|fault| fault.within("hello"))
}

/// Parses labels. If there are too many, the first by name are kept.
fn read_labels(wire: HashMap<String, String>, skipped: &mut SkippedFacts) -> HashMap<String, String> {
    let mut labels: Vec<(String, String)> = wire.into_iter().collect();
    labels.sort_unstable();
    if labels.len() > limits::LABELS {
        let description = format!("has {} labels, at most {} are allowed", labels.len(), limits::LABELS);
        skipped.push(FieldViolation::new("hello.key.labels", description));
        labels.truncate(limits::LABELS);
    }
    let checked = labels.into_iter().map(|(name, value)| validated::label(name, value));
    checked.filter_map(|label| skipped.keep(label.map_err(|fault| fault.within("hello")))).collect()
}

/// Parses the opening of an attempt.
pub(crate) fn hello(wire: pb::Hello, skipped: &mut SkippedFacts) -> Validated<Attempt> {
    let pb::Hello {
        attempt,
        session,
        key,
        number,
        retries,
        source,
        resources,
        started_unix_ms,
        pool,
        runner_tags: _,
        ticket,
        takes_new_id: _,
        foreign: _,
    } = wire;
    let id = attempt_id("hello.attempt", &attempt)?;
    let session = SessionId::parse(&session).map_err(|why| FieldViolation::new("hello.session", why))?;
    let retries = match retries.as_str() {
        "" => None,
        id => skipped.keep(attempt_id("hello.retries", id)),
    };
    // 0 if the time is missing or invalid: the server then estimates the start
    let started_unix_ms =
        skipped.keep(at_most("hello.started_unix_ms", started_unix_ms, MAX_UNIX_MS)).unwrap_or_default();
    Ok(Attempt {
        id,
        session,
        number: number.max(1),
        retries,
        source: skipped.keep(known("hello.source", source)).unwrap_or_default(),
        resources: read_resources(resources, skipped),
        key: read_key(key, skipped)?,
        started_unix_ms,
        opening: OpeningRecord {
            pool: skipped.keep(text("hello.pool", pool, limits::KEY_FIELD_BYTES)).unwrap_or_default(),
            ticket: match ticket.as_str() {
                "" => None,
                id => skipped.keep(ticket_id("hello.ticket", id)),
            },
            ..OpeningRecord::default()
        },
    })
}

/// Parses the runner's tags, if the agent sends them.
pub(crate) fn runner_tags(wire: &pb::Hello, skipped: &mut SkippedFacts) -> Vec<String> {
    let tags = &wire.runner_tags;
    if tags.len() > limits::RUNNER_TAGS {
        let description = format!("has {} tags, at most {} are allowed", tags.len(), limits::RUNNER_TAGS);
        skipped.push(FieldViolation::new("hello.runner_tags", description));
    }
    let checked = tags.iter().take(limits::RUNNER_TAGS);
    let checked = checked.map(|tag| text("hello.runner_tags", tag.clone(), limits::KEY_FIELD_BYTES));
    checked.filter_map(|tag| skipped.keep(tag)).collect()
}

/// Latest start that is accepted: the year 2500, milliseconds since 1970.
const MAX_UNIX_MS: u64 = 16_725_225_600_000;

/// Parses samples. Whether each sample may follow the one before is checked later, when it is added
/// to the attempt.
pub(crate) fn batch(wire: &pb::Batch, skipped: &mut SkippedFacts) -> Validated<Append> {
    let &pb::Batch { ref attempt, first_sequence, lost, ref samples } = wire;
    let attempt = attempt_id("batch.attempt", attempt)?;
    if first_sequence == 0 || first_sequence > limits::ATTEMPT_SAMPLES {
        let description = format!("is {first_sequence}; it must be 1 to {}", limits::ATTEMPT_SAMPLES);
        return Err(FieldViolation::new("batch.first_sequence", description));
    }
    if lost >= first_sequence {
        let description = format!("is {lost}; only {} numbers come before the first", first_sequence - 1);
        return Err(FieldViolation::new("batch.lost", description));
    }
    if samples.is_empty() || samples.len() > limits::BATCH_SAMPLES {
        let description = format!("has {} samples; send 1 to {}", samples.len(), limits::BATCH_SAMPLES);
        return Err(FieldViolation::new("batch.samples", description));
    }
    // collecting into a `Result` would not know the length, and would copy while it grows
    let mut checked = Vec::with_capacity(samples.len());
    for wire in samples {
        let mut part = skipped.part("batch.samples");
        let read = sample(wire, &mut part);
        checked.push(read.map_err(|fault| part.leave_out(fault)).ok());
    }
    let acts = samples.last().and_then(|last| Some((last.elapsed_ms, last.acts?))).map(|(elapsed, acts)| {
        let mut part = skipped.part("batch.samples.acts");
        let limit = part.usable("memory_limit_bytes", acts.memory_limit_bytes, check_memory);
        let paused_ms = acts.paused_ms.min(elapsed);
        pb::ActsNow { memory_limit_bytes: limit.map(|limit| limit.0), paused_ms, ..acts }
    });
    Ok(Append { attempt, first_sequence, lost, samples: checked, acts })
}

fn sample(wire: &pb::Sample, skipped: &mut MessagePart<'_>) -> Validated<Sample> {
    let mut sample = Sample {
        elapsed: check_elapsed("elapsed_ms", wire.elapsed_ms)?,
        memory: check_memory("memory_bytes", wire.memory_bytes)?,
        need: check_memory("need_bytes", wire.need_bytes)?,
        memory_peak: skipped.usable("memory_peak_bytes", wire.memory_peak_bytes, check_memory),
        cpu: cpu("cpu_usec", wire.cpu_usec)?,
        oom_kill: wire.oom_kill,
        reclaim_failures: wire.reclaim_failures,
        need_max: skipped.usable("need_max_bytes", wire.need_max_bytes, check_memory),
        memory_stall: skipped.usable("memory_stall_usec", wire.memory_stall_usec, check_stall),
        pages: wire.into(),
        throttled: skipped.usable("throttled_usec", wire.throttled_usec, check_throttled),
        starved: skipped.usable("starved_ms", wire.starved_ms, check_elapsed),
    };
    if let Err(fault) = sample.check() {
        // the highest need of the interval is below its mean, so it is skipped
        skipped.leave_out(fault);
        sample.need_max = None;
    }
    Ok(sample)
}

/// Parses a time since the start of an attempt, within the longest attempt.
fn check_elapsed(field: &str, value: u64) -> Validated<Millis> {
    at_most(field, value, limits::ELAPSED_MS).map(Millis)
}

fn check_stall(field: &str, value: u64) -> Validated<Micros> {
    at_most(field, value, limits::ELAPSED_MS * 1000).map(Micros)
}

/// Parses throttled time, bounded like CPU time: the kernel adds it up over all processors.
fn check_throttled(field: &str, value: u64) -> Validated<Micros> {
    cpu(field, value).map(|time| Micros(time.0))
}

/// Parses CPU time, bounded by the longest attempt on the largest machine.
fn cpu(field: &str, value: u64) -> Validated<CpuMicros> {
    at_most(field, value, limits::ELAPSED_MS * 1000 * 65_536).map(CpuMicros)
}

/// Parses the end of an attempt.
pub(crate) fn finish(wire: &pb::Finish, skipped: &mut SkippedFacts) -> Validated<Finish> {
    let &pb::Finish {
        ref attempt,
        last_sequence,
        lost,
        wall_ms,
        exit,
        totals,
        ref phases,
        keeps_ticket,
        ref offloaded_to,
        ended,
        ref largest_process,
        ref rescue,
    } = wire;
    if lost > last_sequence {
        return Err(FieldViolation::new("finish.lost", "is larger than finish.last_sequence"));
    }
    let wall = skipped.keep(check_elapsed("finish.wall_ms", wall_ms));
    let longest = wall.unwrap_or(Millis(limits::ELAPSED_MS));
    Ok(Finish {
        attempt: attempt_id("finish.attempt", attempt)?,
        last_sequence: at_most("finish.last_sequence", last_sequence, limits::ATTEMPT_SAMPLES)?,
        lost,
        wall,
        exit: skipped.keep(read_exit(exit).map_err(|fault| fault.within("finish"))).flatten(),
        totals: read_totals(&totals.unwrap_or_default(), &mut skipped.part("finish.totals")),
        // one invalid phase makes the order of the others unknown, so all are skipped
        phases: skipped
            .keep(read_phases(phases, longest).map_err(|fault| fault.within("finish")))
            .unwrap_or_default(),
        largest_process: largest_process
            .as_ref()
            .and_then(|wire| read_largest(wire, longest, &mut skipped.part("finish.largest_process"))),
        rescue: rescue
            .as_ref()
            .and_then(|wire| read_rescue(wire, longest, &mut skipped.part("finish.rescue"))),
        keeps_ticket,
        offloaded_to: skipped.keep(check_service(offloaded_to)).unwrap_or_default(),
        ended,
    })
}

/// Most characters in the name of a service.
const SERVICE_CHARS: usize = 32;

/// Parses the name of the service that ran the build; may be empty.
fn check_service(name: &str) -> Validated<String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > SERVICE_CHARS || !name.bytes().all(is_plain) {
        let rule = format!("must be at most {SERVICE_CHARS} of a-z 0-9 -");
        return Err(FieldViolation::new("finish.offloaded_to", rule));
    }
    Ok(name.to_owned())
}

/// Parses the totals of an attempt. A value that is skipped here is later taken from the last
/// sample.
fn read_totals(wire: &pb::Totals, totals: &mut MessagePart<'_>) -> FinalTotals {
    FinalTotals {
        cpu: totals.usable("cpu_usec", Some(wire.cpu_usec), cpu).unwrap_or_default(),
        memory_peak: totals.usable("memory_peak_bytes", wire.memory_peak_bytes, check_memory),
        oom_kill: wire.oom_kill,
        reclaim_failures: wire.reclaim_failures,
        need_peak: totals.usable("need_peak_bytes", wire.need_peak_bytes, check_memory),
        oom_origin: OomOrigin::of_wire(wire.oom_origin()),
        oom_group_kill: wire.oom_group_kill,
        memory_stall: totals.usable("memory_stall_usec", wire.memory_stall_usec, check_stall),
        pages: wire.into(),
        throttled: totals.usable("throttled_usec", wire.throttled_usec, check_throttled),
        starved: totals.usable("starved_ms", wire.starved_ms, check_elapsed),
        memory_limit: totals.usable("memory_limit_bytes", wire.memory_limit_bytes, check_memory),
        compilers_peak: wire.compilers_peak,
    }
}

fn read_phases(wire: &[pb::Phase], wall: Millis) -> Validated<Vec<Phase>> {
    let mut phases = Vec::with_capacity(wire.len().min(limits::PHASES));
    for (index, wire) in wire.iter().enumerate() {
        let place = |fault: FieldViolation| fault.within(&format!("phases[{index}]"));
        phases.push(Phase {
            name: wire.name.clone(),
            started: check_elapsed("started_ms", wire.started_ms).map_err(place)?,
            wall: check_elapsed("wall_ms", wire.wall_ms).map_err(place)?,
            need_peak: check_memory("need_peak_bytes", wire.need_peak_bytes).map_err(place)?,
            cpu: cpu("cpu_usec", wire.cpu_usec).map_err(place)?,
        });
    }
    Phase::check_all(&phases, wall)?;
    Ok(phases)
}

#[cfg(test)]
mod tests;
