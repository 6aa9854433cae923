//! Charts of one attempt's memory and CPU over time.

use maud::html;
use plimsoll_proto::{
    measured,
    series::{self, SeriesPoint},
    v1::{Sample, Summary},
};

use crate::{
    chart::{Axis, Chart, Layer, Shape, Tone, memory_unit},
    figures::{self, bytes, cores, float, micros, millis},
    table::table,
};

/// The memory chart: need, memory with page cache, request and limit, phases, and the times of OOM kills.
pub(super) fn memory(series: &[Sample], summary: &Summary) -> Chart {
    let resources = summary.resources.unwrap_or_default();
    let size = |bytes: Option<u64>| bytes.filter(|bytes| measured::is_valid_memory(*bytes)).map(float);
    let limit = size(resources.memory_limit_bytes);
    let asked = size(resources.memory_request_bytes).filter(|asked| Some(*asked) != limit);
    let points = series::points(series, summary);
    let need = measured::proven_need(summary).unwrap_or(0);
    let used = points.iter().map(|point| point.memory).max().unwrap_or(0).max(need);
    let used = float(used);
    // a limit far above the curves would make them too flat: it appears only in the description
    let near = |level: &f64| *level <= used * 6.0;
    let (limit_drawn, asked_drawn) = (limit.filter(near), asked.filter(near));
    let highest = [limit_drawn, asked_drawn].into_iter().flatten().fold(used, f64::max);
    let (scale, unit) = memory_unit(highest);
    let at = |point: &SeriesPoint, memory: u64| (float(point.elapsed_ms), float(memory) / scale);
    let mut layers = phase_bands(summary);
    let memory = points.iter().map(|point| at(point, point.memory)).collect();
    layers.push(Layer::new(Tone::Memory, "with page cache", Shape::Area(memory)));
    let needs = points.iter().map(|point| at(point, point.need)).collect();
    layers.push(Layer::new(Tone::Need, "need", Shape::Line(needs)));
    layers.extend(levels([limit_drawn, asked_drawn], scale, level_words));
    layers.extend(moment_layers(&points));
    let beyond = |name: &str, level: Option<f64>, drawn: Option<f64>| match (level, drawn) {
        (Some(level), None) => format!(" The {name}, {}, is far above.", level_words(level)),
        _ => String::new(),
    };
    let killed = if kill_times(&points).is_empty() { "" } else { " The kernel killed for memory." };
    let read = series::highest_measured_need(series);
    let proven = if need > read && read > 0 {
        format!(" The highest reading is {}: {}.", bytes(read), proof_note(&points))
    } else {
        String::new()
    };
    let description = format!(
        "The need rises to {} within {}.{proven}{}{}{killed}",
        measured::need_words(summary),
        millis(summary.wall_ms),
        beyond("limit", limit, limit_drawn),
        beyond("request", asked, asked_drawn),
    );
    Chart {
        id: "memory",
        title: "Memory",
        description,
        x: need_axis(series, summary),
        y: Axis::from_zero(highest / scale, unit),
        layers,
        table: series_table("Samples of memory", series, &points, summary),
    }
}

/// The CPU chart: cores in use, request and limit.
pub(super) fn cpu(series: &[Sample], summary: &Summary) -> Chart {
    let resources = summary.resources.unwrap_or_default();
    let rows = series::points(series, summary);
    let points: Vec<_> = rows.iter().map(|point| (float(point.elapsed_ms), point.cores)).collect();
    let peak = measured::peak_cores(summary).unwrap_or(0.0);
    let used = rows.iter().map(|point| point.cores).fold(peak, f64::max);
    let near = |level: &f64| *level <= used.max(0.5) * 6.0;
    let limit = resources.cpu_limit_cores.filter(near);
    let asked =
        resources.cpu_request_cores.filter(|asked| Some(*asked) != resources.cpu_limit_cores).filter(near);
    let highest = [limit, asked].into_iter().flatten().fold(used, f64::max);
    let mut layers = phase_bands(summary);
    layers.push(Layer::new(Tone::Cpu, "in use", Shape::Area(points)));
    layers.extend(levels([limit, asked], 1.0, cores));
    Chart {
        id: "cpu",
        title: "CPU",
        description: super::words::sentence(&measured::cpu_words(summary)),
        x: need_axis(series, summary),
        y: Axis::from_zero(highest, "cores"),
        layers,
        table: series_table("Samples of CPU", series, &rows, summary),
    }
}

/// The limit and the request as lines, which the legend names with their values.
fn levels(
    values: [Option<f64>; 2],
    scale: f64,
    words: impl Fn(f64) -> String,
) -> impl Iterator<Item = Layer> {
    let named = [(Tone::Limit, "limit"), (Tone::Ask, "request")].into_iter().zip(values);
    named.filter_map(move |((tone, name), value)| {
        Some(Layer::new(tone, format!("{name} {}", words(value?)), Shape::Level(value? / scale)))
    })
}

fn level_words(level: f64) -> String {
    bytes(figures::to_whole(level))
}

