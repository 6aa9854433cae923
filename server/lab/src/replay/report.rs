//! Prints the results of a replay as a table or as JSON.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    gain::GainThreshold,
    kind::PolicyKind,
    tally::{PolicyCost, PolicyResults, PolicyTally},
    tape::ReplayTape,
};

/// Most packages in the table by package.
const LISTED_PACKAGES: usize = 30;

/// A table for people. `gain` shows from which failure rate on predicted sizes have less surplus than requested
/// ones.
pub fn text(results: &PolicyResults, gain: Option<GainThreshold>) -> String {
    let mut text = format!(
        "{:<14} {:>13} {:>12} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8} {:>11}\n",
        "policy",
        "surplus GiB·h",
        "surplus/need",
        "failures",
        "attempts",
        "1st fail",
        "retry ok",
        "<=1.5x",
        "regret",
        "per predict"
    );
    for (kind, tally) in results {
        let all = &tally.all_builds;
        let [enough, fits] = all.retry_rates();
        let _written = writeln!(
            text,
            "{:<14} {:>13} {:>12.3} {:>9} {:>9} {:>8.2}% {:>9} {:>7} {:>7.2}x {:>8.1} us",
            kind.as_str(),
            short_number(all.surplus_gib_hours),
            all.surplus_over_need(),
            all.failures,
            all.scored + all.failures,
            all.first_failed_rate() * 100.0,
            percent(all, enough),
            percent(all, fits),
            1.0 + all.surplus_over_need(),
            plimsoll_core::domain::Bytes(tally.predict_ns()).as_f64() / 1000.0,
        );
    }
    if let Some((_, tally)) = results.first() {
        let need = short_number(tally.all_builds.need_gib_hours);
        let _written = writeln!(
            text,
            "{} builds needed {need} GiB·h: their highest need for all of their time. Surplus: what was held above that, and all that lost \
             attempts held. Retry ok: first retries that were large enough; <=1.5x: that held at most 1.5 times the need beside that. Regret: \
             what was held, against holding exactly the need.",
            tally.all_builds.scored
        );
    }
    text.push_str(&times_held(results).unwrap_or_default());
    text.push_str(&cpu_cost(results).unwrap_or_default());
    // the policies of this server differ in the size that is in force, not in what is predicted
    let reliability = results.iter().map(|(_, tally)| tally.reliability.text()).find(|text| !text.is_empty());
    text.push_str(&reliability.unwrap_or_default());
    text.push_str(&against_today(results).unwrap_or_default());
    text.push_str(&gain.map(GainThreshold::words).unwrap_or_default());
    text
}

/// How often predicted times held; `None` if no policy predicts times.
fn times_held(results: &PolicyResults) -> Option<String> {
    let times = results.iter().map(|(_, tally)| &tally.times).find(|times| times.builds() > 0)?;
    let [half, most] = times.coverage().map(|share| share * 100.0);
    Some(format!(
        "Times: {half:.1} % of {} builds took no longer than the predicted median, and {most:.1} % no longer than the 95 % time, which was {:.2} \
         times the true time (median).\n",
        times.builds(),
        times.median_ratio()
    ))
}

/// What predicted CPU requests would cost; `None` if the file has no CPU times.
fn cpu_cost(results: &PolicyResults) -> Option<String> {
    let cpu = results.iter().map(|(_, tally)| tally.cpu).find(|cpu| cpu.builds > 0)?;
    Some(format!(
        "CPU: requests are {} core hours above the mean use. If {} builds got no more, they would take {:.2} times their recorded time.\n",
        short_number(cpu.waste),
        cpu.builds,
        cpu.slowdown()
    ))
}

/// What predicted sizes would have saved compared with the requested ones; `None` if the results lack one of
/// the two policies.
fn against_today(results: &PolicyResults) -> Option<String> {
    let of = |kind| results.iter().find(|(of, _)| *of == kind).map(|(_, tally)| &tally.all_builds);
    let (ours, today) = (of(PolicyKind::Plimsoll)?, of(PolicyKind::Preset)?);
    let saved = today.surplus_gib_hours - ours.surplus_gib_hours;
    let (change, share) = (if saved >= 0.0 { "less" } else { "more" }, saved.abs() / today.surplus_gib_hours);
    let failures = match ours.failures.cmp(&today.failures) {
        std::cmp::Ordering::Equal => "as many failures".to_owned(),
        std::cmp::Ordering::Less => format!("{} failures fewer", today.failures - ours.failures),
        std::cmp::Ordering::Greater => format!("{} failures more", ours.failures - today.failures),
    };
    let share = if share.is_finite() { format!(" ({:.0} %)", share * 100.0) } else { String::new() };
    Some(format!(
        "plimsoll against preset, what the builds asked for: {} GiB·h {change} surplus{share}, {failures}.\n",
        short_number(saved.abs())
    ))
}

