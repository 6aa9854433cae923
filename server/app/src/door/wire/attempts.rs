//! Ended and running attempts as messages of `Stats`.

use plimsoll_core::domain::{
    Cause, Exit, FieldViolation, LargestProcess, OomOrigin, Phase, PredictionSnapshot, Rescue, Resources,
    Sample, Summary,
};
use plimsoll_proto::{limits, measured, v1 as pb};

use super::{key, rows::Rows, verdicts::verdict};
use crate::{
    fleet::{attempts::ShownAttempt, statistics::ListedAttempt},
    ingest::RunningAttempt,
};

/// The answer of `GetAttempt`, without the series.
pub(crate) fn shown(attempt: ShownAttempt) -> pb::GetAttemptResponse {
    let mut summary = summary(&attempt.summary);
    if attempt.is_running {
        summary.outcome = pb::Outcome::Running.into();
    }
    let mut verdicts = attempt.verdicts.into_iter().map(verdict);
    let (retried_by, retry_outcome) =
        attempt.retry.map_or_else(Default::default, |(id, ended)| (id.to_string(), ended.to_wire().into()));
    pb::GetAttemptResponse {
        summary: Some(summary),
        verdict: verdicts.next(),
        earlier_verdicts: verdicts.take(limits::EARLIER_VERDICTS).collect(),
        retried_by,
        retry_outcome,
        ..pb::GetAttemptResponse::default()
    }
}

/// Collects a series, reduced to at most as many rows as requested.
/// Errors: more rows are requested than an answer may have.
pub(crate) fn rows(asked: u32) -> Result<Rows, FieldViolation> {
    match asked {
        0 => Ok(Rows::new(limits::SHOWN_SAMPLES_DEFAULT as usize)),
        asked if asked <= limits::SHOWN_SAMPLES => Ok(Rows::new(asked as usize)),
        asked => {
            let description = format!("is {asked}, at most {} is allowed", limits::SHOWN_SAMPLES);
            Err(FieldViolation::new("max_samples", description))
        }
    }
}

pub(crate) fn summary(summary: &Summary) -> pb::Summary {
    pb::Summary {
        attempt: summary.attempt.to_string(),
        key: Some(key(&summary.key)),
        number: summary.number,
        retries: summary.retries.as_ref().map(ToString::to_string).unwrap_or_default(),
        source: summary.source.into(),
        offloaded_to: summary.offloaded_to.clone(),
        resources: Some(resources(&summary.resources)),
        memory_limit_at_start_bytes: summary.memory_limit_at_start.map(|limit| limit.0),
        started_unix_ms: summary.started_unix_ms,
        wall_ms: summary.wall.0,
        cpu_usec: summary.measured_cpu().map(|cpu| cpu.0),
        samples: summary.samples,
        samples_lost: summary.samples_lost,
        need_peak_bytes: summary.measured_need_peak().map(|need| need.0),
        need_mean_bytes: summary.measured_need_mean().map(|need| need.0),
        memory_peak_bytes: summary.measured_memory_peak().map(|memory| memory.0),
        oom_kill: summary.oom_kill,
        reclaim_failures: summary.reclaim_failures,
        outcome: summary.outcome.to_wire().into(),
        exit: summary.exit.map(exit),
        cause: summary.cause.map(Cause::to_wire).unwrap_or_default().into(),
        censored: summary.censored,
        cpu_peak_cores: cpu_peak(summary),
        oom_origin: summary.oom_origin.map(OomOrigin::to_wire).unwrap_or_default().into(),
        oom_group_kill: summary.oom_group_kill,
        memory_stall_usec: summary.memory_stall.map(|t| t.0),
        throttled_usec: summary.throttled.map(|t| t.0),
        starved_ms: summary.starved.map(|t| t.0),
        phases: summary.phases.iter().map(phase).collect(),
        peak_phase: summary.peak_phase().map(|phase| phase.name.clone()).unwrap_or_default(),
        largest_process: summary.largest_process.as_ref().map(largest_process),
        compilers_peak: summary.compilers_peak,
        rescue: summary.rescue.as_ref().map(rescue),
        pool: summary.opening.pool.clone(),
        untrusted: summary.opening.untrusted,
        predicted: summary.opening.predicted.as_ref().map(predicted),
        cause_source: summary.cause_source.map_or_else(String::new, |source| source.as_str().to_owned()),
        ..pb::Summary::default()
    }
    .with_pages(summary.pages)
}

/// An attempt as an entry of a list, with the log line that identifies its failure.
pub(crate) fn listed(listed: ListedAttempt) -> pb::Summary {
    pb::Summary { failure_line: listed.line, ..summary(&listed.summary) }
}

