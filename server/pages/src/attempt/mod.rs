//! The page of one attempt, running or finished.

mod charts;
mod ci_links;
mod correction;
#[cfg(test)]
mod tests;

use maud::{Markup, html};
use plimsoll_proto::{
    evidence::{NOTHING_TO_RETRY, is_of_success, source_in_words},
    facts::{self, Line},
    figures, measured,
    reasons::{self, SizeKind},
    v1::{Action, GetAttemptResponse, Outcome, Phase, Prediction, Summary, Verdict},
    verdict,
};

use super::{
    chart,
    figures::{cell, cores, count, millis, percent},
    page::{card, plain_page},
    table::table,
    times,
    view::ReaderChoice,
    words,
};

/// Most points of a curve; more would not be visible.
pub const POINTS: usize = chart::MAX_POINTS;

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
                (words::badge(summary.outcome(), summary.cause())) " "
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
            (cards(&summary))
            (pictures(shown, &summary))
            (ending(&summary))
            (earlier(&shown.earlier_verdicts))
            (phases(&summary))
            (built(&summary))
        };
        plain_page(&format!("Attempt {}", summary.attempt), "/attempts/", view, &body)
    }
}

fn cards(summary: &Summary) -> Markup {
    html! {
        dl.cards {
            @for line in [Line::Memory, Line::Predicted, Line::Time, Line::Cpu] {
                @for (name, number, note) in facts::cards(summary, line) { (card(&words::title(name), &number, &html! { (note) })) }
            }
        }
        @for (_, note) in facts::listed(summary, &[Line::Notes]) { p { (words::sentence(&note)) } }
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

/// How the attempt ended: what the kernel and the command reported.
fn ending(summary: &Summary) -> Markup {
    html! { h2 { "Evidence" } div.sheet { (fact_list(summary, &[Line::Result, Line::Time, Line::Killed, Line::HeldBack, Line::Samples, Line::Evidence])) } }
}

fn fact_list(summary: &Summary, lines: &[Line]) -> Markup {
    html! {
        dl.facts { @for (fact, value) in facts::listed(summary, lines) { dt { (words::title(fact.name)) } dd { (value) } } }
    }
}

fn judged(verdict: &Verdict) -> Markup {
    let outlook = verdict.outlook.clone().unwrap_or_default();
    if is_of_success(verdict) {
        return html! { h2 { "Verdict" } div.sheet { p.verdict { (NOTHING_TO_RETRY) } (evidence(verdict)) } };
    }
    html! {
        h2 { "Verdict" }
        div.sheet {
            p.verdict { (verdict::first_line(verdict)) }
            @if !outlook.signature_line.is_empty() || !outlook.failure_line.is_empty() {
                p {
                    "Failure: " code { (reasons::failure_line(&outlook.failure_line, &outlook.signature_line)) }
                    @if let Some(place) = reasons::failure_place(&outlook) { span.quiet { " (" (place) ")" } }
                    @for line in &outlook.consequences { br; span.quiet { "then: " } code { (line) } }
                }
            }
            p { (words::sentence(&verdict.reason)) }
            dl.facts {
                @if let Some(next) = &verdict.next {
                    dt { @if verdict.action() == Action::No { "Size for a start by hand" } @else { "Next size" } }
                    dd { (sizes(next)) }
                }
                @if outlook.retried > 0 { dt { "Retried before" } dd { (outlook.retried) ", of which " (outlook.passed) " passed" } }
                @if !outlook.mend.is_empty() { dt { "What would mend it" } dd { (outlook.mend) } }
            }
            (evidence(verdict))
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

/// Memory and build jobs for a next attempt, each with its reason.
fn sizes(next: &Prediction) -> Markup {
    let kinds = [SizeKind::MemoryRequest, SizeKind::MemoryLimit, SizeKind::CpuLimit, SizeKind::BuildJobs];
    html! {
        @for (kind, quantity) in kinds.into_iter().filter_map(|kind| Some((kind, kind.of(next)?))) {
            div {
                (kind.as_str()) " " (kind.shown(quantity.value))
                span.quiet { ": " (reasons::sentence_in(next, kind, quantity)) }
            }
        }
    }
}

/// Verdicts that were replaced by a later one.
fn earlier(verdicts: &[Verdict]) -> Markup {
    let heads = ["Given", "Verdict", "Cause", "#Confidence", "Reason"];
    let row = |verdict: &Verdict| {
        let given = html! { @if verdict.given_unix_ms > 0 { (times::time(verdict.given_unix_ms)) } @else { "not known" } };
        let [answer, cause, confidence] = if is_of_success(verdict) {
            [NOTHING_TO_RETRY.to_owned(), figures::DASH.to_owned(), figures::DASH.to_owned()]
        } else {
            let known = (!verdict::is_cause_unknown(verdict)).then_some(verdict.confidence);
            [verdict::answer(verdict), words::cause(verdict.cause()).to_owned(), cell(known, percent)]
        };
        let texts =
            [answer, cause, confidence, words::sentence(&verdict.reason)].map(|text| html! { (text) });
        std::iter::once(given).chain(texts)
    };
    html! {
        @if !verdicts.is_empty() {
            h2 { "Earlier verdicts" }
            (table("Earlier verdicts", heads, verdicts.iter().map(row)))
        }
    }
}

fn phases(summary: &Summary) -> Markup {
    let heads = ["Phase", "#Began at", "#Took", "#Highest need", "#Mean cores"];
    let row = |phase: &Phase| {
        [
            phase.name.clone(),
            millis(phase.started_ms),
            millis(phase.wall_ms),
            measured::phase_need_cell(phase),
            cell(measured::cores_over(phase.cpu_usec, phase.wall_ms).filter(|cores| *cores > 0.0), cores),
        ]
        .map(|text| html! { (text) })
    };
    html! {
        @if !summary.phases.is_empty() {
            h2 { "Phases" }
            (table("Phases", heads, summary.phases.iter().map(row)))
        }
    }
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
