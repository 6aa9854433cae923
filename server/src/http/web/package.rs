//! One package: need against ask over time, other `-j`, versions, and why the next size is what it is.

mod charts;
mod groups;

use axum::{extract::Path, http::Uri};
use maud::{Markup, html};
use plimsoll_proto::{
    figures::{self, NOT_KNOWN},
    measured,
    reasons::{self, SizeKind},
    sums,
    v1::{
        self as pb, ExplainResponse, Filter, GetStatsResponse, GroupBy, ListAttemptsRequest, PredictRequest,
        StatsTotals, Summary,
    },
};

use super::{
    super::Parts,
    asking::Asking,
    attempts,
    flow::{self, Flow},
    numbers::{amount, bytes, count, millis, of_asked, percent, share_of, some_bytes},
    overview,
    page::{Page, card, empty, page},
    trouble::Trouble,
    view::View,
    words,
};
use crate::grpc::Refused;

/// Newest attempts that are drawn.
const DRAWN: u32 = 200;

/// Newest attempts that are listed.
const LISTED: usize = 10;

/// Attempts behind a prediction that are listed.
const USED: usize = 12;

pub(super) async fn show(Asking(parts): Asking, Path(name): Path<String>, uri: Uri) -> Result<Page, Trouble> {
    let (_query, view) = flow::asked(&uri)?;
    let filter = Filter { package: name.clone(), ..view.filter() };
    let (stats, step_ms) = flow::stats(&parts, &view, filter.clone(), GroupBy::Unspecified).await?;
    let versions = flow::stats(&parts, &view, filter.clone(), GroupBy::Version).await;
    let newest = newest(&parts, filter).await?;
    let explained = match explained(&parts, &name, &newest).await {
        // who reads only sees what was, not what is told next
        Err(Refused::Forbidden { .. }) => None,
        answer => Some(answer?),
    };
    let path = view.with(super::view::Range::default()).package(&name);
    let path = path.split('?').next().unwrap_or_default();
    let totals = stats.totals.clone().unwrap_or_default();
    let flow = Flow { view: &view, steps: &stats.steps, step_ms };
    let body = html! {
        p.quiet { "Package" }
        h1 { (name) }
        @if totals.attempts == 0 {
            (empty(&view, path, &[]))
        } @else {
            (cards(&totals))
            (charts::need(&newest, &view).figure())
            @if stats.steps.len() > 1 { div.two { (flow.memory().half()) (flow.failures().half()) } }
        }
        @if let Some(explained) = &explained {
            (next(explained, newest.first()))
            (groups::show(&explained.prediction.clone().unwrap_or_default()))
            (jobs(explained))
        }
        @if let Ok((versions, _)) = &versions { (by_version(versions)) }
        (overview::moved(&stats.regressions, &view))
        @if !newest.is_empty() {
            h2 { "Newest attempts" }
            (attempts::table(newest.get(..LISTED).unwrap_or(&newest), &view, "Newest attempts"))
            p { a href=(view.link("/attempts", &[("package", &name)])) { "All attempts of this package" } }
        }
        @if let Some(explained) = &explained { (behind(explained, &view)) }
    };
    Ok(page(&name, path, &view, &[], &body))
}

async fn newest(parts: &Parts, filter: Filter) -> Result<Vec<Summary>, Refused> {
    let asked =
        ListAttemptsRequest { filter: Some(filter), page_size: DRAWN, ..ListAttemptsRequest::default() };
    Ok(parts.inside.list_attempts(asked).await?.attempts)
}

/// The prediction for the key of the newest attempt; without one, for the name alone.
pub(super) async fn explained(
    parts: &Parts,
    name: &str,
    newest: &[Summary],
) -> Result<ExplainResponse, Refused> {
    let key = newest.first().and_then(|summary| summary.key.clone());
    let key = key.unwrap_or_else(|| pb::Key { package: name.to_owned(), ..pb::Key::default() });
    parts.inside.explain(PredictRequest { key: Some(key), memory_limit_bytes: None }).await
}

fn cards(totals: &StatsTotals) -> Markup {
    html! {
        dl.cards {
            (card("Attempts ended", &count(totals.attempts), &html! { (figures::counted_as(totals.retries, "of them a retry", "of them retries")) }))
            (card("Failed", &share_of(totals.failed, totals.attempts), &html! {
                (count(totals.failed)) ", of which " (count(totals.oom + totals.starved)) " for memory"
            }))
            (card("Memory wasted", &sums::memory_wasted(totals).map_or_else(|| NOT_KNOWN.to_owned(), |_| figures::gib_hours(totals.memory_wasted_gib_hours)), &html! {
                @match sums::memory_wasted(totals) {
                    Some(share) => { (percent(share)) " of what was asked for" }
                    None => "no attempt told both what it asked for and what it needed",
                }
            }))
            (card("Highest need", &figures::known_bytes(sums::highest_need(totals)), &html! {
                "need over ask: " (sums::need_over_ask_words(totals))
            }))
            (card("CPU used", &sums::cpu_time_words(totals), &html! {
                "over " (amount(totals.wall_hours)) " h of builds"
            }))
        }
        (overview::left_out(totals))
    }
}

