//! What an agent delivers: the opening of an attempt, its samples, its end.

use plimsoll_core::{
    domain::{
        Attempt, CpuMicros, FieldViolation, FinalTotals, MeasurementSource, Micros, Millis, OomOrigin,
        OpeningRecord, Phase, Resources, Sample, SessionId,
    },
    validated::{self, Validated, text},
};
use plimsoll_proto::{limits, v1 as pb};

use super::{at_most, attempt_id, cores, known, memory, read_exit, ticket_id};
use crate::sessions::{Append, Finish};

fn read_resources(wire: Option<pb::Resources>) -> Validated<Resources> {
    let pb::Resources { memory_request_bytes, memory_limit_bytes, cpu_request_cores, cpu_limit_cores } =
        wire.unwrap_or_default();
    let bytes = |name: &str, value: Option<u64>| {
        value.map(|v| memory(&format!("hello.resources.{name}"), v)).transpose()
    };
    let cpu = |name: &str, value: Option<f64>| {
        value.map(|v| cores(&format!("hello.resources.{name}"), v)).transpose()
    };
    Ok(Resources {
        memory_request: bytes("memory_request_bytes", memory_request_bytes)?,
        memory_limit: bytes("memory_limit_bytes", memory_limit_bytes)?,
        cpu_request: cpu("cpu_request_cores", cpu_request_cores)?,
        cpu_limit: cpu("cpu_limit_cores", cpu_limit_cores)?,
    })
}

/// The opening of an attempt.
pub(crate) fn hello(wire: pb::Hello) -> Validated<Attempt> {
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
    } = wire;
    let id = attempt_id("hello.attempt", &attempt)?;
    let session = SessionId::parse(&session).map_err(|why| FieldViolation::new("hello.session", why))?;
    let retries = match retries.as_str() {
        "" => None,
        id => Some(attempt_id("hello.retries", id)?),
    };
    // a clock that is merely wrong is put right where it matters; this is not a date at all
    let started_unix_ms = at_most("hello.started_unix_ms", started_unix_ms, MAX_UNIX_MS)?;
    Ok(Attempt {
        id,
        session,
        number: number.max(1),
        retries,
        source: match known("hello.source", source)? {
            pb::Source::Unspecified => MeasurementSource::Unspecified,
            pb::Source::CgroupV2 => MeasurementSource::CgroupV2,
            pb::Source::CgroupV1 => MeasurementSource::CgroupV1,
            pb::Source::ProcessTree => MeasurementSource::ProcessTree,
            pb::Source::Prometheus => MeasurementSource::Prometheus,
        },
        resources: read_resources(resources)?,
        key: validated::key(key).map_err(|fault| fault.within("hello"))?,
        started_unix_ms,
        opening: OpeningRecord {
            pool: text("hello.pool", pool, limits::KEY_FIELD_BYTES)?,
            ticket: match ticket.as_str() {
                "" => None,
                id => Some(ticket_id("hello.ticket", id)?),
            },
            ..OpeningRecord::default()
        },
    })
}

/// What the runner is known by, where the agent says so.
pub(crate) fn runner_tags(wire: &pb::Hello) -> Validated<Vec<String>> {
    let tags = &wire.runner_tags;
    if tags.len() > limits::RUNNER_TAGS {
        let description = format!("has {} tags, at most {} are allowed", tags.len(), limits::RUNNER_TAGS);
        return Err(FieldViolation::new("hello.runner_tags", description));
    }
    tags.iter().map(|tag| text("hello.runner_tags", tag.clone(), limits::KEY_FIELD_BYTES)).collect()
}

/// The year 2500.
const MAX_UNIX_MS: u64 = 16_725_225_600_000;

/// Samples; whether each may follow the one before it is seen where they are added to their attempt.
pub(crate) fn batch(wire: &pb::Batch) -> Validated<Append> {
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
    // a collect that may end early does not know how many come, and copies them as it grows
    let mut checked = Vec::with_capacity(samples.len());
    for (index, wire) in samples.iter().enumerate() {
        checked.push(sample(wire).map_err(|fault| fault.within(&format!("batch.samples[{index}]")))?);
    }
    Ok(Append { attempt, first_sequence, lost, samples: checked })
}

