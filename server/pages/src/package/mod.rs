//! The page of one package: need and request over time, other numbers of build jobs, versions, and why the next
//! size is what it is.

mod charts;

use maud::{Markup, html};
use plimsoll_proto::{
    facts::Line,
    measured, reasons, recommendations, sums, tables,
    v1::{ExplainResponse, GetStatsResponse, Prediction, Recommendation, Rung, Summary},
};

use super::{
    figures::bytes,
    flow::Flow,
    overview,
    page::{empty_page, timed_page},
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

/// Most versions in their table.
const LISTED_VERSIONS: usize = 50;

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
        let flow = Flow { view, steps: &stats.steps, step_ms: self.step_ms };
        let [(heading, why, moved), ..] = tables::findings(stats);
        let of = |outcome| view.link("/attempts", &[("package", name), ("outcome", outcome)]);
        let links = [("attempts ended", "All attempts", of("")), ("failed", "Failed attempts", of("FAILED"))];
        let body = html! {
            p.quiet { "Package" }
            h1 { (name) }
            @if stats.totals.as_ref().is_none_or(|totals| totals.attempts == 0) {
                (empty_page(view, path, &[]))
            } @else {
                dl.cards { (overview::number_cards(stats, &[Line::Attempts, Line::Failures, Line::Retries, Line::Memory, Line::Cpu], &links)) }
                (overview::left_out_note(stats))
                div.two {
                    (charts::need_chart(newest, view).figure())
                    @if stats.steps.len() > 1 { (flow.memory().figure()) (flow.failures().figure()) }
                }
            }
            @if let Some(explained) = self.explained {
                (next(explained, newest.first()))
                (for_all_builds(self.proposal, view))
                (part_effects(&explained.prediction.clone().unwrap_or_default(), view))
                (jobs_section(explained, view))
            }
            @if let Some(versions) = self.versions { (by_version(versions, view)) }
            (overview::findings(heading, why, &moved, view))
            @if !newest.is_empty() {
                h2 { "Newest attempts" }
                (fact_table("Newest attempts", &tables::attempts(newest), LISTED_ATTEMPTS, view))
                p { a href=(view.link("/attempts", &[("package", name)])) { "All attempts of this package" } }
            }
            @if let Some(explained) = self.explained { (used_attempts(explained, view)) }
        };
        timed_page(name, path, view, &[], &body)
    }
}

/// The sizes for the next attempt of the newest build, and the reasons for them.
fn next(explained: &ExplainResponse, newest: Option<&Summary>) -> Markup {
    let prediction = explained.prediction.clone().unwrap_or_default();
    let unused = unused_attempts(explained, newest);
    // the page lists attempts, so "nothing is known" would seem wrong
    let reason = if unused.is_empty() { prediction.reason.clone() } else { String::new() };
    html! {
        h2 { "Next size of one build" }
        p.why { "For the next attempt of " (build_words(newest)) ". " (unused) }
        (sizes("Next size of one build", &Prediction { reason, ..prediction }))
    }
}

/// The rows of a prediction.
pub(super) fn sizes(name: &str, prediction: &Prediction) -> Markup {
    // what all sizes are based on is a sentence, and no value of one size
    let is_note = |(name, ..): &(&str, _, _)| ["", "based on", "confidence"].contains(name);
    let (notes, rows): (Vec<_>, Vec<_>) = reasons::rows(prediction).into_iter().partition(is_note);
    html! {
        (table(name, ["Size", "#Value", "¶Because of"], rows.into_iter().map(|(name, value, why)| {
            [words::title(name), value, why].map(|text| html! { (text) })
        })))
        @for (name, note, _) in notes { p.quiet { (words::sentence(&format!("{name} {note}"))) } }
    }
}

/// What parts of the key add to the need.
fn part_effects(prediction: &Prediction, view: &ReaderChoice) -> Markup {
    let why = html! { "Compared with other values, in attempts of this package." };
    facts("What parts of the build add", &why, &tables::part_effects(prediction), usize::MAX, view)
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

/// Why the sizes are the default although attempts are known; empty if they are not.
fn unused_attempts(explained: &ExplainResponse, newest: Option<&Summary>) -> &'static str {
    let request =
        explained.prediction.as_ref().and_then(|prediction| prediction.memory_request_bytes.as_ref());
    let basis = request.and_then(|request| request.basis.clone()).unwrap_or_default();
    let is_default = basis.rung() == Rung::Default && basis.attempts == 0;
    if newest.is_none() || !is_default || !explained.attempts.is_empty() {
        return "";
    }
    "None of its attempts says what it needs: only those do that succeeded with a measured need, or that memory stopped. So this is the \
     configured default."
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
    let mut groups: Vec<_> = sums::named_groups(&versions.groups).collect();
    groups.sort_by(|a, b| b.name.cmp(&a.name));
    if groups.len() < 2 {
        return Markup::default();
    }
    let headings = ["attempts", "failed", "highest need", "wasted GiB·h", "mean time"];
    let table = tables::groups("version", groups, &headings);
    facts("Versions", &Markup::default(), &table, LISTED_VERSIONS, view)
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
    use plimsoll_proto::{figures, v1 as pb};

    use super::*;

    #[test]
    fn a_package_with_attempts_is_not_called_unknown() {
        let reason = "nothing is known about x@1 yet, so this is the configured default".to_owned();
        let basis = Some(pb::Basis { rung: Rung::Default.into(), ..pb::Basis::default() });
        let request = Some(pb::Quantity { basis, ..pb::Quantity::default() });
        let prediction = Some(Prediction { reason, memory_request_bytes: request, ..Prediction::default() });
        let explained = ExplainResponse { prediction, ..ExplainResponse::default() };
        let shown = |newest| next(&explained, newest).into_string();
        assert!(shown(None).contains("Nothing is known about x@1 yet"), "{}", shown(None));
        let listed = shown(Some(&Summary::default()));
        assert!(listed.contains("None of its attempts says") && !listed.contains("about x@1"), "{listed}");
    }

    #[test]
    fn sizes_have_reasons_and_parts_effects() {
        let of = |bound: &str| {
            let basis = Some(pb::Basis { bound: bound.into(), ..pb::Basis::default() });
            let request = Some(pb::Quantity { value: 1 << 30, basis });
            sizes("", &Prediction { memory_request_bytes: request, ..Prediction::default() }).into_string()
        };
        let effect = pb::PartEffect { part: "+<b>".into(), needs_more: true, change_bytes: 3 << 30 };
        let with_parts = Prediction { parts: vec![effect], ..Prediction::default() };
        let with_parts = part_effects(&with_parts, &ReaderChoice::default()).into_string();
        for (text, parts) in [
            (of("asked for"), ["Because of\">named in the key</td>", ">Based on 0 attempts.<"]),
            (of("size of the last attempt"), ["Because of\">same as the last attempt</td>", "1.00 GiB"]),
            (with_parts, ["+&lt;b&gt;<", "3.00 GiB more<"]),
        ] {
            assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
            assert_eq!(text.contains("Based on"), text.contains("named in the key"), "{text}");
        }
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
}
