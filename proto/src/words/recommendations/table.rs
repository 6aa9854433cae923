//! Proposals as a table of facts, which the terminal and the page draw.

use super::{SizeChange, memory_limit, memory_request, reason, risk_words, saved};
use crate::{
    figures,
    lowering::taken_back,
    tables::{
        FactCell::{self, Marked, Number, Package, Text},
        FactTable, table_of,
    },
    v1::{RecommendResponse, Recommendation},
};

/// A row for each package. The last cell says how sure the proposal is, or why there is none. There is a column for projects only if there
/// are several, and one for money only if there are prices.
pub fn table(answer: &RecommendResponse) -> FactTable {
    let all = &answer.recommendations;
    let several = all.iter().any(|row| Some(&row.project) != all.first().map(|first| &first.project));
    let columns = [
        "package",
        "project",
        "request",
        "new request",
        "limit",
        "new limit",
        "saved a month",
        "money saved a month",
        "attempts",
        "how sure",
    ];
    let is_shown = |column: &&str| match *column {
        "project" => several,
        "money saved a month" => answer.has_prices,
        _ => true,
    };
    let shown: Vec<&str> = columns.into_iter().filter(is_shown).collect();
    table_of(columns, all, cells).only(&shown)
}

fn cells(row: &Recommendation) -> [FactCell; 10] {
    let reason = reason(row);
    let known = |text: String| Number(if reason.is_some() { figures::DASH.to_owned() } else { text });
    let size = |bytes: Option<u64>| Number(figures::cell(bytes, figures::bytes));
    let stays = |change: &SizeChange| change.today.map_or(figures::DASH, |_| "stays").to_owned();
    let new = |change: SizeChange| known(change.proposed.map_or_else(|| stays(&change), figures::bytes));
    let [request, limit] = [memory_request(row), memory_limit(row)];
    let (risk, sure) = (risk_words(row.limit_risk.as_ref()), figures::percent(row.confidence));
    let sure = || format!("above the limit: {risk}; confidence in the sizes {sure}");
    [
        Package(row.package.clone()),
        Text(row.project.clone()),
        size(request.today),
        new(request),
        size(limit.today),
        new(limit),
        known(saved(row, figures::gib_hours(row.saved_gib_hours))),
        known(saved(row, figures::amount(row.saved_money))),
        Number(figures::count(row.attempts)),
        Marked(with_lowering(row, reason.map_or_else(sure, str::to_owned))),
    ]
}

/// How sure a proposal is, with the lowering that is taken back.
fn with_lowering(row: &Recommendation, sure: String) -> String {
    row.taken_back.as_ref().map(|lowering| format!("{}; {sure}", taken_back(lowering))).unwrap_or(sure)
}
