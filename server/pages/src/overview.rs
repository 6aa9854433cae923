//! The first page: what is wasted, what fails, what would be and what was saved, which packages waste and fail most, what runs.

use maud::{Markup, html};
use plimsoll_proto::{
    facts::{self as number_facts, Line},
    figures::{self, cell, count, share},
    sums::named_groups,
    tables::{self, FAILING_LINES, FactCell, FactTable, Paint, group_column},
    v1::{self as pb, StatsTotals},
};

use super::{
    attempts::CANCELED,
    flow::Flow,
    page::{card, empty_page, timed_page},
    table::{fact_table, facts},
    view::ReaderChoice,
    words,
};

/// Rows of each list of the worst packages.
const WORST_ROWS: usize = 8;

/// What the first page shows.
#[derive(Debug, Clone, Copy)]
pub struct OverviewPage<'a> {
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
    /// Statistics by package, with steps over time.
    pub stats: &'a pb::GetStatsResponse,
    /// Time that one step covers, milliseconds.
    pub step_ms: u64,
    /// Number of attempts that run now.
    pub running: usize,
    /// The projects that the reader can choose; empty if one is chosen.
    pub projects: &'a [pb::Group],
    /// The stacks that the reader can choose; empty if one is chosen.
    pub stacks: &'a [pb::Group],
}

impl OverviewPage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let Self { view, stats, running, .. } = *self;
        let totals = stats.totals.clone().unwrap_or_default();
        let flow = Flow { view, steps: &stats.steps, step_ms: self.step_ms };
        let parts_of = [choices_by(self.projects, "project", view), choices_by(self.stacks, "stack", view)];
        let body = html! {
            h1 { "Overview" }
            p.lead { "What builds asked for, what they needed, why they failed, and what that cost." }
            @if totals.attempts == 0 {
                (empty_page(view, "/", &[]))
                @if running > 0 { p { a href=(view.link("/running", &[])) { (running) " running now" } } }
            } @else {
                dl.cards.eight {
                    (number_cards(stats, &[Line::Attempts, Line::Failures, Line::Memory, Line::Cpu, Line::Retries], &fleet_links(&totals, view)))
                    (card("Running now", &count(running as u64), &html! { a href=(view.link("/running", &[])) { "Running attempts" } }))
                }
                (left_out_note(stats))
                (savings_section(stats))
                (rescue_section(stats))
                div.two {
                    (flow.memory().figure())
                    (flow.failures().figure())
                }
                (worst_section(stats, view))
                div.two { @for part in &parts_of { div { (part) } } }
                @for (heading, why, table) in tables::findings(stats) {
                    // failing lines have a page of their own
                    @if heading != FAILING_LINES { (findings(heading, why, &table, view)) }
                }
            }
        };
        timed_page("Overview", "/", view, &[], &body)
    }
}

/// A link of a card to what it counts: the name of the card, the words of the link, and its address.
pub(super) type CardLink = (&'static str, &'static str, String);

/// The links of the cards about all packages, those without attempts left out.
fn fleet_links(totals: &StatsTotals, view: &ReaderChoice) -> Vec<CardLink> {
    let of = |field, value| view.link("/attempts", &[(field, value)]);
    let links = [
        ("attempts ended", "All attempts", totals.attempts, of("", "")),
        ("attempts ended", "Canceled attempts", totals.canceled, of("outcome", CANCELED)),
        ("failed", "All failures", totals.attempts, view.link("/failures", &[])),
        ("failed", "Attempts out of memory", totals.oom, of("cause", "OOM")),
        ("failed", "Starved attempts", totals.starved, of("cause", "STARVED")),
    ];
    let links = links.into_iter().filter(|(_, _, count, _)| *count > 0);
    links.map(|(card, words, _, address)| (card, words, address)).collect()
}

/// A card for each important fact of these lines, with its links.
pub(super) fn number_cards(stats: &pb::GetStatsResponse, lines: &[Line], links: &[CardLink]) -> Markup {
    let of = |name: &'static str| links.iter().filter(move |(card, ..)| *card == name).enumerate();
    html! {
        @for line in lines {
            @for (name, number, note) in number_facts::cards(stats, *line) {
                (card(&words::title(name), &number, &html! {
                    (note) @for (nth, (_, words, address)) in of(name) { @if nth > 0 || !note.is_empty() { " · " } a href=(address) { (words) } }
                }))
            }
        }
    }
}

/// Which attempts the totals leave out.
pub(super) fn left_out_note(stats: &pb::GetStatsResponse) -> Markup {
    html! { @for (_, text) in number_facts::listed(stats, &[Line::Notes]) { p.quiet { (words::sentence(&text)) } } }
}

