//! Numbers computed from sums over attempts, and words for them. There is one function for each, used by the terminal, the page and the
//! report.

use crate::{
    figures::{self, NOT_KNOWN, count, counted, float},
    v1::{Cause, CauseCount, ChangeKind, FailureGroup, Group, Regression, StatsTotals},
};

/// Name of the group that combines all groups that the server does not list.
pub const OTHERS_GROUP: &str = "(others)";

/// The groups, without the one that combines all that the server does not list.
pub fn named_groups(groups: &[Group]) -> impl Iterator<Item = &Group> {
    groups.iter().filter(|group| group.name != OTHERS_GROUP)
}

/// Failures by cause, without those that do not occur. Canceled attempts have not failed. A server that does not count by cause gives the
/// counts of two causes.
pub fn failures_by_cause(totals: &StatsTotals) -> impl Iterator<Item = (Cause, u64)> {
    let without = [(Cause::Oom, totals.oom), (Cause::Starved, totals.starved)];
    let without = without.into_iter().filter(|_| totals.causes.is_empty());
    counts_by_cause(&totals.causes).chain(without.filter(|(_, count)| *count > 0))
}

/// Counts by cause, without those that are 0, and without canceled attempts.
pub fn counts_by_cause(counts: &[CauseCount]) -> impl Iterator<Item = (Cause, u64)> {
    let counts = counts.iter().map(|of| (of.cause(), of.count));
    counts.filter(|(cause, count)| *cause != Cause::Canceled && *count > 0)
}

/// Retries by the cause of the attempt that they retry.
pub fn retries_by_cause(totals: &StatsTotals) -> impl Iterator<Item = (Cause, u64)> {
    totals.retries_by_cause.iter().map(|of| (of.cause(), of.count))
}

/// Requested memory multiplied by time, GiB x h; `None` if no attempt both requested memory and measured its need.
pub fn memory_asked(totals: &StatsTotals) -> Option<f64> {
    let counted = totals.attempts.saturating_sub(totals.memory_not_measured + totals.memory_not_asked);
    (counted > 0 && totals.memory_asked_gib_hours > 0.0).then_some(totals.memory_asked_gib_hours)
}

/// The part of [`memory_asked`] that was not used, GiB x h.
pub fn memory_wasted_hours(totals: &StatsTotals) -> Option<f64> {
    memory_asked(totals).map(|_| totals.memory_wasted_gib_hours)
}

/// Requested CPU multiplied by time, cores x h; `None` if no attempt both requested CPU and measured its use.
pub fn cpu_asked(totals: &StatsTotals) -> Option<f64> {
    let counted = totals.attempts.saturating_sub(totals.cpu_not_measured + totals.cpu_not_asked);
    (counted > 0 && totals.cpu_asked_core_hours > 0.0).then_some(totals.cpu_asked_core_hours)
}

/// The part of [`cpu_asked`] that was not used, cores x h.
pub fn cpu_wasted_hours(totals: &StatsTotals) -> Option<f64> {
    cpu_asked(totals).map(|_| totals.cpu_wasted_core_hours)
}

/// Share of the requested memory that was used; `None` if nothing was requested, or nothing of it was measured.
pub fn memory_used_share(totals: &StatsTotals) -> Option<f64> {
    memory_asked(totals).map(|asked| totals.memory_used_of_asked_gib_hours / asked)
}

/// Share of the requested memory that was not used.
pub fn memory_wasted_share(totals: &StatsTotals) -> Option<f64> {
    memory_asked(totals).map(|asked| totals.memory_wasted_gib_hours / asked)
}

/// Words for [`memory_wasted_share`]: `40 % of what was asked for`. If no attempt succeeded, no share is named: everything counts as wasted, so
/// what a build really wastes is not known.
pub fn memory_wasted_words(totals: &StatsTotals) -> String {
    let StatsTotals { attempts, failed, lost, ended, canceled, .. } = *totals;
    let is_nothing_built = attempts > 0 && failed + lost + ended + canceled >= attempts;
    match memory_wasted_share(totals) {
        None => NOTHING_ASKED_AND_MEASURED.to_owned(),
        Some(_) if is_nothing_built => "all that failed attempts asked for, as none succeeded".to_owned(),
        Some(share) => format!("{} of what was asked for", figures::percent(share)),
    }
}

