//! Statistics.

use plimsoll_proto::v1::{Coverage, GetStatsRequest, GetStatsResponse, Group, StatsTotals};

use super::{Answers, COLOURED, NARROW, NOON, PLAIN, week};
use crate::ask::text::render_stats;

pub(super) fn answers() -> Answers {
    let asked = GetStatsRequest { step_ms: 86_400_000, ..GetStatsRequest::default() };
    let show = |stats: &GetStatsResponse, look| render_stats(&asked, stats, look);
    let of_totals = |totals| GetStatsResponse { totals: Some(totals), ..GetStatsResponse::default() };
    let week = week::stats();
    let narrow = GetStatsResponse {
        groups: week.groups.clone(),
        ..of_totals(week.totals.clone().unwrap_or_default())
    };
    let many = GetStatsResponse {
        groups: vec![Group::default(); 37],
        ..of_totals(week.totals.clone().unwrap_or_default())
    };
    let coverage = Coverage {
        attempts: 1234,
        first_ended_unix_ms: 1_763_683_200_000,
        last_ended_unix_ms: NOON,
        older_left_out: false,
    };
    let nothing =
        GetStatsResponse { coverage: Some(coverage), notes: week.notes.clone(), ..Default::default() };
    let old_server = StatsTotals { attempts: 4, failed: 3, oom: 2, starved: 1, ..StatsTotals::default() };
    let asked = 0.19 / 1024.0;
    let small = StatsTotals {
        attempts: 1,
        succeeded: 1,
        memory_asked_gib_hours: asked,
        memory_used_of_asked_gib_hours: asked * 0.6,
        memory_wasted_gib_hours: asked * 0.4,
        ..StatsTotals::default()
    };
    vec![
        ("all that is known has a line, and findings say what they cost", show(&week, PLAIN)),
        ("a narrow terminal has no line of a table that breaks", show(&narrow, NARROW)),
        ("failures of a server that does not count by cause are red", show(&of_totals(old_server), COLOURED)),
        ("parts of what was asked for have its unit, no failure is red", show(&of_totals(small), COLOURED)),
        ("groups beyond what a screen holds are counted", show(&many, PLAIN)),
        ("what is left out, and what there is where nothing matches", show(&nothing, PLAIN)),
    ]
}
