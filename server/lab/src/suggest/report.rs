//! Suggestions as text and as JSON.

use std::fmt::Write as _;

use plimsoll_core::placement::CoprTable;
use plimsoll_proto::figures::counted;

use super::{BuilderTimes, ListVerdict, MIN_SUCCESSFUL_BUILDS, SuggestTerms, Suggestion};

/// The sections of the text, in their order, with their headings.
const LIST_SECTIONS: [(ListVerdict, &str); 3] = [
    (ListVerdict::Add, "put on the list"),
    (ListVerdict::Remove, "take off the list, they do not profit"),
    (ListVerdict::Keep, "keep on the list"),
];

fn name(one: &Suggestion<'_>) -> String {
    let group = one.group;
    let parts = [group.owner_project.as_str(), group.family, &group.package];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn row(one: &Suggestion<'_>, terms: &SuggestTerms) -> Option<Vec<String>> {
    let times = one.times?;
    Some(vec![
        name(one),
        one.group.builds.to_string(),
        times.normal.to_string(),
        times.powerful.to_string(),
        format!("{:.1}x", times.speedup()),
        times.basis.as_str().to_owned(),
        format!("{:.1}", one.hours_saved()),
        format!("{:+.2}", one.money_more(terms)),
    ])
}

/// The suggestions as text for people: a table for each section, then how many packages are left out and why. Money is shown only if a pool
/// has a price.
pub fn text(all: &[Suggestion<'_>], terms: &SuggestTerms, currency: &str) -> String {
    let mut text = String::new();
    let is_timed = all.iter().all(|one| one.group.per_month.is_some());
    let (hours, money) =
        if is_timed { ("hours/month", "money/month") } else { ("hours in file", "money in file") };
    let money = if currency.is_empty() { money } else { currency };
    let (normal, powerful) = (&terms.normal, &terms.powerful);
    let head = ["package", "builds", normal.name.as_str(), &powerful.name, "speed-up", "from", hours, money];
    let columns = head.len() - usize::from(normal.price_hour <= 0.0 && powerful.price_hour <= 0.0);
    for (verdict, title) in LIST_SECTIONS {
        let rows = all.iter().filter(|one| one.verdict == verdict).filter_map(|one| row(one, terms));
        let rows: Vec<Vec<String>> = rows.collect();
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        let _written = writeln!(text, "{title}: {}", counted(count, "package"));
        if !rows.is_empty() {
            let mut table: Vec<_> = [head.map(str::to_owned).to_vec()].into_iter().chain(rows).collect();
            for row in &mut table {
                row.truncate(columns);
            }
            text.push_str(&aligned(&table));
        }
        text.push('\n');
    }
    let count = |verdict| all.iter().filter(|one| one.verdict == verdict).count();
    let _written = write!(
        text,
        "not on the list, and no profit: {}; too little known (fewer than {MIN_SUCCESSFUL_BUILDS} builds succeeded, or no build jobs and CPU time): {}\n\
         A package profits that takes {} or longer on {}, and is {} times as fast on {}.\n",
        count(ListVerdict::LeaveOut),
        count(ListVerdict::Unknown),
        terms.at_least,
        normal.name,
        terms.speedup,
        powerful.name,
    );
    let others = count(ListVerdict::OtherArch);
    if others > 0 {
        let others = counted(u64::try_from(others).unwrap_or(u64::MAX), "package");
        let _written = writeln!(text, "Left out, of another architecture than {}: {others}.", terms.arch());
    }
    text
}

/// The cells as lines: the first column is aligned left, the others right.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).filter_map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _written = match at {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

/// For programs: one JSON object, with the new list. Numbers of a month are null for a file without times; those of the file are there for
/// every file.
pub fn json(all: &[Suggestion<'_>], terms: &SuggestTerms, currency: &str, list: &CoprTable) -> String {
    let word = |verdict| match verdict {
        ListVerdict::Add => "add",
        ListVerdict::Keep => "keep",
        ListVerdict::Remove => "remove",
        ListVerdict::LeaveOut => "leave_out",
        ListVerdict::Unknown => "unknown",
        ListVerdict::OtherArch => "other_arch",
    };
    let one = |one: &Suggestion<'_>| {
        let in_month = |value: f64| one.times.and(one.group.per_month).map(|_| value);
        let in_file = |of: fn(&BuilderTimes, &SuggestTerms) -> f64| {
            one.times.map(|times| of(&times, terms) * f64::from(one.group.builds))
        };
        serde_json::json!({
            "project": one.group.owner_project,
            "arch": one.group.family,
            "package": one.group.package,
            "verdict": word(one.verdict),
            "listed": one.listed,
            "builds": one.group.builds,
            "builds_per_month": one.group.per_month,
            "normal_ms": one.times.map(|times| times.normal.0),
            "powerful_ms": one.times.map(|times| times.powerful.0),
            "speedup": one.times.map(|times| times.speedup()),
            "basis": one.times.map(|times| times.basis.as_str()),
            "hours_saved_per_month": in_month(one.hours_saved()),
            "money_more_per_month": in_month(one.money_more(terms)),
            "hours_saved_in_file": in_file(|times, _terms| times.saved().hours()),
            "money_more_in_file": in_file(BuilderTimes::cost_more),
        })
    };
    let list: Vec<serde_json::Value> = list
        .entries()
        .iter()
        .map(|entry| serde_json::json!({ "pattern": entry.pattern(), "tags": entry.tags }))
        .collect();
    let packages: Vec<serde_json::Value> = all.iter().map(one).collect();
    serde_json::json!({ "currency": currency, "packages": packages, "list": list }).to_string() + "\n"
}