/// What predictions would have saved; empty if no attempt has a prediction.
fn savings_section(stats: &pb::GetStatsResponse) -> Markup {
    let cards = number_cards(stats, &[Line::WouldBe, Line::Predicted], &[]);
    html! {
        @if !cards.0.is_empty() {
            h2 { "What predictions are worth" }
            p.why { "What was predicted before each attempt began, against what came." }
            dl.cards { (cards) }
        }
    }
}

/// What rescue saved, and what that cost; empty if it acted in no attempt.
fn rescue_section(stats: &pb::GetStatsResponse) -> Markup {
    let cards = number_cards(stats, &[Line::Rescue], &[]);
    html! {
        @if !cards.0.is_empty() {
            h2 { "What rescue saved" }
            p.why { "Builds that went on at their memory limit, because processes were paused or the limit was raised." }
            dl.cards { (cards) }
        }
    }
}

fn worst_section(stats: &pb::GetStatsResponse, view: &ReaderChoice) -> Markup {
    let all = stats.totals.clone().unwrap_or_default();
    // without memory requests nothing counts as wasted: then show the use
    let (title, heading) = if all.memory_wasted_gib_hours > 0.0 {
        ("Packages that waste most", "wasted GiB·h")
    } else {
        ("Packages that use most", "used GiB·h")
    };
    let number = |totals: &StatsTotals| group_column(heading).map_or(0.0, |(_, number, _)| number(totals));
    let of = |group: &pb::Group| group.totals.as_ref().map_or(0.0, number);
    let mut groups: Vec<&pb::Group> = named_groups(&stats.groups).collect();
    groups.sort_by(|a, b| of(b).total_cmp(&of(a)));
    let mut table =
        tables::groups("package", groups.iter().copied(), &[heading, "attempts", "failed", "highest need"]);
    table.columns.insert(2, "share of all");
    for (row, group) in table.rows.iter_mut().zip(groups) {
        let is_known = row.get(1).is_some_and(|cell| cell.text() != figures::DASH);
        let text = cell(is_known.then(|| of(group)), |part| share(part, number(&all)));
        row.insert(2, FactCell::Share(of(group) / number(&all).max(f64::MIN_POSITIVE), Paint::Plain, text));
    }
    html! {
        h2 { (title) }
        (fact_table(title, &table, WORST_ROWS, view))
        p { a href=(view.link("/packages", &[])) { "All packages" } }
    }
}

/// Links to choose a project or a stack; empty if there is only one.
fn choices_by(groups: &[pb::Group], field: &'static str, view: &ReaderChoice) -> Markup {
    let title = if field == "stack" { "Stacks" } else { "Projects" };
    let table = tables::groups(field, named_groups(groups), &["attempts", "failed", "wasted GiB·h"]);
    if groups.len() > 1 { findings(title, "", &table, view) } else { Markup::default() }
}

/// The first rows of a table below its heading.
pub(super) fn findings(heading: &str, why: &str, table: &FactTable, view: &ReaderChoice) -> Markup {
    facts(&words::title(heading), &html! { (words::sentence(why)) }, table, WORST_ROWS, view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::PackagePage;

    #[test]
    fn cards_link_to_the_attempts_they_count() {
        let totals = StatsTotals { attempts: 9, failed: 3, canceled: 1, oom: 2, ..StatsTotals::default() };
        let stats = &pb::GetStatsResponse { totals: Some(totals), ..Default::default() };
        let (view, step_ms) = (&ReaderChoice::default(), 1);
        let fleet = OverviewPage { view, stats, step_ms, running: 4, projects: &[], stacks: &[] };
        let (newest, versions, explained, proposal) = (&[], None, None, None);
        let one = PackagePage { name: "a", view, stats, step_ms, versions, newest, explained, proposal };
        let fleet_links = "/attempts>All attempts /attempts?outcome=CANCELED>Canceled attempts /failures>All failures \
            /attempts?cause=OOM>Attempts out of memory /running>Running attempts";
        let links = "/attempts?package=a>All attempts /attempts?package=a&amp;outcome=FAILED>Failed attempts";
        for (page, expected) in [(fleet.draw(), fleet_links), (one.draw(), links)] {
            let text = page.into_string();
            let cards = text.split("<dl class=\"cards").nth(1).unwrap().split("</dl>").next().unwrap();
            let links = cards.split("<a href=\"").skip(1).filter_map(|link| link.split("</a>").next());
            assert_eq!(links.collect::<Vec<_>>().join(" ").replace('"', ""), expected, "{text}");
        }
    }
}