fn sample(wire: &pb::Sample) -> Validated<Sample> {
    let sample = Sample {
        elapsed: elapsed("elapsed_ms", wire.elapsed_ms)?,
        memory: memory("memory_bytes", wire.memory_bytes)?,
        need: memory("need_bytes", wire.need_bytes)?,
        memory_peak: wire.memory_peak_bytes.map(|v| memory("memory_peak_bytes", v)).transpose()?,
        cpu: cpu("cpu_usec", wire.cpu_usec)?,
        oom_kill: wire.oom_kill,
        reclaim_failures: wire.reclaim_failures,
        need_max: wire.need_max_bytes.map(|v| memory("need_max_bytes", v)).transpose()?,
        memory_stall: wire.memory_stall_usec.map(|v| stall("memory_stall_usec", v)).transpose()?,
        pages: wire.into(),
        throttled: wire.throttled_usec.map(|v| throttled("throttled_usec", v)).transpose()?,
        starved: wire.starved_ms.map(|v| elapsed("starved_ms", v)).transpose()?,
    };
    sample.check()?;
    Ok(sample)
}

/// Time within the longest attempt.
fn elapsed(field: &str, value: u64) -> Validated<Millis> {
    at_most(field, value, limits::ELAPSED_MS).map(Millis)
}

fn stall(field: &str, value: u64) -> Validated<Micros> {
    at_most(field, value, limits::ELAPSED_MS * 1000).map(Micros)
}

/// The kernel adds throttled time up over all processors.
fn throttled(field: &str, value: u64) -> Validated<Micros> {
    cpu(field, value).map(|time| Micros(time.0))
}

/// CPU time that fits into the longest attempt on the largest machine.
fn cpu(field: &str, value: u64) -> Validated<CpuMicros> {
    at_most(field, value, limits::ELAPSED_MS * 1000 * 65_536).map(CpuMicros)
}

/// The end of an attempt.
pub(crate) fn finish(wire: &pb::Finish) -> Validated<Finish> {
    let &pb::Finish { ref attempt, last_sequence, lost, wall_ms, exit, totals, ref phases, keeps_ticket } =
        wire;
    if lost > last_sequence {
        return Err(FieldViolation::new("finish.lost", "is larger than finish.last_sequence"));
    }
    let wall = elapsed("finish.wall_ms", wall_ms)?;
    Ok(Finish {
        attempt: attempt_id("finish.attempt", attempt)?,
        last_sequence: at_most("finish.last_sequence", last_sequence, limits::ATTEMPT_SAMPLES)?,
        lost,
        wall,
        exit: read_exit(exit).map_err(|fault| fault.within("finish"))?,
        totals: read_totals(&totals.unwrap_or_default()).map_err(|fault| fault.within("finish.totals"))?,
        phases: read_phases(phases, wall).map_err(|fault| fault.within("finish"))?,
        keeps_ticket,
    })
}

fn read_totals(wire: &pb::Totals) -> Validated<FinalTotals> {
    Ok(FinalTotals {
        cpu: cpu("cpu_usec", wire.cpu_usec)?,
        memory_peak: wire.memory_peak_bytes.map(|v| memory("memory_peak_bytes", v)).transpose()?,
        oom_kill: wire.oom_kill,
        reclaim_failures: wire.reclaim_failures,
        need_peak: wire.need_peak_bytes.map(|v| memory("need_peak_bytes", v)).transpose()?,
        oom_origin: match wire.oom_origin() {
            pb::OomOrigin::Unspecified => None,
            pb::OomOrigin::OwnLimit => Some(OomOrigin::OwnLimit),
            pb::OomOrigin::LimitAbove => Some(OomOrigin::LimitAbove),
            pb::OomOrigin::Host => Some(OomOrigin::Host),
        },
        oom_group_kill: wire.oom_group_kill,
        memory_stall: wire.memory_stall_usec.map(|v| stall("memory_stall_usec", v)).transpose()?,
        pages: wire.into(),
        throttled: wire.throttled_usec.map(|v| throttled("throttled_usec", v)).transpose()?,
        starved: wire.starved_ms.map(|v| elapsed("starved_ms", v)).transpose()?,
    })
}

