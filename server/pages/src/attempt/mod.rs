//! The page of one attempt, running or finished.

mod charts;
mod ci_links;
mod correction;
#[cfg(test)]
mod tests;

use maud::{Markup, html};
use plimsoll_proto::{
    evidence::source_in_words,
    facts::{self as attempt_facts, Line},
    figures, measured,
    reasons::line_place,
    tables::{self, FactTable},
    v1::{GetAttemptResponse, Outcome, Summary, Verdict},
    verdict,
};

use super::{
    chart,
    figures::count,
    package::sizes,
    page::{card, plain_page},
    table::{fact_cell, facts},
    view::ReaderChoice,
    words,
};

/// The rows of a verdict that are lines of a log.
const LOG_ROWS: [&str; 2] = ["failure", "  then"];

/// Most points of a curve; more would not be visible.
pub const POINTS: usize = chart::MAX_POINTS;

/// Seconds between two updates of the page of a running attempt: each reads its whole series.
const RELOAD_SECONDS: u32 = 15;

/// What the page of one attempt shows.
#[derive(Debug, Clone, Copy)]
pub struct AttemptPage<'a> {
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
    /// The attempt with its series, of at most [`POINTS`] samples.
    pub shown: &'a GetAttemptResponse,
    /// Whether the reader may correct the cause of the failure.
    pub may_correct: bool,
}

impl AttemptPage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let Self { view, shown, may_correct } = *self;
        let summary = shown.summary.clone().unwrap_or_default();
        let key = summary.key.clone().unwrap_or_default();
        let body = html! {
            p.quiet { a href=(view.package(&key.package)) { (key.package) } " " (key.version) }
            h1 { "Attempt " span.id { (summary.attempt) } }
            p {
                (fact_cell(&tables::result(&summary, ""), view)) " "
                @if !summary.cause_source.is_empty() { span.quiet { "cause from the " (source_in_words(&summary.cause_source)) " " } }
                @if summary.number > 1 || !summary.retries.is_empty() {
                    span.quiet {
                        "number " (summary.number)
                        @if !summary.retries.is_empty() { ", retries " a.id href=(view.attempt(&summary.retries)) { (summary.retries) } }
                    }
                }
                @if !shown.retried_by.is_empty() {
                    " " span.quiet {
                        "retried by " a.id href=(view.attempt(&shown.retried_by)) { (shown.retried_by) } ", which "
                        (if shown.retry_outcome() == Outcome::Succeeded { "passed" } else { words::outcome(shown.retry_outcome()) })
                    }
                }
                @for (name, address) in ci_links::ci_links(&summary) {
                    " " a href=(address) rel="noopener noreferrer" { (name) }
                }
            }
            @if let Some(verdict) = &shown.verdict { (judged(verdict)) }
            @if may_correct { (correction::form(shown, &view.attempt(&summary.attempt))) }
            @if summary.outcome() == Outcome::Running {
                div data-live=(RELOAD_SECONDS) { p.lead { (now(shown, &summary)) } (cards(&summary)) (pictures(shown, &summary)) }
            } @else {
                (cards(&summary))
                (pictures(shown, &summary))
            }
            (ending(&summary))
            (facts_below("Earlier verdicts", &tables::earlier_verdicts(&shown.earlier_verdicts), view))
            (facts_below("Phases", &tables::phases(&summary, usize::MAX, "highest"), view))
            (built(&summary))
        };
        plain_page(&format!("Attempt {}", summary.attempt), "/attempts/", view, &body)
    }
}

/// The need of a running attempt, its limit, and what its agent has done about it.
fn now(shown: &GetAttemptResponse, summary: &Summary) -> String {
    let limit = summary.resources.and_then(|sizes| sizes.memory_limit_bytes).filter(|limit| *limit > 0);
    let limit =
        limit.map_or_else(|| "no limit".to_owned(), |limit| format!("a limit of {}", figures::bytes(limit)));
    let acts = attempt_facts::sentence(summary, Line::Rescue);
    let acts = if acts.is_empty() { acts } else { format!(" Rescue has {acts}.") };
    match shown.series.last() {
        Some(last) => format!("It needs about {} now, with {limit}.{acts}", figures::bytes(last.need_bytes)),
        None => format!("Nothing is measured yet. It has {limit}.{acts}"),
    }
}

