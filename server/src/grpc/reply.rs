//! Domain to wire. Nothing here can fail.

use plimsoll_proto::v1 as pb;

use crate::{
    domain::{
        Action, Basis, Bytes, Cause, CurveKnown, EvidenceLine, Exit, JobsCurve, JobsPoint, Key, NeedGroup,
        NeedGroups, OomOrigin, Outcome, Outlook, Phase, Predicted, Prediction, Quantity, Resources, Rung,
        Sample, Signature, Source, Summary, UsedAttempt, Verdict,
    },
    predict::groups::describe,
    retry::Flaky,
    stats::{ChangeKind, MixedNeed, Regression},
};

pub(super) fn key(key: &Key) -> pb::Key {
    pb::Key {
        project: key.project.clone(),
        stack: key.stack.clone(),
        package: key.package.clone(),
        version: key.version.clone(),
        variants: key.variants.clone(),
        compiler: key.compiler.clone(),
        compiler_version: key.compiler_version.clone(),
        arch: key.arch.clone(),
        build_system: key.build_system.clone(),
        r#ref: key.git_ref.clone(),
        owner: key.owner.clone(),
        labels: key.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        hints: Some(pb::Hints { build_jobs: key.hints.build_jobs, input_bytes: key.hints.input_bytes }),
    }
}

fn resources(resources: &Resources) -> pb::Resources {
    pb::Resources {
        memory_request_bytes: resources.memory_request.map(|b| b.0),
        memory_limit_bytes: resources.memory_limit.map(|b| b.0),
        cpu_request_cores: resources.cpu_request.map(|c| c.0),
        cpu_limit_cores: resources.cpu_limit.map(|c| c.0),
    }
}

pub(super) fn sample(sample: &Sample) -> pb::Sample {
    pb::Sample {
        elapsed_ms: sample.elapsed.0,
        memory_bytes: sample.memory.0,
        need_bytes: sample.need.0,
        memory_peak_bytes: sample.memory_peak.map(|b| b.0),
        cpu_usec: sample.cpu.0,
        oom_kill: sample.oom_kill,
        reclaim_failures: sample.reclaim_failures,
        need_max_bytes: sample.need_max.map(|b| b.0),
        memory_stall_usec: sample.memory_stall.map(|t| t.0),
        refaults: sample.refaults,
        throttled_usec: sample.throttled.map(|t| t.0),
        starved_ms: sample.starved.map(|t| t.0),
    }
}

fn exit(exit: Exit) -> pb::Exit {
    match exit {
        Exit::Code(code) => pb::Exit { code: Some(code), signal: None },
        Exit::Signal(signal) => pb::Exit { code: None, signal: Some(signal) },
    }
}

pub(super) fn cause(cause: Cause) -> pb::Cause {
    match cause {
        Cause::Oom => pb::Cause::Oom,
        Cause::Starved => pb::Cause::Starved,
        Cause::Timeout => pb::Cause::Timeout,
        Cause::Deterministic => pb::Cause::Deterministic,
        Cause::Infra => pb::Cause::Infra,
        Cause::Preempted => pb::Cause::Preempted,
        Cause::DiskFull => pb::Cause::DiskFull,
        Cause::Canceled => pb::Cause::Canceled,
        Cause::ToolOom => pb::Cause::ToolOom,
        Cause::EphemeralStorage => pb::Cause::EphemeralStorage,
        Cause::NodeLost => pb::Cause::NodeLost,
        Cause::EvictedByNode => pb::Cause::EvictedByNode,
        Cause::Contention => pb::Cause::Contention,
        Cause::Flaky => pb::Cause::Flaky,
        Cause::Configuration => pb::Cause::Configuration,
        Cause::Unknown => pb::Cause::Unknown,
    }
}

pub(super) fn summary(summary: &Summary) -> pb::Summary {
    let outcome = match summary.outcome {
        Outcome::Succeeded => pb::Outcome::Succeeded,
        Outcome::Failed => pb::Outcome::Failed,
        Outcome::Lost => pb::Outcome::Lost,
    };
    let source = match summary.source {
        Source::Unspecified => pb::Source::Unspecified,
        Source::CgroupV2 => pb::Source::CgroupV2,
        Source::CgroupV1 => pb::Source::CgroupV1,
        Source::ProcessTree => pb::Source::ProcessTree,
    };
    pb::Summary {
        attempt: summary.attempt.to_string(),
        key: Some(key(&summary.key)),
        number: summary.number,
        retries: summary.retries.as_ref().map(ToString::to_string).unwrap_or_default(),
        source: source.into(),
        resources: Some(resources(&summary.resources)),
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
        outcome: outcome.into(),
        exit: summary.exit.map(exit),
        cause: summary.cause.map_or(pb::Cause::Unspecified, cause).into(),
        censored: summary.censored,
        cpu_peak_cores: summary.measured_cpu_peak().map(|cores| cores.0),
        oom_origin: summary.oom_origin.map_or(pb::OomOrigin::Unspecified, oom_origin).into(),
        oom_group_kill: summary.oom_group_kill,
        memory_stall_usec: summary.memory_stall.map(|t| t.0),
        refaults: summary.refaults,
        throttled_usec: summary.throttled.map(|t| t.0),
        starved_ms: summary.starved.map(|t| t.0),
        phases: summary.phases.iter().map(phase).collect(),
        peak_phase: summary.peak_phase().map(|phase| phase.name.clone()).unwrap_or_default(),
        pool: summary.opening.pool.clone(),
        untrusted: summary.opening.untrusted,
        predicted: summary.opening.predicted.as_ref().map(predicted),
        cause_source: summary.cause_source.map_or_else(String::new, |source| source.as_str().to_owned()),
    }
}

