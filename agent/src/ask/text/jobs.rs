//! A build at different numbers of build jobs, for people.

use std::fmt::Write as _;

use plimsoll_proto::{figures, measured, v1::JobsCurve};

use super::clean;

/// A row for each number of jobs, and what follows from them.
pub(super) fn render(curve: &JobsCurve) -> String {
    let mut text = String::new();
    if !curve.points.is_empty() {
        let _written = writeln!(
            text,
            "{:<6}  {:>10}  {:>10}  {:>12}  {:>13}  rests on",
            "jobs", "need, half", "need, 95 %", "time, half", "memory x time"
        );
    }
    for point in &curve.points {
        let jobs = format!("-j{}", point.jobs);
        let needs = [point.need_p50_bytes, point.need_p95_bytes].map(figures::bytes);
        let known = point.wall_p50_ms > 0;
        let time = if known { figures::millis(point.wall_p50_ms) } else { figures::DASH.to_owned() };
        let held = if known { figures::gib_hours(point.held_gib_hours) } else { figures::DASH.to_owned() };
        let row = format!(
            "{jobs:<6}  {:>10}  {:>10}  {time:>12}  {held:>13}  {}",
            needs[0],
            needs[1],
            measured::point_words(point)
        );
        let _written = writeln!(text, "{row}{}", mark(curve, point.jobs));
    }
    if !curve.reason.is_empty() {
        // a clause on a line of its own reads better than one long line
        let reason = clean(&curve.reason);
        reason.split("; ").for_each(|clause| text.extend([clause, "\n"]));
    }
    text
}

fn mark(curve: &JobsCurve, jobs: u32) -> &'static str {
    match (curve.most_that_fit == Some(jobs), curve.cheapest == Some(jobs)) {
        (true, true) => "  <- the largest that fits, and the cheapest",
        (true, false) => "  <- the largest that fits",
        (false, true) => "  <- the cheapest",
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::JobsPoint;

    use super::*;

    #[test]
    fn each_number_of_jobs_is_a_row_that_says_what_it_rests_on() {
        let point = |jobs, attempts, stopped| JobsPoint {
            jobs,
            attempts,
            stopped,
            need_p50_bytes: 300 << 20,
            need_p95_bytes: 3 << 29,
            wall_p50_ms: if jobs == 8 { 0 } else { 61_000 },
            held_gib_hours: 0.0254,
        };
        let curve = JobsCurve {
            points: vec![point(1, 0, 0), point(2, 4, 1), point(8, 1, 0)],
            most_that_fit: Some(2),
            cheapest: Some(1),
            reason: "each job\u{1b} needs 7; -j2 fits".to_owned(),
            ..JobsCurve::default()
        };
        let expected = "\
jobs    need, half  need, 95 %    time, half  memory x time  rests on
-j1        300 MiB    1.50 GiB     1 min 1 s    0.025 GiB·h  worked out  <- the cheapest
-j2        300 MiB    1.50 GiB     1 min 1 s    0.025 GiB·h  4 attempts (1 stopped by memory)  <- the largest that fits
-j8        300 MiB    1.50 GiB             –              –  1 attempt
each job  needs 7
-j2 fits
";
        assert_eq!(render(&curve), expected);
    }
}
