//! What one attempt asked for and used, as every view tells it. One function for each number: the terminal, the page, the report and
//! JSON say the same of the same message.
//!
//! A number that was not measured is `None` here, and [`figures::NOT_KNOWN`] in words. An older server sends 0 for it.

use crate::{
    figures::{self, float},
    v1::{CurveKnown, JobsCurve, JobsPoint, Predicted, Resources, Running, Summary},
};

/// Memory that an attempt occupied for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryAsked {
    /// Bytes; may be 0, which is what somebody wrote.
    pub bytes: u64,
    /// There was no request: it is the limit that counts.
    pub is_limit: bool,
}

/// What an attempt asked for: the request, else the limit. `None` if it has neither.
pub fn memory_asked(resources: Option<&Resources>) -> Option<MemoryAsked> {
    let resources = resources?;
    let request = resources.memory_request_bytes.map(|bytes| MemoryAsked { bytes, is_limit: false });
    request.or_else(|| resources.memory_limit_bytes.map(|bytes| MemoryAsked { bytes, is_limit: true }))
}

/// The same in words: `2.00 GiB, limit 3.00 GiB`, `120 MiB, its limit`, `nothing`.
pub fn memory_asked_words(resources: Option<&Resources>) -> String {
    let limit = resources.and_then(|resources| resources.memory_limit_bytes);
    match memory_asked(resources) {
        None => "nothing".to_owned(),
        Some(MemoryAsked { bytes, is_limit: true }) => {
            format!("{}, its limit", figures::bytes(bytes))
        }
        Some(asked) => {
            let limit = limit.map_or_else(
                || ", no limit".to_owned(),
                |limit| format!(", limit {}", figures::bytes(limit)),
            );
            figures::bytes(asked.bytes) + &limit
        }
    }
}

/// CPU that an attempt occupied for others, cores: the request, else the limit.
pub fn cpu_asked(resources: Option<&Resources>) -> Option<f64> {
    resources.and_then(|resources| resources.cpu_request_cores.or(resources.cpu_limit_cores))
}

/// Highest need, bytes. Of an attempt that memory stopped it is a lower bound.
pub fn need(summary: &Summary) -> Option<u64> {
    above_zero(summary.need_peak_bytes)
}

/// The same in words: `114 MiB`, `more than 114 MiB`, `not known`.
pub fn need_words(summary: &Summary) -> String {
    let more = if summary.censored && need(summary).is_some() { "more than " } else { "" };
    format!("{more}{}", figures::known_bytes(need(summary)))
}

/// Mean of the need over time, bytes.
pub fn mean_need(summary: &Summary) -> Option<u64> {
    above_zero(summary.need_mean_bytes)
}

/// High-water mark with page cache, bytes: at least the highest need.
pub fn memory_peak(summary: &Summary) -> Option<u64> {
    above_zero(summary.memory_peak_bytes).max(need(summary))
}

/// Highest need as a share of what was asked for. `None` if either is not known, or nothing was asked for.
pub fn need_of_ask(summary: &Summary) -> Option<f64> {
    let asked = memory_asked(summary.resources.as_ref()).filter(|asked| asked.bytes > 0)?;
    need(summary).map(|need| float(need) / float(asked.bytes))
}

/// CPU time, microseconds.
pub fn cpu_usec(summary: &Summary) -> Option<u64> {
    above_zero(summary.cpu_usec)
}

/// Mean CPU use, cores.
pub fn mean_cores(summary: &Summary) -> Option<f64> {
    cores_over(cpu_usec(summary)?, summary.wall_ms)
}

/// Highest CPU use over half a second or more, cores: never below the mean.
pub fn peak_cores(summary: &Summary) -> Option<f64> {
    let peak = summary.cpu_peak_cores.filter(|cores| *cores > 0.0)?;
    Some(peak.max(mean_cores(summary).unwrap_or(0.0)))
}

/// CPU use in words: `0.38 cores on average, 0.97 at most`, `not known`.
pub fn cpu_words(summary: &Summary) -> String {
    let Some(mean) = mean_cores(summary) else { return figures::NOT_KNOWN.to_owned() };
    let peak = peak_cores(summary).map(|peak| format!(", {} at most", figures::cores(peak)));
    format!("{} on average{}", figures::cores_named(mean), peak.unwrap_or_default())
}

/// Mean cores of `cpu_usec` over `wall_ms`. `None` without time.
pub fn cores_over(cpu_usec: u64, wall_ms: u64) -> Option<f64> {
    (wall_ms > 0).then(|| float(cpu_usec) / (float(wall_ms) * 1000.0))
}

/// Memory with page cache of a running attempt, bytes: a reading of the need that is newer may be above it.
pub fn running_memory(running: &Running) -> u64 {
    running.memory_bytes.max(running.need_bytes)
}

