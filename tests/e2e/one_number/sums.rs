//! Sums over attempts in all views.

use plimsoll_proto::{
    figures, measured, sums,
    v1::{self as pb, Outcome, StatsTotals},
};
use serde_json::Value;

use super::{ATTEMPTS, Numbers, has, near, site};
use crate::recommend;

/// All numbers of one JSON object are those of another one. A count of causes has two forms, and is compared elsewhere.
fn same_numbers(one: &Value, other: &Value) {
    let numbers = one.as_object().unwrap().iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
    for (name, number) in numbers {
        let there = other[name].as_f64();
        assert!(there.is_some_and(|there| near(number, there)), "{name}: {number} {there:?}");
    }
}

fn consistent(totals: &StatsTotals) {
    let memory = totals.memory_used_of_asked_gib_hours + totals.memory_wasted_gib_hours;
    let cpu = totals.cpu_used_of_asked_core_hours + totals.cpu_wasted_core_hours;
    assert!(near(memory, totals.memory_asked_gib_hours), "{totals:?}");
    assert!(near(cpu, totals.cpu_asked_core_hours), "{totals:?}");
    assert_eq!(totals.succeeded + totals.failed + totals.lost + totals.canceled, totals.attempts);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_shows_the_same_sums() {
    let site = site().await;
    let by_package =
        pb::GetStatsRequest { group_by: pb::GroupBy::Package.into(), ..pb::GetStatsRequest::default() };
    let stats = site.stats().await.get_stats(by_package).await.unwrap().into_inner();
    let totals = stats.totals.clone().unwrap();
    assert_eq!(totals.attempts, ATTEMPTS);
    assert!(totals.memory_not_measured > 0, "the dice leave some out: {totals:?}");
    assert!(totals.cpu_not_measured > 0, "the dice leave some out: {totals:?}");
    assert!(totals.memory_not_asked > 0, "some ask for nothing, or for one byte: {totals:?}");
    assert!(totals.cpu_not_asked > 0, "some ask for nothing, or for one byte: {totals:?}");
    assert!(totals.needed_above_ask > 0, "some ask for nothing, or for one byte: {totals:?}");
    assert!(
        totals.need_over_ask_lower_bounds > 0 && totals.need_over_ask_max < 1e6,
        "some were stopped by memory, and an ask of a byte is none: {totals:?}"
    );
    bounded(&site, &stats.groups).await;
    consistent(&totals);
    stats.groups.iter().for_each(|group| consistent(group.totals.as_ref().unwrap()));
    let by_outcome =
        pb::GetStatsRequest { group_by: pb::GroupBy::Outcome.into(), ..pb::GetStatsRequest::default() };
    let by_outcome = site.stats().await.get_stats(by_outcome).await.unwrap().into_inner().groups;
    assert_eq!(by_outcome.len(), 4, "succeeded, failed, lost and canceled");
    canceled(&site, &totals).await;
    tokio::task::block_in_place(|| {
        let terminal = site.agent.json(&["stats", "--by", "package"]);
        let api = site.api("/api/stats?range=all&group_by=package");
        same_numbers(&terminal["totals"], &api["totals"]);
        for group in api["groups"].as_array().unwrap() {
            let same = |other: &&Value| other["name"] == group["name"];
            same_numbers(
                &terminal["groups"].as_array().unwrap().iter().find(same).unwrap()["totals"],
                &group["totals"],
            );
        }
        shown(&site, &totals);
        null_where_not_known(&terminal, &api);
        counted(&site, &by_outcome);
    });
}

/// A sum of lower bounds is shown as what its attempts say one by one, in the totals and in each row of the terminal.
async fn bounded(site: &Numbers, groups: &[pb::Group]) {
    let asked = pb::ListAttemptsRequest { page_size: 1000, ..pb::ListAttemptsRequest::default() };
    let attempts = site.stats().await.list_attempts(asked).await.unwrap().into_inner().attempts;
    let text = tokio::task::block_in_place(|| site.output_of(&["stats", "--by", "package"]));
    let list = tokio::task::block_in_place(|| site.output_of(&["attempts", "--limit", "1000"]));
    for group in groups {
        let totals = group.totals.as_ref().unwrap();
        let of = attempts.iter().filter(|one| one.key.as_ref().unwrap().package == group.name);
        let of: Vec<&pb::Summary> = of.collect();
        let highest = of.iter().max_by_key(|one| (measured::proven_need(one), one.censored)).unwrap();
        assert_eq!(sums::highest_need_cell(totals), measured::need_cell(highest), "{}", group.name);
        let is_lower = |one: &&&pb::Summary| one.censored && measured::need_of_ask(one).is_some();
        let lower = u64::try_from(of.iter().filter(is_lower).count()).unwrap();
        assert_eq!(totals.need_over_ask_lower_bounds, lower, "{}", group.name);
        let row = text.lines().find(|line| line.ends_with(&format!("  {}", group.name))).unwrap();
        has(row, &[sums::highest_need_cell(totals), sums::need_over_ask_cell(totals)], &group.name);
    }
    for one in &attempts {
        let row = list.lines().find(|line| line.ends_with(&format!("  {}", one.attempt))).unwrap();
        has(row, &[measured::need_cell(one), measured::need_of_ask_cell(one)], &one.attempt);
    }
}

/// What was canceled is one set of attempts: in the counts, and by both ways to ask for a list of it.
async fn canceled(site: &Numbers, totals: &StatsTotals) {
    let list = |outcome: Outcome, cause: pb::Cause| pb::ListAttemptsRequest {
        filter: Some(pb::Filter { outcome: outcome.into(), cause: cause.into(), ..pb::Filter::default() }),
        page_size: 1000,
        ..pb::ListAttemptsRequest::default()
    };
    let mut stats = site.stats().await;
    let mut listed =
        async |outcome, cause| stats.list_attempts(list(outcome, cause)).await.unwrap().into_inner().attempts;
    let canceled = listed(Outcome::Failed, pb::Cause::Canceled).await;
    let failed = listed(Outcome::Failed, pb::Cause::Unspecified).await;
    assert!(canceled.iter().all(measured::is_canceled) && !failed.iter().any(measured::is_canceled));
    let counts = [canceled.len(), failed.len()].map(|count| u64::try_from(count).unwrap());
    assert_eq!(counts, [totals.canceled, totals.failed]);
    assert!(totals.canceled > 0, "the dice cancel some");
    tokio::task::block_in_place(|| {
        let page = site.page("/attempts?range=all&outcome=canceled");
        assert!(page.contains(&canceled[0].attempt) && !page.contains(&failed[0].attempt), "{page}");
        let text = site.output_of(&["attempts", "--outcome", "canceled"]);
        assert_eq!(text.lines().filter(|line| line.contains("canceled")).count(), canceled.len(), "{text}");
    });
}

/// A sum of what was not measured is null in every JSON, with the count of attempts that are left out.
fn null_where_not_known(terminal: &Value, api: &Value) {
    for totals in [&terminal["totals"], &api["totals"]] {
        assert!(totals["memory_wasted_gib_hours"].is_f64(), "{totals}");
    }
    for (one, other) in terminal["groups"].as_array().unwrap().iter().zip(api["groups"].as_array().unwrap()) {
        let nulls = |group: &Value| {
            let fields = group["totals"].as_object().unwrap().iter().filter(|(_, value)| value.is_null());
            fields.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(nulls(one), nulls(other), "the same fields are not known");
    }
}

/// The sums in words: terminal, page.
fn shown(site: &Numbers, totals: &StatsTotals) {
    let used = figures::percent(sums::memory_used_share(totals).unwrap());
    let wasted = figures::gib_hours(totals.memory_wasted_gib_hours);
    let shared = [
        sums::highest_need_words(totals),
        sums::need_over_ask_words(totals),
        format!(
            "{} over {} h of builds",
            figures::core_hours(totals.cpu_core_hours),
            figures::amount(totals.cpu_wall_hours)
        ),
        figures::gib_hours(totals.memory_asked_gib_hours),
        used,
    ];
    let left_out = sums::left_out_words(totals).unwrap();
    let text = site.output_of(&["stats"]);
    has(&text, &shared, "terminal");
    has(&text, &[left_out.clone(), figures::amount(totals.memory_wasted_gib_hours)], "terminal");
    let page = site.page("/?range=all");
    has(&page, &shared, "page");
    has(&page, &[left_out.replacen("left", "Left", 1), wasted], "page");
}

/// The sums as counters, over the attempts whose end is known: one that was lost is counted when no more can be heard of it.
fn counted(site: &Numbers, by_outcome: &[pb::Group]) {
    let ended: Vec<&StatsTotals> = by_outcome
        .iter()
        .filter(|group| group.name != "lost")
        .filter_map(|group| group.totals.as_ref())
        .collect();
    let sum = |of: fn(&StatsTotals) -> f64| ended.iter().map(|totals| of(totals)).sum::<f64>();
    let (_, metrics) = site.server.get("/metrics").unwrap();
    let counter = |name: &str| -> f64 {
        let line =
            metrics.lines().find_map(|line| line.strip_prefix(&format!("plimsoll_fleet_{name}_total ")));
        line.expect(name).trim().parse().unwrap()
    };
    predictions(&metrics, &ended);
    let gib_hours =
        |name: &str| counter(&format!("memory_{name}_byte_seconds")) / figures::float(1 << 30) / 3600.0;
    let core_hours = |name: &str| counter(&format!("cpu_{name}_core_seconds")) / 3600.0;
    for (what, counter, reported) in [
        ("asked", gib_hours("asked"), sum(|totals| totals.memory_asked_gib_hours)),
        ("used", gib_hours("used"), sum(|totals| totals.memory_used_of_asked_gib_hours)),
        ("wasted", gib_hours("wasted"), sum(|totals| totals.memory_wasted_gib_hours)),
        ("cpu asked", core_hours("asked"), sum(|totals| totals.cpu_asked_core_hours)),
        ("cpu used", core_hours("used"), sum(|totals| totals.cpu_used_of_asked_core_hours)),
        ("cpu wasted", core_hours("wasted"), sum(|totals| totals.cpu_wasted_core_hours)),
        (
            "not measured",
            counter("memory_not_measured"),
            sum(|totals| figures::float(totals.memory_not_measured)),
        ),
        ("no CPU", counter("cpu_not_measured"), sum(|totals| figures::float(totals.cpu_not_measured))),
    ] {
        assert!(near(counter, reported), "{what}: {counter} {reported}");
    }
}

/// Whether predictions held is one notion: in the counters and in the sums.
fn predictions(metrics: &str, ended: &[&StatsTotals]) {
    let held: Vec<pb::Calibration> = ended.iter().filter_map(|totals| totals.calibration).collect();
    let sum = |of: fn(&pb::Calibration) -> u64| held.iter().map(of).sum::<u64>();
    for (name, judged, within) in [
        ("memory_limit", sum(|held| held.attempts), sum(|held| held.within_limit)),
        ("memory_request", sum(|held| held.request_attempts), sum(|held| held.within_request)),
        ("wall_p95", sum(|held| held.timed), sum(|held| held.within_wall_p95)),
    ] {
        assert!(judged > 0, "the dice give {name} to some");
        for (is_held, reported) in [(true, within), (false, judged - within)] {
            let series = format!("plimsoll_fleet_predictions_total{{of=\"{name}\",held=\"{is_held}\"}} ");
            let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
            assert_eq!(line.expect(&series).trim().parse(), Ok(reported), "{series}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_shows_the_same_confidence() {
    let site = recommend::site(&[]).await.site;
    tokio::task::block_in_place(|| {
        let asked = ["predict", "--key", "project=group/app", "--key", "package=zlib", "--key", "arch=any"];
        let predicted = site.agent.json(&asked)["confidence"].as_f64().unwrap();
        assert!(predicted > 0.9 && predicted < 1.0, "{predicted}");
        let proposed = site.agent.json(&["recommend"])["recommendations"][0].clone();
        assert_eq!(proposed["package"], "zlib");
        assert_eq!(proposed["confidence"].as_f64(), Some(predicted));
        let shown = format!("confidence {}", figures::percent(predicted));
        let page = site.server.get("/packages/zlib?range=all&project=group/app").unwrap().1.to_lowercase();
        has(&page, &[shown], "the page");
    });
}
