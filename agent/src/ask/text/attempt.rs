//! Attempts for people.

use std::fmt::Write as _;

use plimsoll_proto::v1::{GetAttemptResponse, Key, OomOrigin, Outcome, Summary};

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
    text
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
    text.push_str(&titled("result", &look.paint(paint(summary), &result(summary))));
    text.push_str(&titled("time", &time(summary)));
    let cpu = numbers::millis(summary.cpu_usec / 1000);
    text.push_str(&titled("cpu", &format!("{cpu}, at most {:.1} cores", summary.cpu_peak_cores)));
    text.push_str(&titled("memory", &memory(summary)));
    if let Some(lost) = held_back(summary) {
        text.push_str(&titled("held back", &lost));
    }
    let lost =
        if summary.samples_lost > 0 { format!(", {} lost", summary.samples_lost) } else { String::new() };
    let source = words::source(summary.source());
    text + &titled("samples", &format!("{}{lost}, from {source}", summary.samples))
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
        let cpu = numbers::millis(phase.cpu_usec / 1000);
        let name = clean(&phase.name);
        let _written = writeln!(text, "{head:<11} {need:>10}  {time:>12}  {cpu:>12} cpu  {name}{mark}");
    }
    text
}

fn memory(summary: &Summary) -> String {
    let more = if summary.censored { "more than " } else { "" };
    let mut text = format!(
        "needed {more}{} (mean {}), {} with page cache",
        numbers::bytes(summary.need_peak_bytes),
        numbers::bytes(summary.need_mean_bytes),
        numbers::bytes(summary.memory_peak_bytes),
    );
    let resources = summary.resources.unwrap_or_default();
    let sizes = [("asked", resources.memory_request_bytes), ("limit", resources.memory_limit_bytes)];
    for (name, size) in sizes.into_iter().filter_map(|(name, size)| Some((name, size?))) {
        let _written = write!(text, ", {name} {}", numbers::bytes(size));
    }
    if let Some(kills) = summary.oom_kill.filter(|kills| *kills > 0) {
        let whose = match summary.oom_origin() {
            OomOrigin::Unspecified => "",
            OomOrigin::OwnLimit => " at its own limit",
            OomOrigin::LimitAbove => " at a limit above its own group's",
            OomOrigin::Host => " because the machine had none left",
        };
        let _written = write!(text, ", {kills} killed for memory{whose}");
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

#[cfg(test)]
pub(super) mod tests {
    use plimsoll_proto::v1::{Action, Cause, EvidenceLine, Exit, Phase, Sample, Verdict};

    use super::*;

    pub(in crate::ask) fn summary() -> Summary {
        Summary {
            attempt: "gitlab:7".to_owned(),
            key: Some(Key { package: "zlib".to_owned(), version: "1.3".to_owned(), ..Key::default() }),
            wall_ms: 61_000,
            need_peak_bytes: 1 << 30,
            oom_kill: Some(1),
            outcome: Outcome::Failed.into(),
            cause: Cause::Oom.into(),
            exit: Some(Exit { code: Some(2), signal: None }),
            censored: true,
            ..Summary::default()
        }
    }

    fn show(shown: &GetAttemptResponse) -> String {
        render_attempt(shown, Look::default())
    }

    #[test]
    fn an_attempt_is_drawn_and_described() {
        let series = [1, 4, 8].map(|n| Sample { elapsed_ms: n, need_bytes: n, ..Sample::default() }).to_vec();
        let summary = Summary {
            number: 2,
            retries: "gitlab:6".to_owned(),
            pool: "bi\u{1b}g".to_owned(),
            started_unix_ms: 1_763_715_907_000,
            ..summary()
        };
        let text = show(&GetAttemptResponse { summary: Some(summary), series, ..Default::default() });
        for expected in [
            "attempt     gitlab:7, try 2, after gitlab:6\n",
            "what        zlib@1.3\n",
            "where       pool bi g\n",
            "result      failed, oom (exit 2)\n",
            "time        2025-11-21 09:06 UTC, after 1 min 1 s\n",
            "needed more than 1.00 GiB",
            "1 killed for memory",
            "need        ▁▄█  full height: 8 B\n",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        assert!(show(&GetAttemptResponse::default()).starts_with("nothing is known"));
    }

    #[test]
    fn a_running_attempt_says_since_when() {
        let summary =
            Summary { outcome: Outcome::Running.into(), started_unix_ms: 1_763_715_907_000, ..summary() };
        let text = show(&GetAttemptResponse { summary: Some(summary), ..Default::default() });
        assert!(text.contains("time        since 2025-11-21 09:05 UTC, measured for 1 min 1 s\n"), "{text}");
    }

    #[test]
    fn the_verdict_and_its_evidence_stand_beside_what_was_measured() {
        let line = EvidenceLine {
            source: "kernel".to_owned(),
            text: "oom_kill\u{1b}[2J rose".to_owned(),
            supports: true,
        };
        let verdict = Verdict {
            action: Action::Bigger.into(),
            cause: Cause::Oom.into(),
            confidence: 0.9,
            evidence: vec![line],
            attempts_left: 2,
            reason: "the kernel killed it".to_owned(),
            ..Verdict::default()
        };
        let text = show(&GetAttemptResponse {
            summary: Some(summary()),
            verdict: Some(verdict),
            ..Default::default()
        });
        let expected = "verdict     retry bigger: oom (90 % sure, 2 attempts left)\n            \
                        the kernel killed it\n              \
                        + kernel    oom_kill [2J rose\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn phases_are_rows_and_the_peak_is_marked_once() {
        let phase = |name: &str, wall_ms, need_peak_bytes| Phase {
            name: name.to_owned(),
            wall_ms,
            need_peak_bytes,
            cpu_usec: 2_000_000,
            ..Phase::default()
        };
        let build = phase("bu\u{1b}ild", 50_000, 1 << 30);
        let phases = vec![phase("configure", 11_000, 3 << 20), build.clone(), build];
        let peak_phase = "bu\u{1b}ild".to_owned();
        let text = show(&GetAttemptResponse {
            summary: Some(Summary { phases, peak_phase, ..summary() }),
            ..Default::default()
        });
        assert!(
            text.contains("\nphases           3 MiB        11.0 s         2.0 s cpu  configure\n"),
            "{text}"
        );
        assert!(text.contains("\n              1.00 GiB        50.0 s         2.0 s cpu  bu"), "{text}");
        assert_eq!((text.matches("<- peak").count(), text.contains('\u{1b}')), (1, false), "{text}");
    }

    #[test]
    fn what_held_it_back_and_whose_limit_killed_is_said_only_if_known() {
        let show = |summary| show(&GetAttemptResponse { summary: Some(summary), ..Default::default() });
        let plain = show(summary());
        assert!(!plain.contains("held back") && !plain.contains("phases"), "{plain}");
        assert!(plain.contains("1 killed for memory\n"), "{plain}");
        let zeros = Summary { starved_ms: Some(0), throttled_usec: Some(0), ..summary() };
        assert!(!show(zeros).contains("held back"));
        let held = Summary {
            starved_ms: Some(12_000),
            memory_stall_usec: Some(4_200_000),
            throttled_usec: Some(500_000),
            oom_origin: OomOrigin::Host.into(),
            ..summary()
        };
        let text = show(held);
        let line = "held back   starved for 12.0 s, stalled for memory for 4.2 s, throttled for 0.5 s over all processors\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("1 killed for memory because the machine had none left\n"), "{text}");
    }
}