/// What the next attempt is told, and why.
fn next(explained: &ExplainResponse, newest: Option<&Summary>) -> Markup {
    let prediction = explained.prediction.clone().unwrap_or_default();
    let key = newest.and_then(|summary| summary.key.clone()).unwrap_or_default();
    let of = [key.version.as_str(), key.compiler.as_str(), key.compiler_version.as_str(), key.arch.as_str()];
    let of: Vec<&str> = of.into_iter().filter(|part| !part.is_empty()).collect();
    let rows = SizeKind::ALL.into_iter().filter_map(|kind| Some((kind, kind.of(&prediction)?)));
    html! {
        h2 { "What the next attempt is told" }
        p.why {
            (words::sentence(&prediction.reason)) " Confidence " (percent(prediction.confidence)) "."
            @if !of.is_empty() { " Asked for the newest build: " (of.join(", ")) "." }
        }
        div.scroll tabindex="0" role="region" aria-label="What the next attempt is told" {
            table {
                thead { tr { th scope="col" { "Size" } th.n scope="col" { "Value" } th scope="col" { "Because of" } } }
                tbody {
                    @for (kind, quantity) in rows {
                        tr { th scope="row" { (words::title(kind.name())) } td.n { (kind.shown(quantity.value)) } td.text { (reasons::sentence(kind, quantity)) } }
                    }
                }
            }
        }
    }
}

fn jobs(explained: &ExplainResponse) -> Markup {
    let Some(curve) = &explained.jobs else { return Markup::default() };
    html! {
        h2 { "At other numbers of build jobs" }
        @if measured::is_curve(curve) { (charts::jobs(curve).figure()) } @else {
            p.why { (words::sentence(&curve.reason)) }
            @if !curve.points.is_empty() {
                div.scroll tabindex="0" role="region" aria-label="Build jobs that were tried" { (charts::jobs_table(curve)) }
            }
        }
    }
}

fn by_version(versions: &GetStatsResponse) -> Markup {
    let mut groups: Vec<_> = flow::told(&versions.groups)
        .filter_map(|group| Some((&group.name, group.totals.as_ref()?)))
        .collect();
    groups.sort_by(|a, b| b.0.cmp(a.0));
    html! {
        @if groups.len() > 1 {
            h2 { "Versions" }
            div.scroll tabindex="0" role="region" aria-label="Versions" {
                table {
                    thead { tr {
                        th scope="col" { "Version" } th.n scope="col" { "Attempts" } th.n scope="col" { "Failed" } th.n scope="col" { "Highest need" }
                        th.n scope="col" { "Wasted GiB·h" } th.n scope="col" { "Mean time" }
                    } }
                    tbody { @for (name, totals) in groups.into_iter().take(50) {
                        tr {
                            th scope="row" { @if name.is_empty() { span.quiet { "not known" } } @else { (name) } }
                            td.n { (count(totals.attempts)) }
                            td.n { (share_of(totals.failed, totals.attempts)) }
                            td.n { (some_bytes(sums::highest_need(totals))) }
                            td.n { (of_asked(totals.memory_wasted_gib_hours, totals.memory_asked_gib_hours)) }
                            td.n { (millis(mean_ms(totals))) }
                        }
                    } }
                }
            }
        }
    }
}

fn mean_ms(totals: &StatsTotals) -> u64 {
    crate::domain::Millis::from_f64(sums::mean_wall_ms(totals).unwrap_or(0.0)).0
}

/// The attempts that the prediction learnt from.
fn behind(explained: &ExplainResponse, view: &View) -> Markup {
    html! {
        @if !explained.attempts.is_empty() {
            h2 { "What the prediction learnt from" }
            p.why { "The heaviest " (explained.attempts.len().min(USED)) " attempts behind the numbers above." }
            div.scroll tabindex="0" role="region" aria-label="What the prediction learnt from" {
                table {
                    thead { tr {
                        th scope="col" { "Attempt" } th scope="col" { "Attempt of" } th.n scope="col" { "Weight" } th.n scope="col" { "Need" }
                        th.n scope="col" { "Counted as" } th.n scope="col" { "-j" } th.n scope="col" { "Took" }
                    } }
                    tbody { @for used in explained.attempts.iter().take(USED) {
                        tr {
                            th scope="row" { a.id href=(view.attempt(&used.attempt)) { (used.attempt) } }
                            td { (reasons::scope(used.rung())) }
                            td.n { (percent(used.weight)) }
                            td.n { @if used.censored { "> " } (bytes(used.measured_bytes)) }
                            td.n { (bytes(used.need_bytes)) }
                            td.n { @match used.build_jobs { Some(jobs) => (jobs), None => "–" } }
                            td.n { (millis(used.wall_ms)) }
                        }
                    } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_the_sentence_that_the_terminal_and_the_report_say() {
        for (kind, quantity) in reasons::examples() {
            let prediction = Some(reasons::prediction_of(kind, &quantity));
            let page =
                next(&ExplainResponse { prediction, ..ExplainResponse::default() }, None).into_string();
            let said = reasons::sentence(kind, &quantity);
            assert!(page.contains(&format!("<td class=\"text\">{said}</td>")), "{said:?} in {page}");
        }
    }
}
