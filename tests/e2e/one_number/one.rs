//! One attempt in all views.

use std::collections::BTreeSet;

use plimsoll_proto::{
    facts::{self, Line},
    figures, measured, series,
    v1::{self as pb, Outcome},
};

use super::{ATTEMPTS, Numbers, attempts, has, site, site_of};

#[tokio::test(flavor = "multi_thread")]
async fn every_view_shows_the_same_attempt() {
    let site = site().await;
    let mut stats = site.stats().await;
    let mut met = BTreeSet::new();
    for number in 0..ATTEMPTS {
        let id = attempts::id(number);
        let asked = pb::GetAttemptRequest { attempt: id.clone(), with_series: true, max_samples: 0 };
        let shown = stats.get_attempt(asked).await.unwrap().into_inner();
        let summary = shown.summary.clone().unwrap();
        agrees(&summary, &shown.series);
        tokio::task::block_in_place(|| seen(&site, &id, &summary, &shown.series));
        met.extend(sorts(&summary, &shown.series));
    }
    assert_eq!(met, BTreeSet::from(SORTS), "the dice leave a sort of attempt out");
}

/// Sorts of attempts in which views once differed.
const SORTS: [&str; 5] =
    ["below a second", "below a millisecond of CPU", "of one sample", "stopped by memory", "above its ask"];

/// To which of [`SORTS`] an attempt belongs.
fn sorts(summary: &pb::Summary, series: &[pb::Sample]) -> impl Iterator<Item = &'static str> {
    let belongs = [
        summary.wall_ms < 1000,
        measured::cpu_usec(summary).is_some_and(|usec| usec < 1000),
        series.len() == 1,
        summary.censored,
        measured::need_of_ask(summary).is_some_and(|share| share > 1.0),
    ];
    SORTS.into_iter().zip(belongs).filter(|(_, belongs)| *belongs).map(|(sort, _)| sort)
}

/// The curves say of the samples and of the highest use what the numbers beside them say.
fn curve(text: &str, page: &str, summary: &pb::Summary, series: &[pb::Sample]) {
    let id = &summary.attempt;
    has(text, &[format!("samples     {}", figures::count(summary.samples))], id);
    match measured::no_curve_reason(summary, series.len(), summary.samples) {
        Some(words) => has(page, &[words], id),
        None => has(page, &[figures::counted(summary.samples, "sample")], id),
    }
    if let (Some(peak), false) = (measured::peak_cores(summary), series.is_empty()) {
        has(text, &[format!("full height: {}", figures::cores_named(peak))], id);
    }
}

/// The numbers of one attempt agree with each other.
fn agrees(summary: &pb::Summary, rows: &[pb::Sample]) {
    let (mean, peak) = (measured::mean_cores(summary), measured::peak_cores(summary));
    assert!(peak.is_none_or(|peak| Some(peak) >= mean), "{summary:?}");
    let (need, memory) = (measured::need(summary), measured::memory_peak(summary));
    assert!(memory.is_none_or(|mark| Some(mark) >= need), "{summary:?}");
    assert!(measured::mean_need(summary) <= need, "{summary:?}");
    let points = series::points(rows, summary);
    let highest = points.iter().map(|point| point.need).max();
    let reached = highest.filter(|need| *need > 0) == measured::proven_need(summary);
    assert!(rows.is_empty() || reached, "the curve reaches the need: {summary:?}");
    assert!(points.iter().all(|point| point.memory >= point.need), "{summary:?}");
    let most = points.iter().map(|point| point.cores).fold(0.0, f64::max);
    assert!(peak.is_none_or(|peak| most <= peak + 1e-9), "{most} {summary:?}");
    let share = measured::need_of_ask(summary);
    assert!(share.is_none_or(|share| share < 1e6), "an ask of a byte is none: {summary:?}");
    let failed = summary.outcome() == Outcome::Failed;
    assert!(!summary.censored || failed, "{summary:?}");
}

/// One attempt on the terminal, on its page, and in two forms of JSON.
fn seen(site: &Numbers, id: &str, summary: &pb::Summary, series: &[pb::Sample]) {
    let text = site.output_of(&["show", id]);
    let page = site.page(&format!("/attempts/{id}"));
    curve(&text, &page, summary, series);
    let parts = [
        measured::need_words(summary),
        figures::millis(summary.wall_ms),
        figures::known(measured::cpu_usec(summary), figures::micros),
    ];
    let sentences = facts::sentences(summary, &Line::ALL).into_iter().map(|(_, sentence)| sentence);
    has(&text, &sentences.chain(parts.clone()).collect::<Vec<_>>(), id);
    for (fact, value) in facts::listed(summary, &Line::ALL) {
        // a card has the first part of its value in large letters; a note is a sentence of its own
        let parts = value.trim_end_matches('.').split(", ").flat_map(|part| part.split(": "));
        let shown: Vec<String> = parts.map(str::to_owned).collect();
        has(&page, &shown, &format!("{id} {}", fact.name));
    }
    has(&page, &parts, id);
    let terminal = site.agent.json(&["show", id]);
    let api = site.api(&format!("/api/attempts/{id}"));
    for name in
        ["need_peak_bytes", "need_mean_bytes", "memory_peak_bytes", "cpu_usec", "cpu_peak_cores", "wall_ms"]
    {
        assert_eq!(terminal["summary"][name], api["summary"][name], "{id} {name}");
    }
    assert_eq!(api["summary"]["need_mean_bytes"].is_null(), measured::mean_need(summary).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_report_matches_the_later_view() {
    let site = site_of(0).await;
    for (number, command) in
        ["true", "exit 1", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"].iter().enumerate()
    {
        let id = format!("real-{number}");
        let words =
            ["run", "--attempt", &id, "--key", "package=real", "--report", "text", "--", "sh", "-c", command];
        let output_of = tokio::task::block_in_place(|| site.agent.call(&words)).stderr;
        let asked = pb::GetAttemptRequest { attempt: id.clone(), with_series: true, max_samples: 0 };
        let shown = site.stats().await.get_attempt(asked).await.unwrap().into_inner();
        let summary = shown.summary.unwrap();
        let parts = [
            format!(" {};", figures::millis(summary.wall_ms)),
            format!("cpu       {}", figures::known(measured::cpu_usec(&summary), figures::micros)),
            format!("needed {}", measured::need_words(&summary)),
            measured::memory_peak(&summary).map(figures::bytes).unwrap_or_default(),
        ];
        has(&output_of, &parts, &id);
        tokio::task::block_in_place(|| seen(&site, &id, &summary, &shown.series));
    }
}
