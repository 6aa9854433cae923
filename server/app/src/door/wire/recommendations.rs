//! `Recommend`: parses the request, and builds the answer.

use plimsoll_core::{
    domain::FieldViolation,
    recommend::{BuildSizes, Recommendation, Risk, Sizes},
    stats::Filter,
};
use plimsoll_proto::{limits, reasons::MIN_CONFIDENCE, v1 as pb};

use super::filter::check_text;
use crate::fleet::statistics::{RecommendQuestion, RecommendationAnswer};

/// Highest price that is accepted; a higher one is probably a typing error.
const MAX_PRICE: f64 = 1_000_000.0;

/// Parses the request.
pub(crate) fn question(wire: pb::RecommendRequest) -> Result<RecommendQuestion, FieldViolation> {
    let pb::RecommendRequest { project, stack, package, from_unix_ms, to_unix_ms, .. } = wire;
    if let (Some(from), Some(to)) = (from_unix_ms, to_unix_ms)
        && from > to
    {
        return Err(FieldViolation::new("from_unix_ms", "is after to_unix_ms"));
    }
    let part = |name: &str, value| check_text(name, value, limits::KEY_FIELD_BYTES);
    let most = match wire.page_size {
        0 => limits::RECOMMENDATIONS_DEFAULT,
        size @ 1..=limits::RECOMMENDATIONS => size,
        size => {
            let rule = format!("is {size}, at most {} is allowed", limits::RECOMMENDATIONS);
            return Err(FieldViolation::new("page_size", rule));
        }
    };
    check_jobs(&wire.build_jobs)?;
    Ok(RecommendQuestion {
        build_jobs: wire.build_jobs,
        filter: Filter {
            project: part("project", project)?,
            stack: part("stack", stack)?,
            package: part("package", package)?,
            from_unix_ms,
            to_unix_ms,
            ..Filter::default()
        },
        gib_hour: check_number("price_gib_hour", wire.price_gib_hour, MAX_PRICE)?,
        least_confidence: check_number("min_confidence", wire.min_confidence, 1.0)?.unwrap_or(MIN_CONFIDENCE),
        most: usize::try_from(most).unwrap_or(usize::MAX),
    })
}

fn check_jobs(jobs: &[u32]) -> Result<(), FieldViolation> {
    let rule = match jobs.iter().find(|jobs| !(1..=limits::BUILD_JOBS).contains(*jobs)) {
        Some(wrong) => format!("has {wrong}; it may be 1 to {}", limits::BUILD_JOBS),
        None if jobs.len() > limits::RECOMMEND_BUILD_JOBS => {
            format!("has {} numbers, at most {} are allowed", jobs.len(), limits::RECOMMEND_BUILD_JOBS)
        }
        None => return Ok(()),
    };
    Err(FieldViolation::new("build_jobs", rule))
}

fn check_number(field: &str, value: Option<f64>, most: f64) -> Result<Option<f64>, FieldViolation> {
    match value {
        Some(value) if !(0.0..=most).contains(&value) => {
            Err(FieldViolation::new(field, format!("is {value}; it may be 0 to {most}")))
        }
        value => Ok(value),
    }
}

/// Builds the answer.
pub(crate) fn answer(answer: RecommendationAnswer) -> pb::RecommendResponse {
    let savings = answer.savings;
    pb::RecommendResponse {
        asked_gib_hours: savings.asked_gib_hours,
        saved_gib_hours: savings.saved_gib_hours,
        saved_money: savings.saved_money,
        packages: savings.packages,
        has_prices: answer.priced,
        currency: answer.currency,
        window_ms: answer.window.0,
        left_out: answer.left_out,
        notes: answer.notes,
        recommendations: answer.rows.into_iter().map(recommendation).collect(),
    }
}

fn recommendation(row: Recommendation) -> pb::Recommendation {
    pb::Recommendation {
        project: row.project,
        package: row.package,
        attempts: row.attempts,
        failed_for_memory: row.failed_for_memory,
        today: Some(sizes(&row.today)),
        proposed: row.proposed.as_ref().ok().map(sizes),
        no_proposal: row.proposed.as_ref().err().copied().unwrap_or_default().into(),
        asked_gib_hours: row.asked_gib_hours,
        saved_gib_hours: row.saved_gib_hours,
        saved_money: row.saved_money,
        confidence: row.confidence,
        limit_risk: row.limit_risk.map(risk),
        request_risk: row.request_risk.map(risk),
        taken_back: row.taken_back,
        highest_need_bytes: row.highest_need.map(|bytes| bytes.0),
        has_more_builds: row.has_more_builds,
        builds: row.builds.into_iter().map(build).collect(),
    }
}

fn build(build: BuildSizes) -> pb::BuildSizes {
    let sizes = build.sizes.into_iter().map(|size| pb::SizeAtJobs {
        build_jobs: size.build_jobs,
        memory_request_bytes: size.memory_request.0,
        wall_ms: size.wall.0,
    });
    pb::BuildSizes { version: build.version, variants: build.variants, sizes: sizes.collect() }
}

fn sizes(sizes: &Sizes) -> pb::RequestedSizes {
    pb::RequestedSizes {
        memory_request_bytes: sizes.memory_request.map(|bytes| bytes.0),
        memory_limit_bytes: sizes.memory_limit.map(|bytes| bytes.0),
        cpu_request_cores: sizes.cpu_request.map(|cores| cores.0),
    }
}

fn risk(risk: Risk) -> pb::FitRisk {
    pb::FitRisk { judged: risk.judged, above: risk.above, at_most: risk.at_most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_recommend_requests_are_refused_by_field() {
        let refused = |wire| question(wire).map(drop).unwrap_err().field;
        let asked = pb::RecommendRequest::default;
        for (wire, field) in [
            (pb::RecommendRequest { page_size: 501, ..asked() }, "page_size"),
            (pb::RecommendRequest { package: "x".repeat(300), ..asked() }, "package"),
            (pb::RecommendRequest { price_gib_hour: Some(f64::NAN), ..asked() }, "price_gib_hour"),
            (pb::RecommendRequest { price_gib_hour: Some(-0.1), ..asked() }, "price_gib_hour"),
            (pb::RecommendRequest { min_confidence: Some(1.1), ..asked() }, "min_confidence"),
            (pb::RecommendRequest { build_jobs: vec![4, 0], ..asked() }, "build_jobs"),
            (pb::RecommendRequest { build_jobs: vec![1; 9], ..asked() }, "build_jobs"),
            (pb::RecommendRequest { from_unix_ms: Some(2), to_unix_ms: Some(1), ..asked() }, "from_unix_ms"),
        ] {
            assert_eq!(refused(wire), field);
        }
        let usual = question(asked()).unwrap();
        assert_eq!((usual.most, usual.gib_hour), (100, None));
        assert!((usual.least_confidence - MIN_CONFIDENCE).abs() < f64::EPSILON);
    }
}