/// Surplus relative to need for each package. Packages with the most surplus by the requested sizes come first,
/// or by the first policy if requested sizes are not among the results.
pub fn packages_table(results: &PolicyResults) -> String {
    let mut text = format!("{:<32} {:>8} {:>11}", "package", "builds", "need GiB·h");
    for (kind, _) in results {
        let _written = write!(text, " {:>14}", kind.as_str());
    }
    text.push('\n');
    let asked = results.iter().find(|(kind, _)| *kind == PolicyKind::Preset);
    let Some((_, first)) = asked.or_else(|| results.first()) else { return text };
    let mut names: Vec<(&String, &PolicyCost)> = first.packages.iter().collect();
    names.sort_by(|a, b| b.1.surplus_gib_hours.total_cmp(&a.1.surplus_gib_hours));
    for (name, cost) in names.iter().take(LISTED_PACKAGES) {
        let _written =
            write!(text, "{name:<32} {:>8} {:>11}", cost.scored, short_number(cost.need_gib_hours));
        for (_, tally) in results {
            let _written = match tally.packages.get(*name) {
                Some(cost) => write!(text, " {:>7.2} ({:>4})", cost.surplus_over_need(), cost.failures),
                None => write!(text, " {:>14}", ""),
            };
        }
        text.push('\n');
    }
    if names.len() > LISTED_PACKAGES {
        let _written = writeln!(text, ".. and {} more packages", names.len() - LISTED_PACKAGES);
    }
    text.push_str("Surplus over need (lost attempts).\n");
    text
}

/// A share of retried builds as percent; a dash if no build was retried.
fn percent(cost: &PolicyCost, share: f64) -> String {
    if cost.first_failed == 0 { "-".to_owned() } else { format!("{:.1}%", share * 100.0) }
}

fn short_number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// The results as one JSON object.
pub fn json(
    tape: &ReplayTape,
    results: &PolicyResults,
    gain: Option<GainThreshold>,
    by_package: bool,
) -> String {
    let policies: Vec<serde_json::Value> =
        results.iter().map(|(kind, tally)| tally_json(*kind, tally, by_package)).collect();
    let mut value = serde_json::json!({
        "rows": tape.rows.len(),
        "refused": tape.refusals.count,
        "skipped": tape.skipped,
        "policies": policies,
    });
    if let (Some(gain), Some(fields)) = (gain, value.as_object_mut()) {
        let gain =
            serde_json::json!({ "at_rate": gain.failure_share, "plimsoll_gains_from_rate": gain.gains_from });
        fields.insert("preset_wastes_less".to_owned(), gain);
    }
    value.to_string()
}

fn tally_json(kind: PolicyKind, tally: &PolicyTally, by_package: bool) -> serde_json::Value {
    let mut value = cost_json(&tally.all_builds);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("name".to_owned(), kind.as_str().into());
        fields.insert("predict_ns".to_owned(), tally.predict_ns().into());
        if let Some(reliability) = tally.reliability.json() {
            fields.insert("reliability".to_owned(), reliability);
        }
        if tally.times.builds() > 0 {
            let [half, most] = tally.times.coverage();
            let ratio = tally.times.median_ratio();
            let times = serde_json::json!({ "builds": tally.times.builds(), "p50_coverage": half, "p95_coverage": most, "p95_over_true": ratio });
            fields.insert("times".to_owned(), times);
        }
        if tally.cpu.builds > 0 {
            fields.insert("cpu_waste_core_hours".to_owned(), tally.cpu.waste.into());
            fields.insert("cpu_slowdown".to_owned(), tally.cpu.slowdown().into());
        }
        if let Some(knob) = tally.knob {
            fields.insert("knob".to_owned(), knob.into());
        }
        if by_package {
            let packages: BTreeMap<&String, serde_json::Value> =
                tally.packages.iter().map(|(name, each)| (name, cost_json(each))).collect();
            fields.insert("packages".to_owned(), serde_json::json!(packages));
        }
    }
    value
}

fn cost_json(cost: &PolicyCost) -> serde_json::Value {
    let [enough, fits] = cost.retry_rates();
    serde_json::json!({
        "surplus_gib_hours": cost.surplus_gib_hours,
        "need_gib_hours": cost.need_gib_hours,
        "failures": cost.failures,
        "attempts": cost.scored + cost.failures,
        "scored": cost.scored,
        "first_try_oom_rate": cost.first_failed_rate(),
        "first_retry_enough_rate": enough,
        "first_retry_fits_rate": fits,
    })
}
