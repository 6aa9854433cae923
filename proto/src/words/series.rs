//! Prepares the series of an attempt for drawing, so that it agrees with the numbers next to it: the curve reaches the highest need, memory
//! with page cache is never below the need, and no CPU use is above the highest CPU use.

use crate::{
    measured::{self, cores_over},
    v1::{Sample, Summary},
};

/// Shortest time over which CPU use is computed: over less, one tick of the kernel's accounting looks like many cores.
pub const CPU_WINDOW_MS: u64 = 500;

/// One row of a series, as it is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SeriesPoint {
    /// Time since the start of the attempt, milliseconds.
    pub elapsed_ms: u64,
    /// Highest need within the row, bytes.
    pub need: u64,
    /// Highest need as it was read, bytes; less than `need` where a kill proves that the attempt needed more.
    pub read: u64,
    /// Memory with page cache, bytes: at least the need.
    pub memory: u64,
    /// CPU use over [`CPU_WINDOW_MS`] or more, cores.
    pub cores: f64,
    /// Whether the kernel killed for memory during the row.
    pub killed: bool,
    /// Whether the build was starved during the row.
    pub starved: bool,
}

/// Converts samples to rows, in the same order.
pub fn points(series: &[Sample], summary: &Summary) -> Vec<SeriesPoint> {
    let mut before = Sample::default();
    let mut points = Vec::with_capacity(series.len());
    for (sample, cores) in series.iter().zip(cores_by_row(series, summary)) {
        let rose = |now: Option<u64>, before: Option<u64>| now.unwrap_or(0) > before.unwrap_or(0);
        let need = need(sample);
        points.push(SeriesPoint {
            elapsed_ms: sample.elapsed_ms,
            need,
            read: need,
            memory: sample.memory_bytes.max(need),
            cores,
            killed: rose(sample.oom_kill, before.oom_kill),
            starved: rose(sample.starved_ms, before.starved_ms),
        });
        before = *sample;
    }
    raise_to_peak(&mut points, measured::proven_need(summary).unwrap_or(0));
    points
}

/// Highest need of one sample, bytes.
pub fn need(sample: &Sample) -> u64 {
    sample.need_max_bytes.unwrap_or_default().max(sample.need_bytes)
}

/// Highest need that was read, bytes. The summary's need is higher if a kill at the limit, or a phase, proves more.
pub fn highest_measured_need(series: &[Sample]) -> u64 {
    series.iter().map(need).max().unwrap_or(0)
}

/// Raises one point to the need that is proven. No reading falls on the last moment before a kill, so the point of the kill is raised, else
/// the highest point.
fn raise_to_peak(points: &mut [SeriesPoint], peak: u64) {
    let highest = points.iter().map(|point| point.need).max().unwrap_or(0);
    if highest >= peak {
        return;
    }
    let at = points.iter().position(|point| point.killed);
    let at = at.or_else(|| points.iter().position(|point| point.need == highest));
    if let Some(point) = at.and_then(|at| points.get_mut(at)) {
        point.need = peak;
        point.memory = point.memory.max(peak);
    }
}

/// CPU use at each row: the mean over the window of at least [`CPU_WINDOW_MS`] that contains the row. Rows after the last complete window
/// repeat its value; a series shorter than a window is one window.
fn cores_by_row(series: &[Sample], summary: &Summary) -> Vec<f64> {
    let most = measured::peak_cores(summary).unwrap_or(f64::INFINITY);
    let mut use_by_row: Vec<f64> = Vec::with_capacity(series.len());
    let (mut from, mut used) = (0, 0);
    for (row, sample) in series.iter().enumerate() {
        let width = sample.elapsed_ms.saturating_sub(from);
        let whole = width >= CPU_WINDOW_MS || (use_by_row.is_empty() && row + 1 == series.len());
        if whole {
            let cores = cores_over(sample.cpu_usec.saturating_sub(used), width).unwrap_or(0.0);
            use_by_row.resize(row + 1, cores.min(most));
            (from, used) = (sample.elapsed_ms, sample.cpu_usec);
        }
    }
    let last = use_by_row.last().copied().unwrap_or(0.0);
    use_by_row.resize(series.len(), last);
    use_by_row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(elapsed_ms: u64, need_mib: u64, cpu_ms: u64) -> Sample {
        let (need_bytes, memory_bytes) = (need_mib << 20, (need_mib + 1) << 20);
        Sample { elapsed_ms, need_bytes, memory_bytes, cpu_usec: cpu_ms * 1000, ..Sample::default() }
    }

    #[test]
    fn the_series_reaches_the_need_a_kill_proves() {
        let mut series = [sample(100, 40, 10), sample(200, 87, 20), sample(300, 60, 30)];
        series[2].oom_kill = Some(1);
        let summary = Summary { need_peak_bytes: Some(114 << 20), ..Summary::default() };
        let drawn = points(&series, &summary);
        let needs: Vec<u64> = drawn.iter().map(|point| point.need >> 20).collect();
        assert_eq!((needs, highest_measured_need(&series)), (vec![40, 87, 114], 87 << 20));
        assert!(drawn.iter().all(|point| point.memory >= point.need));
        series[2].oom_kill = None;
        assert_eq!(points(&series, &summary)[1].need, 114 << 20, "a phase saw it");
    }

    #[test]
    fn a_rows_highest_need_bounds_its_memory() {
        let row = Sample { need_max_bytes: Some(9 << 20), ..sample(1000, 5, 1) };
        let drawn = points(&[row], &Summary::default());
        assert_eq!((drawn[0].need, drawn[0].memory), (9 << 20, 9 << 20));
    }

    #[test]
    fn no_cpu_use_is_above_the_highest_one() {
        // the first 50 ms look like 4 cores
        let series = [
            sample(50, 1, 200),
            sample(400, 1, 210),
            sample(600, 1, 300),
            sample(700, 1, 400),
            sample(1100, 1, 450),
        ];
        let used =
            |summary: &Summary| points(&series, summary).iter().map(|point| point.cores).collect::<Vec<_>>();
        assert_eq!(used(&Summary::default()), [0.5, 0.5, 0.5, 0.3, 0.3]);
        let summary = Summary { cpu_peak_cores: Some(0.4), ..Summary::default() };
        assert_eq!(used(&summary), [0.4, 0.4, 0.4, 0.3, 0.3]);
        assert_eq!(points(&series[..2], &Summary::default()).last().map(|point| point.cores), Some(0.525));
        assert_eq!(points(&[], &Summary::default()), []);
    }
}
