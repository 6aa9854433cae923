//! Attempts for people.

use std::fmt::Write as _;

use plimsoll_proto::v1::{GetAttemptResponse, Key, ListAttemptsResponse, OomOrigin, Summary};

use super::clean;
use crate::ask::{numbers, words};

/// Columns of the line that draws memory over time.
const COLUMNS: usize = 60;

/// A row for each attempt.
pub(in crate::ask) fn render_attempts(page: &ListAttemptsResponse) -> String {
    if page.attempts.is_empty() {
        return "no attempts\n".to_owned();
    }
    let mut text = format!("{:<24}  {:>10}  {:>12}  {:<28}  attempt\n", "result", "need", "time", "what");
    for summary in &page.attempts {
        let (need, time) = (numbers::bytes(summary.need_peak_bytes), numbers::millis(summary.wall_ms));
        let what = summary.key.as_ref().map(name).unwrap_or_default();
        let _written = writeln!(
            text,
            "{:<24}  {need:>10}  {time:>12}  {what:<28}  {}",
            result(summary),
            clean(&summary.attempt)
        );
    }
    if !page.next_page_token.is_empty() {
        text.push_str("older attempts are not shown (see --limit)\n");
    }
    text
}

/// One attempt, and its memory over time.
pub(in crate::ask) fn render_attempt(shown: &GetAttemptResponse) -> String {
    let Some(summary) = &shown.summary else {
        return "nothing is known of this attempt\n".to_owned();
    };
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _written = writeln!(text, "{name:<9} {value}");
    };
    line("attempt", clean(&summary.attempt));
    line("what", summary.key.as_ref().map(name).unwrap_or_default());
    line("result", result(summary));
    line("time", numbers::millis(summary.wall_ms));
    let cpu = numbers::millis(summary.cpu_usec / 1000);
    line("cpu", format!("{cpu}, at most {:.1} cores", summary.cpu_peak_cores));
    line("memory", memory(summary));
    if let Some(lost) = held_back(summary) {
        line("held back", lost);
    }
    let lost =
        if summary.samples_lost > 0 { format!(", {} lost", summary.samples_lost) } else { String::new() };
    line("samples", format!("{}{lost}, from {}", summary.samples, words::source(summary.source())));
    let needs: Vec<u64> =
        shown.series.iter().map(|row| row.need_max_bytes.unwrap_or(row.need_bytes)).collect();
    if !needs.is_empty() {
        line("need", numbers::sparkline(&needs, COLUMNS));
    }
    text.push_str(&phases(summary));
    text
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
        let _written = writeln!(text, "{head:<9} {need:>10}  {time:>12}  {cpu:>12} cpu  {name}{mark}");
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

fn result(summary: &Summary) -> String {
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
fn name(key: &Key) -> String {
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
mod tests {
    use plimsoll_proto::v1::{Cause, Exit, Outcome, Phase, Sample};

    use super::*;

    fn summary() -> Summary {
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

    #[test]
    fn an_attempt_is_drawn_and_described() {
        let series = [1, 4, 8].map(|need_bytes| Sample { need_bytes, ..Sample::default() }).to_vec();
        let text =
            render_attempt(&GetAttemptResponse { summary: Some(summary()), series, ..Default::default() });
        for expected in [
            "attempt   gitlab:7\n",
            "what      zlib@1.3\n",
            "result    failed, oom (exit 2)\n",
            "needed more than 1.00 GiB",
            "1 killed for memory",
            "need      ▁▄█\n",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        assert!(render_attempt(&GetAttemptResponse::default()).starts_with("nothing is known"));
    }

    #[test]
    fn attempts_are_rows() {
        let page = ListAttemptsResponse { attempts: vec![summary()], next_page_token: "x".to_owned() };
        let text = render_attempts(&page);
        assert!(
            text.lines()
                .nth(1)
                .unwrap()
                .starts_with("failed, oom (exit 2)        1.00 GiB     1 min 1 s  zlib@1.3")
        );
        assert!(text.contains("older attempts are not shown"));
        assert_eq!(render_attempts(&ListAttemptsResponse::default()), "no attempts\n");
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
        let text = render_attempt(&GetAttemptResponse {
            summary: Some(Summary { phases, peak_phase, ..summary() }),
            ..Default::default()
        });
        assert!(
            text.contains("\nphases         3 MiB        11.0 s         2.0 s cpu  configure\n"),
            "{text}"
        );
        assert!(text.contains("\n            1.00 GiB        50.0 s         2.0 s cpu  bu"), "{text}");
        assert_eq!((text.matches("<- peak").count(), text.contains('\u{1b}')), (1, false), "{text}");
    }

    #[test]
    fn what_held_it_back_and_whose_limit_killed_is_said_only_if_known() {
        let show =
            |summary| render_attempt(&GetAttemptResponse { summary: Some(summary), ..Default::default() });
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
        let line = "held back starved for 12.0 s, stalled for memory for 4.2 s, throttled for 0.5 s over all processors\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("1 killed for memory because the machine had none left\n"), "{text}");
    }
}
