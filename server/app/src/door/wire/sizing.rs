//! `Predict`, `PredictBatch` and `Explain`: parses requests, and builds answers with the reasons of
//! each size.

use plimsoll_core::{
    domain::{
        Basis, Bytes, FieldViolation, JobsCurve, JobsPoint, Key, PartEffect, Prediction, Quantity,
        UsedAttempt,
    },
    validated::{self, Validated},
};
use plimsoll_proto::{limits, measured::IncompleteNeed, v1 as pb};

use super::check_memory;
use crate::sizing::{Explanation, SizingAnswer};

/// Parses a request: the key, and the highest memory limit that the attempt may get.
pub(crate) fn ask(wire: pb::PredictRequest) -> Validated<(Key, Option<Bytes>)> {
    let pb::PredictRequest { key, memory_limit_bytes } = wire;
    let limit = memory_limit_bytes.map(|bytes| match bytes {
        0 => Err(FieldViolation::new("memory_limit_bytes", "is 0; leave it out if there is no limit")),
        bytes => check_memory("memory_limit_bytes", bytes),
    });
    Ok((validated::key(key)?, limit.transpose()?))
}

/// A prediction as a message; marked if shadow mode withholds it.
pub(crate) fn answer(answer: &SizingAnswer) -> pb::Prediction {
    pb::Prediction { shadow: answer.is_withheld, ..prediction(&answer.prediction) }
}

/// Builds the answer of `Explain`.
pub(crate) fn explanation(explained: Explanation) -> pb::ExplainResponse {
    pb::ExplainResponse {
        prediction: Some(answer(&explained.answer)),
        attempts: explained.attempts.iter().take(limits::EXPLAIN_ATTEMPTS).map(used_attempt).collect(),
        jobs: Some(jobs_curve(explained.jobs)),
    }
}

pub(super) fn prediction(prediction: &Prediction) -> pb::Prediction {
    let lower_bound = prediction.lower_bound.map(|bound| pb::LowerBound {
        above_bytes: bound.above.0,
        attempts: bound.attempts,
        least_bytes: bound.least.0,
    });
    pb::Prediction {
        parts: prediction.parts.iter().map(part_effect).collect(),
        lower_bound,
        taken_back: prediction.taken_back,
        memory_request_bytes: Some(quantity(&prediction.memory_request)),
        memory_limit_bytes: Some(quantity(&prediction.memory_limit)),
        cpu_request_millicores: Some(quantity(&prediction.cpu_request)),
        cpu_limit_millicores: Some(quantity(&prediction.cpu_limit)),
        build_jobs: Some(quantity(&prediction.build_jobs)),
        wall_p50_ms: Some(quantity(&prediction.wall_p50)),
        wall_p95_ms: Some(quantity(&prediction.wall_p95)),
        confidence: prediction.confidence,
        unsure_because: prediction.unsure_because.clone(),
        attempts: prediction.attempts,
        reason: prediction.reason.clone(),
        shadow: false,
        pool: prediction.placed.pool.clone(),
        clamped: prediction.placed.clamped,
        pool_reason: prediction.placed.reason.clone(),
    }
}

fn quantity(quantity: &Quantity) -> pb::Quantity {
    let Basis { rung: heaviest, attempts, quantile, margin, ref bound, all_of_rung, by_processes, .. } =
        quantity.basis;
    let (rung, size_bound, bound) = (heaviest.to_wire().into(), bound.to_wire(), bound.to_string());
    let basis = pb::Basis { rung, attempts, quantile, margin, bound, size_bound, all_of_rung, by_processes };
    pb::Quantity { value: quantity.value, basis: Some(basis) }
}

fn part_effect(effect: &PartEffect) -> pb::PartEffect {
    let PartEffect { part, needs_more, change } = effect;
    pb::PartEffect { part: part.clone(), needs_more: *needs_more, change_bytes: change.0 }
}

fn used_attempt(used: &UsedAttempt) -> pb::UsedAttempt {
    pb::UsedAttempt {
        attempt: used.attempt.to_string(),
        rung: used.rung.to_wire().into(),
        weight: used.weight,
        need_bytes: used.need.0,
        censored: used.censored,
        build_jobs: used.build_jobs,
        wall_ms: used.wall.0,
        measured_bytes: used.measured.0,
        incomplete: used.incomplete.and_then(IncompleteNeed::source).unwrap_or_default().into(),
        paused: used.incomplete == Some(IncompleteNeed::Paused),
    }
}

fn jobs_curve(curve: JobsCurve) -> pb::JobsCurve {
    let point = |point: JobsPoint| pb::JobsPoint {
        jobs: point.jobs,
        attempts: point.attempts,
        stopped: point.stopped,
        need_p50_bytes: point.need_p50.0,
        need_p95_bytes: point.need_p95.0,
        wall_p50_ms: point.wall_p50.0,
        held_gib_hours: point.held_gib_hours,
    };
    pb::JobsCurve {
        known: curve.known.into(),
        rung: curve.rung.to_wire().into(),
        points: curve.points.into_iter().map(point).collect(),
        base_bytes: curve.base.0,
        per_job_bytes: curve.per_job.0,
        memory_limit_bytes: curve.limit.map(|limit| limit.0),
        most_that_fit: curve.most_that_fit,
        cheapest: curve.cheapest,
        reason: curve.reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(package: &str) -> pb::Key {
        pb::Key { package: package.into(), ..pb::Key::default() }
    }

    #[test]
    fn invalid_memory_limits_are_refused() {
        let limit = |bytes| {
            ask(pb::PredictRequest { key: Some(named("zlib")), memory_limit_bytes: bytes })
                .map(|(_, limit)| limit)
        };
        assert_eq!((limit(None), limit(Some(7))), (Ok(None), Ok(Some(Bytes(7)))));
        for bytes in [0, u64::MAX] {
            assert_eq!(limit(Some(bytes)).unwrap_err().field, "memory_limit_bytes", "{bytes}");
        }
    }
}
