//! Attempts for people.

#[cfg(test)]
pub(super) mod tests;

use std::fmt::Write as _;

use plimsoll_proto::{
    evidence::source_in_words,
    figures, measured,
    v1::{GetAttemptResponse, Key, OomOrigin, Outcome, Summary, Verdict},
};

use super::{clean, foretold, predictor::render_verdict, series, titled};
use crate::ask::{
    look::{Look, Paint},
    numbers, words,
};

/// One attempt: what it was, what it used over time, what was predicted for it, and the verdict on it.
pub(in crate::ask) fn render_attempt(shown: &GetAttemptResponse, look: Look) -> String {
    let Some(summary) = &shown.summary else {
        return "nothing is known of this attempt\n".to_owned();
    };
    let mut text = facts(summary, look);
    text.push_str(&series::draw(&shown.series, summary, look));
    text.push_str(&phases(summary));
    text.push_str(&block("predicted", &foretold::lines(summary, look)));
    if let Some(verdict) = &shown.verdict {
        let judged = render_verdict(verdict);
        text.push_str(&block("verdict", &judged.lines().map(str::to_owned).collect::<Vec<_>>()));
    }
    text.push_str(&block("before it", &shown.earlier_verdicts.iter().map(earlier).collect::<Vec<_>>()));
    text
}

/// A verdict that is no longer in force: more was known later.
fn earlier(verdict: &Verdict) -> String {
    let given = match verdict.given_unix_ms {
        0 => String::new(),
        given => format!("{} UTC, ", numbers::date_time(given)),
    };
    let answer = render_verdict(verdict);
    format!("{given}{}", answer.lines().next().unwrap_or_default())
}

/// Lines under one name.
fn block(name: &str, lines: &[String]) -> String {
    let named = |(nth, line): (usize, &String)| titled(if nth == 0 { name } else { "" }, line);
    lines.iter().enumerate().map(named).collect()
}

fn facts(summary: &Summary, look: Look) -> String {
    let mut text = titled("attempt", &identity(summary));
    text.push_str(&titled("what", &summary.key.as_ref().map(what).unwrap_or_default()));
    if let Some(place) = place(summary) {
        text.push_str(&titled("where", &place));
    }
    let from = match summary.cause_source.as_str() {
        "" => String::new(),
        source => format!(", cause from the {}", source_in_words(&clean(source))),
    };
    text.push_str(&titled("result", &(look.paint(paint(summary), &result(summary)) + &from)));
    text.push_str(&titled("time", &time(summary)));
    text.push_str(&titled("cpu", &cpu(summary)));
    text.push_str(&titled("memory", &memory(summary)));
    if let Some(lost) = held_back(summary) {
        text.push_str(&titled("held back", &lost));
    }
    let lost =
        if summary.samples_lost > 0 { format!(", {} lost", summary.samples_lost) } else { String::new() };
    let source = words::source(summary.source());
    text + &titled("samples", &format!("{}{lost}, from {source}", summary.samples))
}

fn cpu(summary: &Summary) -> String {
    let Some(usec) = measured::cpu_usec(summary) else { return figures::NOT_KNOWN.to_owned() };
    let asked = measured::cpu_asked(summary.resources.as_ref());
    let asked = asked.map(|cores| format!(", asked for {}", figures::cores(cores))).unwrap_or_default();
    format!("{}, {}{asked}", figures::micros(usec), measured::cpu_words(summary))
}

fn time(summary: &Summary) -> String {
    let took = numbers::millis(summary.wall_ms);
    if summary.outcome() == Outcome::Running {
        return format!("since {} UTC, measured for {took}", numbers::date_time(summary.started_unix_ms));
    }
    let ended = summary.started_unix_ms.saturating_add(summary.wall_ms);
    format!("{} UTC, after {took}", numbers::date_time(ended))
}

/// The id, and which of several tries it is.
fn identity(summary: &Summary) -> String {
    let mut text = clean(&summary.attempt);
    if summary.number > 1 {
        let _written = write!(text, ", try {}", summary.number);
    }
    if !summary.retries.is_empty() {
        let _written = write!(text, ", after {}", clean(&summary.retries));
    }
    text
}

