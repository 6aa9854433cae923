//! Tables that fit into the width of a terminal. If there is too little space, optional columns are dropped
//! first; then names are cut.

use std::collections::BTreeMap;

use plimsoll_proto::{
    shown::clean,
    tables::{FactCell, FactTable},
};

use super::cells;
use crate::ask::terminal_style::{Paint, TerminalStyle};

/// Indentation of a note below a row.
pub(super) const NOTE_INDENT: &str = "    ";
/// Spaces between two columns.
const GAP: &str = "  ";

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(in crate::ask) struct Column {
    head: &'static str,
    /// Which columns are dropped first if there is too little space: those of the highest rank. Columns of rank
    /// 0 are never dropped.
    drop_rank: u8,
    /// Least width to which a column of words may be cut, in terminal columns; `None`: numbers, which are never cut and stand to the right.
    least_width: Option<usize>,
}

impl Column {
    /// A column of numbers. Columns with the highest `rank` are dropped first.
    pub(in crate::ask) fn number_column(head: &'static str, rank: u8) -> Self {
        Self { head, drop_rank: rank, least_width: None }
    }

    /// A column of words. It may be cut down to `least` terminal columns; if that is not enough, columns with
    /// the highest `rank` are dropped.
    pub(in crate::ask) fn text_column(head: &'static str, rank: u8, least: usize) -> Self {
        Self { head, drop_rank: rank, least_width: Some(least) }
    }
}

/// A text in a table, with its meaning.
#[derive(Debug, Clone, Default)]
pub(in crate::ask) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// A text with a meaning, for its colour.
    pub(in crate::ask) fn painted(text: String, paint: Paint) -> Self {
        Self { text, paint }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, paint: Paint::Plain }
    }
}

/// The columns and rows of a table.
#[derive(Debug)]
pub(in crate::ask) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// Notes below rows, by the index of the row.
    notes: BTreeMap<usize, String>,
}

impl Table {
    /// A table without rows.
    pub(in crate::ask) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new(), notes: BTreeMap::new() }
    }

    /// Adds a row, with a cell for each column.
    pub(in crate::ask) fn add_row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Adds a note below the last row.
    pub(in crate::ask) fn add_note(&mut self, text: String) {
        self.notes.insert(self.rows.len(), text);
    }

    /// The table as text: a line with the heads, then a line for each row and note.
    pub(in crate::ask) fn render(&self, look: TerminalStyle) -> String {
        let shown = self.shown_columns(look.columns);
        let head = |column: &Column| Cell::painted(column.head.to_owned(), Paint::Head);
        let heads: Vec<Cell> = self.columns.iter().map(head).collect();
        let mut text = String::new();
        for (place, row) in std::iter::once(&heads).chain(&self.rows).enumerate() {
            text.push_str(&self.row_line(row, &shown, look));
            text.push('\n');
            if let Some(note) = self.notes.get(&place) {
                text.push_str(NOTE_INDENT);
                text.push_str(&look.paint(Paint::Faint, note));
                text.push('\n');
            }
        }
        text
    }

    fn row_line(&self, row: &[Cell], shown: &[(usize, usize)], look: TerminalStyle) -> String {
        let cells = shown.iter().filter_map(|(index, width)| {
            let (column, cell) = (self.columns.get(*index)?, row.get(*index)?);
            let text = cells::fit_text(&cell.text, *width);
            let spaces = " ".repeat(width.saturating_sub(cells::text_columns(&text)));
            let text = look.paint(cell.paint, &text);
            Some(if column.least_width.is_none() { spaces + &text } else { text + &spaces })
        });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }

    /// Indices of the columns that fit into `room`, with their widths.
    fn shown_columns(&self, room: Option<usize>) -> Vec<(usize, usize)> {
        let natural = |(index, column): (usize, &Column)| {
            let cells =
                self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cells::text_columns(&cell.text));
            (index, cells.chain([cells::text_columns(column.head)]).max().unwrap_or(0))
        };
        let mut shown: Vec<(usize, usize)> = self.columns.iter().enumerate().map(natural).collect();
        let Some(room) = room else { return shown };
        let column = |index: usize| self.columns.get(index).copied();
        let least = |(index, width): &(usize, usize)| {
            column(*index).and_then(|column| column.least_width).map_or(*width, |least| least.min(*width))
        };
        let total = |widths: &mut dyn Iterator<Item = usize>| {
            widths.map(|width| width + GAP.len()).sum::<usize>().saturating_sub(GAP.len())
        };
        while total(&mut shown.iter().map(least)) > room {
            let rank = |(_, (index, _)): &(usize, &(usize, usize))| column(*index).map_or(0, |c| c.drop_rank);
            let worst = shown.iter().enumerate().filter(|one| rank(one) > 0).max_by_key(rank);
            let Some(worst) = worst.map(|(nth, _)| nth) else { break };
            shown.remove(worst);
        }
        let mut over = total(&mut shown.iter().map(|(_, width)| *width)).saturating_sub(room);
        while over > 0 {
            let spare = |one: &(usize, usize)| one.1 - least(one);
            let Some(widest) = shown.iter_mut().max_by_key(|one| spare(one)).filter(|one| spare(one) > 0)
            else {
                break;
            };
            widest.1 -= 1;
            over -= 1;
        }
        shown
    }
}

