//! Prints attempts for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    WireEnum as _,
    evidence::{self, cause_words, outcome_words, source_in_words},
    figures::{self, count},
    measured,
    shown::clean,
    times,
    v1::{Cause, GetAttemptResponse, Outcome, Source, Summary, Verdict},
};

use super::{key::key_words, predicted, predictor::render_verdict, series, titled_line};
use crate::ask::terminal_style::{Paint, TerminalStyle};

/// One attempt: its key, its use over time, its prediction, and its verdict.
pub(in crate::ask) fn render_attempt(shown: &GetAttemptResponse, look: TerminalStyle) -> String {
    let Some(summary) = &shown.summary else {
        return "nothing is known of this attempt\n".to_owned();
    };
    let mut text = attempt_lines(summary, look);
    if !shown.retried_by.is_empty() {
        let ended = outcome_words(shown.retry_outcome());
        text.push_str(&titled_line("retried by", &format!("{}, which {ended}", clean(&shown.retried_by))));
    }
    text.push_str(&series::series_lines(&shown.series, summary, look));
    text.push_str(&phases(summary));
    text.push_str(&named_block("predicted", &predicted::predicted_lines(summary, look)));
    if let Some(verdict) = &shown.verdict {
        let judged = render_verdict(verdict);
        text.push_str(&named_block("verdict", &judged.lines().map(str::to_owned).collect::<Vec<_>>()));
    }
    text.push_str(&named_block(
        "before it",
        &shown.earlier_verdicts.iter().map(earlier_verdict).collect::<Vec<_>>(),
    ));
    text
}

/// One line about a verdict that was replaced by a later one.
fn earlier_verdict(verdict: &Verdict) -> String {
    let given = match verdict.given_unix_ms {
        0 => String::new(),
        given => format!("{} UTC, ", times::date_time(given)),
    };
    let answer = render_verdict(verdict);
    format!("{given}{}", answer.lines().next().unwrap_or_default())
}

/// Several lines below one title.
fn named_block(name: &str, lines: &[String]) -> String {
    let named = |(nth, line): (usize, &String)| titled_line(if nth == 0 { name } else { "" }, line);
    lines.iter().enumerate().map(named).collect()
}

fn attempt_lines(summary: &Summary, look: TerminalStyle) -> String {
    let mut text = titled_line("attempt", &id_words(summary));
    text.push_str(&titled_line("what", &summary.key.as_ref().map(key_words).unwrap_or_default()));
    if let Some(place) = place_line(summary) {
        text.push_str(&titled_line("where", &place));
    }
    let from = match summary.cause_source.as_str() {
        "" => String::new(),
        source => format!(", cause from the {}", source_in_words(&clean(source))),
    };
    text.push_str(&titled_line("result", &(look.paint(end_paint(summary), &result(summary)) + &from)));
    text.push_str(&titled_line("time", &time_line(summary)));
    text.push_str(&titled_line("cpu", &cpu_line(summary)));
    text.push_str(&titled_line("memory", &memory_line(summary)));
    let elsewhere = measured::offloaded_sentence(summary);
    for why in [elsewhere.as_deref(), measured::unseen_note(summary), measured::need_below_mark(summary)] {
        text.push_str(&why.map(|why| titled_line("", why)).unwrap_or_default());
    }
    if let Some(lost) = lost_time(summary) {
        text.push_str(&titled_line("held back", &lost));
    }
    let lost =
        if summary.samples_lost > 0 { format!(", {} lost", summary.samples_lost) } else { String::new() };
    let source = match summary.source() {
        Source::Unspecified if summary.samples == 0 => "none: the attempt was imported".to_owned(),
        source => {
            format!("{}{lost}, from {}", count(summary.samples), source.word().replace('_', " "))
        }
    };
    text + &titled_line("samples", &source)
}

fn cpu_line(summary: &Summary) -> String {
    if measured::cpu_usec(summary).is_none() {
        return figures::NOT_KNOWN.to_owned();
    }
    let asked = measured::cpu_asked(summary.resources.as_ref());
    let asked = asked.map(|cores| format!(", asked for {}", figures::cores(cores))).unwrap_or_default();
    format!("{}, {}{asked}", measured::cpu_time_words(summary), measured::cpu_words(summary))
}

fn time_line(summary: &Summary) -> String {
    let took = figures::millis(summary.wall_ms);
    if summary.outcome() == Outcome::Running {
        return format!("since {} UTC, measured for {took}", times::date_time(summary.started_unix_ms));
    }
    format!("{} UTC, after {took}", times::date_time(measured::ended_unix_ms(summary)))
}

/// The attempt's id, with its number if the job was attempted several times.
fn id_words(summary: &Summary) -> String {
    let mut text = clean(&summary.attempt);
    if summary.number > 1 {
        let _written = write!(text, ", try {}", summary.number);
    }
    if !summary.retries.is_empty() {
        let _written = write!(text, ", after {}", clean(&summary.retries));
    }
    text
}

