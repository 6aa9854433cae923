//! Formats proposals of what jobs should request: as a table, as CSV, and as patches for GitLab, Kubernetes and Spack. The agent `plimsoll`
//! and the server's command write the same.
//!
//! A patch contains only proposed sizes: a package without a proposal keeps the sizes that it has.

mod csv;
mod patches;
mod table;
#[cfg(test)]
mod tests;

pub use csv::{COLUMN_NAMES, csv, csv_line};
pub use patches::{
    JobPatch, check_one_project, cpu_text, gitlab, gitlab_jobs, kubernetes, kubernetes_jobs, memory_text,
    quoted, spack,
};
pub use table::table;

use crate::{
    figures,
    v1::{FitRisk, NoProposal, RecommendResponse, Recommendation, RequestedSizes},
};

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 3_600_000;

/// A size as it is today, and as it is proposed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SizeChange {
    /// Today's size; `None` if none is requested, or it is not known.
    pub today: Option<u64>,
    /// The proposed size; `None` if today's size should stay.
    pub proposed: Option<u64>,
}

/// Today's and the proposed memory request, bytes.
pub fn memory_request(row: &Recommendation) -> SizeChange {
    change(row, |sizes| sizes.memory_request_bytes)
}

/// Today's and the proposed memory limit, bytes.
pub fn memory_limit(row: &Recommendation) -> SizeChange {
    change(row, |sizes| sizes.memory_limit_bytes)
}

/// Today's and the proposed CPU request, thousandths of a core.
pub fn cpu_request(row: &Recommendation) -> SizeChange {
    change(row, |sizes| sizes.cpu_request_cores.map(plimsoll_base::quantity::rounded_millicores))
}

fn change(row: &Recommendation, of: impl Fn(&RequestedSizes) -> Option<u64>) -> SizeChange {
    SizeChange { today: row.today.as_ref().and_then(&of), proposed: row.proposed.as_ref().and_then(&of) }
}

/// Words that say why nothing is proposed; `None` if something is. For a reason that only a newer server knows there are general words.
pub fn reason(row: &Recommendation) -> Option<&'static str> {
    if row.proposed.is_some() {
        return None;
    }
    Some(match row.no_proposal() {
        NoProposal::TooFew => "fewer than 5 trusted attempts are known",
        NoProposal::Untrusted => "only untrusted attempts are known",
        NoProposal::Stopped => "memory stopped every attempt that is known",
        NoProposal::Unsure => "the prediction is not sure enough",
        NoProposal::Unspecified => "no proposal",
    })
}

/// How many attempts would not fit, in a sentence: `0 of 40, with 95 % confidence at most 7 %`.
pub fn risk_words(risk: Option<&FitRisk>) -> String {
    match risk {
        Some(of) if of.judged > 0 => {
            let part = figures::part_of(of.above, of.judged);
            format!("{part}, with 95 % confidence at most {}", figures::percent(of.at_most))
        }
        _ => figures::NOT_KNOWN.to_owned(),
    }
}

/// What a package saves in a month. A dash if no attempt requested memory, because the saving is then not known.
fn saved(row: &Recommendation, amount: String) -> String {
    if row.asked_gib_hours > 0.0 { amount } else { figures::DASH.to_owned() }
}

/// Words that say why the savings are not known; `None` if they are known.
pub fn savings_unknown(answer: &RecommendResponse) -> Option<&'static str> {
    let is_unknown = answer.asked_gib_hours <= 0.0 && !answer.recommendations.is_empty();
    is_unknown.then_some("no attempt requested memory")
}

/// Words for the savings of all packages, shown or not. The currency in them is not cleaned for a terminal: `saves 180 GiB·h of 240 a month
/// (75 %), 1.8 EUR`.
pub fn summary(answer: &RecommendResponse) -> String {
    let (saved, asked) = (answer.saved_gib_hours, answer.asked_gib_hours);
    if let Some(why) = savings_unknown(answer) {
        return format!("what is saved is {}: {why}", figures::NOT_KNOWN);
    }
    let money = match answer.has_prices {
        true => format!(", {}", figures::money(answer.saved_money, &answer.currency).trim_end()),
        false => String::new(),
    };
    format!(
        "saves {} of {} a month ({}){money}",
        figures::gib_hours(saved),
        figures::gib_hours(asked),
        figures::share(saved, asked)
    )
}

/// Words for which packages the sums include, if not all of them are shown: `sums of all 12 packages, 10 shown`.
pub fn scope(answer: &RecommendResponse) -> Option<String> {
    let shown = u64::try_from(answer.recommendations.len()).unwrap_or(u64::MAX);
    let known = shown.saturating_add(answer.left_out);
    if answer.packages == 0 || known <= shown {
        return None;
    }
    let packages = figures::counted(answer.packages, "package");
    let shown = figures::count(shown);
    Some(match answer.packages < known {
        true => format!("sums of the {packages} that request most, {shown} shown"),
        false => format!("sums of all {packages}, {shown} shown"),
    })
}

/// Words for the time over which attempts were counted: `attempts of 10 days, counted up to a month of 30 days`.
pub fn window(answer: &RecommendResponse) -> String {
    let days = answer.window_ms.div_ceil(DAY_MS);
    format!("attempts of {}, counted up to a month of 30 days", figures::counted(days, "day"))
}
