//! Proposals as a table of facts, which the terminal and the page draw.

use super::{SizeChange, memory_limit, memory_request, reason, risk_words, saved};
use crate::{
    figures,
    tables::{
        FactCell::{self, Marked, Number, Package, Text},
        FactTable,
    },
    v1::{RecommendResponse, Recommendation},
};

/// A row for each package. The last cell says how sure the proposal is, or why there is none. There is a column for projects only if there
/// are several, and one for money only if there are prices.
pub fn table(answer: &RecommendResponse) -> FactTable {
    let all = &answer.recommendations;
    let several = all.iter().any(|row| Some(&row.project) != all.first().map(|first| &first.project));
    let mut columns = Vec::new();
    let row = |row: &Recommendation| {
        let (names, cells) = cells(row, answer.has_prices, several).unzip();
        columns = names;
        cells
    };
    let rows = all.iter().map(row).collect();
    FactTable { columns, rows, note: "" }
}

fn cells(
    row: &Recommendation,
    has_prices: bool,
    several: bool,
) -> impl Iterator<Item = (&'static str, FactCell)> {
    let reason = reason(row);
    let known = |text: String| Number(if reason.is_some() { figures::DASH.to_owned() } else { text });
    let size = |bytes: Option<u64>| Number(figures::cell(bytes, figures::bytes));
    let stays = |change: &SizeChange| change.today.map_or(figures::DASH, |_| "stays").to_owned();
    let new = |change: SizeChange| known(change.proposed.map_or_else(|| stays(&change), figures::bytes));
    let [request, limit] = [memory_request(row), memory_limit(row)];
    let (risk, sure) = (risk_words(row.limit_risk.as_ref()), figures::percent(row.confidence));
    let sure = || format!("above the limit: {risk}; confidence in the sizes {sure}");
    let cells = [
        Some(("package", Package(row.package.clone()))),
        several.then(|| ("project", Text(row.project.clone()))),
        Some(("request", size(request.today))),
        Some(("new request", new(request))),
        Some(("limit", size(limit.today))),
        Some(("new limit", new(limit))),
        Some(("saved a month", known(saved(row, figures::gib_hours(row.saved_gib_hours))))),
        has_prices.then(|| ("money a month", known(saved(row, figures::amount(row.saved_money))))),
        Some(("attempts", Number(figures::count(row.attempts)))),
        Some(("how sure", Marked(reason.map_or_else(sure, str::to_owned)))),
    ];
    cells.into_iter().flatten()
}
