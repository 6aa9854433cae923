//! Text in the cells of a terminal. Names come from anybody: what could move the cursor, turn the direction of writing, or take
//! no room is never shown.

use unicode_width::UnicodeWidthStr as _;

/// What stands for the rest of a text that is cut.
const MORE: &str = "…";

/// Text of others, for one line.
pub(in crate::ask) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

/// Controls of the terminal, marks that turn the direction of writing, and marks without width that join or hide.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Cells that a text takes: two for an ideograph or a picture, none for an accent on the letter before it.
pub(in crate::ask) fn width(text: &str) -> usize {
    text.width()
}

/// The text in at most this many cells, with a mark where it is cut.
pub(in crate::ask) fn fit(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    if cells == 0 {
        return String::new();
    }
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let starts = ends.map(|end| text.get(..end).unwrap_or_default());
    let kept = starts.take_while(|start| width(start) < cells).last().unwrap_or_default();
    format!("{kept}{MORE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_hides_or_turns_text_is_shown() {
        assert_eq!(clean("a\u{1b}[2Jb\r\nc\u{9b}d"), "a [2Jb  c d");
        assert_eq!(clean("gpj\u{202e}.exe\u{2066}\u{200b}\u{feff}"), "gpj .exe   ");
        assert_eq!(clean("ünïcödé 包 👩\u{200d}💻"), "ünïcödé 包 👩 💻");
    }

    #[test]
    fn a_cut_text_never_takes_more_cells_than_it_may() {
        assert_eq!(fit("zlib", 4), "zlib");
        assert_eq!(fit("zlib-ng", 5), "zlib…");
        assert_eq!(fit("包装编译", 5), "包装…");
        assert_eq!(fit("包装编译", 4), "包…", "half of an ideograph does not exist");
        assert_eq!([fit("zlib", 1), fit("zlib", 0)], ["…", ""]);
        for cells in 0..20 {
            for text in ["a包b👩c编d", "e\u{301}e\u{301}e\u{301}e\u{301}", "👩👩👩👩👩"] {
                assert!(width(&fit(text, cells)) <= cells, "{text} {cells}");
            }
        }
    }
}