fn read_phases(wire: &[pb::Phase], wall: Millis) -> Validated<Vec<Phase>> {
    let mut phases = Vec::with_capacity(wire.len().min(limits::PHASES));
    for (index, wire) in wire.iter().enumerate() {
        let place = |fault: FieldViolation| fault.within(&format!("phases[{index}]"));
        phases.push(Phase {
            name: wire.name.clone(),
            started: elapsed("started_ms", wire.started_ms).map_err(place)?,
            wall: elapsed("wall_ms", wire.wall_ms).map_err(place)?,
            need_peak: memory("need_peak_bytes", wire.need_peak_bytes).map_err(place)?,
            cpu: cpu("cpu_usec", wire.cpu_usec).map_err(place)?,
        });
    }
    Phase::check_all(&phases, wall)?;
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::counters::PageCounters;

    use super::*;

    #[test]
    fn a_bad_batch_names_the_sample() {
        let at = |ms| pb::Sample { elapsed_ms: ms, ..pb::Sample::default() };
        let wire =
            |first_sequence, lost, samples| pb::Batch { attempt: "a".into(), first_sequence, lost, samples };
        let cases = [
            (wire(0, 0, vec![at(1)]), "batch.first_sequence"),
            (wire(3, 3, vec![at(1)]), "batch.lost"),
            (wire(1, 0, vec![]), "batch.samples"),
            (wire(1, 0, vec![at(1); 1001]), "batch.samples"),
            (wire(1, 0, vec![at(u64::MAX)]), "batch.samples[0].elapsed_ms"),
        ];
        for (wire, field) in cases {
            assert_eq!(batch(&wire).unwrap_err().field, field);
        }
    }

    #[test]
    fn what_is_absurd_in_a_row_is_named() {
        let row = pb::Sample { elapsed_ms: 1, need_bytes: 5, ..pb::Sample::default() };
        let cases = [
            (pb::Sample { need_max_bytes: Some(4), ..row }, "need_max_bytes"),
            (pb::Sample { need_max_bytes: Some(u64::MAX), ..row }, "need_max_bytes"),
            (pb::Sample { memory_stall_usec: Some(u64::MAX), ..row }, "memory_stall_usec"),
            (pb::Sample { throttled_usec: Some(u64::MAX), ..row }, "throttled_usec"),
            (pb::Sample { starved_ms: Some(u64::MAX), ..row }, "starved_ms"),
        ];
        for (wire, field) in cases {
            assert_eq!(sample(&wire).unwrap_err().field, field);
        }
        let full = pb::Sample {
            need_max_bytes: Some(5),
            memory_stall_usec: Some(1),
            throttled_usec: Some(3),
            starved_ms: Some(4),
            ..row
        }
        .with_pages(PageCounters::all(Some(2)));
        assert_eq!(
            crate::transport::wire::attempts::sample(&sample(&full).unwrap()),
            full,
            "nothing of it is lost"
        );
    }

    #[test]
    fn an_end_with_a_bad_phase_or_total_names_it() {
        let phase =
            |name: &str, started_ms| pb::Phase { name: name.into(), started_ms, ..pb::Phase::default() };
        let ended = |phases| pb::Finish { attempt: "a".into(), wall_ms: 10, phases, ..pb::Finish::default() };
        let starved = pb::Totals { starved_ms: Some(u64::MAX), ..pb::Totals::default() };
        let cases = [
            (ended(vec![phase("", 0)]), "finish.phases[0].name"),
            (ended(vec![phase("a", 0), phase("b", 11)]), "finish.phases[1].wall_ms"),
            (ended(vec![phase("a", u64::MAX)]), "finish.phases[0].started_ms"),
            (
                ended(vec![pb::Phase { need_peak_bytes: u64::MAX, ..phase("a", 0) }]),
                "finish.phases[0].need_peak_bytes",
            ),
            (ended(vec![phase("a", 0); 65]), "finish.phases"),
            (pb::Finish { totals: Some(starved), ..ended(vec![]) }, "finish.totals.starved_ms"),
        ];
        for (wire, field) in cases {
            assert_eq!(finish(&wire).unwrap_err().field, field);
        }
        // an origin that a newer agent knows is one that this server does not
        let totals = Some(pb::Totals { oom_origin: 99, oom_kill: Some(1), ..pb::Totals::default() });
        let finish = finish(&pb::Finish { totals, ..ended(vec![phase("a", 3)]) }).unwrap();
        assert_eq!((finish.totals.oom_origin, finish.phases.len()), (None, 1));
    }

    #[test]
    fn a_source_that_this_server_does_not_know_is_named() {
        let wire = |source| pb::Hello {
            attempt: "a".into(),
            session: "s".into(),
            key: Some(pb::Key { package: "zlib".into(), ..pb::Key::default() }),
            source,
            ..pb::Hello::default()
        };
        assert_eq!(hello(wire(99)).unwrap_err().field, "hello.source");
        assert_eq!(hello(wire(0)).unwrap().source, MeasurementSource::Unspecified);
    }
}
