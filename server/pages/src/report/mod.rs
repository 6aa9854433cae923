//! A report as one HTML file for a browser or a printer. It has no script and loads nothing; its colours are
//! light or dark as the reader's system is.
//!
//! The report comes as plain data: the caller decides on its figures, this module on their look.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_proto::{
    shown,
    tables::{FactCell, FactTable},
};

use super::words::marked_up;

/// The stylesheet of the report.
const STYLE: &str = include_str!("style.css");

/// Content security policy of the file: a browser then sends no request, whatever names the file contains.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The heading of a column of bars.
pub const BARS_HEAD: &str = "drawn";

/// The content of the report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportPage {
    /// Title of the report.
    pub title: String,
    /// A line below the title: which builds the report covers.
    pub about: String,
    /// What to do next, one sentence each. Text between backquotes is shown as a command.
    pub advice: Vec<String>,
    /// Tables and paragraphs of the report, in order. A section without rows or lines is left out.
    pub sections: Vec<ReportSection>,
    /// Notes about the figures.
    pub notes: Vec<String>,
}

/// A section of the report.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportSection {
    /// A table; its first column has the names of the rows.
    Table {
        /// Heading of the table.
        heading: &'static str,
        /// The table.
        table: FactTable,
    },
    /// Sentences, one paragraph each.
    Paragraphs {
        /// Heading of the paragraphs.
        heading: &'static str,
        /// The text of each paragraph.
        lines: Vec<String>,
    },
}

impl ReportPage {
    /// The file as HTML.
    #[must_use]
    pub fn draw(&self) -> String {
        let whole = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        h1 { (self.title) }
                        p.faint { (self.about) }
                        section {
                            h2 { "What to do next" }
                            ol { @for sentence in &self.advice { li { (marked_up(sentence)) } } }
                        }
                        @for section in &self.sections { (section.draw()) }
                        @for note in &self.notes { p.faint { "Note: " (note) } }
                    }
                }
            }
        };
        // names from outside may contain characters that reorder or hide text: write these out
        shown::escaped_lines(&whole.into_string()).into_owned()
    }
}

impl ReportSection {
    fn draw(&self) -> Markup {
        match self {
            Self::Table { heading, table: FactTable { columns, rows } } if !rows.is_empty() => html! {
                section {
                    h2 { (heading) }
                    // on a narrow screen the table scrolls; `tabindex` lets a keyboard scroll it too
                    div.wide tabindex="0" role="region" aria-label=(heading) {
                        table {
                            thead { tr { @for column in columns { th scope="col" class=[(*column == BARS_HEAD).then_some(BARS_HEAD)] { (column) } } } }
                            tbody { @for row in rows {
                                tr { @for (nth, cell) in row.iter().enumerate() { @if nth == 0 { th scope="row" { (cell.text()) } } @else { (draw_cell(cell)) } } }
                            } }
                        }
                    }
                }
            },
            Self::Paragraphs { heading, lines } if !lines.is_empty() => html! {
                section { h2 { (heading) } @for line in lines { p { (line) } } }
            },
            Self::Table { .. } | Self::Paragraphs { .. } => Markup::default(),
        }
    }
}

fn draw_cell(cell: &FactCell) -> Markup {
    match cell {
        FactCell::Better(text) => html! { td.better { (text) } },
        FactCell::Worse(text) => html! { td.worse { (text) } },
        FactCell::Bar(share) => {
            let percent = if share.is_finite() { (share * 100.0).clamp(0.0, 100.0) } else { 0.0 };
            let width = format!("width:{percent:.1}%");
            html! { td.drawn { span.bar aria-hidden="true" { span style=(width) {} } } }
        }
        FactCell::Marked(text) => html! { td { (marked_up(text)) } },
        other => html! { td { (other.text()) } },
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::tables::table_of;

    use super::*;

    fn table(cell: FactCell) -> ReportPage {
        let table = table_of(["name", "now"], [cell], |cell| [FactCell::Text("<b>".to_owned()), cell]);
        let sections = vec![ReportSection::Table { heading: "Figures", table }];
        ReportPage { sections, ..ReportPage::default() }
    }

    #[test]
    fn text_of_others_stays_text() {
        let cell = FactCell::Text("<script>alert(\"&'\")</script>\u{1b}[2J\u{202e}".to_owned());
        let html = table(cell).draw();
        let expected = "&lt;b&gt;</th><td>&lt;script&gt;alert(&quot;&amp;'&quot;)&lt;/script&gt;\\u{1b}[2J\\u{202e}</td>";
        assert!(html.contains(expected), "{html}");
    }

    #[test]
    fn a_bar_is_never_longer_than_its_cell() {
        for (share, width) in [(0.5, "50.0%"), (7.0, "100.0%"), (-1.0, "0.0%"), (f64::NAN, "0.0%")] {
            let html = table(FactCell::Bar(share)).draw();
            assert!(html.contains(&format!("style=\"width:{width}\"")), "{share}: {html}");
        }
    }

    #[test]
    fn a_section_without_rows_or_lines_is_left_out() {
        let empty = vec![
            ReportSection::Table { heading: "Figures", table: FactTable::default() },
            ReportSection::Paragraphs { heading: "Predictions", lines: Vec::new() },
        ];
        let html = ReportPage {
            sections: empty,
            advice: vec!["Run `plimsoll run`.".to_owned()],
            ..ReportPage::default()
        }
        .draw();
        assert!(!html.contains("Figures") && !html.contains("Predictions"), "{html}");
        assert!(html.contains("<li>Run <code>plimsoll run</code>.</li>"), "{html}");
    }
}
