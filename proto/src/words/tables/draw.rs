//! Draws tables as lines of text. If there is too little room, the last columns of the table are dropped first; then words are cut.

use super::{FactCell, FactTable, Paint};
use crate::{
    cells::{fit_text, text_columns},
    shown::clean,
};

/// Indentation of what stands below a row.
const NOTE_INDENT: &str = "    ";
/// Spaces between two columns.
const GAP: &str = "  ";
/// Least width to which a column of words may be cut.
const LEAST_WIDTH: usize = 8;
/// Least width of a column of words that names the row.
const LEAST_NAME_WIDTH: usize = 12;
/// Columns at the begin of a table that are never dropped: they name the row.
const NAMING_COLUMNS: usize = 2;

/// A column that is shown.
#[derive(Debug, Clone, Copy)]
struct Shown {
    /// Its place in the table.
    place: usize,
    width: usize,
    /// The least width to which it may be cut.
    least: usize,
    is_number: bool,
}

impl FactTable {
    /// The table as lines, for output whose width does not matter.
    pub fn lines(&self) -> String {
        self.draw(usize::MAX, None, |_, text| text.to_owned())
    }

    /// The heads, at most `most` rows, and the note, in lines of at most `room` columns; empty without rows. Numbers stand first, then words,
    /// then ids, so that words are cut at the end of a line. What needs the room of a line has one of its own below its row.
    pub fn draw(&self, most: usize, room: Option<usize>, paint: impl Fn(Paint, &str) -> String) -> String {
        let rows = || self.rows.iter().take(most);
        let texts = |row: &Vec<FactCell>| row.iter().map(|cell| clean(&cell.text())).collect();
        let texts: Vec<Vec<String>> = rows().map(texts).collect();
        let shown = self.shown(&texts, room);
        if shown.is_empty() {
            return String::new();
        }
        let cell = |column: &Shown, text: &str, meaning: Paint| {
            let text = fit_text(text, column.width);
            let spaces = " ".repeat(column.width.saturating_sub(text_columns(&text)));
            let text = paint(meaning, &text);
            if column.is_number { spaces + &text } else { text + &spaces }
        };
        let line = |cells: Vec<String>| cells.join(GAP).trim_end().to_owned() + "\n";
        let head = |column: &Shown| Some(cell(column, self.columns.get(column.place)?, Paint::Head));
        let mut drawn = line(shown.iter().filter_map(head).collect());
        for (row, texts) in rows().zip(&texts) {
            let of =
                |column: &Shown| Some(cell(column, texts.get(column.place)?, row.get(column.place)?.paint()));
            drawn.push_str(&line(shown.iter().filter_map(of).collect()));
            let below = self.below(row, room);
            if !below.is_empty() {
                drawn += &format!("{NOTE_INDENT}{}\n", paint(Paint::Faint, &below));
            }
        }
        if !self.note.is_empty() {
            drawn += &format!("{}\n", paint(Paint::Faint, self.note));
        }
        drawn
    }

    /// What stands below a row; empty if nothing does.
    fn below(&self, row: &[FactCell], room: Option<usize>) -> String {
        let part = |(cell, head): (&FactCell, &&str)| match cell {
            FactCell::Long(_) | FactCell::Packages(..) => Some((clean(&cell.text()), format!("{head}: "))),
            // one line is enough: the page of the attempt has all of it
            FactCell::Result(_, _, line) => {
                let room = room.map_or(usize::MAX, |room| room.saturating_sub(NOTE_INDENT.len()));
                Some((fit_text(&clean(line), room), String::new()))
            }
            cell => cell.is_long().then(|| (clean(&cell.text()), String::new())),
        };
        let parts = row.iter().zip(&self.columns).filter_map(part).filter(|(text, _)| !text.is_empty());
        parts.map(|(text, head)| head + &text).collect::<Vec<_>>().join("; ")
    }

    /// The columns that fit into `room`, in their order.
    fn shown(&self, texts: &[Vec<String>], room: Option<usize>) -> Vec<Shown> {
        let column = |(place, (cell, head)): (usize, (&FactCell, &&str))| {
            let cells = texts.iter().filter_map(|row| row.get(place)).map(|text| text_columns(text));
            let width = cells.chain([text_columns(head)]).max().unwrap_or(0);
            let least = if place < NAMING_COLUMNS { LEAST_NAME_WIDTH } else { LEAST_WIDTH };
            let least = if cell.is_whole() { width } else { least.min(width) };
            (!cell.is_long()).then(|| Shown { place, width, least, is_number: cell.is_number() })
        };
        let Some(first) = self.rows.first() else { return Vec::new() };
        let mut shown: Vec<Shown> = first.iter().zip(&self.columns).enumerate().filter_map(column).collect();
        let is_id = |column: &Shown| first.get(column.place).is_some_and(FactCell::is_id);
        shown.sort_by_key(|column| (!column.is_number, is_id(column)));
        let Some(room) = room else { return shown };
        let over = |shown: &[Shown], width: fn(&Shown) -> usize| {
            let all: usize = shown.iter().map(|column| width(column) + GAP.len()).sum();
            all.saturating_sub(room + GAP.len())
        };
        while over(&shown, |column| column.least) > 0 {
            let last = shown.iter().map(|column| column.place).max().filter(|place| *place >= NAMING_COLUMNS);
            let Some(last) = last else { break };
            shown.retain(|column| column.place != last);
        }
        for _ in 0..over(&shown, |column| column.width) {
            let Some(widest) = shown.iter_mut().max_by_key(|column| column.width - column.least) else {
                break;
            };
            widest.width = widest.width.saturating_sub(1).max(widest.least);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_tables_cut_words_and_keep_the_id() {
        let row = |id: &str, need: &str, result: &str| {
            let attempt = FactCell::Attempt("", id.to_owned(), String::new());
            let result = FactCell::Result(Paint::Bad, result.to_owned(), "why ".repeat(9));
            vec![attempt, FactCell::Number(need.to_owned()), result]
        };
        let rows =
            vec![row("job-1", "1.00 GiB", "succeeded at last"), row("job-22", "2 KiB", "包装编译系统")];
        let table = FactTable { columns: vec!["attempt", "need", "result"], rows, note: "" };
        let drawn = |room| table.draw(usize::MAX, Some(room), |_, text| text.to_owned());
        for room in 17..35 {
            let text = drawn(room);
            assert!(text.lines().all(|line| text_columns(line) <= room), "{room}: {text}");
            assert!(text.contains("job-22") && text.contains("…"), "{room}: {text}");
        }
        assert!(drawn(30).contains("1.00 GiB  succeeded") && !drawn(20).contains("result"), "{}", drawn(20));
    }
}