fn resources(resources: &Resources) -> pb::Resources {
    pb::Resources {
        memory_request_bytes: resources.memory_request.map(|b| b.0),
        memory_limit_bytes: resources.memory_limit.map(|b| b.0),
        cpu_request_cores: resources.cpu_request.map(|c| c.0),
        cpu_limit_cores: resources.cpu_limit.map(|c| c.0),
    }
}

fn exit(exit: Exit) -> pb::Exit {
    match exit {
        Exit::Code(code) => pb::Exit { code: Some(code), signal: None },
        Exit::Signal(signal) => pb::Exit { code: None, signal: Some(signal) },
    }
}

fn predicted(predicted: &PredictionSnapshot) -> pb::Predicted {
    pb::Predicted {
        memory_request_bytes: predicted.memory_request.0,
        memory_limit_bytes: predicted.memory_limit.0,
        cpu_request_cores: predicted.cpu_request.0,
        wall_p95_ms: predicted.wall_p95.0,
        wall_p50_ms: predicted.wall_p50.0,
        is_default: predicted.is_default,
    }
}

/// Highest CPU use; `None` if the attempt was too short to measure it.
fn cpu_peak(summary: &Summary) -> Option<f64> {
    let peak = summary.measured_cpu_peak().filter(|_| summary.wall.0 >= measured::MIN_MEAN_MS);
    peak.map(|cores| cores.0)
}

fn phase(phase: &Phase) -> pb::Phase {
    pb::Phase {
        name: phase.name.clone(),
        started_ms: phase.started.0,
        wall_ms: phase.wall.0,
        need_peak_bytes: phase.need_peak.0,
        cpu_usec: phase.cpu.0,
    }
}

fn largest_process(process: &LargestProcess) -> pb::LargestProcess {
    let LargestProcess { program, file, memory, elapsed } = process.clone();
    pb::LargestProcess { program, file, memory_bytes: memory.0, elapsed_ms: elapsed.0 }
}

fn rescue(rescue: &Rescue) -> pb::Rescue {
    pb::Rescue {
        would_pause_ms: rescue.would_pause.map(|time| time.0),
        would_pause_processes: rescue.would_pause_processes,
        pauses: rescue.pauses,
        paused_ms: rescue.paused.0,
        paused_process_ms: rescue.paused_process_time.0,
        together_peak_bytes: rescue.together_peak.0,
        gave_up: rescue.gave_up.clone(),
        raises: rescue.raises,
        ended_ms: rescue.ended.map(|time| time.0),
        raised_byte_seconds: rescue.raised_byte_seconds,
    }
}

pub(crate) fn sample(sample: &Sample) -> pb::Sample {
    // destructured, so that a new field cannot be forgotten
    let Sample {
        elapsed,
        memory,
        need,
        memory_peak,
        cpu,
        oom_kill,
        reclaim_failures,
        need_max,
        memory_stall,
        pages,
        throttled,
        starved,
    } = *sample;
    pb::Sample {
        elapsed_ms: elapsed.0,
        memory_bytes: memory.0,
        need_bytes: need.0,
        memory_peak_bytes: memory_peak.map(|b| b.0),
        cpu_usec: cpu.0,
        oom_kill,
        reclaim_failures,
        need_max_bytes: need_max.map(|b| b.0),
        memory_stall_usec: memory_stall.map(|t| t.0),
        throttled_usec: throttled.map(|t| t.0),
        starved_ms: starved.map(|t| t.0),
        ..pb::Sample::default()
    }
    .with_pages(pages)
}

/// A message of `Watch`: running attempts, and ids of ended ones.
pub(crate) fn changed(running: &[RunningAttempt], ended: &[String]) -> pb::WatchResponse {
    let wire = |running: &RunningAttempt| {
        let last = running.progress.last.unwrap_or_default();
        let at_start = running.attempt.resources.memory_limit.map(|limit| limit.0);
        let limit = running.acts.and_then(|acts| acts.memory_limit_bytes).or(at_start);
        pb::Running {
            attempt: running.attempt.id.to_string(),
            key: Some(key(&running.attempt.key)),
            elapsed_ms: last.elapsed.0,
            memory_bytes: last.memory.0,
            need_bytes: last.need.0,
            need_peak_bytes: running.progress.need_peak.0,
            cpu_usec: last.cpu.0,
            memory_limit_bytes: limit.filter(|limit| *limit > 0),
            starved: running.progress.starvation.is_starved_now,
            source: running.attempt.source.into(),
            acts: running.acts,
        }
    };
    pb::WatchResponse { running: running.iter().map(wire).collect(), ended: ended.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_than_an_answer_holds_are_refused() {
        assert_eq!(rows(20_001).unwrap_err().field, "max_samples");
        assert!(rows(0).is_ok() && rows(20_000).is_ok());
    }
}