fn cards(summary: &Summary) -> Markup {
    html! {
        dl.cards {
            @for line in [Line::Memory, Line::Predicted, Line::Time, Line::Cpu] {
                @for (name, number, note) in attempt_facts::cards(summary, line) { (card(&words::title(name), &number, &html! { (note) })) }
            }
        }
        @for (_, note) in attempt_facts::listed(summary, &[Line::Notes]) { p { (words::sentence(&note)) } }
    }
}

fn pictures(shown: &GetAttemptResponse, summary: &Summary) -> Markup {
    html! {
        @if shown.series.len() > 1 {
            div.two { (charts::memory(&shown.series, summary).figure()) (charts::cpu(&shown.series, summary).figure()) }
            p.quiet {
                (figures::counted(shown.samples_total, "sample"))
                @if shown.downsampled { "; neighbouring ones are drawn as one, with their highest need" }
                @if summary.samples_lost > 0 { "; " (count(summary.samples_lost)) " were lost before they were sent" }
                "."
            }
        } @else {
            div.empty { p { (measured::no_curve_reason(summary, shown.series.len(), shown.samples_total).unwrap_or_default()) } }
        }
    }
}

const ENDING: [Line; 8] = [
    Line::Result,
    Line::Time,
    Line::Killed,
    Line::Processes,
    Line::HeldBack,
    Line::Rescue,
    Line::Samples,
    Line::Evidence,
];

/// How the attempt ended: what the kernel and the command reported.
fn ending(summary: &Summary) -> Markup {
    html! { h2 { "Evidence" } div.sheet { (fact_list(summary, &ENDING)) } }
}

fn fact_list(summary: &Summary, lines: &[Line]) -> Markup {
    html! {
        dl.facts { @for (fact, value) in attempt_facts::listed(summary, lines) { dt { (words::title(fact.name)) } dd { (value) } } }
    }
}

fn judged(verdict: &Verdict) -> Markup {
    let (sentences, facts): (Vec<_>, Vec<_>) =
        verdict::rows(verdict).into_iter().partition(|(name, _)| name.is_empty());
    let outlook = verdict.outlook.clone().unwrap_or_default();
    let place = line_place(outlook.failure_line_number, outlook.failure_line_from_end);
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    html! {
        h2 { "Verdict" }
        div.sheet {
            @for (nth, (_, text)) in sentences.iter().enumerate() {
                @if nth == 0 { p.verdict { (text) } } @else { p { (words::sentence(text)) } }
            }
            dl.facts {
                @for (name, value) in &facts {
                    dt { (words::title(name.trim())) }
                    dd { @if LOG_ROWS.contains(name) { code { (value.trim_end_matches(&place)) } @if *name == "failure" { (place) } } @else { (value) } }
                }
            }
            (evidence(verdict))
        }
        @if let Some(next) = &verdict.next {
            h2 { (words::title(verdict::next_words(verdict))) }
            (sizes(verdict::next_words(verdict), next))
        }
    }
}

fn evidence(verdict: &Verdict) -> Markup {
    html! {
        ul.evidence {
            @for line in &verdict.evidence {
                li {
                    span.sign aria-hidden="true" { @if line.supports { "+" } @else { "−" } }
                    span.quiet { (line.source) @if !line.supports { " (against)" } ": " } (line.text)
                }
            }
        }
    }
}

fn facts_below(heading: &str, table: &FactTable, view: &ReaderChoice) -> Markup {
    facts(heading, &Markup::default(), table, usize::MAX, view)
}

/// What was built, and where it ran.
fn built(summary: &Summary) -> Markup {
    html! {
        h2 { "What was built" }
        div.sheet {
            dl.facts {
                @for (name, value) in summary.key.clone().unwrap_or_default().facts() {
                    dt { @match name.strip_prefix("label ") { Some(label) => { span.quiet { "label " } (label) }, None => (words::title(&name)) } }
                    dd { (value) }
                }
            }
            (fact_list(summary, &[Line::Where]))
        }
    }
}
