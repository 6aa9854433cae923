//! Formats proposals as CSV (RFC 4180) for a spreadsheet: a line of column names, then one line for each package.

use super::{cpu_request, memory_limit, memory_request};
use crate::{
    WireEnum as _, figures,
    lowering::taken_back,
    v1::{RecommendResponse, Recommendation},
};

/// Names of the columns, with units.
pub const COLUMN_NAMES: &str = "project,package,attempts,failed_for_memory,memory_request_bytes,proposed_memory_request_bytes,\
    memory_limit_bytes,proposed_memory_limit_bytes,cpu_request_cores,proposed_cpu_request_cores,\
    asked_gib_hours_a_month,saved_gib_hours_a_month,judged,above_limit,above_limit_at_most,above_request,confidence,\
    no_proposal,taken_back";

/// All rows as text. A cell without a number is empty; there is a column for money only if there are prices.
pub fn csv(answer: &RecommendResponse) -> String {
    let money = if answer.has_prices { ",saved_money_a_month" } else { "" };
    let rows = answer.recommendations.iter().map(|row| csv_line(row, answer.has_prices));
    format!("{COLUMN_NAMES}{money}\r\n{}", rows.collect::<String>())
}

/// A row, with its line end. `money`: with the column for money.
pub fn csv_line(row: &Recommendation, money: bool) -> String {
    let [request, limit, cpu] = [memory_request(row), memory_limit(row), cpu_request(row)];
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let cores = |milli: Option<u64>| milli.map(|milli| figures::float(milli) / 1000.0);
    let cores = |milli| cores(milli).map(|cores| cores.to_string()).unwrap_or_default();
    let risk = row.limit_risk.unwrap_or_default();
    let mut cells = vec![
        quoted(&row.project),
        quoted(&row.package),
        row.attempts.to_string(),
        row.failed_for_memory.to_string(),
        number(request.today),
        number(request.proposed),
        number(limit.today),
        number(limit.proposed),
        cores(cpu.today),
        cores(cpu.proposed),
        row.asked_gib_hours.to_string(),
        row.saved_gib_hours.to_string(),
        number(row.limit_risk.map(|risk| risk.judged)),
        number(row.limit_risk.map(|risk| risk.above)),
        if risk.judged > 0 { risk.at_most.to_string() } else { String::new() },
        number(row.request_risk.map(|risk| risk.above)),
        row.confidence.to_string(),
        if row.proposed.is_some() { String::new() } else { row.no_proposal().word() },
        quoted(&row.taken_back.as_ref().map(taken_back).unwrap_or_default()),
    ];
    if money {
        cells.push(row.saved_money.to_string());
    }
    cells.join(",") + "\r\n"
}

/// A cell that a spreadsheet reads as text: in quotes if it contains a separator, and with an apostrophe before characters that would begin
/// a formula.
fn quoted(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
