//! All packages: to sort, to search, page by page.

use axum::http::Uri;
use maud::{Markup, html};
use plimsoll_proto::{
    figures, sums,
    v1::{self as pb, Group, GroupBy, StatsTotals},
};

use super::{
    super::Parts,
    asking::Asking,
    flow::{self, OTHERS},
    numbers::{DASH, amount, count, of_asked, share_of, some_bytes, some_percent},
    page::{Page, empty, page},
    table::{Sort, head, pages},
    trouble::Trouble,
    view::{Query, View},
};
use crate::grpc::Refused;

/// Packages of one page of the table.
const ROWS: usize = 50;

/// Name in an address, head, number to sort by.
type Column = (&'static str, &'static str, fn(&StatsTotals) -> f64);

const COLUMNS: [Column; 7] = [
    ("waste", "Wasted GiB·h", |totals| totals.memory_wasted_gib_hours),
    ("asked", "Asked GiB·h", |totals| totals.memory_asked_gib_hours),
    ("used", "Put to use", |totals| sums::memory_used(totals).unwrap_or(0.0)),
    ("need", "Highest need", |totals| super::numbers::float(totals.need_peak_max_bytes)),
    ("cpu", "CPU core·h", |totals| totals.cpu_core_hours),
    ("attempts", "Attempts", |totals| super::numbers::float(totals.attempts)),
    ("failed", "Failed", |totals| {
        super::numbers::float(totals.failed) / super::numbers::float(totals.attempts.max(1))
    }),
];

pub(super) async fn show(Asking(parts): Asking, uri: Uri) -> Result<Page, Trouble> {
    let (query, view) = flow::asked(&uri)?;
    let number = query.number("page")?.unwrap_or(1);
    let mut groups = groups(&parts, &view, query.get("q")).await?;
    let others = groups.iter().position(|group| group.name == OTHERS).map(|at| groups.remove(at));
    let all = groups.len();
    let sought = query.get("q").to_lowercase();
    groups.retain(|group| group.name.to_lowercase().contains(&sought));
    let sort = Sort::of(query.get("sort"), query.get("order"), usual(&groups));
    sorted(&mut groups, sort)?;
    let pages_count = groups.len().div_ceil(ROWS).max(1);
    let number = usize::try_from(number).unwrap_or(usize::MAX).clamp(1, pages_count);
    let shown: Vec<Group> = groups.iter().skip((number - 1) * ROWS).take(ROWS).cloned().collect();
    let kept = [("q", query.get("q")), ("sort", query.get("sort")), ("order", query.get("order"))];
    let body = html! {
        h1 { "Packages" }
        (search(&query, &view))
        @if all == 0 {
            (empty(&view, "/packages", &kept))
        } @else if shown.is_empty() {
            div.empty { p { "No package has " strong { (query.get("q")) } " in its name. " a href=(view.link("/packages", &[])) { "Show all" } } }
        } @else {
            p.quiet {
                (count(groups.len() as u64))
                @if others.is_some() { " of the packages that waste most, with attempts that ended " }
                @else { " packages with attempts that ended " }
                (view.range.during()) "."
            }
            (table(&shown, sort, &query, &view))
            (pages(number, pages_count, |to| view.link("/packages", &[kept.as_slice(), &[("page", to)]].concat())))
            @if let Some(others) = &others { (rest(others)) }
        }
    };
    Ok(page("Packages", "/packages", &view, &kept, &body))
}

/// The packages that waste most; if what is sought is exactly the name of another one, that one.
async fn groups(parts: &Parts, view: &View, sought: &str) -> Result<Vec<Group>, Refused> {
    let ask = |filter| {
        let group_by = GroupBy::Package.into();
        pb::GetStatsRequest { filter: Some(filter), group_by, ..pb::GetStatsRequest::default() }
    };
    let mut groups = parts.inside.get_stats(ask(view.filter())).await?.groups;
    let known = groups.iter().any(|group| group.name == sought);
    if !known && !sought.is_empty() && groups.iter().any(|group| group.name == OTHERS) {
        let exact = pb::Filter { package: sought.to_owned(), ..view.filter() };
        groups.extend(parts.inside.get_stats(ask(exact)).await?.groups);
    }
    Ok(groups)
}

