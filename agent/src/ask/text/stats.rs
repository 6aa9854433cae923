//! Statistics for people.

use std::fmt::Write as _;

use plimsoll_proto::v1::{GetStatsResponse, StatsTotals};

use super::clean;
use crate::ask::numbers;

/// Groups that are shown.
const SHOWN: usize = 30;

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
    use plimsoll_proto::v1::Group;

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
        let group = Group { name: "zlib".to_owned(), totals: Some(sums) };
        let text = render_stats(&GetStatsResponse {
            totals: Some(sums),
            groups: vec![group; 31],
            ..GetStatsResponse::default()
        });
        assert!(text.contains("2.00 GiB h used; of 4.00 asked, 1.00 (25 %) used and 3.00 wasted"), "{text}");
        assert!(text.contains("\n        3.00         4       1         0 B  zlib\n"), "{text}");
        assert!(text.contains("and 1 more with less waste"), "{text}");
    }
}
