//! Draws the samples of an attempt on a terminal: memory against its limit, events, and CPU.

use plimsoll_proto::{
    figures, measured,
    series::{self, SeriesPoint},
    v1::{Sample, Summary},
};

use super::titled_line;
use crate::ask::{
    curve::{draw_curve, draw_fractions},
    terminal_style::{Paint, TerminalStyle},
};

/// Most columns of a drawing.
const MAX_COLUMNS: usize = 60;

/// Lines that show memory, events and CPU over time; no lines without samples.
pub(super) fn series_lines(series: &[Sample], summary: &Summary, look: TerminalStyle) -> String {
    let moments = moments(series, summary, look.drawing_columns(50, MAX_COLUMNS));
    let Some(last) = series.last().filter(|_| !moments.is_empty()) else { return String::new() };
    let resources = summary.resources.unwrap_or_default();
    let mut text = memory(&moments, resources.memory_limit_bytes, look);
    if moments.iter().any(|moment| moment.killed || moment.starved) {
        text.push_str(&titled_line("", &events_line(&moments, look)));
    }
    let cores: Vec<f64> = moments.iter().map(|moment| moment.cores).collect();
    // the summary's peak may be higher than the drawn values, because it was measured over other intervals
    let drawn = cores.iter().copied().fold(0.0, f64::max);
    let most = measured::peak_cores(summary).unwrap_or(drawn).max(drawn);
    let line = draw_fractions(&cores, most, cores.len());
    text.push_str(&titled_line("cpu", &format!("{line}  full height: {}", figures::cores_named(most))));
    let axis = axis_line(moments.len(), &figures::millis(last.elapsed_ms));
    text + &titled_line("", &look.paint(Paint::Faint, &axis))
}

/// The line of the memory need; it is red where the need reaches the limit.
fn memory(moments: &[SeriesPoint], limit: Option<u64>, look: TerminalStyle) -> String {
    let needs: Vec<u64> = moments.iter().map(|moment| moment.need).collect();
    let near = |need: u64| limit.is_some_and(|limit| u128::from(need) * 20 >= u128::from(limit) * 19);
    let blocks = draw_curve(&needs, limit.unwrap_or(0), needs.len(), true);
    let mut line = String::new();
    for (block, need) in blocks.chars().zip(&needs) {
        let paint = if near(*need) { Paint::Bad } else { Paint::Plain };
        line.push_str(&look.paint(paint, &block.to_string()));
    }
    let most = needs.iter().copied().max().unwrap_or(0);
    let height = match limit {
        Some(limit) if limit >= most => format!("the limit, {}", figures::bytes(limit)),
        _ => figures::bytes(most),
    };
    titled_line("need", &format!("{line}  full height: {height}"))
}

fn events_line(moments: &[SeriesPoint], look: TerminalStyle) -> String {
    let mark = |moment: &SeriesPoint| match moment {
        SeriesPoint { killed: true, .. } => '×',
        SeriesPoint { starved: true, .. } => '~',
        _ => ' ',
    };
    let line: String = moments.iter().map(mark).collect();
    let killed = moments.iter().any(|moment| moment.killed).then_some("× killed for memory");
    let starved = moments.iter().any(|moment| moment.starved).then_some("~ starved");
    let legend: Vec<&str> = killed.into_iter().chain(starved).collect();
    format!("{}  {}", look.paint(Paint::Bad, &line), legend.join(", "))
}

fn axis_line(cells: usize, end: &str) -> String {
    let dots = "·".repeat(cells.saturating_sub(end.chars().count() + 3));
    format!("0 {dots} {end}")
}

/// The samples combined into at most `cells` points of equal time. A point without a sample repeats the point
/// before it.
fn moments(series: &[Sample], summary: &Summary, cells: usize) -> Vec<SeriesPoint> {
    let cells = cells.min(series.len());
    let end = series.last().map_or(0, |last| last.elapsed_ms).max(1);
    let mut moments: Vec<Option<SeriesPoint>> = vec![None; cells];
    for point in series::points(series, summary) {
        let nth = u128::from(point.elapsed_ms.saturating_sub(1)) * cells as u128 / u128::from(end);
        let Some(moment) = usize::try_from(nth).ok().and_then(|nth| moments.get_mut(nth)) else { continue };
        let seen = moment.get_or_insert_default();
        seen.need = seen.need.max(point.need);
        seen.cores = seen.cores.max(point.cores);
        seen.killed |= point.killed;
        seen.starved |= point.starved;
    }
    let mut last = SeriesPoint::default();
    let filled = moments.into_iter().map(|moment| {
        last = moment.unwrap_or(SeriesPoint { killed: false, starved: false, ..last });
        last
    });
    filled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(elapsed_ms: u64, need_bytes: u64, cpu_usec: u64) -> Sample {
        Sample { elapsed_ms, need_bytes, cpu_usec, oom_kill: Some(0), ..Sample::default() }
    }

    #[test]
    fn the_chart_is_linear_in_time() {
        let dense = (1..=50).map(|n| sample(n * 20, 8, 0));
        let series: Vec<Sample> = dense.chain((2..=60).map(|n| sample(n * 1000, 1, 0))).collect();
        let text = series_lines(&series, &Summary::default(), TerminalStyle::default());
        let blocks = text.lines().next().unwrap().matches('█').count();
        assert_eq!(blocks, 1, "one of sixty seconds: {text}");
    }
}
