//! What a terminal can show: its width, and whether it has colours.

use anstyle::{AnsiColor, Color, Effects, Style};
use plimsoll_proto::tables::FactTable;
pub(super) use plimsoll_proto::tables::Paint;

/// What the output can show: its width, and whether it has colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Columns of a line; `None` for a file or a pipe, where lines may have any length.
    pub columns: Option<usize>,
    /// Whether the terminal shows colours and they are not switched off.
    pub colour: bool,
}

fn style_of(paint: Paint) -> Style {
    let of = |colour: AnsiColor| Style::new().fg_color(Some(Color::Ansi(colour)));
    match paint {
        Paint::Plain => Style::new(),
        Paint::Head => Style::new().effects(Effects::BOLD),
        Paint::Faint => Style::new().effects(Effects::DIMMED),
        Paint::Good => of(AnsiColor::Green),
        Paint::Warn => of(AnsiColor::Yellow),
        Paint::Bad => of(AnsiColor::Red),
    }
}

impl TerminalStyle {
    /// The text in the colour of its meaning; unchanged if colours are off.
    pub(super) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.colour || paint == Paint::Plain || text.is_empty() {
            return text.to_owned();
        }
        let style = style_of(paint);
        format!("{style}{text}{style:#}")
    }

    /// At most `most` rows of a table; empty if it has none.
    pub(super) fn table(self, facts: &FactTable, most: usize) -> String {
        facts.draw(most, self.columns, |paint, text| self.paint(paint, text))
    }

    /// Columns that a drawing may have beside text of `taken` columns: at most `most`.
    pub(super) fn drawing_columns(self, taken: usize, most: usize) -> usize {
        self.columns.map_or(most, |columns| columns.saturating_sub(taken).clamp(10, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_shown_only_where_it_is_wanted() {
        let colourful = TerminalStyle { columns: None, colour: true };
        assert_eq!(colourful.paint(Paint::Bad, "oom"), "\u{1b}[31moom\u{1b}[0m");
        assert_eq!(colourful.paint(Paint::Plain, "oom"), "oom");
        assert_eq!(TerminalStyle::default().paint(Paint::Bad, "oom"), "oom");
    }

    #[test]
    fn a_drawing_fits_beside_its_name() {
        let of = |columns| TerminalStyle { columns, colour: false }.drawing_columns(20, 60);
        assert_eq!([of(None), of(Some(200)), of(Some(50)), of(Some(3))], [60, 60, 30, 10]);
    }
}
