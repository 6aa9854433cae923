//! Tables: with headings, of facts, with headings that sort, and links to the other pages of a table.

use maud::{Markup, PreEscaped, html};
use plimsoll_proto::{
    WireEnum as _,
    tables::{FactCell, FactTable},
    v1::Cause,
};

use super::{times, view::ReaderChoice, words};

/// A table. A heading that begins with `#` is of a column of numbers.
pub(super) fn plain_table(heads: &[&str], rows: impl IntoIterator<Item = Markup>) -> Markup {
    html! {
        table {
            thead { tr {
                @for head in heads {
                    @match head.strip_prefix('#') {
                        Some(name) => th.n scope="col" { (name) },
                        None => th scope="col" { (head) },
                    }
                }
            } }
            tbody { @for row in rows { (row) } }
        }
    }
}

/// A table that scrolls where it is too wide, also by keyboard; on a phone its rows are lists. `name` is for readers who cannot see it.
pub(super) fn scrolled(name: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(name) { (stacked(table)) } }
}

/// The table with the heading of its column at each cell, for screens on which a row becomes a list.
fn stacked(table: &Markup) -> Markup {
    let Some((head, rows)) = table.0.split_once("<tbody>") else { return table.clone() };
    let names: Vec<String> = head.split("<th ").skip(1).map(heading).collect();
    let mut text = head.replacen("<table", "<table class=\"stack named\"", 1) + "<tbody>";
    for row in rows.split_inclusive("</tr>") {
        let (first, cells) = row.split_once("<td").map_or((row, None), |(first, cells)| (first, Some(cells)));
        text.push_str(first);
        let mut names = names.iter().skip(usize::from(first.contains("<th ")));
        for cell in cells.into_iter().flat_map(|cells| cells.split("<td")) {
            let name = names.next().map(|name| format!(" data-name=\"{name}\"")).unwrap_or_default();
            text.extend(["<td", &name, cell]);
        }
    }
    PreEscaped(text)
}

/// The text of a heading, behind the start of its tag: without tags and the sign of the order.
fn heading(cell: &str) -> String {
    let cell = cell.split_once("</th>").map_or(cell, |(cell, _)| cell);
    let texts = cell.split('>').skip(1).filter_map(|part| part.split('<').next());
    texts.collect::<String>().trim_end_matches([' ', '▼', '▲']).to_owned()
}

/// A [`plain_table`] that is [`scrolled`].
pub(super) fn table(name: &str, heads: &[&str], rows: impl IntoIterator<Item = Markup>) -> Markup {
    scrolled(name, &plain_table(heads, rows))
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
            (scrolled(heading, &fact_table(facts, most, view)))
        }
    }
}

/// At most `most` rows of a table of facts.
pub(super) fn fact_table(facts: &FactTable, most: usize, view: &ReaderChoice) -> Markup {
    let is_number =
        |nth: usize| facts.rows.first().and_then(|row| row.get(nth)).is_some_and(FactCell::is_number);
    html! {
        table {
            thead { tr {
                @for (nth, name) in facts.columns.iter().enumerate() {
                    th class=[is_number(nth).then_some("n")] scope="col" { (words::title(name)) }
                }
            } }
            tbody {
                @for row in facts.rows.iter().take(most) {
                    tr { @for (nth, cell) in row.iter().enumerate() { (fact_cell(cell, nth == 0, view)) } }
                }
            }
        }
    }
}

fn fact_cell(cell: &FactCell, is_name: bool, view: &ReaderChoice) -> Markup {
    let content = match cell {
        FactCell::Package(name) => html! { a href=(view.package(name)) { (name) } },
        FactCell::Build(key, package) => html! { a href=(view.package(package)) { (key) } },
        FactCell::Failures(_, cause, project, signature) if *cause != Cause::Unspecified => {
            let of = ReaderChoice { project: project.clone(), ..view.clone() };
            let cause = cause.short_name();
            html! { a href=(of.link("/attempts", &[("cause", cause), ("signature", signature)])) { (cell.text()) } }
        }
        FactCell::Attempt(words, id, note) => {
            html! { (words) " " a.id href=(view.attempt(id)) { (id) } " " span.quiet { (note) } }
        }
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
    };
    let class = match cell {
        FactCell::Ended(..) => None,
        FactCell::LogLine(..) => Some("text"),
        cell if cell.is_number() => Some("n"),
        _ => (!is_name).then_some("text"),
    };
    html! { @if is_name { th class=[class] scope="row" { (content) } } @else { td class=[class] { (content) } } }
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

/// The heading of a column, with a link that sorts by it; `link` makes the address from the column and the
/// direction.
pub(super) fn head(name: &str, by: &str, sort: Sort<'_>, link: impl Fn(&str, &str) -> String) -> Markup {
    let here = sort.by == by;
    // a click on the current column reverses the order; otherwise names start with A, and numbers with the
    // largest
    let down = if here { !sort.descending } else { by != "name" };
    let state = here.then_some(if sort.descending { "descending" } else { "ascending" });
    let sign = if !here {
        ""
    } else if sort.descending {
        " ▼"
    } else {
        " ▲"
    };
    html! {
        th scope="col" class=[(by != "name").then_some("n")] aria-sort=[state] {
            a href=(link(by, if down { "down" } else { "up" })) { (name) span aria-hidden="true" { (sign) } }
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
    fn a_head_says_how_rows_are_sorted_and_turns_it_round() {
        let link = |by: &str, order: &str| format!("/x?sort={by}&order={order}");
        let sort = Sort::of("waste", "", "waste");
        let text = head("Waste", "waste", sort, link).into_string();
        assert!(text.contains("aria-sort=\"descending\"") && text.contains("order=up"), "{text}");
        let other = head("Package", "name", sort, link).into_string();
        assert!(!other.contains("aria-sort") && other.contains("order=up"), "{other}");
        assert!(Sort::of("", "", "waste").descending && !Sort::of("name", "", "waste").descending);
    }

    #[test]
    fn one_page_needs_no_links() {
        assert_eq!(pages(1, 1, |_| String::new()).into_string(), "");
        let middle = pages(2, 3, |page| format!("?page={page}")).into_string();
        assert!(middle.contains("?page=1") && middle.contains("?page=3"), "{middle}");
    }
}
