//! The page of one package: need and request over time, other numbers of build jobs, versions, and why the next
//! size is what it is.

mod charts;
mod groups;

use maud::{Markup, html};
use plimsoll_proto::{
    figures, measured, reasons, recommendations, sums,
    tables::{
        self,
        FactCell::{Number, Text, Unknown},
        table_of,
    },
    v1::{ExplainResponse, GetStatsResponse, Recommendation, Rung, StatsTotals, Summary},
};

use super::{
    attempts,
    figures::{amount, bytes, cell, count, millis, share_of},
    flow::Flow,
    overview,
    page::{card, empty_page, timed_page},
    table::{fact_table, facts, table},
    view::{ReaderChoice, TimeRange},
    words,
};

/// Most attempts in the chart; the newest ones.
pub const DRAWN_ATTEMPTS: u32 = 200;

/// Most attempts in the list; the newest ones.
const LISTED_ATTEMPTS: usize = 10;

/// Most attempts in the list of those that the prediction is based on.
const LISTED_USED_ATTEMPTS: usize = 12;

/// What the page of one package shows.
#[derive(Debug, Clone, Copy)]
pub struct PackagePage<'a> {
    /// The name of the package.
    pub name: &'a str,
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
    /// Statistics of the package, with steps over time.
    pub stats: &'a GetStatsResponse,
    /// Time that one step covers, milliseconds.
    pub step_ms: u64,
    /// Statistics of the package by version, if known.
    pub versions: Option<&'a GetStatsResponse>,
    /// The newest attempts, at most [`DRAWN_ATTEMPTS`].
    pub newest: &'a [Summary],
    /// The prediction for the newest build, if the reader may see it.
    pub explained: Option<&'a ExplainResponse>,
    /// The proposal for all builds of the package together, as on the page of savings.
    pub proposal: Option<&'a Recommendation>,
}

impl PackagePage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let Self { name, view, stats, newest, .. } = *self;
        let path = view.with(TimeRange::default()).package(name);
        let path = path.split('?').next().unwrap_or_default();
        let totals = stats.totals.clone().unwrap_or_default();
        let flow = Flow { view, steps: &stats.steps, step_ms: self.step_ms };
        let body = html! {
            p.quiet { "Package" }
            h1 { (name) }
            @if totals.attempts == 0 {
                (empty_page(view, path, &[]))
            } @else {
                (number_cards(&totals))
                div.two {
                    (charts::need_chart(newest, view).figure())
                    @if stats.steps.len() > 1 { (flow.memory().figure()) (flow.failures().figure()) }
                }
            }
            @if let Some(explained) = self.explained {
                (next(explained, newest.first()))
                (for_all_builds(self.proposal, view))
                (groups::show(&explained.prediction.clone().unwrap_or_default()))
                (jobs_section(explained, view))
            }
            @if let Some(versions) = self.versions { (by_version(versions, view)) }
            (overview::shifted_needs(&stats.regressions, view))
            @if !newest.is_empty() {
                h2 { "Newest attempts" }
                (attempts::table(newest.get(..LISTED_ATTEMPTS).unwrap_or(newest), view, "Newest attempts"))
                p { a href=(view.link("/attempts", &[("package", name)])) { "All attempts of this package" } }
            }
            @if let Some(explained) = self.explained { (used_attempts(explained, view)) }
        };
        timed_page(name, path, view, &[], &body)
    }
}

fn number_cards(totals: &StatsTotals) -> Markup {
    html! {
        dl.cards {
            (card("Attempts ended", &count(totals.attempts), &html! { (figures::counted_as(totals.retries, "of them a retry", "of them retries")) }))
            (card("Failed", &share_of(totals.failed, totals.attempts), &html! {
                (count(totals.failed)) ", of which " (count(totals.oom + totals.starved)) " for memory"
            }))
            (card("Memory wasted", &figures::known(sums::memory_wasted_hours(totals), figures::gib_hours), &html! { (sums::memory_wasted_words(totals)) }))
            (card("Highest need", &sums::highest_need_words(totals), &html! {
                "need over ask: " (sums::need_over_ask_words(totals))
            }))
            (card("CPU used", &figures::known(sums::cpu_time(totals), figures::core_hours), &html! {
                (sums::cpu_over_words(totals).trim_start())
            }))
        }
        (overview::left_out_note(totals))
    }
}