/// The key in words, with what tells it from its neighbours.
fn what(key: &Key) -> String {
    let mut text = name(key);
    for (mark, part) in [
        (" ", &key.variants),
        (" arch=", &key.arch),
        (" in ", &key.stack),
        (" of ", &key.project),
        (" on ", &key.r#ref),
    ] {
        if !part.is_empty() {
            text.push_str(mark);
            text.push_str(&clean(part));
        }
    }
    if let Some(jobs) = key.hints.and_then(|hints| hints.build_jobs) {
        let _written = write!(text, " -j{jobs}");
    }
    text
}

fn place(summary: &Summary) -> Option<String> {
    let pool = (!summary.pool.is_empty()).then(|| format!("pool {}", clean(&summary.pool)));
    let trust = summary.untrusted.then(|| "not trusted: it never lowers what others are told".to_owned());
    let said: Vec<String> = pool.into_iter().chain(trust).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// How good the end of an attempt is.
pub(super) fn paint(summary: &Summary) -> Paint {
    match summary.outcome() {
        Outcome::Succeeded => Paint::Good,
        Outcome::Failed => Paint::Bad,
        Outcome::Lost => Paint::Warn,
        Outcome::Running | Outcome::Unspecified => Paint::Plain,
    }
}

/// Time that the build lost to limits, as far as it was measured and there was any.
fn held_back(summary: &Summary) -> Option<String> {
    let above_zero = |time: Option<u64>| time.filter(|time| *time > 0);
    let mut said = Vec::new();
    if let Some(ms) = above_zero(summary.starved_ms) {
        said.push(format!("starved for {}", numbers::millis(ms)));
    }
    if let Some(usec) = above_zero(summary.memory_stall_usec) {
        said.push(format!("stalled for memory for {}", numbers::millis(usec / 1000)));
    }
    if let Some(usec) = above_zero(summary.throttled_usec) {
        // the kernel adds it up, so it may be longer than the attempt
        said.push(format!("throttled for {} over all processors", numbers::millis(usec / 1000)));
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// A row for each phase, the one with the highest need marked.
fn phases(summary: &Summary) -> String {
    let mut text = String::new();
    let peak = summary.phases.iter().map(|phase| phase.need_peak_bytes).max().unwrap_or_default();
    let mut marked = false;
    for (index, phase) in summary.phases.iter().enumerate() {
        let head = if index == 0 { "phases" } else { "" };
        let is_peak = !marked && phase.name == summary.peak_phase && phase.need_peak_bytes == peak;
        marked |= is_peak;
        let mark = if is_peak { "  <- peak" } else { "" };
        let (need, time) = (numbers::bytes(phase.need_peak_bytes), numbers::millis(phase.wall_ms));
        let cpu = figures::micros(phase.cpu_usec);
        let name = clean(&phase.name);
        let _written = writeln!(text, "{head:<11} {need:>10}  {time:>12}  {cpu:>12} cpu  {name}{mark}");
    }
    text
}

fn memory(summary: &Summary) -> String {
    let mut text = format!(
        "needed {} (mean {}), {} with page cache; asked for {}",
        measured::need_words(summary),
        figures::known_bytes(measured::mean_need(summary)),
        figures::known_bytes(measured::memory_peak(summary)),
        measured::memory_asked_words(summary.resources.as_ref()),
    );
    if let Some(share) = measured::need_of_ask(summary) {
        let _written = write!(text, " ({} of it needed)", figures::percent(share));
    }
    if let Some(kills) = summary.oom_kill.filter(|kills| *kills > 0) {
        let whose = match summary.oom_origin() {
            OomOrigin::Unspecified => "",
            OomOrigin::OwnLimit => " at its own limit",
            OomOrigin::LimitAbove => " at a limit above its own group's",
            OomOrigin::Host => " because the machine had none left",
        };
        let killed = figures::counted_as(kills, "process", "processes");
        let _written = write!(text, "; {killed} killed for memory{whose}");
    }
    text
}

pub(super) fn result(summary: &Summary) -> String {
    let mut text = words::outcome(summary.outcome());
    if summary.cause != 0 {
        let _written = write!(text, ", {}", words::cause(summary.cause()).replace('_', " "));
    }
    let exit = summary.exit.unwrap_or_default();
    if let Some(code) = exit.code.filter(|code| *code != 0) {
        let _written = write!(text, " (exit {code})");
    }
    if let Some(signal) = exit.signal {
        let _written = write!(text, " (signal {signal})");
    }
    text
}

/// `zlib@1.3 %gcc@12.2`.
pub(in crate::ask) fn name(key: &Key) -> String {
    let mut text = clean(&key.package);
    for (mark, part) in [("@", &key.version), (" %", &key.compiler), ("@", &key.compiler_version)] {
        if !part.is_empty() {
            text.push_str(mark);
            text.push_str(&clean(part));
        }
    }
    text
}
