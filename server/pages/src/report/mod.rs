//! A report as one file for a browser or a printer: no script, no request to any server, light or dark as the reader likes.
//!
//! It is plain data: those who write a report say what its figures are, and this says how they look.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_proto::shown;

/// How it looks.
const STYLE: &str = include_str!("style.css");

/// Keeps a browser from sending any request, whatever the file says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The head of a column of bars.
pub const DRAWN: &str = "drawn";

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportPage {
    /// Title of the report.
    pub title: String,
    /// A line below the title that says what the report is about.
    pub about: String,
    /// What to do next, a sentence each. Text between backquotes is a command.
    pub advice: Vec<String>,
    /// Tables and paragraphs of the report, in order. A section without rows or lines is left out.
    pub sections: Vec<ReportSection>,
    /// Notes about the figures.
    pub notes: Vec<String>,
}

/// A part with its heading.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportSection {
    /// A table, whose first column names the row.
    Table {
        /// Heading of the table.
        heading: &'static str,
        /// The heads of all columns.
        columns: Vec<&'static str>,
        /// The rows in their order.
        rows: Vec<ReportRow>,
    },
    /// Sentences.
    Paragraphs {
        /// Heading of the paragraphs.
        heading: &'static str,
        /// Each a paragraph.
        lines: Vec<String>,
    },
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportRow {
    /// Text of the first column.
    pub name: String,
    /// The other columns.
    pub cells: Vec<ReportCell>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportCell {
    /// Text or a number.
    Text(String),
    /// A change for the better.
    Better(String),
    /// A change for the worse.
    Worse(String),
    /// A bar as long as this share of its column, which draws the number before it. Nothing for those who cannot see it.
    Bar(f64),
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
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        h1 { (self.title) }
                        p.faint { (self.about) }
                        section {
                            h2 { "What to do next" }
                            ol { @for sentence in &self.advice { li { (with_commands(sentence)) } } }
                        }
                        @for section in &self.sections { (section.draw()) }
                        @for note in &self.notes { p.faint { "Note: " (note) } }
                    }
                }
            }
        };
        // names come from callers
        shown::in_lines(&whole.into_string()).into_owned()
    }
}

fn with_commands(sentence: &str) -> Markup {
    html! {
        @for (nth, piece) in sentence.split('`').enumerate() {
            @if nth % 2 == 0 { (piece) } @else { code { (piece) } }
        }
    }
}

impl ReportSection {
    fn draw(&self) -> Markup {
        match self {
            Self::Table { heading, columns, rows } if !rows.is_empty() => html! {
                section {
                    h2 { (heading) }
                    // on a narrow screen it scrolls, also for those who have no mouse
                    div.wide tabindex="0" role="region" aria-label=(heading) {
                        table {
                            thead { tr { @for column in columns { th scope="col" class=[(*column == DRAWN).then_some(DRAWN)] { (column) } } } }
                            tbody { @for row in rows { (row.draw()) } }
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

impl ReportRow {
    fn draw(&self) -> Markup {
        html! { tr { th scope="row" { (self.name) } @for cell in &self.cells { (cell.draw()) } } }
    }
}

impl ReportCell {
    fn draw(&self) -> Markup {
        match self {
            Self::Text(text) => html! { td { (text) } },
            Self::Better(text) => html! { td.better { (text) } },
            Self::Worse(text) => html! { td.worse { (text) } },
            Self::Bar(share) => {
                let percent = if share.is_finite() { (share * 100.0).clamp(0.0, 100.0) } else { 0.0 };
                let width = format!("width:{percent:.1}%");
                html! { td.drawn { span.bar aria-hidden="true" { span style=(width) {} } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cells: Vec<ReportCell>) -> ReportPage {
        let row = ReportRow { name: "<b>".to_owned(), cells };
        let table =
            ReportSection::Table { heading: "Figures", columns: vec!["name", "now"], rows: vec![row] };
        ReportPage { sections: vec![table], ..ReportPage::default() }
    }

    #[test]
    fn text_of_others_stays_text() {
        let cell = ReportCell::Text("<script>alert(\"&'\")</script>\u{1b}[2J\u{202e}".to_owned());
        let html = table(vec![cell]).draw();
        let expected = "&lt;b&gt;</th><td>&lt;script&gt;alert(&quot;&amp;'&quot;)&lt;/script&gt;\\u{1b}[2J\\u{202e}</td>";
        assert!(html.contains(expected), "{html}");
    }

    #[test]
    fn a_bar_is_never_longer_than_its_cell() {
        for (share, width) in [(0.5, "50.0%"), (7.0, "100.0%"), (-1.0, "0.0%"), (f64::NAN, "0.0%")] {
            let html = table(vec![ReportCell::Bar(share)]).draw();
            assert!(html.contains(&format!("style=\"width:{width}\"")), "{share}: {html}");
        }
    }

    #[test]
    fn a_section_without_rows_or_lines_is_left_out() {
        let empty = vec![
            ReportSection::Table { heading: "Figures", columns: vec!["name"], rows: Vec::new() },
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
