//! Wire to domain: the only place that decides what an absent, unknown or absurd field means.
//!
//! Each function either returns a checked value or a [`Fault`] that names the field as the sender spells it.

use plimsoll_proto::{limits, v1 as pb};

use crate::{
    domain::{
        Attempt, AttemptId, Bytes, Cores, CpuMicros, Exit, Fault, Hints, Key, Micros, Millis, OomOrigin,
        Phase, Resources, Sample, SessionId, Source, Totals,
    },
    ingest::{Append, Finish, Question},
};

type Checked<T> = Result<T, Fault>;

pub(super) fn attempt_id(field: &str, text: &str) -> Checked<AttemptId> {
    AttemptId::parse(text).map_err(|why| Fault::new(field, why))
}

fn text(field: &str, value: String, limit: usize) -> Checked<String> {
    if value.len() > limit {
        return Err(Fault::new(field, format!("has {} bytes, at most {limit} are allowed", value.len())));
    }
    if value.chars().any(char::is_control) {
        return Err(Fault::new(field, "holds a control character; send printable text"));
    }
    Ok(value)
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

/// A key; `package` must be there.
pub(super) fn key(wire: Option<pb::Key>) -> Checked<Key> {
    let key = wire.ok_or_else(|| Fault::new("key", "is missing; at least key.package must be set"))?;
    let key = key_or_empty(Some(key))?;
    if key.package.is_empty() {
        return Err(Fault::new(
            "key.package",
            "is empty; name the package, crate, target or job that is built",
        ));
    }
    Ok(key)
}

/// A key that may be absent or without a package.
pub(super) fn key_or_empty(wire: Option<pb::Key>) -> Checked<Key> {
    let Some(wire) = wire else { return Ok(Key::default()) };
    let field = |name: &str, value: String| text(&format!("key.{name}"), value, limits::KEY_FIELD_BYTES);
    if wire.labels.len() > limits::LABELS {
        let description = format!("has {} labels, at most {} are allowed", wire.labels.len(), limits::LABELS);
        return Err(Fault::new("key.labels", description));
    }
    let mut labels = std::collections::BTreeMap::new();
    for (name, value) in wire.labels {
        let name = text("key.labels", name, limits::LABEL_BYTES)?;
        if name.is_empty() {
            return Err(Fault::new("key.labels", "holds a label without a name"));
        }
        let value = text(&format!("key.labels[{name}]"), value, limits::LABEL_BYTES)?;
        labels.insert(name, value);
    }
    Ok(Key {
        project: field("project", wire.project)?,
        stack: field("stack", wire.stack)?,
        package: field("package", wire.package)?,
        version: field("version", wire.version)?,
        variants: text("key.variants", wire.variants, limits::VARIANTS_BYTES)?,
        compiler: field("compiler", wire.compiler)?,
        compiler_version: field("compiler_version", wire.compiler_version)?,
        arch: field("arch", wire.arch)?,
        build_system: field("build_system", wire.build_system)?,
        git_ref: field("ref", wire.r#ref)?,
        owner: field("owner", wire.owner)?,
        labels,
        hints: hints(wire.hints.unwrap_or_default())?,
    })
}

fn hints(wire: pb::Hints) -> Checked<Hints> {
    if let Some(jobs) = wire.build_jobs
        && (jobs == 0 || jobs > limits::BUILD_JOBS)
    {
        let description = format!("is {jobs}; it must be 1 to {}", limits::BUILD_JOBS);
        return Err(Fault::new("key.hints.build_jobs", description));
    }
    Ok(Hints { build_jobs: wire.build_jobs, input_bytes: wire.input_bytes })
}

fn resources(wire: Option<pb::Resources>) -> Checked<Resources> {
    let wire = wire.unwrap_or_default();
    let bytes = |name: &str, value: Option<u64>| {
        value.map(|v| memory(&format!("hello.resources.{name}"), v)).transpose()
    };
    let cpu = |name: &str, value: Option<f64>| {
        value.map(|v| cores(&format!("hello.resources.{name}"), v)).transpose()
    };
    Ok(Resources {
        memory_request: bytes("memory_request_bytes", wire.memory_request_bytes)?,
        memory_limit: bytes("memory_limit_bytes", wire.memory_limit_bytes)?,
        cpu_request: cpu("cpu_request_cores", wire.cpu_request_cores)?,
        cpu_limit: cpu("cpu_limit_cores", wire.cpu_limit_cores)?,
    })
}

/// The opening of an attempt.
pub(super) fn hello(wire: pb::Hello) -> Checked<Attempt> {
    let id = attempt_id("hello.attempt", &wire.attempt)?;
    let session = SessionId::parse(&wire.session).map_err(|why| Fault::new("hello.session", why))?;
    let retries = match wire.retries.as_str() {
        "" => None,
        id => Some(attempt_id("hello.retries", id)?),
    };
    // a clock that is merely wrong is put right where it matters; this is not a date at all
    let started_unix_ms = at_most("hello.started_unix_ms", wire.started_unix_ms, MAX_UNIX_MS)?;
    Ok(Attempt {
        id,
        session,
        number: wire.number.max(1),
        retries,
        source: match known("hello.source", wire.source)? {
            pb::Source::Unspecified => Source::Unspecified,
            pb::Source::CgroupV2 => Source::CgroupV2,
            pb::Source::CgroupV1 => Source::CgroupV1,
            pb::Source::ProcessTree => Source::ProcessTree,
        },
        resources: resources(wire.resources)?,
        key: key(wire.key).map_err(|fault| fault.within("hello"))?,
        started_unix_ms,
    })
}

/// The year 2500.
const MAX_UNIX_MS: u64 = 16_725_225_600_000;

/// Samples, each of which may follow the one before it.
pub(super) fn batch(wire: pb::Batch) -> Checked<Append> {
    let attempt = attempt_id("batch.attempt", &wire.attempt)?;
    if wire.first_sequence == 0 || wire.first_sequence > limits::ATTEMPT_SAMPLES {
        let description = format!("is {}; it must be 1 to {}", wire.first_sequence, limits::ATTEMPT_SAMPLES);
        return Err(Fault::new("batch.first_sequence", description));
    }
    if wire.lost >= wire.first_sequence {
        let description =
            format!("is {}; only {} numbers come before the first", wire.lost, wire.first_sequence - 1);
        return Err(Fault::new("batch.lost", description));
    }
    if wire.samples.is_empty() || wire.samples.len() > limits::BATCH_SAMPLES {
        let description = format!("has {} samples; send 1 to {}", wire.samples.len(), limits::BATCH_SAMPLES);
        return Err(Fault::new("batch.samples", description));
    }
    let mut samples = Vec::with_capacity(wire.samples.len());
    for (index, wire) in wire.samples.into_iter().enumerate() {
        let place = |fault: Fault| fault.within(&format!("batch.samples[{index}]"));
        let next = sample(&wire).map_err(place)?;
        if let Some(previous) = samples.last() {
            next.check_follows(previous).map_err(place)?;
        }
        samples.push(next);
    }
    Ok(Append { attempt, first_sequence: wire.first_sequence, lost: wire.lost, samples })
}

fn sample(wire: &pb::Sample) -> Checked<Sample> {
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
        refaults: wire.refaults,
        throttled: wire.throttled_usec.map(|v| throttled("throttled_usec", v)).transpose()?,
        starved: wire.starved_ms.map(|v| elapsed("starved_ms", v)).transpose()?,
    };
    sample.check()?;
    Ok(sample)
}

/// Time within the longest attempt.
fn elapsed(field: &str, value: u64) -> Checked<Millis> {
    at_most(field, value, limits::ELAPSED_MS).map(Millis)
}

fn stall(field: &str, value: u64) -> Checked<Micros> {
    at_most(field, value, limits::ELAPSED_MS * 1000).map(Micros)
}

/// The kernel adds throttled time up over all processors.
fn throttled(field: &str, value: u64) -> Checked<Micros> {
    cpu(field, value).map(|time| Micros(time.0))
}

/// CPU time that fits into the longest attempt on the largest machine.
fn cpu(field: &str, value: u64) -> Checked<CpuMicros> {
    at_most(field, value, limits::ELAPSED_MS * 1000 * 65_536).map(CpuMicros)
}

/// The end of an attempt.
pub(super) fn finish(wire: &pb::Finish) -> Checked<Finish> {
    if wire.lost > wire.last_sequence {
        return Err(Fault::new("finish.lost", "is larger than finish.last_sequence"));
    }
    let wall = elapsed("finish.wall_ms", wire.wall_ms)?;
    Ok(Finish {
        attempt: attempt_id("finish.attempt", &wire.attempt)?,
        last_sequence: at_most("finish.last_sequence", wire.last_sequence, limits::ATTEMPT_SAMPLES)?,
        lost: wire.lost,
        wall,
        exit: exit(wire.exit).map_err(|fault| fault.within("finish"))?,
        totals: totals(&wire.totals.unwrap_or_default()).map_err(|fault| fault.within("finish.totals"))?,
        phases: phases(&wire.phases, wall).map_err(|fault| fault.within("finish"))?,
    })
}

fn totals(wire: &pb::Totals) -> Checked<Totals> {
    Ok(Totals {
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
        refaults: wire.refaults,
        throttled: wire.throttled_usec.map(|v| throttled("throttled_usec", v)).transpose()?,
        starved: wire.starved_ms.map(|v| elapsed("starved_ms", v)).transpose()?,
    })
}

fn phases(wire: &[pb::Phase], wall: Millis) -> Checked<Vec<Phase>> {
    let mut phases = Vec::with_capacity(wire.len().min(limits::PHASES));
    for (index, wire) in wire.iter().enumerate() {
        let place = |fault: Fault| fault.within(&format!("phases[{index}]"));
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
pub(super) fn question(wire: pb::ShouldRetryRequest) -> Checked<Question> {
    if wire.log_tail.len() > limits::LOG_TAIL_BYTES {
        let description =
            format!("has {} bytes; send the last {} of the log", wire.log_tail.len(), limits::LOG_TAIL_BYTES);
        return Err(Fault::new("log_tail", description));
    }
    let reason = |name: &str, value: String| text(name, value, limits::REASON_BYTES);
    Ok(Question {
        attempt: attempt_id("attempt", &wire.attempt)?,
        key: key_or_empty(wire.key)?,
        number: wire.number.max(1),
        exit: exit(wire.exit)?,
        log_tail: String::from_utf8_lossy(&wire.log_tail).into_owned(),
        failure_reason: reason("failure_reason", wire.failure_reason)?,
        container_reason: reason("container_reason", wire.container_reason)?,
        pod_reason: reason("pod_reason", wire.pod_reason)?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn named(package: &str) -> pb::Key {
        pb::Key { package: package.into(), ..pb::Key::default() }
    }

    #[test]
    fn a_bad_key_names_the_field() {
        let labels: HashMap<String, String> = (0..10_000).map(|n| (n.to_string(), String::new())).collect();
        let cases = [
            (None, "key"),
            (Some(named("")), "key.package"),
            (Some(named(&"x".repeat(257))), "key.package"),
            (Some(named("a\u{1f}b")), "key.package"),
            (Some(pb::Key { labels, ..named("a") }), "key.labels"),
            (Some(pb::Key { variants: "v".repeat(2049), ..named("a") }), "key.variants"),
            (
                Some(pb::Key {
                    hints: Some(pb::Hints { build_jobs: Some(0), input_bytes: None }),
                    ..named("a")
                }),
                "key.hints.build_jobs",
            ),
        ];
        for (wire, field) in cases {
            assert_eq!(key(wire).unwrap_err().field, field);
        }
        assert!(key(Some(named("zlib"))).is_ok());
    }

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
            (wire(1, 0, vec![at(5), at(4)]), "batch.samples[1].elapsed_ms"),
            (wire(1, 0, vec![at(u64::MAX)]), "batch.samples[0].elapsed_ms"),
        ];
        for (wire, field) in cases {
            assert_eq!(batch(wire).unwrap_err().field, field);
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
            refaults: Some(2),
            throttled_usec: Some(3),
            starved_ms: Some(4),
            ..row
        };
        assert_eq!(crate::grpc::reply::sample(&sample(&full).unwrap()), full, "nothing of it is lost");
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
            key: Some(named("zlib")),
            source,
            ..pb::Hello::default()
        };
        assert_eq!(hello(wire(99)).unwrap_err().field, "hello.source");
        assert_eq!(hello(wire(0)).unwrap().source, Source::Unspecified);
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
    fn a_log_may_hold_any_bytes_but_not_too_many() {
        let wire = |log_tail| pb::ShouldRetryRequest { attempt: "a".into(), log_tail, ..Default::default() };
        assert_eq!(question(wire(vec![0xff, b'x'])).unwrap().log_tail, "\u{fffd}x");
        assert_eq!(question(wire(vec![0; limits::LOG_TAIL_BYTES + 1])).unwrap_err().field, "log_tail");
    }
}
