use super::*;

#[test]
fn nothing_measured_is_not_known_and_not_zero() {
    let imported =
        StatsTotals { attempts: 3, memory_not_measured: 3, cpu_not_measured: 3, ..StatsTotals::default() };
    assert_eq!(memory_used_share(&imported), None);
    assert_eq!(memory_wasted_share(&imported), None);
    assert_eq!(cpu_used_share(&imported), None);
    assert_eq!((memory_used(&imported), cpu_time(&imported), highest_need(&imported)), (None, None, None));
    assert_eq!(need_over_ask_words(&imported), "not known");
    assert_eq!(unknown_fields(&imported).len(), 16, "every sum of what was measured");
    let asked = StatsTotals { memory_asked_gib_hours: 1.0, attempts: 1, ..StatsTotals::default() };
    let unknown = unknown_fields(&asked);
    assert!(!unknown.contains(&"memory_wasted_gib_hours"), "nothing wasted is known to be nothing");
    let expected =
        "left out of the sums: 3 attempts without mean memory, 3 attempts without measured CPU time";
    assert_eq!(left_out_words(&imported).as_deref(), Some(expected));
    assert_eq!(left_out_words(&StatsTotals::default()), None);
}

#[test]
fn used_and_wasted_add_up_to_requested() {
    let totals = StatsTotals {
        attempts: 1,
        memory_asked_gib_hours: 4.0,
        memory_used_of_asked_gib_hours: 1.0,
        memory_wasted_gib_hours: 3.0,
        ..StatsTotals::default()
    };
    assert_eq!((memory_used_share(&totals), memory_wasted_share(&totals)), (Some(0.25), Some(0.75)));
    assert_eq!(memory_wasted_words(&totals), "75 % of what was asked for");
    let killed = StatsTotals { failed: 1, ..totals.clone() };
    assert_eq!(memory_wasted_words(&killed), "all that failed attempts asked for, as none succeeded");
}

#[test]
fn attempts_without_requests_are_counted_as_excluded() {
    let totals = StatsTotals {
        attempts: 9,
        memory_not_measured: 2,
        memory_not_asked: 3,
        cpu_not_asked: 9,
        memory_asked_gib_hours: 4.0,
        ..StatsTotals::default()
    };
    let expected = "left out of the sums: 2 attempts without mean memory; \
                left out of what was asked for: 3 attempts that asked for no memory";
    assert_eq!(left_out_words(&totals).as_deref(), Some(expected), "of CPU there is no sum");
}

#[test]
fn asks_that_are_too_small_are_not_hidden() {
    let of = |mean, most, above| StatsTotals {
        need_over_ask_mean: mean,
        need_over_ask_max: most,
        need_over_ask_attempts: 5,
        needed_above_ask: above,
        ..StatsTotals::default()
    };
    let above = "needed more than asked for, the highest";
    for (totals, words, cell) in [
        (of(0.31, 0.9, 0), "31 % on average, the highest 90 %".to_owned(), "31 %"),
        (
            of(1.31, 2.5, 2),
            format!("131 % on average; 2 of 5 attempts (40 %) {above} 2.5 ×"),
            "131 %, 40 % above",
        ),
        (
            of(24_166.4, 120_832.0, 1),
            format!("over 100 × on average; 1 of 5 attempts (20 %) {above} over 100 ×"),
            "over 100 ×, 20 % above",
        ),
    ] {
        assert_eq!((need_over_ask_words(&totals), need_over_ask_cell(&totals)), (words, cell.to_owned()));
    }
}

#[test]
fn lower_bounds_in_sums_are_marked() {
    let of = |most| StatsTotals {
        need_over_ask_mean: 0.31,
        need_over_ask_max: most,
        need_over_ask_lower_bounds: 1,
        need_over_ask_max_is_lower_bound: true,
        need_over_ask_attempts: 1,
        needed_above_ask: u64::from(most > 1.0),
        need_peak_max_bytes: 95 << 20,
        need_peak_max_is_lower_bound: true,
        ..StatsTotals::default()
    };
    assert_eq!(need_over_ask_words(&of(0.95)), "more than 31 % on average, the highest more than 95 %");
    assert_eq!(need_over_ask_cell(&of(0.95)), "> 31 %");
    let expected = "more than 31 % on average; 1 of 1 attempt (100 %) needed more than asked for, the highest more than 2.5 ×";
    assert_eq!(need_over_ask_words(&of(2.5)), expected);
    assert_eq!([highest_need_words(&of(1.0)), highest_need_cell(&of(1.0))], ["more than 95 MiB", "> 95 MiB"]);
    let nothing = StatsTotals { need_peak_max_is_lower_bound: true, ..StatsTotals::default() };
    assert_eq!([highest_need_words(&nothing), highest_need_cell(&nothing)], ["not known", "–"]);
}

#[test]
fn a_drift_has_no_attempts_before_it() {
    let moved = |kind: ChangeKind, attempts_before, attempts_since| {
        moved_over_words(&Regression {
            kind: kind.into(),
            attempts_before,
            attempts_since,
            ..Regression::default()
        })
    };
    assert_eq!(moved(ChangeKind::Drift, 0, 12), "over 12 attempts");
    assert_eq!(moved(ChangeKind::Step, 8, 3), "8 attempts before, 3 since");
}
