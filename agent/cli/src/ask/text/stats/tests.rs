//! Statistics as people read them.

use plimsoll_proto::v1::Coverage;

use super::*;

fn shown(asked: &GetStatsRequest, stats: &GetStatsResponse, columns: Option<usize>) -> String {
    render_stats(asked, stats, TerminalStyle { columns, colour: false })
}

fn stats() -> GetStatsResponse {
    let sums = StatsTotals {
        attempts: 4,
        failed: 1,
        oom: 1,
        memory_used_of_asked_gib_hours: 1.0,
        memory_asked_gib_hours: 4.0,
        memory_wasted_gib_hours: 3.0,
        need_over_ask_mean: 0.25,
        need_over_ask_max: 0.5,
        ..StatsTotals::default()
    };
    let group = |name: &str| Group { name: name.to_owned(), totals: Some(sums.clone()) };
    let step = |n: u64, attempts| Step {
        from_unix_ms: 1_763_683_200_000 + n * 86_400_000,
        totals: Some(StatsTotals { attempts, ..sums.clone() }),
    };
    GetStatsResponse {
        groups: vec![group("zlib"), group("<script>\u{1b}[2J"), group("")],
        steps: vec![step(0, 4), step(1, 8)],
        totals: Some(sums),
        ..GetStatsResponse::default()
    }
}

#[test]
fn statistics_show_waste_by_group_and_over_time() {
    let asked = GetStatsRequest { step_ms: 86_400_000, ..GetStatsRequest::default() };
    let text = shown(&asked, &stats(), None);
    for line in [
        "of 4 GiB·h asked, 1 (25 %) put to use and 3 (75 %) wasted",
        "over time   2025-11-21 00:00 to 2025-11-23 00:00 UTC, in steps of 1 d\n",
        "attempts    ▄█  at most 8\n",
        "wasted      ██  at most 3 GiB·h\n",
        "           3  25 %      25 %              –         4       1    1     –  zlib\n",
        "  <script>\\u{1b}[2J\n",
        "  (none)\n",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("money"), "{text}");
}

#[test]
fn money_is_shown_where_something_has_a_price() {
    let stats = GetStatsResponse { currency: "EUR".to_owned(), ..stats() };
    assert!(shown(&GetStatsRequest::default(), &stats, None).contains("wasted money"));
}

#[test]
fn a_narrow_terminal_has_no_line_of_a_table_that_breaks() {
    let asked = GetStatsRequest::default();
    for columns in [30, 40, 60, 80] {
        let text = shown(&asked, &GetStatsResponse { steps: vec![], ..stats() }, Some(columns));
        let table = text.split("first\n").nth(1).unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= columns), "{columns}: {table}");
    }
}

#[test]
fn what_the_numbers_leave_out_is_shown_and_what_there_is_where_nothing_matches() {
    let stats = GetStatsResponse {
        coverage: Some(Coverage {
            attempts: 1234,
            first_ended_unix_ms: 1_763_683_200_000,
            last_ended_unix_ms: 1_763_715_907_000,
            older_left_out: false,
        }),
        notes: vec!["older\u{1b} attempts are not counted".to_owned()],
        ..GetStatsResponse::default()
    };
    let text = shown(&GetStatsRequest::default(), &stats, None);
    let expected = "attempts counted here: 1,234, which ended from 2025-11-21 00:00 to 2025-11-21 09:05 UTC\n\
                    note: older\\u{1b} attempts are not counted\n";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn groups_beyond_what_a_screen_holds_are_counted() {
    let one = stats().groups.remove(0);
    let stats = GetStatsResponse { groups: vec![one; SHOWN_GROUPS + 7], ..stats() };
    assert!(shown(&GetStatsRequest::default(), &stats, None).contains("and 7 more with less"));
}
