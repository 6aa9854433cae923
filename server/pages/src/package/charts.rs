//! Charts of one package: need and request over time, and the need at other numbers of build jobs.

use maud::{Markup, html};
use plimsoll_proto::{
    figures, measured,
    tables::{FactCell::Number, FactTable, table_of},
    v1::{JobsCurve, JobsPoint, Outcome, Summary},
};

use crate::{
    chart::{Axis, Chart, Layer, Tone, memory_unit, thinned_points, without_outliers},
    figures::{bytes, cell, count, float, millis},
    table::{fact_table, plain_table},
    times,
    view::ReaderChoice,
    words,
};

/// The chart with the need of each attempt, and what it requested.
pub(super) fn need_chart(newest: &[Summary], view: &ReaderChoice) -> Chart {
    let ended = |summary: &Summary| float(measured::ended_unix_ms(summary));
    let oldest_first = || newest.iter().rev();
    let known =
        oldest_first().flat_map(|one| [measured::need(one), measured::predicted_limit(one)]).flatten().max();
    let asks = || oldest_first().filter_map(asked_memory).map(float);
    let highest = without_outliers(asks()).max(known.map_or(0.0, float));
    let beyond: Vec<f64> = asks().filter(|ask| *ask > highest).collect();
    let (scale, unit) = memory_unit(highest);
    let line = |pick: &dyn Fn(&Summary) -> Option<u64>| -> Vec<(f64, f64)> {
        let mut points: Vec<_> =
            oldest_first().filter_map(|one| Some((ended(one), float(pick(one)?) / scale))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        thinned_points(points)
    };
    let needs = |good: bool| {
        line(&|one| measured::need(one).filter(|_| (one.outcome() == Outcome::Succeeded) == good))
    };
    let parts = [
        (Tone::Ask, "asked for", line(&|one| asked_memory(one).filter(|ask| float(*ask) <= highest))),
        (Tone::Predicted, "predicted limit", line(&measured::predicted_limit)),
        (Tone::Need, "need", needs(true)),
        (Tone::Oom, "need of what failed", needs(false)),
    ];
    let mut layers = Vec::new();
    let mut legend = Vec::new();
    for (tone, name, points) in parts.into_iter().filter(|(.., points)| !points.is_empty()) {
        legend.push((tone, name.to_owned()));
        layers.push(match tone {
            Tone::Need => Layer::Dots { tone, points },
            Tone::Oom => Layer::Crosses { tone, points },
            _ => Layer::Ticks { tone, points },
        });
    }
    let first = oldest_first().map(ended).fold(f64::INFINITY, f64::min);
    let last = oldest_first().map(ended).fold(0.0, f64::max);
    let from = if first.is_finite() { first } else { view.since_unix_ms().map_or(0.0, float) };
    let room = ((last - from) * 0.02).max(60_000.0);
    Chart {
        id: "need",
        title: "Need against ask".to_owned(),
        description: format!(
            "The highest need of the newest {} is {}.{}",
            figures::counted(newest.len() as u64, "attempt"),
            highest_need(newest),
            far_above_note(&beyond)
        ),
        x: Axis::calendar(from - room, last + room),
        y: Axis::from_zero(highest / scale, unit),
        layers,
        legend,
        table: attempts_table(newest),
    }
}

/// The highest need of the attempts, in words.
fn highest_need(newest: &[Summary]) -> String {
    // if two needs are equal, take the attempt that memory stopped, because it needs more than that
    let highest = newest.iter().max_by_key(|one| (measured::proven_need(one), one.censored));
    figures::known(highest, measured::need_words)
}

/// Names the requests that are above the chart; empty if there are none.
fn far_above_note(asks: &[f64]) -> String {
    let highest = asks.iter().copied().fold(0.0, f64::max);
    let highest = bytes(figures::to_whole(highest));
    match asks.len() {
        0 => String::new(),
        1 => format!(" One ask, {highest}, is far above the chart."),
        count => format!(" {count} asks, up to {highest}, are far above the chart."),
    }
}

fn asked_memory(summary: &Summary) -> Option<u64> {
    measured::memory_asked(summary.resources.as_ref()).map(|asked| asked.bytes)
}

fn attempts_table(newest: &[Summary]) -> Markup {
    let row = |one: &Summary| {
        html! {
            tr {
                th scope="row" { (times::time(measured::ended_unix_ms(one))) }
                td { (words::outcome(one.outcome())) }
                td.n { (crate::attempts::need(one)) }
                td.n { (cell(asked_memory(one), bytes)) }
                td.n { (cell(measured::predicted_limit(one), bytes)) }
            }
        }
    };
    plain_table(&["Ended", "Outcome", "#Need", "#Asked for", "#Predicted limit"], newest.iter().map(row))
}

/// The chart of the need at each number of build jobs.
pub(super) fn jobs_chart(curve: &JobsCurve, view: &ReaderChoice) -> Chart {
    let highest = curve.points.iter().map(|point| point.need_p95_bytes).max().map_or(0.0, float);
    let limit = curve.memory_limit_bytes.map(float).filter(|limit| *limit <= highest * 6.0);
    let top = limit.unwrap_or(0.0).max(highest);
    let (scale, unit) = memory_unit(top);
    let line = |need: fn(&JobsPoint) -> u64| {
        curve
            .points
            .iter()
            .map(|point| (f64::from(point.jobs), float(need(point)) / scale))
            .collect::<Vec<_>>()
    };
    let (half, most) = (line(|point| point.need_p50_bytes), line(|point| point.need_p95_bytes));
    let mut layers = vec![
        Layer::Line { tone: Tone::Used, points: half.clone() },
        Layer::Dots { tone: Tone::Used, points: half },
        Layer::Line { tone: Tone::Waste, points: most.clone() },
        Layer::Dots { tone: Tone::Waste, points: most },
    ];
    let mut legend = vec![
        (Tone::Used, "half of the builds need".to_owned()),
        (Tone::Waste, "95 % need at most".to_owned()),
    ];
    if let Some(limit) = limit {
        layers.push(Layer::Level { tone: Tone::Limit, at: limit / scale });
        legend.push((Tone::Limit, "limit".to_owned()));
    }
    let ends = curve.points.first().zip(curve.points.last());
    let (first, last) = ends.map_or((1, 1), |(first, last)| (first.jobs, last.jobs));
    Chart {
        id: "jobs",
        title: "Need by build jobs (-j)".to_owned(),
        description: words::sentence(&curve.reason),
        x: Axis::whole(first, last),
        y: Axis::from_zero(top / scale, unit),
        layers,
        legend,
        table: fact_table(&jobs_table(curve), usize::MAX, view),
    }
}

/// The numbers of the curve as a table; without a curve, the numbers of jobs that were tried.
pub(super) fn jobs_table(curve: &JobsCurve) -> FactTable {
    let columns = ["-j", "attempts", "stopped for memory", "half need", "95 % need", "half take"];
    table_of(columns, &curve.points, |point| {
        [
            Number(point.jobs.to_string()),
            Number(count(point.attempts.into())),
            Number(count(point.stopped.into())),
            Number(bytes(point.need_p50_bytes)),
            Number(bytes(point.need_p95_bytes)),
            Number(cell(measured::point_wall_ms(point), millis)),
        ]
    })
}

#[cfg(test)]
mod tests;