/// The sizes for the next attempt of the newest build, and the reasons for them.
fn next(explained: &ExplainResponse, newest: Option<&Summary>) -> Markup {
    let prediction = explained.prediction.clone().unwrap_or_default();
    let reasons::ExplainedPrediction { sizes, based_on } = reasons::explained(&prediction);
    html! {
        h2 { "Next size of one build" }
        p.why {
            "For the next attempt of " (build_words(newest)) ". "
            (sizes_reason(explained, newest)) " Confidence in these sizes " (reasons::confidence(&prediction)) "."
            @if !based_on.is_empty() { " Based on " (based_on) "." }
            @if let Some(jobs) = reasons::more_jobs_than_cores_note(&prediction) { " " (jobs) "." }
        }
        (table("Next size of one build", ["Size", "#Value", "¶Because of"], sizes.into_iter().map(|size| {
            [words::title(size.kind.as_str()), size.kind.shown(size.value), size.why].map(|text| html! { (text) })
        })))
    }
}

/// Describes the build that the next size is for.
fn build_words(newest: Option<&Summary>) -> String {
    let Some(newest) = newest else { return "a build of which only the package is known".to_owned() };
    let key = newest.key.clone().unwrap_or_default();
    let parts = [key.version, key.variants, key.compiler, key.compiler_version, key.arch, key.r#ref];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        "the newest build".to_owned()
    } else {
        format!("the newest build ({})", parts.join(", "))
    }
}

/// The proposed size for all builds of the package together. It differs from the size above, because versions
/// and variants differ.
fn for_all_builds(proposal: Option<&Recommendation>, view: &ReaderChoice) -> Markup {
    let Some(proposal) = proposal else { return Markup::default() };
    let [request, limit] =
        [recommendations::memory_request(proposal), recommendations::memory_limit(proposal)];
    let Some(size) = request.proposed else { return Markup::default() };
    html! {
        p.why {
            "One size for all of its builds, as " a href=(view.link("/savings", &[])) { "Savings" } " proposes it: request " strong { (bytes(size)) }
            @match (limit.proposed, limit.today) {
                (Some(limit), _) => { ", limit " strong { (bytes(limit)) } },
                (None, Some(today)) => { ", limit " strong { (bytes(today)) } " as today" },
                (None, None) => {},
            }
            ". It is the largest of its newest builds, so it can be more than the size above."
        }
    }
}

/// The reason for the sizes. If no attempt shows the need, the text says why: the page lists attempts, so
/// "nothing is known" would seem wrong.
fn sizes_reason(explained: &ExplainResponse, newest: Option<&Summary>) -> String {
    let prediction = explained.prediction.clone().unwrap_or_default();
    let basis = prediction.memory_request_bytes.and_then(|request| request.basis).unwrap_or_default();
    let is_default = basis.rung() == Rung::Default && basis.attempts == 0;
    if newest.is_none() || !is_default || !explained.attempts.is_empty() {
        return words::sentence(&prediction.reason);
    }
    "None of its attempts says what it needs: only those do that succeeded with a measured need, or that memory stopped. So this is the \
     configured default."
        .to_owned()
}

fn jobs_section(explained: &ExplainResponse, view: &ReaderChoice) -> Markup {
    let Some(curve) = &explained.jobs else { return Markup::default() };
    html! {
        h2 { "At other numbers of build jobs" }
        @if measured::is_curve(curve) { (charts::jobs_chart(curve, view).figure()) } @else {
            p.why { (words::sentence(&curve.reason)) }
            @if !curve.points.is_empty() {
                (fact_table("Build jobs that were tried", &tables::jobs_curve(curve), usize::MAX, view))
            }
        }
    }
}