/// Share of the requested CPU that was used.
pub fn cpu_used_share(totals: &StatsTotals) -> Option<f64> {
    cpu_asked(totals).map(|asked| totals.cpu_used_of_asked_core_hours / asked)
}

/// Mean and maximum of highest need divided by requested memory, over attempts. `None` if no attempt has both numbers.
pub fn need_over_ask(totals: &StatsTotals) -> Option<(f64, f64)> {
    (totals.need_over_ask_max > 0.0).then_some((totals.need_over_ask_mean, totals.need_over_ask_max))
}

/// A need divided by what was asked for: `31 %`, `250 %`, from ten times on `12 ×`.
fn ratio_to_ask(ratio: f64) -> String {
    if ratio < 10.0 { figures::percent(ratio) } else { figures::times_asked_or_more(ratio, false) }
}

/// The mean of [`need_over_ask`] for a cell of a table, with the share of attempts that asked for too little: `31 %`, `> 31 %`, `98 %, 40 %
/// above`, a dash.
pub fn need_over_ask_cell(totals: &StatsTotals) -> String {
    let mean = need_over_ask(totals).map(|(mean, _)| ratio_to_ask(mean));
    let cell = figures::cell_bound(mean, totals.need_over_ask_lower_bounds > 0);
    match totals.needed_above_ask {
        0 => cell,
        above => format!("{cell}, {} above", figures::share_of(above, totals.need_over_ask_attempts)),
    }
}

/// Words for [`need_over_ask`]: `31 % on average, the highest 90 %`, `more than 31 % on average, the highest more than 90 %`, `98 % on
/// average; 2 of 5 attempts (40 %) needed more than they asked for, the highest 2.5 ×`, `not known`.
pub fn need_over_ask_words(totals: &StatsTotals) -> String {
    let Some((mean, most)) = need_over_ask(totals) else { return NOT_KNOWN.to_owned() };
    let mean = figures::bound(&ratio_to_ask(mean), totals.need_over_ask_lower_bounds > 0);
    let most_is_lower = totals.need_over_ask_max_is_lower_bound;
    if most <= 1.0 {
        let most = figures::bound(&figures::percent(most), most_is_lower);
        return format!("{mean} on average, the highest {most}");
    }
    let (above, all) = (totals.needed_above_ask, totals.need_over_ask_attempts);
    let share = figures::share_of(above, all);
    let above = format!("{} of {}", count(above), counted(all, "attempt"));
    let times = figures::times_asked_or_more(most, most_is_lower);
    format!("{mean} on average; {above} ({share}) needed more than asked for, the highest {times}")
}

/// Highest need of any attempt, bytes; a lower bound if memory stopped that attempt.
pub fn highest_need(totals: &StatsTotals) -> Option<u64> {
    Some(totals.need_peak_max_bytes).filter(|need| *need > 0)
}

/// Words for the highest need: `114 MiB`, `more than 114 MiB`, `not known`.
pub fn highest_need_words(totals: &StatsTotals) -> String {
    figures::known_bound(highest_need(totals).map(figures::bytes), totals.need_peak_max_is_lower_bound)
}

/// The highest need for a cell of a table: `114 MiB`, `> 114 MiB`, a dash.
pub fn highest_need_cell(totals: &StatsTotals) -> String {
    figures::cell_bound(highest_need(totals).map(figures::bytes), totals.need_peak_max_is_lower_bound)
}

/// The sentence shown instead of the sums of requested and used memory, if no attempt is in them.
pub const NOTHING_ASKED_AND_MEASURED: &str = "no attempt reported both what it asked for and its mean memory";

/// Mean need multiplied by time over all attempts, GiB x h; `None` if no attempt measured it.
pub fn memory_used(totals: &StatsTotals) -> Option<f64> {
    (totals.memory_not_measured < totals.attempts).then_some(totals.memory_used_gib_hours)
}

