//! The page of one attempt, running or finished.

mod charts;
mod correction;
mod gitlab_links;
#[cfg(test)]
mod tests;

use maud::{Markup, html};
use plimsoll_proto::{
    evidence::{self, NOTHING_TO_RETRY, is_of_success, source_in_words},
    figures, measured,
    reasons::{self, SizeKind},
    v1::{Action, GetAttemptResponse, Outcome, Phase, Prediction, Summary, Verdict},
    verdict,
};

use super::{
    chart,
    figures::{bytes, cell, cores, cores_named, count, counted_as, micros, millis, percent},
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
                @for (name, address) in gitlab_links::gitlab_links(&summary) {
                    " " a href=(address) rel="noopener noreferrer" { "GitLab: " (name) }
                }
            }
            @if let Some(elsewhere) = measured::offloaded_sentence(&summary) { p { (words::sentence(&elsewhere)) } }
            @if let Some(verdict) = &shown.verdict { (judged(verdict)) }
            @if may_correct { (correction::form(shown, &view.attempt(&summary.attempt))) }
            (cards(&summary))
            (pictures(shown, &summary))
            (ending(&summary))
            (earlier(&shown.earlier_verdicts))
            (phases(&summary))
            (facts(&summary))
        };
        plain_page(&format!("Attempt {}", summary.attempt), "/attempts/", view, &body)
    }
}

fn cards(summary: &Summary) -> Markup {
    let resources = summary.resources.as_ref();
    let asked = measured::memory_asked(resources);
    let predicted = measured::predicted(summary).unwrap_or_default();
    html! {
        dl.cards {
            (card("Highest need", &measured::need_words(summary), &html! {
                @if summary.censored { "stopped for memory" }
                @else if !summary.peak_phase.is_empty() { "in phase " (summary.peak_phase) }
                @else { "mean " (figures::known(measured::mean_need(summary), bytes)) }
                @if let Some(note) = measured::need_note(summary) { "; " (note) }
            }))
            (card("Asked for", &asked.map_or_else(|| "nothing".to_owned(), |asked| bytes(asked.bytes)), &html! {
                @match asked {
                    Some(asked) if asked.is_limit => "its limit, without a request",
                    Some(_) => @match resources.and_then(|resources| resources.memory_limit_bytes) {
                        Some(limit) => { "limit " (bytes(limit)) }
                        None => "no limit",
                    },
                    None => (measured::no_ask_words(resources)),
                }
                @if let Some(share) = measured::need_of_ask_words(summary) { "; " (share) }
            }))
            @if predicted.memory_limit_bytes > 0 {
                (card("Predicted before it began", &bytes(predicted.memory_request_bytes), &html! {
                    "limit " (bytes(predicted.memory_limit_bytes))
                    @match measured::limit_sufficed(summary) {
                        Some(true) if summary.outcome() != Outcome::Running => ": enough",
                        Some(false) => { ": " strong { "too little" } }
                        _ => {}
                    }
                }))
            }
            (card("With page cache", &figures::known(measured::memory_peak(summary), bytes), &html! {
                "the kernel's high-water mark"
                @if let Some(why) = measured::need_below_mark(summary) { ". " (why) }
            }))
            (card("Took", &millis(summary.wall_ms), &html! { "began " (times::time(summary.started_unix_ms)) }))
            (card("CPU", &figures::known(measured::mean_cores(summary), cores_named), &html! {
                @if let Some(peak) = measured::peak_cores(summary) { "on average, " (cores(peak)) " at most" }
                @else if measured::mean_cores(summary).is_some() { "on average" }
                @if let Some(asked) = measured::cpu_asked(resources) {
                    @if measured::mean_cores(summary).is_some() { ", " }
                    "asked for " (cores(asked)) "; "
                } @else if measured::mean_cores(summary).is_some() && measured::cpu_usec(summary).is_some() { "; " }
                @if measured::cpu_usec(summary).is_some() { (measured::cpu_time_words(summary)) " of CPU time" }
            }))
        }
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
    let exit = summary.exit.unwrap_or_default();
    let some = |name: &str, value: Option<String>| html! { @if let Some(value) = value { dt { (name) } dd { (value) } } };
    html! {
        h2 { "Evidence" }
        div.sheet {
            dl.facts {
                (some("Exit code", exit.code.map(|code| code.to_string())))
                (some("Ended by signal", exit.signal.map(|signal| signal.to_string())))
                (some("Killed for memory", summary.oom_kill.map(|kills| match kills {
                    0 => "no process".to_owned(),
                    kills => {
                        format!("{} {}", counted_as(kills, "process", "processes"), evidence::oom_origin(summary.oom_origin()))
                    }
                })))
                (some("Whole group killed", measured::above_zero(summary.oom_group_kill).map(|n| counted_as(n, "time", "times"))))
                (some("Charges that failed", summary.reclaim_failures.map(|n| format!("{} without reclaim first", count(n)))))
                (some("Starved for", measured::above_zero(summary.starved_ms).map(millis)))
                (some("Stood still for memory", measured::above_zero(summary.memory_stall_usec).map(micros)))
                (some("Pages read again", measured::above_zero(summary.refaults).map(count)))
                (some("Held back by the CPU limit", measured::above_zero(summary.throttled_usec).map(micros)))
                dt { "Read from" } dd {
                    (words::source_words(summary.source()))
                    @if let Some(unseen) = measured::unseen_note(summary) { ". " (unseen) }
                }
            }
        }
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
            cell(measured::above_zero(Some(phase.need_peak_bytes)), bytes),
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
fn facts(summary: &Summary) -> Markup {
    let mut facts = summary.key.clone().unwrap_or_default().facts();
    if !summary.pool.is_empty() {
        facts.push(("pool".to_owned(), summary.pool.clone()));
    }
    html! {
        h2 { "What was built" }
        div.sheet {
            dl.facts {
                @for (name, value) in facts {
                    dt { @match name.strip_prefix("label ") { Some(label) => { span.quiet { "label " } (label) }, None => (words::title(&name)) } }
                    dd { (value) }
                }
                @if summary.untrusted { dt { "Trust" } dd { (measured::NOT_TRUSTED) } }
            }
        }
    }
}