fn predicted(predicted: &Predicted) -> pb::Predicted {
    pb::Predicted {
        memory_request_bytes: predicted.memory_request.0,
        memory_limit_bytes: predicted.memory_limit.0,
        cpu_request_cores: predicted.cpu_request.0,
        wall_p95_ms: predicted.wall_p95.0,
        is_default: predicted.is_default,
    }
}

fn oom_origin(origin: OomOrigin) -> pb::OomOrigin {
    match origin {
        OomOrigin::OwnLimit => pb::OomOrigin::OwnLimit,
        OomOrigin::LimitAbove => pb::OomOrigin::LimitAbove,
        OomOrigin::Host => pb::OomOrigin::Host,
    }
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

fn rung(rung: Rung) -> pb::Rung {
    match rung {
        Rung::Default => pb::Rung::Default,
        Rung::Fleet => pb::Rung::Fleet,
        Rung::BuildSystem => pb::Rung::BuildSystem,
        Rung::Package => pb::Rung::Package,
        Rung::NoCompiler => pb::Rung::NoCompiler,
        Rung::NoVersion => pb::Rung::NoVersion,
        Rung::Exact => pb::Rung::Exact,
    }
}

fn quantity(quantity: Quantity) -> pb::Quantity {
    let Quantity { value, basis: Basis { rung: heaviest, attempts, quantile, margin, bound, .. } } = quantity;
    let basis =
        pb::Basis { rung: rung(heaviest).into(), attempts, quantile, margin, bound: bound.to_string() };
    pb::Quantity { value, basis: Some(basis) }
}

pub(super) fn prediction(prediction: Prediction) -> pb::Prediction {
    let sizes = [prediction.memory_request.value, prediction.memory_limit.value].map(Bytes);
    let need_groups = prediction.need_groups.as_deref().map(|groups| need_groups(groups, Some(sizes)));
    pb::Prediction {
        need_groups,
        memory_request_bytes: Some(quantity(prediction.memory_request)),
        memory_limit_bytes: Some(quantity(prediction.memory_limit)),
        cpu_request_millicores: Some(quantity(prediction.cpu_request)),
        cpu_limit_millicores: Some(quantity(prediction.cpu_limit)),
        build_jobs: Some(quantity(prediction.build_jobs)),
        wall_p50_ms: Some(quantity(prediction.wall_p50)),
        wall_p95_ms: Some(quantity(prediction.wall_p95)),
        confidence: prediction.confidence,
        attempts: prediction.attempts,
        reason: prediction.reason,
        shadow: false,
        pool: prediction.placed.pool,
        clamped: prediction.placed.clamped,
        pool_reason: prediction.placed.reason,
    }
}

/// A build that hides groups of need.
pub(super) fn mixed_need(mixed: &MixedNeed) -> pb::MixedNeed {
    pb::MixedNeed {
        key: mixed.key.describe(),
        package: mixed.key.package.clone(),
        groups: Some(need_groups(&mixed.groups, None)),
        extra_gib_hours: mixed.extra_gib_hours,
    }
}

/// Groups of need, held against the request and the limit that were predicted over all of them, if they were.
fn need_groups(groups: &NeedGroups, sizes: Option<[Bytes; 2]>) -> pb::NeedGroups {
    let [request, limit] = sizes.unwrap_or_default();
    let group = |group: &NeedGroup| {
        let [least, median, most] = group.need;
        pb::NeedGroup {
            attempts: group.attempts,
            share: group.share,
            need_least_bytes: least.0,
            need_median_bytes: median.0,
            need_most_bytes: most.0,
            within_request: most <= request,
            within_limit: most <= limit,
        }
    };
    let told_apart_by = groups.told_apart_by.as_ref().map(|by| pb::Distinction {
        field: by.field.clone(),
        values: by.values.iter().map(|values| pb::DistinctValues { values: values.clone() }).collect(),
        accuracy: by.accuracy,
        asked_group: by.asked.and_then(|group| u32::try_from(group).ok()),
    });
    pb::NeedGroups {
        groups: groups.groups.iter().map(group).collect(),
        told_apart_by,
        unrecorded: groups.unrecorded.iter().map(|name| (*name).to_owned()).collect(),
        reason: describe(groups, sizes),
    }
}

pub(super) fn used_attempt(used: &UsedAttempt) -> pb::UsedAttempt {
    pb::UsedAttempt {
        attempt: used.attempt.to_string(),
        rung: rung(used.rung).into(),
        weight: used.weight,
        need_bytes: used.need.0,
        censored: used.censored,
        build_jobs: used.build_jobs,
        wall_ms: used.wall.0,
        measured_bytes: used.measured.0,
    }
}

pub(super) fn jobs_curve(curve: JobsCurve) -> pb::JobsCurve {
    let known = match curve.known {
        CurveKnown::Nothing => pb::CurveKnown::Nothing,
        CurveKnown::OneCount => pb::CurveKnown::OneCount,
        CurveKnown::Contradictory => pb::CurveKnown::Contradictory,
        CurveKnown::Flat => pb::CurveKnown::Flat,
        CurveKnown::Line => pb::CurveKnown::Line,
    };
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
        known: known.into(),
        rung: rung(curve.rung).into(),
        points: curve.points.into_iter().map(point).collect(),
        base_bytes: curve.base.0,
        per_job_bytes: curve.per_job.0,
        memory_limit_bytes: curve.limit.map(|limit| limit.0),
        most_that_fit: curve.most_that_fit,
        cheapest: curve.cheapest,
        reason: curve.reason,
    }
}