/// CPU time of all attempts, cores x h; `None` if no attempt measured it.
pub fn cpu_time(totals: &StatsTotals) -> Option<f64> {
    (totals.cpu_not_measured < totals.attempts).then_some(totals.cpu_core_hours)
}

/// Mean wall time of an attempt, milliseconds.
pub fn mean_wall_ms(totals: &StatsTotals) -> Option<f64> {
    ratio(totals.wall_hours * 3_600_000.0, float(totals.attempts))
}

/// Words for the attempts that are left out of the sums; `None` if none are. A sum is not mentioned if nothing was requested at all.
pub fn left_out_words(totals: &StatsTotals) -> Option<String> {
    let missing = [
        ("without mean memory", totals.memory_not_measured),
        ("without measured CPU time", totals.cpu_not_measured),
    ];
    let silent = [
        ("asked for no memory", totals.memory_not_asked * u64::from(memory_asked(totals).is_some())),
        ("asked for no CPU", totals.cpu_not_asked * u64::from(cpu_asked(totals).is_some())),
    ];
    let named = |counts: [(&str, u64); 2], joint: &str| {
        let counts = counts.into_iter().filter(|(_, attempts)| *attempts > 0);
        let named = counts.map(|(what, attempts)| format!("{}{joint} {what}", counted(attempts, "attempt")));
        named.collect::<Vec<_>>().join(", ")
    };
    let parts = [
        ("left out of the sums", named(missing, "")),
        ("left out of what was asked for", named(silent, " that")),
    ];
    let reasons =
        parts.into_iter().filter(|(_, of)| !of.is_empty()).map(|(what, of)| format!("{what}: {of}"));
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    (!reasons.is_empty()).then_some(reasons)
}

/// Names (on the wire) of the fields that have no known number, for output that shows each field: such a number must not be shown as 0.
pub fn unknown_fields(totals: &StatsTotals) -> Vec<&'static str> {
    let (memory, cpu) = (memory_asked(totals).is_none(), cpu_asked(totals).is_none());
    let over_ask = need_over_ask(totals).is_none();
    let cpu_time = cpu_time(totals).is_none();
    let fields = [
        ("memory_used_gib_hours", memory_used(totals).is_none()),
        ("memory_asked_gib_hours", memory),
        ("memory_used_of_asked_gib_hours", memory),
        ("memory_wasted_gib_hours", memory),
        ("cpu_core_hours", cpu_time),
        ("cpu_wall_hours", cpu_time),
        ("cpu_asked_core_hours", cpu),
        ("cpu_used_of_asked_core_hours", cpu),
        ("cpu_wasted_core_hours", cpu),
        ("need_peak_max_bytes", highest_need(totals).is_none()),
        ("need_over_ask_mean", over_ask),
        ("need_over_ask_max", over_ask),
        ("asked_money", memory && cpu),
        ("wasted_money", memory && cpu),
        ("memory_wasted_money", memory),
        ("cpu_wasted_money", cpu),
    ];
    fields.into_iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect()
}

/// Words before the attempt since which a need has changed: `since attempt`.
pub fn moved_since_words(moved: &Regression) -> &'static str {
    match moved.kind() {
        ChangeKind::Drift => "little by little since attempt",
        ChangeKind::Back => "back since attempt",
        ChangeKind::Step | ChangeKind::Unspecified => "since attempt",
    }
}

/// Words for the attempts that show a change of need: `8 attempts before, 3 since`; for a drift, which has no first attempt, the number of
/// all of them.
pub fn moved_over_words(moved: &Regression) -> String {
    let (before, since) = (u64::from(moved.attempts_before), u64::from(moved.attempts_since));
    match moved.kind() {
        ChangeKind::Drift => format!("over {}", counted(before + since, "attempt")),
        _ => format!("{} before, {} since", counted(before, "attempt"), figures::count(since)),
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// The end of a list of a group's packages: ` and 3 more`, or nothing.
#[must_use]
pub fn more_packages(group: &FailureGroup) -> String {
    match group.packages_total.saturating_sub(group.packages.len() as u64) {
        0 => String::new(),
        more => format!(" and {} more", figures::count(more)),
    }
}

#[cfg(test)]
mod tests;