fn place_line(summary: &Summary) -> Option<String> {
    let pool = (!summary.pool.is_empty()).then(|| format!("pool {}", clean(&summary.pool)));
    let trust = summary.untrusted.then(|| measured::NOT_TRUSTED.to_owned());
    let parts: Vec<String> = pool.into_iter().chain(trust).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The colour for the result of an attempt.
pub(super) fn end_paint(summary: &Summary) -> Paint {
    match summary.outcome() {
        Outcome::Succeeded => Paint::Good,
        Outcome::Failed if measured::is_canceled(summary) => Paint::Warn,
        Outcome::Failed => Paint::Bad,
        Outcome::Lost | Outcome::Ended => Paint::Warn,
        Outcome::Running | Outcome::Unspecified => Paint::Plain,
    }
}

/// Time that the build lost because of limits; `None` if that was not measured or is 0.
fn lost_time(summary: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(ms) = measured::above_zero(summary.starved_ms) {
        parts.push(format!("starved for {}", figures::millis(ms)));
    }
    if let Some(usec) = measured::above_zero(summary.memory_stall_usec) {
        parts.push(format!("stalled for memory for {}", figures::micros(usec)));
    }
    if let Some(usec) = measured::above_zero(summary.throttled_usec) {
        // the kernel adds up the time of all processors, so it may be longer than the attempt
        parts.push(format!("throttled for {} over all processors", figures::micros(usec)));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A row for each phase; the phase with the highest need is marked.
fn phases(summary: &Summary) -> String {
    let mut text = String::new();
    let peak = summary.phases.iter().map(|phase| phase.need_peak_bytes).max().unwrap_or_default();
    let mut marked = false;
    for (index, phase) in summary.phases.iter().enumerate() {
        let head = if index == 0 { "phases" } else { "" };
        let is_peak = !marked && phase.name == summary.peak_phase && phase.need_peak_bytes == peak;
        marked |= is_peak;
        let mark = if is_peak { "  <- peak" } else { "" };
        let (need, time) = (figures::bytes(phase.need_peak_bytes), figures::millis(phase.wall_ms));
        let cpu = figures::micros(phase.cpu_usec);
        let name = clean(&phase.name);
        let _written = writeln!(text, "{head:<11} {need:>10}  {time:>12}  {cpu:>12} cpu  {name}{mark}");
    }
    text
}

fn memory_line(summary: &Summary) -> String {
    let mut text = format!(
        "needed {} (mean {}){}; asked for {}",
        measured::noted_need_words(summary),
        figures::known(measured::mean_need(summary), figures::bytes),
        measured::memory_peak_words(summary).map(|mark| format!(", {mark}")).unwrap_or_default(),
        measured::memory_asked_words(summary.resources.as_ref()),
    );
    if let Some(share) = measured::need_of_ask_words(summary) {
        let _written = write!(text, " ({share})");
    }
    if let Some(kills) = measured::above_zero(summary.oom_kill) {
        let killed = figures::counted_as(kills, "process", "processes");
        let killed = format!("{killed} killed for memory {}", evidence::oom_origin(summary.oom_origin()));
        let _written = write!(text, "; {}", killed.trim_end());
    }
    text
}

/// The result as text: `failed, out of memory (exit 2)`.
pub(in crate::ask) fn result(summary: &Summary) -> String {
    let words = match (summary.outcome(), cause_words(summary.cause())) {
        (outcome, "") => outcome_words(outcome).to_owned(),
        (Outcome::Ended, _cause) if summary.cause() == Cause::Unknown => {
            outcome_words(Outcome::Ended).to_owned()
        }
        _ if measured::is_canceled(summary) => "canceled".to_owned(),
        (outcome, cause) => format!("{}, {cause}", outcome_words(outcome)),
    };
    with_exit(words, summary)
}

/// The result in a list: a cause replaces the word `failed`, as on the web page: `out of memory (exit 2)`.
pub(super) fn result_cell(summary: &Summary) -> String {
    if summary.outcome() == Outcome::Failed && !matches!(summary.cause(), Cause::Unspecified | Cause::Unknown)
    {
        return with_exit(cause_words(summary.cause()).to_owned(), summary);
    }
    result(summary)
}

fn with_exit(mut text: String, summary: &Summary) -> String {
    let exit = summary.exit.unwrap_or_default();
    if let Some(code) = exit.code.filter(|code| *code != 0) {
        let _written = write!(text, " (exit {code})");
    }
    if let Some(signal) = exit.signal {
        let _written = write!(text, " (signal {signal})");
    }
    text
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Exit, Resources, Totals};

    use super::*;
    use crate::job_summary::{BuildFacts, MeasurementEnd, Settings, Style, render};

    proptest::proptest! {
        #[test]
        fn the_report_at_the_end_is_what_is_shown_later(
            wall_ms in 0..200_000_u64,
            cpu_usec in proptest::prop_oneof![0..2000_u64, 0..100_000_000_u64],
            need in proptest::option::of(1..(1_u64 << 30)),
            ask in proptest::option::of(proptest::prop_oneof![0..2_u64, 1..2 * (1_u64 << 30)]),
            kills in 0..2_u64,
        ) {
            let facts = BuildFacts {
                wall: std::time::Duration::from_millis(wall_ms),
                end: MeasurementEnd::Exited(Exit { code: Some(1), signal: None }),
                totals: Totals { cpu_usec, need_peak_bytes: need, oom_kill: Some(kills), ..Totals::default() },
                resources: Resources { memory_request_bytes: ask, ..Resources::default() },
                ..BuildFacts::default()
            };
            let summary = facts.summary();
            let of = |style| render(&facts, &Settings { style, ..Settings::default() }).unwrap();
            let shown = GetAttemptResponse { summary: Some(summary.clone()), ..GetAttemptResponse::default() };
            let shown = render_attempt(&shown, TerminalStyle::default());
            for text in [of(Style::Text), of(Style::Line), shown] {
                let mut parts = vec![figures::millis(wall_ms), measured::cpu_time_words(&summary)];
                if need.is_some() {
                    parts.push(format!("needed {}", measured::need_words(&summary)));
                    parts.extend(measured::need_of_ask_words(&summary));
                }
                for part in parts {
                    assert!(text.contains(&part), "{part:?} in {text}");
                }
            }
        }
    }
}
