//! The first page: what is wasted, what fails, what was saved, which packages waste and fail most, what runs.

use maud::{Markup, html};
use plimsoll_proto::{
    figures,
    sums::{self, named_groups},
    tables::{self, FactTable},
    v1::{self as pb, StatsTotals},
};

use super::{
    figures::{amount, cell, count, percent, rate, share, share_of},
    flow::Flow,
    page::{card, empty_page, timed_page},
    table::{facts, table},
    view::ReaderChoice,
    words,
};

/// Rows of each list of the worst packages.
const WORST_ROWS: usize = 8;

/// Why builds with groups of different needs are listed.
const MIXED_NEEDS: &str =
    "One size for all of them holds memory that most do not need. The most expensive first.";

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
                (number_cards(&totals, &stats.currency, running, view))
                (savings_section(&totals, &stats.currency))
                div.two {
                    (flow.memory().figure())
                    (flow.failures().figure())
                }
                (worst_section(stats, view))
                div.two { @for part in &parts_of { div { (part) } } }
                (shifted_needs(&stats.regressions, view))
                (findings("Builds that hide groups with different needs", MIXED_NEEDS, &tables::mixed_needs(&stats.mixed), view))
                div.two {
                    div { (findings("Packages that vary most", "", &tables::variable_packages(&stats.variable), view)) }
                    div {
                        (findings("Failures that were retried as they were", "", &tables::flaky_failures(&stats.flaky), view))
                        (findings("Causes that people corrected", "", &tables::wrong_rules(&stats.wrong), view))
                        (findings("Rules that do not count here", "", &tables::silenced_rules(&stats.silenced), view))
                    }
                }
            }
        };
        timed_page("Overview", "/", view, &[], &body)
    }
}

fn number_cards(totals: &StatsTotals, currency: &str, running: usize, view: &ReaderChoice) -> Markup {
    let known = |share: Option<f64>| figures::known(share, percent);
    let hours = |hours: Option<f64>| figures::known(hours, figures::gib_hours);
    let cpu = figures::known(sums::cpu_time(totals), figures::core_hours);
    let money = |money: f64| html! { @if !currency.is_empty() { ", " (amount(money)) " " (currency) } };
    html! {
        dl.cards.eight {
            (card("Attempts ended", &count(totals.attempts), &html! {
                (share_of(totals.succeeded, totals.attempts)) " succeeded, " (count(totals.lost)) " lost, "
                @if totals.ended > 0 { (count(totals.ended)) " ended, exit status not known, " }
                a href=(view.link("/attempts", &[("outcome", "CANCELED")])) { (count(totals.canceled)) " canceled" }
            }))
            (card("Failed", &count(totals.failed), &html! {
                (share_of(totals.failed, totals.attempts)) " of all; "
                a href=(view.link("/attempts", &[("cause", "OOM")])) { (count(totals.oom)) " out of memory" } ", "
                a href=(view.link("/attempts", &[("cause", "STARVED")])) { (count(totals.starved)) " starved of it" }
            }))
            (card("Memory wasted", &hours(sums::memory_wasted_hours(totals)), &html! {
                (sums::memory_wasted_words(totals))
                @if sums::memory_asked(totals).is_some() { (money(totals.memory_wasted_money)) }
            }))
            (card("Memory put to use", &known(sums::memory_used_share(totals)), &html! {
                @if let Some(asked) = sums::memory_asked(totals) { "of " (figures::gib_hours(asked)) " asked; " }
                "used " (hours(sums::memory_used(totals)))
            }))
            (card("CPU used", &cpu, &html! {
                (sums::cpu_over_words(totals).trim_start())
                @if let Some(used) = sums::cpu_used_share(totals) { "; " (percent(used)) " of what was asked for was put to use; wasted " (figures::known(sums::cpu_wasted_hours(totals), figures::core_hours)) (money(totals.cpu_wasted_money)) }
            }))
            (card("Retries", &count(totals.retries), &html! {
                (count(totals.retries_helped)) " helped, " (count(totals.retries_avoided)) " avoided"
            }))
            (card("Highest need", &sums::highest_need_words(totals), &html! {
                "need over ask: " (sums::need_over_ask_words(totals))
            }))
            (card("Running now", &count(running as u64), &html! { a href=(view.link("/running", &[])) { "Look at them" } }))
        }
        (left_out_note(totals))
    }
}

/// Which attempts the totals above leave out.
pub(super) fn left_out_note(totals: &StatsTotals) -> Markup {
    html! { @if let Some(text) = sums::left_out_words(totals) { p.quiet { (words::sentence(&text)) } } }
}

