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
        let wall_ms = measured::point_wall_ms(point);
        let time = figures::cell(wall_ms, figures::millis);
        let held = figures::cell(wall_ms, |_| figures::gib_hours(point.held_gib_hours));
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
    let guessed = |point: &&JobsPoint| Some(point.jobs) > tried && measured::point_wall_ms(point).is_some();
    let mut guesses = curve.points.iter().filter(guessed).map(|point| Some(point.held_gib_hours));
    match tried {
        Some(tried) if guesses.any(|guess| guess < least) => {
            format!(" up to -j{tried}, the largest that was tried")
        }
        _ => String::new(),
    }
}