/// A table of facts with at most `most` rows; empty if it has none. Texts stand behind the numbers, so that the last column is cut first.
/// What needs the room of a line has one of its own below its row.
pub(super) fn render_facts(facts: &FactTable, most: usize, look: TerminalStyle) -> String {
    let Some(first) = facts.rows.first() else { return String::new() };
    let (below, beside): (Vec<usize>, Vec<usize>) =
        (0..first.len()).partition(|nth| first.get(*nth).is_some_and(is_long));
    let is_number = |nth: &usize| first.get(*nth).is_some_and(FactCell::is_number);
    let (numbers, texts): (Vec<usize>, Vec<usize>) = beside.into_iter().partition(is_number);
    let order = [numbers, texts].concat();
    let column = |nth: &usize| {
        let head = *facts.columns.get(*nth)?;
        let rank = u8::try_from(nth.saturating_sub(1)).unwrap_or(u8::MAX);
        Some(if is_number(nth) {
            Column::number_column(head, rank)
        } else {
            Column::text_column(head, rank, 8)
        })
    };
    let mut table = Table::new(order.iter().filter_map(column).collect());
    for row in facts.rows.iter().take(most) {
        let cell = |nth: &usize| Some(clean(&row.get(*nth)?.text()));
        table.add_row(order.iter().filter_map(cell).map(Cell::from).collect());
        let note = |nth: &usize| match (row.get(*nth)?, cell(nth)?) {
            (_, text) if text.is_empty() => None,
            (FactCell::Long(_) | FactCell::Packages(..), text) => {
                Some(format!("{}: {text}", facts.columns.get(*nth)?))
            }
            (_, text) => Some(text),
        };
        if !below.is_empty() {
            table.add_note(below.iter().filter_map(note).collect::<Vec<_>>().join("; "));
        }
    }
    table.render(look)
}

/// Whether the cell needs the room of a line.
fn is_long(cell: &FactCell) -> bool {
    use FactCell::{Attempt, LogLine, Long, Marked, Packages};
    matches!(cell, Long(_) | Marked(_) | LogLine(..) | Packages(..) | Attempt(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = vec![
            Column::number_column("need", 1),
            Column::text_column("result", 2, 4),
            Column::text_column("what", 0, 6),
        ];
        let mut table = Table::new(columns);
        for (need, result, what) in
            [("1.00 GiB", "succeeded", "zlib@1.3"), ("2 KiB", "failed, oom", "包装编译系统@1.0")]
        {
            let result = Cell::painted(result.to_owned(), Paint::Bad);
            table.add_row(vec![Cell::from(need.to_owned()), result, Cell::from(what.to_owned())]);
        }
        table
    }

    fn rendered(columns: usize) -> String {
        table().render(TerminalStyle { columns: Some(columns), colour: false })
    }

    #[test]
    fn narrow_tables_cut_text_but_keep_the_name() {
        for columns in 0..60 {
            let text = rendered(columns);
            let widest = text.lines().map(cells::text_columns).max().unwrap();
            assert!(widest <= columns.max(6), "{columns}: {text}");
            assert!(text.contains("what") || columns < 4, "{columns}: {text}");
        }
        let narrow = rendered(26);
        assert!(narrow.contains("need") && narrow.contains("succe…") && narrow.contains('…'), "{narrow}");
        let narrower = rendered(16);
        assert!(!narrower.contains("result") && narrower.contains("1.00 GiB  zlib"), "{narrower}");
    }
}
