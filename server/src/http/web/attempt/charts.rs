//! Memory and CPU of one attempt over its time.

use maud::html;
use plimsoll_proto::v1::{Sample, Summary};

use super::super::{
    chart::{Axis, Chart, Layer, Tone},
    numbers::{amount, bytes, float, millis},
};

const MIB: f64 = 1_048_576.0;

/// Memory is told in GiB from this many bytes on.
const IN_GIB: f64 = 1024.0 * MIB;

/// Need, memory with page cache, what was asked for, phases, and the moments when the kernel killed.
pub(super) fn memory(series: &[Sample], summary: &Summary) -> Chart {
    let resources = summary.resources.unwrap_or_default();
    let limit = resources.memory_limit_bytes.map(float);
    let asked = resources.memory_request_bytes.map(float).filter(|asked| Some(*asked) != limit);
    let memory_max = series.iter().map(|row| row.memory_bytes).max().map_or(0.0, float);
    let used = memory_max.max(float(summary.need_peak_bytes));
    // a limit far above everything would press the rest flat: it is told in words alone
    let near = |level: &f64| *level <= used * 6.0;
    let (limit_drawn, asked_drawn) = (limit.filter(near), asked.filter(near));
    let highest = [limit_drawn, asked_drawn].into_iter().flatten().fold(used, f64::max);
    let (scale, unit) = if highest >= IN_GIB { (IN_GIB, "GiB") } else { (MIB, "MiB") };
    let at = |row: &Sample, memory: u64| (float(row.elapsed_ms), float(memory) / scale);
    let need = |row: &Sample| row.need_max_bytes.unwrap_or_default().max(row.need_bytes);
    let mut layers = bands(summary);
    layers.push(Layer::Area {
        tone: Tone::Memory,
        points: series.iter().map(|row| at(row, row.memory_bytes)).collect(),
    });
    layers.push(Layer::Line {
        tone: Tone::Need,
        points: series.iter().map(|row| at(row, need(row))).collect(),
    });
    let mut legend = vec![(Tone::Need, "need".to_owned()), (Tone::Memory, "with page cache".to_owned())];
    for (tone, name, level) in [(Tone::Limit, "limit", limit_drawn), (Tone::Ask, "request", asked_drawn)] {
        if let Some(level) = level {
            layers.push(Layer::Level { tone, at: level / scale });
            legend.push((tone, format!("{name} {}", in_words(level))));
        }
    }
    layers.extend(moments(series));
    let beyond = |name: &str, level: Option<f64>, drawn: Option<f64>| match (level, drawn) {
        (Some(level), None) => format!(" The {name}, {}, is far above.", in_words(level)),
        _ => String::new(),
    };
    let killed = if kills(series).is_empty() { "" } else { " The kernel killed for memory." };
    let description = format!(
        "The need rises to {} within {}.{}{}{killed}",
        bytes(summary.need_peak_bytes),
        millis(summary.wall_ms),
        beyond("limit", limit, limit_drawn),
        beyond("request", asked, asked_drawn),
    );
    Chart {
        id: "memory",
        title: "Memory".to_owned(),
        description,
        x: axis(series, summary),
        y: Axis::from_zero(highest / scale, unit),
        layers,
        legend,
        table: table(series),
    }
}

/// Cores in use, and what was asked for.
pub(super) fn cpu(series: &[Sample], summary: &Summary) -> Chart {
    let resources = summary.resources.unwrap_or_default();
    let points = in_use(series);
    let used = points.iter().map(|(_, cores)| *cores).fold(0.0, f64::max);
    let near = |level: &f64| *level <= used.max(0.5) * 6.0;
    let limit = resources.cpu_limit_cores.filter(near);
    let asked =
        resources.cpu_request_cores.filter(|asked| Some(*asked) != resources.cpu_limit_cores).filter(near);
    let highest = [limit, asked].into_iter().flatten().fold(used, f64::max);
    let mut layers = bands(summary);
    layers.push(Layer::Area { tone: Tone::Cpu, points });
    let mut legend = vec![(Tone::Cpu, "in use".to_owned())];
    for (tone, name, level) in [(Tone::Limit, "limit", limit), (Tone::Ask, "request", asked)] {
        if let Some(at) = level {
            layers.push(Layer::Level { tone, at });
            legend.push((tone, format!("{name} {}", amount(at))));
        }
    }
    let cores = super::mean_cores(summary.cpu_usec, summary.wall_ms);
    Chart {
        id: "cpu",
        title: "CPU".to_owned(),
        description: format!("{} cores on average, {} at most.", amount(cores), amount(used)),
        x: axis(series, summary),
        y: Axis::from_zero(highest, "cores"),
        layers,
        legend,
        table: table(series),
    }
}

