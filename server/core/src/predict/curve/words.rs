//! Describes a curve for a CI engineer.

use std::fmt::Write as _;

use plimsoll_proto::figures;

use super::{super::words::rung_scope, tried::TriedJobs};
use crate::domain::{CurveKnown, JobsCurve, JobsPoint};

/// One paragraph: how much is known, which `-j` to use, and what `-j1` would cost.
pub(super) fn reason(tried: &TriedJobs<'_>, curve: &JobsCurve, usual: u32, most_tried: u32) -> String {
    let mut text = known_words(tried, curve);
    if !matches!(curve.known, CurveKnown::Flat | CurveKnown::Line) {
        return text;
    }
    text.push_str(&fitting_words(curve, most_tried));
    text.push_str(&one_job_words(curve, usual));
    if let Some(point) = curve.cheapest.and_then(|jobs| point_at(curve, jobs)) {
        let _written = write!(
            text,
            "; -j{} is the cheapest{}: it holds {} of memory",
            point.jobs,
            if curve.limit.is_some() { " that fits" } else { "" },
            figures::gib_hours(point.held_gib_hours)
        );
    }
    text
}

fn point_at(curve: &JobsCurve, jobs: u32) -> Option<&JobsPoint> {
    curve.points.iter().find(|point| point.jobs == jobs)
}

fn known_words(tried: &TriedJobs<'_>, curve: &JobsCurve) -> String {
    let attempts = figures::counted(tried.attempts() as u64, "attempt");
    let of = format!("{attempts} of {}", rung_scope(curve.rung));
    let range =
        match (curve.points.iter().find(|p| p.attempts > 0), curve.points.iter().rfind(|p| p.attempts > 0)) {
            (Some(first), Some(last)) => format!("-j{} to -j{}", first.jobs, last.jobs),
            _ => String::new(),
        };
    let mixed = if tried.mixed { ", which differ in more than -j" } else { "" };
    match curve.known {
        CurveKnown::Nothing | CurveKnown::Unspecified => {
            "no attempt of this package says with how many build jobs it ran, so nothing is known about -j"
                .to_owned()
        }
        CurveKnown::OneCount => {
            let jobs = curve.points.first().map_or(0, |point| point.jobs);
            format!(
                "{of} all ran at -j{jobs}, so what another -j needs cannot be known; build once at another"
            )
        }
        CurveKnown::Contradictory => format!(
            "{of} at {range} contradict each other: more build jobs did not need more memory in any regular way, so \
             nothing is worked out for a -j that was not tried"
        ),
        CurveKnown::Flat => format!("memory does not depend on -j ({of} at {range}{mixed})"),
        CurveKnown::Line => format!(
            "each build job needs {} on top of {} ({of} at {range}{mixed})",
            curve.per_job, curve.base
        ),
    }
}

fn fitting_words(curve: &JobsCurve, most_tried: u32) -> String {
    let Some(limit) = curve.limit else {
        return "; name a memory limit to see which -j fits it".to_owned();
    };
    let Some(point) = curve.most_that_fit.and_then(|jobs| point_at(curve, jobs)) else {
        return format!("; not even -j1 fits {limit} with room for file pages");
    };
    // the table of the curve ends at `end`; more jobs might fit
    let end = most_tried.saturating_mul(super::MAX_EXTRAPOLATION);
    let largest = if point.jobs >= end { "fits" } else { "is the largest that fits" };
    let mut text =
        format!("; -j{} {largest} {limit}: 95 % of the builds need at most {}", point.jobs, point.need_p95);
    text.push_str(", and file pages need room beside it");
    if point.jobs >= end {
        text.push_str(" (more is too far from what was tried)");
    } else if point.jobs > most_tried {
        let _written = write!(text, " (beyond -j{most_tried}, the most that was tried)");
    }
    text
}

fn one_job_words(curve: &JobsCurve, usual: u32) -> String {
    let Some(one) = point_at(curve, 1) else { return String::new() };
    let mut text = format!("; -j1 needs {}", one.need_p50);
    if one.wall_p50.0 > 0 {
        let _written = write!(text, " for {}", one.wall_p50);
        let usual = point_at(curve, usual).filter(|usual| usual.jobs > 1 && usual.wall_p50.0 > 0);
        if let Some(usual) = usual {
            let times = one.wall_p50.as_f64() / usual.wall_p50.as_f64();
            let _written = write!(text, ", {times:.1} times as long as -j{}", usual.jobs);
        }
    }
    text
}
