//! Statistics for people.

use std::fmt::Write as _;

use plimsoll_proto::v1::{ChangeKind, GetStatsResponse, StatsTotals};

use super::clean;
use crate::ask::numbers;

/// Groups that are shown.
const SHOWN: usize = 30;

/// Needs that have moved that are shown.
const MOVED: usize = 10;

/// The totals, and a row for each group.
pub(in crate::ask) fn render_stats(stats: &GetStatsResponse) -> String {
    totals(&stats.totals.clone().unwrap_or_default()) + &groups(stats) + &regressions(stats)
}

fn groups(stats: &GetStatsResponse) -> String {
    let mut text = String::new();
    if stats.groups.is_empty() {
        return text;
    }
    let _written =
        writeln!(text, "\n{:>12}  {:>8}  {:>6}  {:>10}  name", "wasted GiB h", "attempts", "failed", "peak");
    for group in stats.groups.iter().take(SHOWN) {
        let sums = group.totals.clone().unwrap_or_default();
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

/// Two lines for each build whose need has moved.
fn regressions(stats: &GetStatsResponse) -> String {
    let mut text = String::new();
    if stats.regressions.is_empty() {
        return text;
    }
    text.push_str("\nneeds that have moved (the most expensive first)\n");
    for moved in stats.regressions.iter().take(MOVED) {
        let how = match moved.kind() {
            ChangeKind::Drift => "little by little since",
            ChangeKind::Back => "back since",
            ChangeKind::Step | ChangeKind::Unspecified => "since",
        };
        let (before, now) = (numbers::bytes(moved.before_bytes), numbers::bytes(moved.now_bytes));
        let _written = writeln!(
            text,
            "{:>7.2}x  {before} -> {now}, {how} {} ({} attempts before, {} since, {:+.2} GiB h)",
            moved.factor,
            clean(&moved.attempt),
            moved.attempts_before,
            moved.attempts_since,
            moved.extra_gib_hours
        );
        let changed = match (moved.changed.as_str(), moved.kind()) {
            ("", ChangeKind::Drift) => String::new(),
            ("", _) => "; nothing in the key changed with it".to_owned(),
            (changed, _) => format!("; with it changed: {}", clean(changed)),
        };
        let _written = writeln!(text, "          {}{changed}", clean(&moved.key));
    }
    let rest = stats.regressions.len().saturating_sub(MOVED);
    if rest > 0 {
        let _written = writeln!(text, "and {rest} more that cost less (all with -o json)");
    }
    text
}

fn totals(sums: &StatsTotals) -> String {
    let used = numbers::share(sums.memory_used_of_asked_gib_hours, sums.memory_asked_gib_hours);
    let StatsTotals { attempts, succeeded, failed, lost, oom, starved, retries, .. } = sums;
    format!(
        "attempts  {attempts}: {succeeded} succeeded, {failed} failed ({oom} oom, {starved} starved), {lost} lost; \
         {retries} were retries\n\
         time      {:.2} h of building, {:.2} core hours\n\
         memory    {:.2} GiB h used; of {:.2} asked, {:.2} ({used}) used and {:.2} wasted; highest need {}\n",
        sums.wall_hours,
        sums.cpu_core_hours,
        sums.memory_used_gib_hours,
        sums.memory_asked_gib_hours,
        sums.memory_used_of_asked_gib_hours,
        sums.memory_wasted_gib_hours,
        numbers::bytes(sums.need_peak_max_bytes),
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Group, Regression};

    use super::*;

    #[test]
    fn statistics_show_waste_by_group() {
        let sums = StatsTotals {
            attempts: 4,
            failed: 1,
            memory_used_gib_hours: 2.0,
            memory_used_of_asked_gib_hours: 1.0,
            memory_asked_gib_hours: 4.0,
            memory_wasted_gib_hours: 3.0,
            ..StatsTotals::default()
        };
        let group = Group { name: "zlib".to_owned(), totals: Some(sums.clone()) };
        let text = render_stats(&GetStatsResponse {
            totals: Some(sums),
            groups: vec![group; 31],
            ..GetStatsResponse::default()
        });
        assert!(text.contains("2.00 GiB h used; of 4.00 asked, 1.00 (25 %) used and 3.00 wasted"), "{text}");
        assert!(text.contains("\n        3.00         4       1         0 B  zlib\n"), "{text}");
        assert!(text.contains("and 1 more with less waste"), "{text}");
    }

    #[test]
    fn a_need_that_has_moved_says_since_when_by_how_much_and_what_changed() {
        let moved = |changed: &str, kind: ChangeKind| Regression {
            key: "zlib@2 -j4".to_owned(),
            kind: kind.into(),
            attempt: "a".to_owned(),
            factor: 3.0,
            before_bytes: 1 << 30,
            now_bytes: 3 << 30,
            attempts_before: 10,
            attempts_since: 4,
            changed: changed.to_owned(),
            extra_gib_hours: 8.0,
            ended_unix_ms: 0,
        };
        let mut regressions = vec![moved("version 1 -> 2", ChangeKind::Step); 11];
        regressions[1] = moved("", ChangeKind::Back);
        let text = render_stats(&GetStatsResponse { regressions, ..GetStatsResponse::default() });
        let first = "   3.00x  1.00 GiB -> 3.00 GiB, since a (10 attempts before, 4 since, +8.00 GiB h)\n          zlib@2 -j4; with it changed: version 1 -> 2\n";
        assert!(text.contains(first), "{text}");
        assert!(
            text.contains("back since a")
                && text.contains("zlib@2 -j4; nothing in the key changed with it\n"),
            "{text}"
        );
        assert!(text.ends_with("and 1 more that cost less (all with -o json)\n"), "{text}");
    }
}
