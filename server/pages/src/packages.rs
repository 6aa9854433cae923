//! The page of all packages: a table in pages that can be sorted and searched.

use maud::{Markup, html};
use plimsoll_proto::{
    figures,
    sums::{self, OTHERS_GROUP},
    tables::{group_column, groups},
    v1::{Group, StatsTotals},
};

use super::{
    figures::{amount, cell, count, percent},
    page::{empty_page, timed_page},
    table::{Head, Sort, fact_rows, pages, table},
    view::{Fields, ReaderChoice},
};

/// Rows of one page of the table.
const PAGE_ROWS: usize = 50;

/// The columns: the name in an address, and the heading.
const COLUMNS: [(&str, &str); 7] = [
    ("waste", "wasted GiB·h"),
    ("asked", "asked GiB·h"),
    ("used", "put to use"),
    ("need", "highest need"),
    ("cpu", "CPU core·h"),
    ("attempts", "attempts"),
    ("failed", "failed"),
];

/// The names of the columns that an address may sort by.
pub fn columns() -> impl Iterator<Item = &'static str> {
    std::iter::once("name").chain(COLUMNS.iter().map(|(name, _)| *name))
}

/// What the page of all packages shows.
#[derive(Debug)]
pub struct PackagesPage<'a> {
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
    /// The search text, and the order.
    pub fields: &'a Fields,
    /// Number of the table's page, from 1 on.
    pub number: u64,
    /// All packages, in any order.
    pub groups: Vec<Group>,
}

impl PackagesPage<'_> {
    /// The whole page.
    pub fn draw(self) -> Markup {
        let Self { view, fields, number, mut groups } = self;
        let others = groups.iter().position(|group| group.name == OTHERS_GROUP).map(|at| groups.remove(at));
        let all = groups.len();
        let sought = fields.get("q").to_lowercase();
        groups.retain(|group| group.name.to_lowercase().contains(&sought));
        let sort = Sort::of(fields.get("sort"), fields.get("order"), default_column(&groups));
        sort_groups(&mut groups, sort);
        let pages_count = groups.len().div_ceil(PAGE_ROWS).max(1);
        let number = usize::try_from(number).unwrap_or(usize::MAX).clamp(1, pages_count);
        let shown: Vec<Group> =
            groups.iter().skip((number - 1) * PAGE_ROWS).take(PAGE_ROWS).cloned().collect();
        let kept = [("q", fields.get("q")), ("sort", fields.get("sort")), ("order", fields.get("order"))];
        let body = html! {
            h1 { "Packages" }
            (search_form(fields, view))
            @if all == 0 {
                (empty_page(view, "/packages", &kept))
            } @else if shown.is_empty() {
                div.empty { p { "No package has " strong { (fields.get("q")) } " in its name. " a href=(view.link("/packages", &[])) { "Show all" } } }
            } @else {
                p.quiet {
                    (count(groups.len() as u64))
                    @if others.is_some() { " of the packages that waste most, with attempts that ended " }
                    @else { " packages with attempts that ended " }
                    (view.range.words_in_sentence()) "."
                }
                (packages_table(&shown, sort, fields, view))
                (pages(number, pages_count, |to| view.link("/packages", &[kept.as_slice(), &[("page", to)]].concat())))
                @if let Some(others) = &others { (others_row(others)) }
            }
        };
        timed_page("Packages", "/packages", view, &kept, &body)
    }
}

/// The column to sort by if the reader chose none: waste, or need if nothing is wasted.
fn default_column(groups: &[Group]) -> &'static str {
    let is_wasted = |totals: &StatsTotals| totals.memory_wasted_gib_hours > 0.0;
    if groups.iter().filter_map(|group| group.totals.as_ref()).any(is_wasted) { "waste" } else { "need" }
}

/// Sorts the groups by a column; an unknown column changes nothing.
fn sort_groups(groups: &mut [Group], sort: Sort<'_>) {
    if sort.by == "name" {
        groups.sort_by(|a, b| a.name.cmp(&b.name));
    } else if let Some((_, heading)) = COLUMNS.iter().find(|(name, _)| *name == sort.by)
        && let Some((_, number, _)) = group_column(heading)
    {
        let of = |group: &Group| group.totals.as_ref().map_or(0.0, number);
        groups.sort_by(|a, b| of(a).total_cmp(&of(b)).then_with(|| b.name.cmp(&a.name)));
    }
    if sort.descending {
        groups.reverse();
    }
}

fn search_form(fields: &Fields, view: &ReaderChoice) -> Markup {
    html! {
        form.search role="search" action="/packages" method="get" {
            label { "Name contains" input type="search" name="q" value=(fields.get("q")) maxlength="256" data-narrows="packages" autocomplete="off"; }
            @for (name, value) in view.pairs() { input type="hidden" name=(name) value=(value); }
            @for name in ["sort", "order"] {
                @if !fields.get(name).is_empty() { input type="hidden" name=(name) value=(fields.get(name)); }
            }
            button { "Search" }
        }
    }
}

fn packages_table(shown: &[Group], sort: Sort<'_>, fields: &Fields, view: &ReaderChoice) -> Markup {
    let link = |by: &str, order: &str| {
        view.link("/packages", &[("q", fields.get("q")), ("sort", by), ("order", order)])
    };
    let heads = [("name", "package")].into_iter().chain(COLUMNS);
    let heads = heads.map(|(by, name)| Head::sorting(name, by, sort, link));
    let facts = groups("package", shown, &COLUMNS.map(|(_, heading)| heading));
    html! { div #packages { (table("Packages", heads, fact_rows(&facts, PAGE_ROWS, view))) } }
}

fn others_row(others: &Group) -> Markup {
    let totals = others.totals.clone().unwrap_or_default();
    html! {
        p.quiet {
            "These are the packages that waste most. All others together wasted "
            (amount(totals.memory_wasted_gib_hours)) " GiB·h ("
            (cell(sums::memory_wasted_share(&totals), percent)) " of what they asked for) in "
            (figures::counted(totals.attempts, "attempt")) ". Search for the whole name of one to see it."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, waste: f64) -> Group {
        let totals = StatsTotals { memory_wasted_gib_hours: waste, attempts: 1, ..StatsTotals::default() };
        Group { name: name.into(), totals: Some(totals) }
    }

    #[test]
    fn packages_are_sorted_by_what_is_asked_for() {
        let mut groups = [group("b", 1.0), group("a", 1.0), group("c", 3.0)];
        let names = |groups: &[Group]| groups.iter().map(|group| group.name.clone()).collect::<String>();
        sort_groups(&mut groups, Sort::of("", "", "waste"));
        assert_eq!(names(&groups), "cab");
        sort_groups(&mut groups, Sort::of("name", "", "waste"));
        assert_eq!(names(&groups), "abc");
        assert_eq!((default_column(&groups), default_column(&[group("a", 0.0)])), ("waste", "need"));
    }
}
