//! Prints the need of a build at different numbers of build jobs, for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    figures, measured,
    shown::clean,
    v1::{JobsCurve, JobsPoint},
};

/// A row for each number of build jobs, then the conclusions.
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
        let _written = writeln!(text, "{row}{}", row_mark(curve, point.jobs));
    }
    if !curve.reason.is_empty() {
        // each clause gets a line of its own, because one long line is hard to read
        let reason = clean(&curve.reason);
        reason.split("; ").for_each(|clause| text.extend([clause, "\n"]));
    }
    text
}

fn row_mark(curve: &JobsCurve, jobs: u32) -> String {
    let cheapest = || format!("the cheapest{}", cheapest_range(curve, jobs));
    match (curve.most_that_fit == Some(jobs), curve.cheapest == Some(jobs)) {
        (true, true) => format!("  <- the largest that fits, and {}", cheapest()),
        (true, false) => "  <- the largest that fits".to_owned(),
        (false, true) => format!("  <- {}", cheapest()),
        (false, false) => String::new(),
    }
}

/// A note for the cheapest number of jobs, which says up to which number it is known to be the cheapest. The
/// note is needed if a higher number seems to use less memory, but was never tried, so that its time is a
/// guess.
fn cheapest_range(curve: &JobsCurve, jobs: u32) -> String {
    let tried = curve.points.iter().filter(|point| point.attempts > 0).map(|point| point.jobs).max();
    let least = curve.points.iter().find(|point| point.jobs == jobs).map(|point| point.held_gib_hours);
    let guessed = |point: &&JobsPoint| Some(point.jobs) > tried && point.wall_p50_ms > 0;
    let mut guesses = curve.points.iter().filter(guessed).map(|point| Some(point.held_gib_hours));
    match tried {
        Some(tried) if guesses.any(|guess| guess < least) => {
            format!(" up to -j{tried}, the largest that was tried")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
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
each job\\u{1b} needs 7
-j2 fits
";
        assert_eq!(render(&curve), expected);
    }

    #[test]
    fn the_cheapest_is_not_called_so_beside_a_cheaper_guess() {
        let point = |jobs: u32, attempts| JobsPoint {
            jobs,
            attempts,
            wall_p50_ms: 1000,
            held_gib_hours: 1.0 / f64::from(jobs),
            ..JobsPoint::default()
        };
        let curve =
            JobsCurve { points: vec![point(8, 3), point(16, 0)], cheapest: Some(8), ..JobsCurve::default() };
        let text = render(&curve);
        assert!(text.contains("<- the cheapest up to -j8, the largest that was tried\n"), "{text}");
    }
}
