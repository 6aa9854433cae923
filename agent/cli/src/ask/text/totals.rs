//! Prints totals over attempts for people: a line for each known total.

use std::fmt::Write as _;

use plimsoll_proto::{
    evidence::cause_name,
    figures::{self, amount, count},
    sums,
    v1::{Calibration, Cause, StatsTotals, WouldHaveBeen},
};

use super::titled_line;
use crate::ask::{
    numbers,
    terminal_style::{Paint, TerminalStyle},
};

/// The lines of the totals. Money is shown if prices are known.
pub(super) fn totals_lines(sums: &StatsTotals, currency: &str, look: TerminalStyle) -> String {
    let StatsTotals { attempts, succeeded, failed, lost, ended, canceled, retries, .. } = sums;
    // used for lines that appear only if the number is not 0
    let some =
        |number: u64, words| if number > 0 { format!(", {} {words}", count(number)) } else { String::new() };
    let (canceled, ended) = (some(*canceled, "canceled"), some(*ended, "ended with no exit status known"));
    let ends = format!(
        "{}: {} succeeded, {} failed, {} lost{ended}{canceled}; {}",
        count(*attempts),
        count(*succeeded),
        count(*failed),
        count(*lost),
        figures::counted_as(*retries, "was a retry", "were retries")
    );
    let failures = Some(by_cause(sums::failures_by_cause(sums))).filter(|failures| !failures.is_empty());
    let time = format!("{} h of builds; CPU time {}", amount(sums.wall_hours), sums::cpu_time_words(sums));
    let money = (!currency.is_empty() && sums.asked_money > 0.0).then(|| {
        let [asked, wasted] = [sums.asked_money, sums.wasted_money].map(|sum| numbers::money(sum, currency));
        format!("of {asked}, {wasted} ({}) wasted", figures::share(sums.wasted_money, sums.asked_money))
    });
    let lines = [
        ("attempts", Some(ends)),
        ("failures", failures.map(|failures| look.paint(Paint::Bad, &failures))),
        ("retries", retries_line(sums)),
        ("time", Some(time)),
        ("memory", Some(memory_line(sums))),
        ("cpu", sums::cpu_asked(sums).map(|_| cpu_line(sums))),
        ("need / ask", sums::need_over_ask(sums).map(|_| sums::need_over_ask_words(sums))),
        ("not known", sums::left_out_words(sums)),
        ("money", money),
        ("predicted", sums.calibration.as_ref().and_then(calibration_line)),
        ("would be", sums.would_have_been.as_ref().and_then(|would| would_have_been(would, currency))),
    ];
    lines.into_iter().filter_map(|(name, value)| Some(titled_line(name, &value?))).collect()
}

/// Counts by cause, the most frequent cause first.
fn by_cause(counts: impl Iterator<Item = (Cause, u64)>) -> String {
    let mut counts: Vec<_> = counts.collect();
    counts.sort_by_key(|(_, failures)| std::cmp::Reverse(*failures));
    let parts =
        counts.into_iter().map(|(cause, failures)| format!("{} {}", cause_name(cause), count(failures)));
    parts.collect::<Vec<_>>().join(", ")
}

fn retries_line(sums: &StatsTotals) -> Option<String> {
    let of = by_cause(sums::retries_by_cause(sums));
    let mut parts = Vec::new();
    if !of.is_empty() {
        parts.push(format!("after: {of}"));
    }
    if sums.retries_helped > 0 {
        parts.push(format!("{} helped", count(sums.retries_helped)));
    }
    if sums.retries_avoided > 0 {
        let avoided = figures::counted_as(sums.retries_avoided, "was", "were");
        parts.push(format!("{avoided} not made because a verdict said no"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn memory_line(sums: &StatsTotals) -> String {
    let highest = sums::highest_need_words(sums);
    let used = figures::known(sums::memory_used(sums), figures::gib_hours);
    let of_asked = if let Some(asked) = sums::memory_asked(sums).filter(|_| sums::is_nothing_built(sums)) {
        format!("of {} asked, none put to use: no attempt succeeded; ", figures::gib_hours(asked))
    } else if let Some(asked) = sums::memory_asked(sums) {
        let scale = figures::gib_hours_scale(asked);
        let put_to_use =
            sums::with_share(sums.memory_used_of_asked_gib_hours * scale, sums::memory_used_share(sums));
        let wasted = sums::with_share(sums.memory_wasted_gib_hours * scale, sums::memory_wasted_share(sums));
        format!("of {} asked, {put_to_use} put to use and {wasted} wasted; ", figures::gib_hours(asked))
    } else {
        format!("{}; ", sums::NOTHING_ASKED_AND_MEASURED)
    };
    format!("{of_asked}used {used}, highest need {highest}")
}

fn cpu_line(sums: &StatsTotals) -> String {
    format!(
        "of {} asked, {} put to use and {} wasted",
        figures::core_hours(sums.cpu_asked_core_hours),
        sums::with_share(sums.cpu_used_of_asked_core_hours, sums::cpu_used_share(sums)),
        amount(sums.cpu_wasted_core_hours),
    )
}

/// How well predictions fitted; `None` if there were none.
fn calibration_line(held: &Calibration) -> Option<String> {
    if held.attempts == 0 {
        return None;
    }
    let mut text = format!(
        "{}: {} stayed within the limit, {} within the request",
        figures::counted(held.attempts, "attempt"),
        sums::within_limit(held),
        sums::within_request(held),
    );
    if held.timed > 0 {
        let _written =
            write!(text, ", {} within the time for 95 %", figures::rate(held.within_wall_p95, held.timed));
    }
    if let Some(factor) = sums::limit_factor(held) {
        let _written = write!(text, "; limit and need differ by a factor of {} on average", amount(factor));
    }
    Some(text)
}

/// What predicted sizes would have changed; `None` without predictions.
fn would_have_been(would: &WouldHaveBeen, currency: &str) -> Option<String> {
    if would.attempts == 0 {
        return None;
    }
    let mut text = format!(
        "with the predicted sizes of {}: {} asked",
        figures::counted(would.attempts, "attempt"),
        figures::gib_hours_instead(would.predicted_gib_hours, would.asked_gib_hours),
    );
    if !currency.is_empty() && would.asked_money > 0.0 {
        let (predicted, asked) = (would.predicted_money, would.asked_money);
        let predicted = numbers::money(predicted, currency);
        let _written = write!(text, " ({predicted} instead of {})", numbers::money(asked, currency));
    }
    let _written = write!(text, ", {}", sums::memory_failures_with_predictions(would));
    Some(text)
}