fn in_words(level: f64) -> String {
    crate::domain::Bytes::from_f64(level).to_string()
}

fn axis(series: &[Sample], summary: &Summary) -> Axis {
    let last = series.last().map_or(0, |row| row.elapsed_ms);
    Axis::elapsed(float(last.max(summary.wall_ms)))
}

/// Phases as stretches in the background, every other one a little darker.
fn bands(summary: &Summary) -> Vec<Layer> {
    let band = |(n, phase): (usize, &plimsoll_proto::v1::Phase)| Layer::Band {
        from: float(phase.started_ms),
        to: float(phase.started_ms.saturating_add(phase.wall_ms)),
        tone: if n % 2 == 0 { Tone::Phase2 } else { Tone::Phase },
        name: phase.name.clone(),
    };
    summary.phases.iter().enumerate().map(band).collect()
}

/// When the kernel had killed more processes than before, milliseconds.
fn kills(series: &[Sample]) -> Vec<u64> {
    let mut before = 0;
    let mut found = Vec::new();
    for row in series {
        let now = row.oom_kill.unwrap_or(before);
        if now > before {
            found.push(row.elapsed_ms);
        }
        before = now;
    }
    found
}

/// The first kill, and the first moment in which the build was starved.
fn moments(series: &[Sample]) -> Vec<Layer> {
    let killed = kills(series).first().copied();
    let starved = series.iter().find(|row| row.starved_ms.is_some_and(|ms| ms > 0)).map(|row| row.elapsed_ms);
    let moment = |tone, at: Option<u64>, name: &str| {
        at.map(|at| Layer::Moment { tone, at: float(at), name: name.to_owned() })
    };
    [moment(Tone::Starved, starved, "starved"), moment(Tone::Oom, killed, "OOM kill")]
        .into_iter()
        .flatten()
        .collect()
}

/// Cores between neighbouring rows.
fn in_use(series: &[Sample]) -> Vec<(f64, f64)> {
    let mut before = (0, 0);
    let mut points = Vec::with_capacity(series.len());
    for row in series {
        let (cpu, time) = (row.cpu_usec.saturating_sub(before.1), row.elapsed_ms.saturating_sub(before.0));
        if time > 0 {
            points.push((float(row.elapsed_ms), super::mean_cores(cpu, time)));
        }
        before = (row.elapsed_ms, row.cpu_usec);
    }
    points
}

/// Rows of the table at most: who wants all asks for the JSON.
const ROWS: usize = 60;

fn table(series: &[Sample]) -> maud::Markup {
    let every = series.len().div_ceil(ROWS).max(1);
    html! {
        table {
            @if every > 1 { caption { "Every " (every) ". row; all of them are in the JSON of this page." } }
            thead { tr {
                th scope="col" { "At" } th.n scope="col" { "Need" } th.n scope="col" { "With page cache" } th.n scope="col" { "CPU time" }
            } }
            tbody {
                @for row in series.iter().step_by(every) {
                    tr {
                        th scope="row" { (millis(row.elapsed_ms)) }
                        td.n { (bytes(row.need_max_bytes.unwrap_or_default().max(row.need_bytes))) }
                        td.n { (bytes(row.memory_bytes)) }
                        td.n { (millis(row.cpu_usec / 1000)) }
                    }
                }
            }
        }
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
    fn cores_are_what_was_used_between_two_rows() {
        assert_eq!(in_use(&[row(1, 1, 0), row(3, 7, 0), row(3, 9, 0)]), [(1000.0, 1.0), (3000.0, 3.0)]);
    }

    #[test]
    fn a_kill_stands_where_its_counter_rose() {
        let series = [row(1, 0, 0), row(2, 0, 0), row(5, 0, 2), row(6, 0, 2)];
        assert_eq!(kills(&series), [5000]);
        let chart = memory(&series, &Summary::default());
        assert!(chart.description.ends_with("The kernel killed for memory."), "{}", chart.description);
    }

    #[test]
    fn a_limit_far_above_the_need_is_told_and_not_drawn() {
        let resources =
            plimsoll_proto::v1::Resources { memory_limit_bytes: Some(64 << 30), ..Default::default() };
        let summary = Summary { resources: Some(resources), need_peak_bytes: 6 << 20, ..Summary::default() };
        let chart = memory(&[row(1, 0, 0), row(6, 0, 0)], &summary);
        assert!(chart.description.contains("64.00 GiB, is far above"), "{}", chart.description);
        assert!(!chart.layers.iter().any(|layer| matches!(layer, Layer::Level { .. })));
    }
}
