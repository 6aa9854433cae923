//! Charts of one package: need and request over time, and the need at other numbers of build jobs.

use plimsoll_proto::{
    figures, measured, tables,
    v1::{JobsCurve, JobsPoint, Outcome, Summary},
};

use crate::{
    chart::{Axis, Chart, Layer, Shape, Tone, memory_unit, thinned_points, without_outliers},
    figures::{bytes, float},
    table::fact_table,
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
    let asked = line(&|one| asked_memory(one).filter(|ask| float(*ask) <= highest));
    let layers = [
        (Tone::Ask, "asked for", Shape::Ticks as fn(_) -> _, asked),
        (Tone::Predicted, "predicted limit", Shape::Ticks, line(&measured::predicted_limit)),
        (Tone::Need, "need", Shape::Dots, needs(true)),
        (Tone::Oom, "need of what failed", Shape::Crosses, needs(false)),
    ];
    let layers = layers.into_iter().filter(|(.., points)| !points.is_empty());
    let layers = layers.map(|(tone, name, shape, points)| Layer::new(tone, name, shape(points))).collect();
    let first = oldest_first().map(ended).fold(f64::INFINITY, f64::min);
    let last = oldest_first().map(ended).fold(0.0, f64::max);
    let from = if first.is_finite() { first } else { view.since_unix_ms().map_or(0.0, float) };
    let table = tables::attempts(newest);
    let table = table.only(&["ended (UTC)", "result", "need", "asked for", "predicted limit"]);
    let room = ((last - from) * 0.02).max(60_000.0);
    Chart {
        id: "need",
        title: "Need against ask",
        description: format!(
            "The highest need of the newest {} is {}.{}",
            figures::counted(newest.len() as u64, "attempt"),
            highest_need(newest),
            far_above_note(&beyond)
        ),
        x: Axis::calendar(from - room, last + room),
        y: Axis::from_zero(highest / scale, unit),
        layers,
        table: fact_table("Numbers: Need against ask", &table, usize::MAX, view),
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

/// The chart of the need at each number of build jobs.
pub(super) fn jobs_chart(curve: &JobsCurve, view: &ReaderChoice) -> Chart {
    let highest = curve.points.iter().map(|point| point.need_p95_bytes).max().map_or(0.0, float);
    let limit = curve.memory_limit_bytes.map(float).filter(|limit| *limit <= highest * 6.0);
    let top = limit.unwrap_or(0.0).max(highest);
    let (scale, unit) = memory_unit(top);
    let line = |need: fn(&JobsPoint) -> u64| {
        let points = curve.points.iter().map(|point| (f64::from(point.jobs), float(need(point)) / scale));
        points.collect::<Vec<_>>()
    };
    let parts = [
        (Tone::Used, "half of the builds need", line(|point| point.need_p50_bytes)),
        (Tone::Waste, "95 % need at most", line(|point| point.need_p95_bytes)),
    ];
    let part = |(tone, name, points): (Tone, &str, Vec<_>)| {
        [Layer::new(tone, name, Shape::Line(points.clone())), Layer::new(tone, "", Shape::Dots(points))]
    };
    let limit = limit.map(|limit| Layer::new(Tone::Limit, "limit", Shape::Level(limit / scale)));
    let layers = parts.into_iter().flat_map(part).chain(limit).collect();
    let ends = curve.points.first().zip(curve.points.last());
    let (first, last) = ends.map_or((1, 1), |(first, last)| (first.jobs, last.jobs));
    Chart {
        id: "jobs",
        title: "Need by build jobs (-j)",
        description: words::sentence(&curve.reason),
        x: Axis::whole(first, last),
        y: Axis::from_zero(top / scale, unit),
        layers,
        table: fact_table("Numbers: Need by build jobs", &tables::jobs_curve(curve), usize::MAX, view),
    }
}

#[cfg(test)]
mod tests;
