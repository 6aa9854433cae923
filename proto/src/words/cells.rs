//! Measures and cuts text by the columns (cells) that it takes in a terminal.

use unicode_width::UnicodeWidthStr as _;

/// Shows that the rest of a text was cut.
const CUT_MARK: &str = "…";

/// Columns that a text takes: two for a wide character, none for a combining accent.
pub fn text_columns(text: &str) -> usize {
    text.width()
}

/// The text in at most `cells` columns; a longer text is cut and marked.
pub fn fit_text(text: &str, cells: usize) -> String {
    if text_columns(text) <= cells {
        return text.to_owned();
    }
    if cells == 0 {
        return String::new();
    }
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let starts = ends.map(|end| text.get(..end).unwrap_or_default());
    let kept = starts.take_while(|start| text_columns(start) < cells).last().unwrap_or_default();
    format!("{kept}{CUT_MARK}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_text_never_exceeds_its_columns() {
        assert_eq!(fit_text("zlib", 4), "zlib");
        assert_eq!(fit_text("zlib-ng", 5), "zlib…");
        assert_eq!(fit_text("包装编译", 5), "包装…");
        assert_eq!(fit_text("包装编译", 4), "包…", "half of an ideograph does not exist");
        assert_eq!([fit_text("zlib", 1), fit_text("zlib", 0)], ["…", ""]);
        for cells in 0..20 {
            for text in ["a包b👩c编d", "e\u{301}e\u{301}e\u{301}e\u{301}", "👩👩👩👩👩"] {
                assert!(text_columns(&fit_text(text, cells)) <= cells, "{text} {cells}");
            }
        }
    }
}