fn by_version(versions: &GetStatsResponse, view: &ReaderChoice) -> Markup {
    let mut groups: Vec<_> = sums::named_groups(&versions.groups)
        .filter_map(|group| Some((&group.name, group.totals.as_ref()?)))
        .collect();
    groups.sort_by(|a, b| b.0.cmp(a.0));
    let columns = ["version", "attempts", "failed", "highest need", "wasted GiB·h", "mean time"];
    let more = groups.len() > 1;
    let table = table_of(columns, groups.into_iter().filter(|_| more), |(name, totals)| {
        [
            if name.is_empty() { Unknown } else { Text(name.clone()) },
            Number(count(totals.attempts)),
            Number(share_of(totals.failed, totals.attempts)),
            Number(sums::highest_need_cell(totals)),
            Number(cell(sums::memory_wasted_hours(totals), amount)),
            Number(millis(figures::to_whole(sums::mean_wall_ms(totals).unwrap_or(0.0)))),
        ]
    });
    facts("Versions", &Markup::default(), &table, 50, view)
}

/// Whether the memory size is the configured default, because no attempt determines it.
fn is_default(explained: &ExplainResponse) -> bool {
    let request =
        explained.prediction.as_ref().and_then(|prediction| prediction.memory_request_bytes.as_ref());
    request.and_then(|request| request.basis.as_ref()).is_some_and(|basis| basis.rung() == Rung::Default)
}

/// A table of the attempts that the prediction is based on.
fn used_attempts(explained: &ExplainResponse, view: &ReaderChoice) -> Markup {
    html! {
        @if !explained.attempts.is_empty() {
            h2 { "What the prediction learnt from" }
            p.why {
                "The heaviest " (explained.attempts.len().min(LISTED_USED_ATTEMPTS)) " attempts "
                @if is_default(explained) { "that are known. They say too little about this build, so its memory is the default." } @else { "behind the numbers above." }
            }
            (fact_table("What the prediction learnt from", &tables::used_attempts(&explained.attempts, LISTED_USED_ATTEMPTS), usize::MAX, view))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1 as pb;

    use super::*;

    #[test]
    fn a_package_with_attempts_is_not_called_unknown() {
        let reason = "nothing is known about x@1 yet, so this is the configured default".to_owned();
        let basis = Some(pb::Basis { rung: Rung::Default.into(), ..pb::Basis::default() });
        let request = Some(pb::Quantity { basis, ..pb::Quantity::default() });
        let prediction =
            Some(pb::Prediction { reason, memory_request_bytes: request, ..pb::Prediction::default() });
        let explained = ExplainResponse { prediction, ..ExplainResponse::default() };
        assert!(sizes_reason(&explained, None).starts_with("Nothing is known about x@1 yet"));
        let listed = sizes_reason(&explained, Some(&Summary::default()));
        assert!(listed.starts_with("None of its attempts says what it needs"), "{listed}");
    }

    #[test]
    fn both_package_sizes_name_their_question() {
        let sizes = |gib: f64| pb::RequestedSizes {
            memory_request_bytes: Some(figures::to_whole(gib * 1024.0) << 20),
            ..pb::RequestedSizes::default()
        };
        let proposal = Recommendation {
            today: Some(pb::RequestedSizes { memory_limit_bytes: Some(16 << 30), ..sizes(10.0) }),
            proposed: Some(sizes(8.35)),
            ..Recommendation::default()
        };
        let all = for_all_builds(Some(&proposal), &ReaderChoice::default()).into_string();
        assert!(all.contains("One size for all of its builds") && all.contains("8.35 GiB"), "{all}");
        assert!(all.contains("limit <strong>16.00 GiB</strong> as today"), "{all}");
        let key = pb::Key { version: "1.3".into(), variants: "+shared".into(), ..pb::Key::default() };
        let newest = Summary { key: Some(key), ..Summary::default() };
        let one = next(&ExplainResponse::default(), Some(&newest)).into_string();
        assert!(one.contains("For the next attempt of the newest build (1.3, +shared)."), "{one}");
        let none = Recommendation { proposed: None, ..proposal };
        assert_eq!(for_all_builds(Some(&none), &ReaderChoice::default()).into_string(), "");
    }

    #[test]
    fn page_reasons_equal_those_of_the_terminal() {
        for (kind, quantity) in reasons::examples() {
            let prediction = Some(reasons::prediction_of(kind, &quantity));
            let page =
                next(&ExplainResponse { prediction, ..ExplainResponse::default() }, None).into_string();
            let sentence = reasons::sentence(kind, &quantity);
            assert!(
                page.contains(&format!("data-name=\"Because of\">{sentence}</td>")),
                "{sentence:?} in {page}"
            );
        }
    }
}
