//! Formats proposals as a table of 80 columns.

use std::fmt::Write as _;

use super::{SizeChange, memory_limit, memory_request, reason, risk_cell, saved, scope, summary, window};
use crate::{
    figures, shown,
    v1::{RecommendResponse, Recommendation},
};

/// Width of the table, in columns of a terminal.
const COLUMNS: usize = 80;
/// Widths of the columns for a size, the saving, its price, the risk and the confidence.
const COLUMN_WIDTHS: [usize; 5] = [8, 8, 8, 8, 4];

/// The table: a line with the savings, the rows, and notes on what the numbers do not show.
pub fn table(answer: &RecommendResponse) -> String {
    let mut text = String::new();
    if answer.recommendations.is_empty() {
        text.push_str("no attempts match: nothing to propose\n");
    } else {
        let _written = write!(text, "{}\n{}\n", shown::clean(&summary(answer)), window(answer));
        if let Some(scope) = scope(answer) {
            text.push_str(&scope);
            text.push('\n');
        }
        text.push('\n');
        let money = answer.has_prices;
        let titles = ["request", "-> new", "limit", "-> new", "GiB·h", "money", "above", "sure"];
        text.push_str(&table_line("package", &titles.map(str::to_owned), money));
        for row in &answer.recommendations {
            text.push_str(&row_cells(row, money));
        }
        text.push_str("\nGiB·h, money: saved a month. above: attempts above the limit. sure: confidence.\n");
    }
    if answer.left_out > 0 {
        let rest = figures::counted(answer.left_out, "package");
        let _written = writeln!(text, "{rest} more that save less or request less (--limit, --package)");
    }
    for note in &answer.notes {
        let _written = writeln!(text, "note: {}", shown::clean(note));
    }
    text
}

fn row_cells(row: &Recommendation, money: bool) -> String {
    let [request, limit] = [memory_request(row), memory_limit(row)];
    let name = shown::clean(&row.package);
    if let Some(why) = reason(row) {
        let width = name_width(money);
        return format!(
            "{} {}  {why}\n",
            fit_name(&name, width),
            pad_to(&size_cell(request.today), COLUMN_WIDTHS[0])
        );
    }
    let cells = [
        size_cell(request.today),
        proposed_size(request),
        size_cell(limit.today),
        proposed_size(limit),
        saved(row, row.saved_gib_hours),
        saved(row, row.saved_money),
        risk_cell(row.limit_risk.as_ref()).replace(" of ", "/"),
        figures::percent(row.confidence).replace(' ', ""),
    ];
    table_line(&name, &cells, money)
}

/// The proposed size; `=` if today's size stays.
fn proposed_size(change: SizeChange) -> String {
    match change.proposed {
        Some(bytes) => size_cell(Some(bytes)),
        None => "=".to_owned(),
    }
}

/// Formats a size as `8.00Gi`, which is two characters shorter than in a sentence.
fn size_cell(bytes: Option<u64>) -> String {
    figures::cell(bytes, figures::bytes).replace(' ', "").replace("iB", "i")
}

fn name_width(money: bool) -> usize {
    let [size, gain, price, risk, sure] = COLUMN_WIDTHS;
    let numbers = 4 * size + gain + risk + sure + if money { price } else { 0 };
    COLUMNS - numbers - if money { 8 } else { 7 }
}

fn table_line(name: &str, cells: &[String; 8], money: bool) -> String {
    let [size, gain, price, risk, sure] = COLUMN_WIDTHS;
    let widths = [size, size, size, size, gain, price, risk, sure];
    let mut text = fit_name(name, name_width(money));
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if index != 5 || money {
            text.push(' ');
            text.push_str(&pad_to(cell, width));
        }
    }
    text.push('\n');
    text
}

fn pad_to(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// A name in at most `width` characters; a longer name is cut, with a mark at its end.
fn fit_name(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return format!("{name:<width$}");
    }
    let kept: String = name.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}