/// The column to sort by where the reader chose none: waste, if there is any to sort by.
fn usual(groups: &[Group]) -> &'static str {
    let is_wasted = |totals: &StatsTotals| totals.memory_wasted_gib_hours > 0.0;
    if groups.iter().filter_map(|group| group.totals.as_ref()).any(is_wasted) { "waste" } else { "need" }
}

fn sorted(groups: &mut [Group], sort: Sort<'_>) -> Result<(), Trouble> {
    if sort.by == "name" {
        groups.sort_by(|a, b| a.name.cmp(&b.name));
    } else {
        let Some((.., number)) = COLUMNS.iter().find(|(name, ..)| *name == sort.by) else {
            let names: Vec<&str> = COLUMNS.iter().map(|(name, ..)| *name).collect();
            let rule = format!("is {:?}; it may be name, {}", sort.by, names.join(", "));
            return Err(crate::domain::Fault::new("sort", rule).into());
        };
        let of = |group: &Group| group.totals.as_ref().map_or(0.0, number);
        groups.sort_by(|a, b| of(a).total_cmp(&of(b)).then_with(|| b.name.cmp(&a.name)));
    }
    if sort.down {
        groups.reverse();
    }
    Ok(())
}

fn search(query: &Query, view: &View) -> Markup {
    html! {
        form.search role="search" action="/packages" method="get" {
            label { "Name contains" input type="search" name="q" value=(query.get("q")) maxlength="256" data-narrows="packages" autocomplete="off"; }
            @for (name, value) in view.pairs() { input type="hidden" name=(name) value=(value); }
            @for name in ["sort", "order"] {
                @if !query.get(name).is_empty() { input type="hidden" name=(name) value=(query.get(name)); }
            }
            button { "Search" }
        }
    }
}

fn table(shown: &[Group], sort: Sort<'_>, query: &Query, view: &View) -> Markup {
    let link = |by: &str, order: &str| {
        view.link("/packages", &[("q", query.get("q")), ("sort", by), ("order", order)])
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Packages" {
            table #packages {
                thead { tr {
                    (head("Package", "name", sort, link))
                    @for (name, words, _) in COLUMNS { (head(words, name, sort, link)) }
                } }
                tbody { @for group in shown { (row(group, view)) } }
            }
        }
    }
}

fn row(group: &Group, view: &View) -> Markup {
    let totals = group.totals.clone().unwrap_or_default();
    html! {
        tr {
            th scope="row" { a href=(view.package(&group.name)) { (group.name) } }
            td.n { (of_asked(totals.memory_wasted_gib_hours, totals.memory_asked_gib_hours)) }
            td.n { (of_asked(totals.memory_asked_gib_hours, totals.memory_asked_gib_hours)) }
            td.n { (some_percent(sums::memory_used(&totals))) }
            td.n { (some_bytes(sums::highest_need(&totals))) }
            td.n { (sums::cpu_time(&totals).map_or_else(|| DASH.to_owned(), amount)) }
            td.n { (count(totals.attempts)) }
            td.n {
                @if totals.failed == 0 { "0" } @else { (count(totals.failed)) " (" (share_of(totals.failed, totals.attempts)) ")" }
            }
        }
    }
}

fn rest(others: &Group) -> Markup {
    let totals = others.totals.clone().unwrap_or_default();
    html! {
        p.quiet {
            "These are the packages that waste most. All others together wasted "
            (amount(totals.memory_wasted_gib_hours)) " GiB·h ("
            (some_percent(sums::memory_wasted(&totals))) " of what they asked for) in "
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
    fn packages_are_sorted_by_what_is_asked_for_and_an_unknown_order_is_named() {
        let mut groups = [group("b", 1.0), group("a", 1.0), group("c", 3.0)];
        let names = |groups: &[Group]| groups.iter().map(|group| group.name.clone()).collect::<String>();
        sorted(&mut groups, Sort::of("", "", "waste")).unwrap();
        assert_eq!(names(&groups), "cab");
        sorted(&mut groups, Sort::of("name", "", "waste")).unwrap();
        assert_eq!(names(&groups), "abc");
        let trouble = sorted(&mut groups, Sort::of("<b>", "", "waste")).unwrap_err();
        assert_eq!((usual(&groups), usual(&[group("a", 0.0)])), ("waste", "need"));
        assert!(trouble.text.starts_with("sort: is \"<b>\""), "{trouble:?}");
    }
}