/// What predictions would have saved; empty if no attempt has a prediction.
fn savings_section(totals: &StatsTotals, currency: &str) -> Markup {
    let calibration = totals.calibration.unwrap_or_default();
    let would = totals.would_have_been.unwrap_or_default();
    let less = would.asked_gib_hours - would.predicted_gib_hours;
    // the prices of pools count, so the money may be more although the memory is less
    let money = would.asked_money - would.predicted_money;
    html! {
        @if calibration.attempts > 0 || would.attempts > 0 {
            h2 { "What predictions are worth" }
            p.why { "What was predicted before each attempt began, against what came." }
            dl.cards {
                @if would.attempts > 0 {
                    (card("Asked with predicted sizes", &figures::gib_hours(would.predicted_gib_hours), &html! {
                        "instead of " (figures::gib_hours(would.asked_gib_hours)) ", over " (figures::counted(would.attempts, "attempt"))
                    }))
                    (card(if less >= 0.0 { "That is less by" } else { "That is more by" },
                        &share(less.abs(), would.asked_gib_hours), &html! {
                        (figures::gib_hours(less.abs()))
                        @if !currency.is_empty() { ", " (amount(money.abs())) " " (currency) @if money < 0.0 { " more" } @else { " less" } }
                    }))
                    (card("Would fail for memory", &sums::would_fail_words(&would), &html! {
                        "of " (count(would.attempts)) "; " (count(would.failed)) " did fail for memory"
                        @if would.not_known > 0 { ", and of " (count(would.not_known)) " of them it is not known" }
                    }))
                }
                @if calibration.attempts > 0 {
                    (card("Stayed below the predicted limit", &sums::within_limit(&calibration), &html! {
                        "of " (figures::counted(calibration.attempts, "attempt"))
                        @if let Some(factor) = sums::limit_factor(&calibration) {
                            "; limit and need differ by a factor of " (amount(factor)) " on average"
                        }
                    }))
                    @if calibration.timed > 0 {
                        (card("Ended within the predicted p95", &rate(calibration.within_wall_p95, calibration.timed), &html! {
                            "of " (count(calibration.timed)) " that succeeded; 95 % is right"
                        }))
                    }
                }
            }
        }
    }
}

fn worst_section(stats: &pb::GetStatsResponse, view: &ReaderChoice) -> Markup {
    let all = stats.totals.clone().unwrap_or_default();
    let mut groups: Vec<(&str, &StatsTotals)> = named_groups(&stats.groups)
        .filter_map(|group| Some((&*group.name, group.totals.as_ref()?)))
        .collect();
    // without memory requests nothing counts as wasted: then show the use
    let wasted = all.memory_wasted_gib_hours > 0.0;
    let (title, head) = if wasted {
        ("Packages that waste most", "#Wasted GiB·h")
    } else {
        ("Packages that use most", "#Used GiB·h")
    };
    let known = |totals: &StatsTotals| {
        if wasted { sums::memory_wasted_hours(totals) } else { sums::memory_used(totals) }
    };
    let of = |totals: &StatsTotals| known(totals).unwrap_or(0.0);
    groups.sort_by(|a, b| of(b.1).total_cmp(&of(a.1)));
    let heads = ["Package", head, "#Share of all", "#Attempts", "#Failed", "#Highest need"];
    let row = |(name, totals): (&str, &StatsTotals)| {
        [
            html! { a href=(view.package(name)) { (name) } },
            html! { (cell(known(totals), amount)) },
            html! {
                (cell(known(totals), |sum| share(sum, of(&all)))) " "
                meter min="0" max=(of(&all).max(f64::MIN_POSITIVE)) value=(of(totals)) aria-hidden="true" {}
            },
            html! { (count(totals.attempts)) },
            html! { (count(totals.failed)) },
            html! { (sums::highest_need_cell(totals)) },
        ]
    };
    html! {
        h2 { (title) }
        (table(title, heads, groups.into_iter().take(WORST_ROWS).map(row)))
        p { a href=(view.link("/packages", &[])) { "All packages" } }
    }
}

/// Links to choose a project or a stack; empty if there is only one.
fn choices_by(groups: &[pb::Group], field: &str, view: &ReaderChoice) -> Markup {
    let (title, head) = if field == "stack" { ("Stacks", "Stack") } else { ("Projects", "Project") };
    let row = |group: &pb::Group| {
        let totals = group.totals.clone().unwrap_or_default();
        let link = view.link("/", &[(field, group.name.as_str())]);
        [
            html! { @if group.name.is_empty() { span.quiet { "not known" } } @else { a href=(link) { (group.name) } } },
            html! { (count(totals.attempts)) },
            html! { (share_of(totals.failed, totals.attempts)) },
            html! { (cell(sums::memory_wasted_hours(&totals), amount)) },
        ]
    };
    let heads = [head, "#Attempts", "#Failed", "#Wasted GiB·h"];
    html! {
        @if groups.len() > 1 {
            h2 { (title) }
            (table(title, heads, named_groups(groups).take(WORST_ROWS).map(row)))
        }
    }
}

/// A table of builds with a changed need.
pub(super) fn shifted_needs(regressions: &[pb::Regression], view: &ReaderChoice) -> Markup {
    let why = "By 30 % or more, and it stayed there. The most expensive first.";
    findings("Builds whose need has moved", why, &tables::regressions(regressions), view)
}

fn findings(heading: &str, why: &str, table: &FactTable, view: &ReaderChoice) -> Markup {
    facts(heading, &html! { (why) }, table, WORST_ROWS, view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_beside_what_it_is_for() {
        let totals = StatsTotals {
            attempts: 1,
            memory_asked_gib_hours: 2.0,
            wasted_money: 9.21,
            memory_wasted_money: 2.22,
            cpu_wasted_money: 6.99,
            cpu_asked_core_hours: 2.0,
            ..StatsTotals::default()
        };
        let cards = number_cards(&totals, "EUR", 0, &ReaderChoice::default()).into_string();
        let [memory, cpu, both] = ["2.22 EUR", "6.99 EUR", "9.21"].map(|money| cards.find(money));
        assert!(memory > cards.find("Memory wasted") && memory < cpu && both.is_none(), "{cards}");
    }
}