/// Mean cores of a running attempt so far.
pub fn running_cores(running: &Running) -> Option<f64> {
    cores_over(running.cpu_usec, running.elapsed_ms)
}

/// What attempts before it told of it when it opened. A default is no prediction.
pub fn predicted(summary: &Summary) -> Option<Predicted> {
    summary.predicted.filter(|predicted| !predicted.is_default)
}

/// Whether the predicted limit was enough. `None` if that is not known: nothing was predicted, the need was not measured, or the
/// attempt still runs or was stopped below that limit.
pub fn limit_held(summary: &Summary) -> Option<bool> {
    let limit = predicted(summary).map(|predicted| predicted.memory_limit_bytes);
    let (limit, need) = (limit.filter(|limit| *limit > 0)?, need(summary)?);
    match (summary.censored, need > limit) {
        // a limit that stopped it holds it at 95 % of itself at most: the last reading misses the last burst
        (true, _) => (need >= limit - limit / 20).then_some(false),
        (false, above) => Some(!above),
    }
}

/// The points of a curve over build jobs that are measured or worked out. Where nothing is worked out there is no curve: what was tried
/// is a list.
pub fn is_curve(curve: &JobsCurve) -> bool {
    matches!(curve.known(), CurveKnown::Line | CurveKnown::Flat) && curve.points.len() > 1
}

/// Whose word a point of a curve is: attempts at just these jobs, or the other points.
pub fn point_words(point: &JobsPoint) -> String {
    match (point.attempts, point.stopped) {
        (0, _) => "worked out".to_owned(),
        (attempts, 0) => figures::counted(attempts.into(), "attempt"),
        (attempts, stopped) => {
            format!(
                "{} ({} stopped by memory)",
                figures::counted(attempts.into(), "attempt"),
                figures::count(stopped.into())
            )
        }
    }
}

fn above_zero(number: Option<u64>) -> Option<u64> {
    number.filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(request: Option<u64>, limit: Option<u64>) -> Resources {
        Resources { memory_request_bytes: request, memory_limit_bytes: limit, ..Resources::default() }
    }

    #[test]
    fn a_limit_without_a_request_is_what_was_asked_for_everywhere() {
        let limit = resources(None, Some(120 << 20));
        assert_eq!(memory_asked(Some(&limit)), Some(MemoryAsked { bytes: 120 << 20, is_limit: true }));
        assert_eq!(memory_asked_words(Some(&limit)), "120 MiB, its limit");
        let both = resources(Some(2 << 30), Some(3 << 30));
        assert_eq!(memory_asked_words(Some(&both)), "2.00 GiB, limit 3.00 GiB");
        assert_eq!(memory_asked_words(Some(&resources(Some(0), None))), "0 B, no limit");
        assert_eq!(
            [memory_asked_words(None), memory_asked_words(Some(&resources(None, None)))],
            ["nothing"; 2]
        );
    }

    #[test]
    fn what_was_not_measured_is_not_known() {
        let nothing = Summary { wall_ms: 5000, need_mean_bytes: Some(0), ..Summary::default() };
        assert_eq!((need(&nothing), mean_need(&nothing), memory_peak(&nothing)), (None, None, None));
        assert_eq!((mean_cores(&nothing), peak_cores(&nothing)), (None, None));
        assert_eq!([need_words(&nothing), cpu_words(&nothing)], ["not known", "not known"]);
    }

    #[test]
    fn a_highest_use_is_not_below_the_mean() {
        let short = Summary {
            wall_ms: 1000,
            cpu_usec: Some(380_000),
            cpu_peak_cores: Some(0.34),
            ..Summary::default()
        };
        assert_eq!(cpu_words(&short), "0.38 cores on average, 0.38 at most");
        let mean = Summary { cpu_peak_cores: None, ..short };
        assert_eq!(cpu_words(&mean), "0.38 cores on average");
    }

    #[test]
    fn the_need_is_not_above_the_memory_with_page_cache() {
        let killed = Summary {
            need_peak_bytes: Some(114 << 20),
            memory_peak_bytes: Some(87 << 20),
            censored: true,
            ..Summary::default()
        };
        assert_eq!(
            (memory_peak(&killed), need_words(&killed)),
            (Some(114 << 20), "more than 114 MiB".to_owned())
        );
        let running = Running { memory_bytes: 5, need_bytes: 7, ..Running::default() };
        assert_eq!(running_memory(&running), 7);
    }

    #[test]
    fn a_limit_held_if_the_need_stayed_below_it() {
        let of = |need: u64, censored| {
            let predicted = Some(Predicted { memory_limit_bytes: 100, ..Predicted::default() });
            limit_held(&Summary { predicted, need_peak_bytes: Some(need), censored, ..Summary::default() })
        };
        assert_eq!([of(100, false), of(101, false)], [Some(true), Some(false)]);
        assert_eq!([of(95, true), of(94, true), of(0, false)], [Some(false), None, None]);
    }
}
