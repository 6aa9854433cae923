//! Prints two attempts side by side, in two columns.

use plimsoll_proto::{
    cells::{fit_text, text_columns},
    figures::DASH,
    shown::clean,
    wrap::wrapped,
};

use super::ComparisonRow;
use crate::ask::terminal_style::{Paint, TerminalStyle};

/// Width of the output if it goes to a file or a pipe, in columns.
const COLUMNS: usize = 80;
/// Most columns that a row's name may take; a longer name is cut.
const NAME_CELLS: usize = 22;
/// Columns besides the name and the two values: the mark `*` and the gaps.
const GAP_CELLS: usize = 6;

/// A table with one column for each attempt. Rows in which the attempts differ begin with `*`.
pub(in crate::ask) fn render_comparison(
    ids: [&str; 2],
    rows: &[ComparisonRow],
    look: TerminalStyle,
) -> String {
    let widest = rows.iter().map(|row| text_columns(&row.name)).max().unwrap_or_default().min(NAME_CELLS);
    let cell = look.columns.unwrap_or(COLUMNS).max(COLUMNS / 2).saturating_sub(GAP_CELLS + widest) / 2;
    let head = ComparisonRow { name: String::new(), first: clean(ids[0]), second: clean(ids[1]) };
    let mut text = row_lines(&head, "", (widest, cell), (look, Paint::Head));
    for row in rows {
        let (mark, paint) = if row.differs() { ("*", Paint::Plain) } else { ("", Paint::Faint) };
        text.push_str(&row_lines(row, mark, (widest, cell), (look, paint)));
    }
    let differing = rows.iter().filter(|row| row.differs()).count();
    text + &format!("\n* differs: {differing} of {} rows\n", rows.len())
}

/// The lines of one row. A value that is too long for one line continues below, in its own column.
fn row_lines(
    row: &ComparisonRow,
    mark: &str,
    (name, cell): (usize, usize),
    (look, paint): (TerminalStyle, Paint),
) -> String {
    let lines = |text: &str| {
        let text = if text.is_empty() && !row.name.is_empty() { DASH } else { text };
        wrapped(text, cell).lines().map(|line| fit_text(line.trim_start(), cell)).collect::<Vec<_>>()
    };
    let (first, second) = (lines(&row.first), lines(&row.second));
    let mut text = String::new();
    for nth in 0..first.len().max(second.len()).max(1) {
        let of = |lines: &[String]| lines.get(nth).cloned().unwrap_or_default();
        let (mark, title) = if nth == 0 { (mark, fit_text(&row.name, name)) } else { ("", String::new()) };
        let line = [pad_to(mark, 1), pad_to(&title, name), pad_to(&of(&first), cell), of(&second)];
        let line = format!("{} {}  {}  {}", line[0], line[1], line[2], line[3]);
        text.push_str(&look.paint(paint, line.trim_end()));
        text.push('\n');
    }
    text
}

fn pad_to(text: &str, cells: usize) -> String {
    format!("{text}{}", " ".repeat(cells.saturating_sub(text_columns(text))))
}