fn need_axis(series: &[Sample], summary: &Summary) -> Axis {
    let last = series.last().map_or(0, |row| row.elapsed_ms);
    Axis::elapsed(float(last.max(summary.wall_ms)))
}

/// Phases as bands in the background, alternately lighter and darker.
fn phase_bands(summary: &Summary) -> Vec<Layer> {
    let band = |(n, phase): (usize, &plimsoll_proto::v1::Phase)| {
        let tone = if n % 2 == 0 { Tone::Phase2 } else { Tone::Phase };
        let end = phase.started_ms.saturating_add(phase.wall_ms);
        Layer::new(tone, phase.name.clone(), Shape::Band(float(phase.started_ms), float(end)))
    };
    summary.phases.iter().enumerate().map(band).collect()
}

/// Explains why the curve is higher than the highest reading.
fn proof_note(points: &[SeriesPoint]) -> &'static str {
    if points.iter().any(|point| point.killed && point.need > point.read) {
        "the kill proves more, and the curve reaches that there"
    } else {
        "more was measured between two readings, and the curve reaches that"
    }
}

/// Times at which the kernel had killed more processes than before, milliseconds.
fn kill_times(points: &[SeriesPoint]) -> Vec<u64> {
    points.iter().filter(|point| point.killed).map(|point| point.elapsed_ms).collect()
}

/// Marks for the first OOM kill, and for the first time at which the build was starved of memory.
fn moment_layers(points: &[SeriesPoint]) -> Vec<Layer> {
    let killed = kill_times(points).first().copied();
    let starved = points.iter().find(|point| point.starved).map(|point| point.elapsed_ms);
    let moment = |tone, at: Option<u64>, name| Some(Layer::new(tone, name, Shape::Moment(float(at?))));
    [moment(Tone::Starved, starved, "starved"), moment(Tone::Oom, killed, "OOM kill")]
        .into_iter()
        .flatten()
        .collect()
}

/// Most rows of the table; the JSON has all of them.
const MAX_ROWS: usize = 60;

fn series_table(name: &str, series: &[Sample], points: &[SeriesPoint], summary: &Summary) -> maud::Markup {
    let every = series.len().div_ceil(MAX_ROWS).max(1);
    let row = |(row, point): (&Sample, &SeriesPoint)| {
        [
            html! { (millis(row.elapsed_ms)) },
            html! {
                @if point.need > point.read { span.quiet { "read " (bytes(point.read)) ", " } (measured::need_cell(summary)) }
                @else { (bytes(point.need)) }
            },
            html! { (bytes(point.memory)) },
            html! { (micros(row.cpu_usec)) },
        ]
    };
    html! {
        @if every > 1 { p.quiet { "Every " (every) ". row; all of them are in the JSON of this page." } }
        (table(name, ["At", "#Need", "#With page cache", "#CPU time"], series.iter().zip(points).step_by(every).map(row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(second: u64, cpu_s: u64, kills: u64) -> Sample {
        let (elapsed_ms, cpu_usec) = (second * 1000, cpu_s * 1_000_000);
        Sample { elapsed_ms, cpu_usec, need_bytes: second << 20, oom_kill: Some(kills), ..Sample::default() }
    }

    #[test]
    fn a_kill_is_drawn_where_its_counter_rose() {
        let series = [row(1, 0, 0), row(2, 0, 0), row(5, 0, 2), row(6, 0, 2)];
        assert_eq!(kill_times(&series::points(&series, &Summary::default())), [5000]);
        let chart = memory(&series, &Summary::default());
        assert!(chart.description.ends_with("The kernel killed for memory."), "{}", chart.description);
    }

    #[test]
    fn a_limit_far_above_need_is_not_drawn() {
        let resources =
            plimsoll_proto::v1::Resources { memory_limit_bytes: Some(64 << 30), ..Default::default() };
        let summary =
            Summary { resources: Some(resources), need_peak_bytes: Some(6 << 20), ..Summary::default() };
        let chart = memory(&[row(1, 0, 0), row(6, 0, 0)], &summary);
        assert!(chart.description.contains("64.00 GiB, is far above"), "{}", chart.description);
        assert!(!chart.layers.iter().any(|layer| matches!(layer.shape, Shape::Level(_))));
    }

    #[test]
    fn the_memory_curve_reaches_the_proven_need() {
        let summary = Summary { need_peak_bytes: Some(114 << 20), censored: true, ..Summary::default() };
        let chart = memory(&[row(60, 0, 0), row(87, 0, 1)], &summary);
        let line = chart.layers.iter().find(|layer| layer.tone == Tone::Need).unwrap();
        let Shape::Line(needs) = &line.shape else { panic!("{line:?}") };
        let highest = needs.iter().map(|(_, need)| *need).reduce(f64::max);
        assert_eq!(highest, Some(114.0));
        let description = &chart.description;
        assert!(description.starts_with("The need rises to more than 114 MiB within"), "{description}");
        assert!(description.contains("The highest reading is 87 MiB: the kill proves more"), "{description}");
    }
}