pub(super) fn verdict(verdict: Verdict) -> pb::Verdict {
    let action = match verdict.action {
        Action::No => pb::Action::No,
        Action::AsIs => pb::Action::AsIs,
        Action::Bigger => pb::Action::Bigger,
        Action::FewerJobs => pb::Action::FewerJobs,
        Action::Longer => pb::Action::Longer,
        Action::Elsewhere => pb::Action::Elsewhere,
    };
    let line = |line: EvidenceLine| pb::EvidenceLine {
        source: line.source.as_str().to_owned(),
        text: line.text,
        supports: line.supports,
    };
    pb::Verdict {
        attempt: verdict.attempt.to_string(),
        action: action.into(),
        cause: cause(verdict.cause).into(),
        confidence: verdict.confidence,
        evidence: verdict.evidence.into_iter().map(line).collect(),
        next: verdict.next.and_then(super::next_size::next_size),
        attempts_left: verdict.attempts_left,
        reason: verdict.reason,
        given_unix_ms: verdict.given_unix_ms.unwrap_or_default(),
        outlook: Some(outlook(verdict.outlook)),
        cause_source: verdict
            .basis
            .cause_source
            .map_or_else(String::new, |source| source.as_str().to_owned()),
    }
}

pub(super) fn flaky(flaky: Flaky) -> pb::Flaky {
    pb::Flaky {
        key: flaky.key,
        signature: flaky.signature.id,
        signature_line: flaky.signature.line,
        failure_line: flaky.signature.first,
        retried: flaky.helped.tried,
        passed: flaky.helped.passed,
    }
}

pub(super) fn regression(regression: Regression) -> pb::Regression {
    let kind = match regression.kind {
        ChangeKind::Step => pb::ChangeKind::Step,
        ChangeKind::Back => pb::ChangeKind::Back,
        ChangeKind::Drift => pb::ChangeKind::Drift,
    };
    pb::Regression {
        key: regression.key.describe(),
        kind: kind.into(),
        attempt: regression.attempt.to_string(),
        ended_unix_ms: regression.ended_unix_ms,
        factor: regression.factor,
        before_bytes: regression.before.0,
        now_bytes: regression.now.0,
        attempts_before: regression.attempts_before,
        attempts_since: regression.attempts_since,
        changed: regression.changed,
        extra_gib_hours: regression.extra_gib_hours,
    }
}

fn outlook(outlook: Outlook) -> pb::Outlook {
    let signature = outlook.signature.unwrap_or(Signature {
        id: String::new(),
        line: String::new(),
        first: String::new(),
    });
    let cost = outlook.cost.unwrap_or_default();
    pb::Outlook {
        signature: signature.id,
        signature_line: signature.line,
        failure_line: signature.first,
        seen: outlook.seen,
        retried: outlook.retried,
        passed: outlook.passed,
        cost_memory_gib_hours: cost.memory_gib_h,
        cost_cpu_core_hours: cost.cpu_core_h,
        wait_ms: outlook.wait.0,
        waiting_saves_gib_hours: outlook.waiting_saves_gib_h,
        clamped: outlook.clamped,
        mend: outlook.mend.unwrap_or_default(),
    }
}
