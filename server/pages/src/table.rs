//! Tables: of cells, of facts, with headings that sort, and links to the other pages of a table.

use std::borrow::Cow;

use maud::{Markup, html};
use plimsoll_proto::{
    WireEnum as _,
    tables::{FactCell, FactTable, Paint},
    v1::Cause,
};

use super::{times, view::ReaderChoice, words};

/// The heading of a column.
#[derive(Debug, Default)]
pub(super) struct Head {
    name: Cow<'static, str>,
    /// The class of the column's cells: `n` for numbers, `text` for words that need room.
    class: Option<&'static str>,
    /// The address that sorts by this column, and how the rows are sorted by it now.
    sorts: Option<(String, Option<&'static str>)>,
}

impl<T: Into<Cow<'static, str>>> From<T> for Head {
    /// A heading that begins with `#` is of a column of numbers, one that begins with `¶` of a column of words that need room.
    fn from(text: T) -> Self {
        let text = text.into();
        let class = [("#", "n"), ("¶", "text")].into_iter().find(|(sign, _)| text.starts_with(sign));
        let name = class.map_or_else(|| text.clone(), |(sign, _)| text.replacen(sign, "", 1).into());
        Self { name, class: class.map(|(_, class)| class), sorts: None }
    }
}

/// A table that scrolls where it is too wide, also by keyboard; on a phone its rows are lists, with the heading of the column at each cell.
/// The first cell names the row. `name` is for readers who cannot see the table.
pub(super) fn table<Cells: IntoIterator<Item = Markup>>(
    name: &str,
    heads: impl IntoIterator<Item = impl Into<Head>>,
    rows: impl IntoIterator<Item = Cells>,
) -> Markup {
    let heads: Vec<Head> = heads.into_iter().map(Into::into).collect();
    html! {
        div.scroll tabindex="0" role="region" aria-label=(name) {
            table {
                thead { tr { @for head in &heads { (head.draw()) } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (nth, (head, cell)) in heads.iter().zip(row).enumerate() {
                                @if nth == 0 { th class=[head.class] scope="row" { (cell) } }
                                @else { td class=[head.class] data-name=(head.name) { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A heading, an explanation and at most `most` rows of a table of facts; nothing if there are none.
pub(super) fn facts(
    heading: &str,
    why: &Markup,
    facts: &FactTable,
    most: usize,
    view: &ReaderChoice,
) -> Markup {
    html! {
        @if !facts.rows.is_empty() {
            h2 { (heading) }
            @if !why.0.is_empty() { p.why { (why) } }
            (fact_table(heading, facts, most, view))
        }
    }
}

/// At most `most` rows of a table of facts.
pub(super) fn fact_table(name: &str, facts: &FactTable, most: usize, view: &ReaderChoice) -> Markup {
    let class = |nth: usize| match facts.rows.first()?.get(nth)? {
        cell if cell.is_number() => Some("n"),
        cell => cell.is_long().then_some("text"),
    };
    let heads = facts.columns.iter().enumerate().map(|(nth, name)| Head {
        name: words::title(name).into(),
        class: class(nth),
        sorts: None,
    });
    html! {
        (table(name, heads, fact_rows(facts, most, view)))
        @if !facts.note.is_empty() { p.quiet { (facts.note) } }
    }
}

/// The cells of at most `most` rows.
pub(super) fn fact_rows(
    facts: &FactTable,
    most: usize,
    view: &ReaderChoice,
) -> impl Iterator<Item = impl Iterator<Item = Markup>> {
    facts.rows.iter().take(most).map(move |row| row.iter().map(move |cell| fact_cell(cell, view)))
}

pub(super) fn fact_cell(cell: &FactCell, view: &ReaderChoice) -> Markup {
    match cell {
        FactCell::Package(name) => html! { a href=(view.package(name)) { (name) } },
        FactCell::Build(key, package) => html! { a href=(view.package(package)) { (key) } },
        FactCell::Failures(_, cause, project, signature) if *cause != Cause::Unspecified => {
            let of = ReaderChoice { project: project.clone(), ..view.clone() };
            let cause = cause.short_name();
            html! { a href=(of.link("/attempts", &[("cause", cause), ("signature", signature)])) { (cell.text()) } }
        }
        FactCell::Choice(field, name) => html! { a href=(view.link("/", &[(field, name)])) { (name) } },
        FactCell::Share(part, _, text) => html! {
            (text) @if *part > 0.0 { " " meter min="0" max="1" value=(part.min(1.0)) aria-hidden="true" {} }
        },
        FactCell::Result(paint, text, line) => html! {
            (badge(*paint, text)) @if !line.is_empty() { br; code { (line) } }
        },
        FactCell::Attempt(words, id, note) => html! {
            @if !words.is_empty() { (words) " " }
            a.id href=(view.attempt(id)) { (id) }
            @if !note.is_empty() { " " span.quiet { (note) } }
        },
        FactCell::Packages(names, more) => html! {
            @for (nth, name) in names.iter().enumerate() { @if nth > 0 { ", " } a href=(view.package(name)) { (name) } }
            (more)
        },
        FactCell::Ended(id, unix_ms) => html! { a.id href=(view.attempt(id)) { (times::time(*unix_ms)) } },
        FactCell::LogLine(line, project) => html! {
            code { (line) } @if !project.is_empty() { " " span.quiet { (project) } }
        },
        FactCell::Unknown => html! { span.quiet { (cell.text()) } },
        FactCell::Marked(text) => words::marked_up(text),
        other => html! { (other.text()) },
    }
}

/// A badge with a word and a symbol, so that it does not depend on colour.
fn badge(paint: Paint, text: &str) -> Markup {
    let (class, sign) = match paint {
        Paint::Good => ("badge good", "✓"),
        Paint::Bad => ("badge bad", "✕"),
        Paint::Warn => ("badge lost", "?"),
        Paint::Faint => ("badge lost", "–"),
        Paint::Plain | Paint::Head => ("badge now", "●"),
    };
    html! { span class=(class) { span aria-hidden="true" { (sign) " " } (text) } }
}

/// How rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sort<'a> {
    /// Name of the column by which rows are sorted.
    pub(super) by: &'a str,
    pub(super) descending: bool,
}

impl<'a> Sort<'a> {
    /// The order in an address, or the usual one. If the direction is missing or unknown, it is the usual one
    /// of the column.
    pub(super) fn of(by: &'a str, order: &str, usual: &'a str) -> Self {
        let by = if by.is_empty() { usual } else { by };
        Self { by, descending: if order.is_empty() { by != "name" } else { order != "up" } }
    }
}

impl Head {
    /// A heading with a link that sorts by the column; `link` makes the address from the column and the direction.
    pub(super) fn sorting(name: &str, by: &str, sort: Sort<'_>, link: impl Fn(&str, &str) -> String) -> Self {
        let here = sort.by == by;
        // a click on the current column reverses the order; otherwise names start with A, and numbers with the
        // largest
        let down = if here { !sort.descending } else { by != "name" };
        let state = here.then_some(if sort.descending { "descending" } else { "ascending" });
        let address = link(by, if down { "down" } else { "up" });
        Self {
            name: words::title(name).into(),
            class: (by != "name").then_some("n"),
            sorts: Some((address, state)),
        }
    }

    fn draw(&self) -> Markup {
        let Some((address, state)) = &self.sorts else {
            return html! { th class=[self.class] scope="col" { (self.name) } };
        };
        let sign = state.map_or("", |state| if state == "descending" { " ▼" } else { " ▲" });
        html! {
            th class=[self.class] scope="col" aria-sort=[*state] {
                a href=(address) { (self.name) span aria-hidden="true" { (sign) } }
            }
        }
    }
}

/// The links below a table of several pages.
pub(super) fn pages(page: usize, count: usize, link: impl Fn(&str) -> String) -> Markup {
    html! {
        @if count > 1 {
            nav.pager aria-label="Pages of the table" {
                @if page > 1 { a rel="prev" href=(link(&(page - 1).to_string())) { "← Previous" } }
                span { "Page " (page) " of " (count) }
                @if page < count { a rel="next" href=(link(&(page + 1).to_string())) { "Next →" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_heads_show_and_toggle_the_sort_order() {
        let link = |by: &str, order: &str| format!("/x?sort={by}&order={order}");
        let sort = Sort::of("waste", "", "waste");
        let head = |name, by| Head::sorting(name, by, sort, link).draw().into_string();
        let text = head("Waste", "waste");
        assert!(text.contains("aria-sort=\"descending\"") && text.contains("order=up"), "{text}");
        let other = head("Package", "name");
        assert!(!other.contains("aria-sort") && other.contains("order=up"), "{other}");
        assert!(Sort::of("", "", "waste").descending && !Sort::of("name", "", "waste").descending);
    }

    #[test]
    fn cells_name_their_column_and_row() {
        let rows = [["zlib", "5", "why"].map(|text| html! { (text) })];
        let text = table("T", ["Package", "#Attempts", "¶Note"], rows).into_string();
        let row = "<tr><th scope=\"row\">zlib</th><td class=\"n\" data-name=\"Attempts\">5</td>\
                   <td class=\"text\" data-name=\"Note\">why</td></tr>";
        assert!(text.contains(row) && text.contains("<th class=\"n\" scope=\"col\">Attempts</th>"), "{text}");
        let cell = |cell| fact_cell(&cell, &ReaderChoice::default()).into_string();
        let result = FactCell::Result(Paint::Faint, "canceled".into(), "<b>".into());
        assert!(cell(result).contains("<code>&lt;b&gt;</code>"));
        assert!(cell(FactCell::Share(f64::INFINITY, Paint::Plain, "–".into())).contains(" value=\"1\""));
    }

    #[test]
    fn one_page_needs_no_links() {
        assert_eq!(pages(1, 1, |_| String::new()).into_string(), "");
        let middle = pages(2, 3, |page| format!("?page={page}")).into_string();
        assert!(middle.contains("?page=1") && middle.contains("?page=3"), "{middle}");
    }
}
