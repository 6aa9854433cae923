//! Attempts and statistics for people.

use std::fmt::Write as _;

use plimsoll_proto::v1::{
    GetAttemptResponse, GetStatsResponse, Key, ListAttemptsResponse, Sample, StatsTotals, Summary,
};

use super::clean;
use crate::ask::{numbers, words};

/// Groups that are shown.
const SHOWN: usize = 30;
/// Columns of the line that draws memory over time.
const COLUMNS: usize = 60;

/// The totals, and a row for each group.
pub(in crate::ask) fn render_stats(stats: &GetStatsResponse) -> String {
    let mut text = totals(&stats.totals.unwrap_or_default());
    if stats.groups.is_empty() {
        return text;
    }
    let _written =
        writeln!(text, "\n{:>12}  {:>8}  {:>6}  {:>10}  name", "wasted GiB h", "attempts", "failed", "peak");
    for group in stats.groups.iter().take(SHOWN) {
        let sums = group.totals.unwrap_or_default();
        let (wasted, peak) = (sums.memory_wasted_gib_hours, numbers::bytes(sums.need_peak_max_bytes));
        let (attempts, failed) = (sums.attempts, sums.failed);
        let _written =
            writeln!(text, "{wasted:>12.2}  {attempts:>8}  {failed:>6}  {peak:>10}  {}", clean(&group.name));
    }
    let rest = stats.groups.len().saturating_sub(SHOWN);
    if rest > 0 {
        let _written = writeln!(text, "and {rest} more with less waste (all with -o json)");
    }
    text
}

fn totals(sums: &StatsTotals) -> String {
    let used = numbers::share(sums.memory_used_gib_hours, sums.memory_asked_gib_hours);
    let StatsTotals { attempts, succeeded, failed, lost, oom, starved, retries, .. } = sums;
    format!(
        "attempts  {attempts}: {succeeded} succeeded, {failed} failed ({oom} oom, {starved} starved), {lost} lost; \
         {retries} were retries\n\
         time      {:.2} h of building, {:.2} core hours\n\
         memory    {:.2} GiB h used of {:.2} asked ({used}), {:.2} wasted; highest need {}\n",
        sums.wall_hours,
        sums.cpu_core_hours,
        sums.memory_used_gib_hours,
        sums.memory_asked_gib_hours,
        sums.memory_wasted_gib_hours,
        numbers::bytes(sums.need_peak_max_bytes),
    )
}

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
    let lost =
        if summary.samples_lost > 0 { format!(", {} lost", summary.samples_lost) } else { String::new() };
    line("samples", format!("{}{lost}, from {}", summary.samples, words::source(summary.source())));
    let highest = |sample: &Sample| sample.need_max_bytes.unwrap_or_default().max(sample.need_bytes);
    let needs: Vec<u64> = shown.series.iter().map(highest).collect();
    if !needs.is_empty() {
        line("need", numbers::sparkline(&needs, COLUMNS));
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
        let _written = write!(text, ", {kills} killed for memory");
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
    use plimsoll_proto::v1::{Cause, Exit, Group, Outcome};

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
    fn statistics_show_waste_by_group() {
        let sums = StatsTotals {
            attempts: 4,
            failed: 1,
            memory_used_gib_hours: 1.0,
            memory_asked_gib_hours: 4.0,
            memory_wasted_gib_hours: 3.0,
            ..StatsTotals::default()
        };
        let group = Group { name: "zlib".to_owned(), totals: Some(sums) };
        let text =
            render_stats(&GetStatsResponse { totals: Some(sums), groups: vec![group; 31], steps: vec![] });
        assert!(text.contains("1.00 GiB h used of 4.00 asked (25 %), 3.00 wasted"), "{text}");
        assert!(text.contains("\n        3.00         4       1         0 B  zlib\n"), "{text}");
        assert!(text.contains("and 1 more with less waste"), "{text}");
    }
}
