//! Proposals over histories whose numbers are worked out by hand.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    domain::{History, MeasurementSource, Outcome, Quantity, Rung, Summary, test_summary},
    stats::{self, Filter, PoolPrices, Price, Stats, WorkloadQuestion, Workloads},
};

const GIB: u64 = 1 << 30;
const HOUR: Millis = Millis(3_600_000);
/// Ten days, so that a month is three times what was counted.
const TERMS: ProposalTerms =
    ProposalTerms { least_confidence: 0.1, window: Millis(10 * DAY.0), build_jobs: Vec::new() };

/// An hour that asked for 8 GiB and needed `need` GiB.
fn hour(need: u64) -> WorkloadAttempt {
    WorkloadAttempt {
        asked: Some(Bytes(8 * GIB)),
        wall: HOUR,
        price: 0.01,
        need: Some(Bytes(need * GIB)),
        source: NeedSource::Measured,
        untrusted: false,
        failed_for_memory: false,
    }
}

fn workload(attempts: Vec<WorkloadAttempt>) -> Workload {
    let builds = vec![Key { package: "zlib".into(), ..Key::default() }];
    Workload { project: "p".into(), package: "zlib".into(), attempts, builds, newest: Vec::new() }
}

/// A prediction of these sizes, in GiB, and of 1.5 cores.
fn predicted(request: u64, limit: u64, confidence: f64) -> Prediction {
    let known = |value, of: &Quantity| {
        let basis = crate::domain::Basis { rung: Rung::Exact, confidence: None, ..of.basis.clone() };
        Quantity { value, basis }
    };
    let nothing = predict::defaults(&Key::default(), &predict::Settings::default());
    Prediction {
        memory_request: known(request * GIB, &nothing.memory_request),
        memory_limit: known(limit * GIB, &nothing.memory_limit),
        cpu_request: known(1500, &nothing.cpu_request),
        confidence,
        ..nothing
    }
}

fn proposal(attempts: Vec<WorkloadAttempt>, today: &[Sizes]) -> Recommendation {
    propose(workload(attempts), |_| predicted(2, 4, 0.6), &TERMS).with_today(today)
}

fn today(request: u64, limit: u64) -> Sizes {
    let size = |gib: u64| Some(Bytes(gib * GIB)).filter(|size| size.0 > 0);
    Sizes { memory_request: size(request), memory_limit: size(limit), cpu_request: Some(Cores(4.0)) }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9 * b.abs().max(1.0)
}

#[test]
fn savings_are_requested_minus_proposed_per_month() {
    // 10 hours of 8 GiB in ten days; one more asked for nothing
    let mut attempts: Vec<WorkloadAttempt> = (0..10).map(|_| hour(1)).collect();
    attempts.push(WorkloadAttempt { asked: None, ..hour(3) });
    let row = proposal(attempts, &[today(8, 16), today(8, 16), today(6, 16)]);
    assert_eq!(row.today, today(8, 16));
    let sizes = row.proposed.unwrap();
    assert_eq!(sizes, Sizes { cpu_request: Some(Cores(1.5)), ..today(2, 4) });
    // 10 x 8 x 3 and 10 x (8 - 2) x 3, at 0.01
    assert!(close(row.asked_gib_hours, 240.0) && close(row.saved_gib_hours, 180.0), "{row:?}");
    assert!(close(row.saved_money, 1.8), "{row:?}");
    assert_eq!((row.attempts, row.failed_for_memory), (11, 0));
    assert!(close(row.confidence, 0.6));
    let risk = |risk: Option<Risk>| risk.map(|risk| (risk.above, risk.judged));
    assert_eq!((risk(row.limit_risk), risk(row.request_risk)), (Some((0, 11)), Some((1, 11))));
}

#[test]
fn windows_below_a_day_count_as_one() {
    let terms = ProposalTerms { window: Millis(1), ..TERMS };
    let row = propose(workload(vec![hour(1); 5]), |_| predicted(2, 4, 0.6), &terms).with_today(&[]);
    assert!(close(row.asked_gib_hours, 5.0 * 8.0 * 30.0), "{row:?}");
}

#[test]
fn nothing_is_proposed_where_too_little_is_known() {
    let untrusted = WorkloadAttempt { untrusted: true, ..hour(1) };
    let stopped = WorkloadAttempt { source: NeedSource::Stopped, failed_for_memory: true, ..hour(8) };
    let unneeded = WorkloadAttempt { need: None, ..hour(1) };
    for (attempts, why) in [
        (vec![], NoProposal::TooFew),
        (vec![unneeded; 9], NoProposal::TooFew),
        (vec![hour(1); 4], NoProposal::TooFew),
        ([vec![hour(1); 4], vec![untrusted; 9]].concat(), NoProposal::TooFew),
        (vec![untrusted; 9], NoProposal::Untrusted),
        (vec![stopped; 9], NoProposal::Stopped),
        ([vec![stopped; 9], vec![untrusted; 9]].concat(), NoProposal::Stopped),
    ] {
        let row = proposal(attempts, &[today(8, 16)]);
        assert_eq!(row.proposed, Err(why));
        assert!(row.saved_gib_hours == 0.0 && row.limit_risk.is_none() && row.request_risk.is_none());
    }
    let unsure = propose(workload(vec![hour(1); 9]), |_| predicted(2, 4, 0.05), &TERMS).with_today(&[]);
    assert_eq!(unsure.proposed, Err(NoProposal::Unsure));
    let defaults = |key: &Key| predict::defaults(key, &predict::Settings::default());
    let unknown = propose(workload(vec![hour(1); 9]), defaults, &TERMS).with_today(&[]);
    assert_eq!(unknown.proposed, Err(NoProposal::Unsure));
}

#[test]
fn proposed_limits_cover_trusted_needs_and_exceed_kills() {
    let limit = |more: WorkloadAttempt| {
        let row = proposal([vec![hour(1); 9], vec![more]].concat(), &[today(8, 16)]);
        row.proposed.unwrap().memory_limit.unwrap()
    };
    assert_eq!(limit(hour(1)), Bytes(4 * GIB));
    assert_eq!(limit(hour(7)), Bytes(7 * GIB));
    let stopped = WorkloadAttempt { source: NeedSource::Stopped, ..hour(7) };
    assert!(limit(stopped) > Bytes(7 * GIB));
    assert_eq!(limit(WorkloadAttempt { untrusted: true, ..hour(7) }), Bytes(4 * GIB));
}

#[test]
fn censored_peaks_only_raise_limits() {
    let scraped = |need| WorkloadAttempt { source: NeedSource::Incomplete, ..hour(need) };
    let mixed = [vec![hour(1); 4], vec![scraped(3); 20]].concat();
    for attempts in [vec![scraped(3); 20], mixed] {
        let limit = |today: Sizes| proposal(attempts.clone(), &[today]).proposed.unwrap().memory_limit;
        assert_eq!(limit(today(8, 16)), None, "the limit of today stays");
        assert_eq!(limit(today(8, 0)), None, "there is none");
        assert_eq!(limit(today(1, 2)), Some(Bytes(3 * GIB)), "less than was seen");
        let request = proposal(attempts.clone(), &[]).proposed.unwrap().memory_request;
        assert_eq!(request, Some(Bytes(2 * GIB)));
    }
    let row = proposal(vec![scraped(3); 20], &[today(8, 16)]);
    assert_eq!(row.limit_risk.map(|risk| risk.judged), Some(0), "at least 3 GiB may be more than 16");
    assert_eq!(row.request_risk.map(|risk| (risk.above, risk.judged)), Some((20, 20)));
}

#[test]
fn largest_prediction_and_lowest_confidence_are_used() {
    let mut two = workload(vec![hour(1); 9]);
    two.builds.push(Key { package: "zlib".into(), version: "2".into(), ..Key::default() });
    let of = |key: &Key| if key.version == "2" { predicted(3, 4, 0.5) } else { predicted(2, 6, 0.6) };
    let row = propose(two, of, &TERMS).with_today(&[]);
    let sizes = row.proposed.unwrap();
    let size = |gib: u64| Some(Bytes(gib * GIB));
    assert_eq!((sizes.memory_request, sizes.memory_limit), (size(3), size(6)));
    assert!(close(row.confidence, 0.5));
}

#[test]
fn a_taken_back_lowering_is_named() {
    let lowering = Some(TakenBackLowering { from_bytes: 6 * GIB, ..TakenBackLowering::default() });
    let held = |_: &Key| Prediction { taken_back: lowering, ..predicted(6, 6, 0.6) };
    let row = propose(workload((0..9).map(|_| hour(1)).collect()), held, &TERMS).with_today(&[today(3, 3)]);
    assert_eq!((row.taken_back, row.proposed.unwrap().memory_limit), (lowering, Some(Bytes(6 * GIB))));
}

#[test]
fn proposals_are_sorted_by_savings() {
    let named = |name: &str, attempts| Workload { package: name.into(), ..workload(attempts) };
    let of = |_: &Key| predicted(2, 4, 0.6);
    let cheap = |mut attempt: WorkloadAttempt| {
        attempt.asked = Some(Bytes(GIB));
        attempt
    };
    let mut drafts = vec![
        propose(named("more", vec![cheap(hour(1)); 9]), of, &TERMS),
        propose(named("few", vec![hour(1); 2]), of, &TERMS),
        propose(named("small", vec![hour(1); 9]), of, &TERMS),
        propose(named("large", vec![hour(1); 10]), of, &TERMS),
    ];
    Draft::sort(&mut drafts);
    let rows: Vec<Recommendation> = drafts.into_iter().map(|draft| draft.with_today(&[])).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.package.as_str()).collect();
    assert_eq!(names, ["large", "small", "few", "more"]);
    assert!(close(rows[3].saved_gib_hours, -9.0 * 3.0), "a larger request saves less than nothing");
}

/// An hour of `package` that requested 8 GiB.
fn built(n: usize, package: &str, need_mib: u64) -> Summary {
    let mut summary = test_summary(&format!("{package}-{n}"), package, "1", need_mib);
    summary.started_unix_ms = 1_700_000_000_000 + HOUR.0 * n as u64;
    (summary.wall, summary.resources.memory_request) = (HOUR, Some(Bytes(8 * GIB)));
    summary
}

struct Known {
    history: History,
    stats: Stats,
}

fn known(attempts: &[Summary]) -> Known {
    let stats = Stats::new(stats::Settings::default());
    let mut history = History::new(10_000);
    for summary in attempts {
        history.learn(summary.clone());
        if let Some(brief) = history.get(&summary.attempt).map(Arc::clone) {
            stats.add(&summary.into(), &brief);
        }
    }
    Known { history, stats }
}

impl Known {
    fn workloads(&self, filter: Filter) -> Workloads {
        let prices = PoolPrices {
            pools: [(String::new(), Price { gib_hour: 0.5, core_hour: 0.0 })].into(),
            currency: "EUR".into(),
        };
        self.stats.workloads(&WorkloadQuestion { filter, ..WorkloadQuestion::default() }, &prices)
    }

    fn rows(&self) -> Vec<Recommendation> {
        let settings = predict::Settings::default();
        let of = |key: &Key| predict::predict(&self.history, key, &settings);
        let found = self.workloads(Filter::default()).largest.into_iter();
        found.map(|workload| propose(workload, of, &TERMS).with_today(&[])).collect()
    }
}

#[test]
fn workloads_group_a_packages_attempts_newest_first() {
    let mut attempts: Vec<Summary> = (0..12).map(|n| built(n, "zlib", 300)).collect();
    attempts[11].key.version = "2".into();
    attempts[10].opening.untrusted = true;
    attempts.push(built(3, "curl", 100));
    let known = known(&attempts);
    let all = known.workloads(Filter::default());
    assert_eq!((all.largest.len(), all.left_out, all.currency.as_str()), (2, 0, "EUR"));
    assert_eq!(all.first_ended_unix_ms, Some(1_700_000_000_000 + HOUR.0));
    let zlib = all.largest.iter().find(|workload| workload.package == "zlib").unwrap();
    assert_eq!(zlib.attempts.len(), 12);
    let versions: Vec<&str> = zlib.builds.iter().map(|key| key.version.as_str()).collect();
    assert_eq!(versions, ["2", "1"]);
    let newest: Vec<&str> = zlib.newest.iter().map(AttemptId::as_str).collect();
    assert_eq!(newest, ["zlib-11", "zlib-9", "zlib-8", "zlib-7", "zlib-6"], "an untrusted one sizes nothing");
    let since = Filter { from_unix_ms: Some(1_700_000_000_000 + 10 * HOUR.0), ..Filter::default() };
    let late = known.workloads(since);
    assert_eq!(late.largest.iter().map(|workload| workload.attempts.len()).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_window_starts_with_the_whole_history() {
    let known = known(&[built(0, "curl", 100), built(600, "zlib", 300)]);
    let zlib = Filter { package: "zlib".into(), ..Filter::default() };
    assert_eq!(known.workloads(zlib).first_ended_unix_ms, Some(1_700_000_000_000 + HOUR.0));
}

#[test]
fn sums_include_packages_that_need_more() {
    let of = |needs: u64, request: u64| {
        propose(workload(vec![hour(needs); 5]), |_| predicted(request, 16, 0.6), &TERMS)
    };
    // 5 x (8 - 2) x 3 and 5 x (8 - 10) x 3, at 0.01
    let savings = Savings::of(&[of(1, 2), of(9, 10)]);
    assert_eq!(savings.packages, 2);
    assert!(close(savings.asked_gib_hours, 240.0) && close(savings.saved_gib_hours, 60.0), "{savings:?}");
    assert!(close(savings.saved_money, 0.6), "{savings:?}");
}

#[test]
fn a_requested_price_overrides_pool_prices() {
    let known = known(&[built(0, "zlib", 300)]);
    let question = WorkloadQuestion { gib_hour: Some(0.25), ..WorkloadQuestion::default() };
    let found = known.stats.workloads(&question, &PoolPrices::default());
    assert!(found.priced && close(found.largest[0].attempts[0].price, 0.25));
    assert!(!known.stats.workloads(&WorkloadQuestion::default(), &PoolPrices::default()).priced);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Needs in MiB; one in some is stopped by memory, read by Prometheus, or untrusted. Packages drift: their needs shrink with time, and
    /// a new version comes every few builds, so that the newest builds need far less than the first ones.
    #[test]
    fn no_proposed_limit_is_below_a_trusted_need(
        packages in prop::collection::vec(
            (prop::collection::vec((1_u64..30_000, 0_u8..8), 1..60), 0_usize..4), 1..4,
        ),
    ) {
        let mut attempts = Vec::new();
        for (number, (needs, drift)) in packages.iter().enumerate() {
            for (n, (need, kind)) in needs.iter().enumerate() {
                let mut summary = built(n, &format!("p{number}"), (need >> (n * drift / 10)).max(1));
                summary.key.version = (n * drift / 8).to_string();
                match kind {
                    0 => (summary.outcome, summary.censored) = (Outcome::Failed, true),
                    1 => summary.source = MeasurementSource::Prometheus,
                    2 => summary.opening.untrusted = true,
                    _ => {}
                }
                if *kind == 0 {
                    summary.cause = Some(crate::domain::Cause::Oom);
                }
                attempts.push(summary);
            }
        }
        let known = known(&attempts);
        // also where a prediction is far too low
        let found = known.workloads(Filter::default()).largest.into_iter();
        let low = |workload| propose(workload, |_| predicted(1, 1, 0.6), &TERMS).with_today(&[]);
        for rows in [known.rows(), found.map(low).collect()] {
        prop_assert_eq!(rows.len(), packages.len());
        let mut asked = 0.0;
        for row in &rows {
            asked += row.asked_gib_hours;
            let Ok(sizes) = row.proposed else { continue };
            let of_package = attempts.iter().filter(|summary| summary.key.package == row.package);
            for summary in of_package.filter(|summary| !summary.opening.untrusted) {
                if let Some(limit) = sizes.memory_limit {
                    let fits = if summary.censored { summary.need_peak < limit } else { summary.need_peak <= limit };
                    prop_assert!(fits, "{} needs {}, limit {limit}", summary.attempt, summary.need_peak);
                }
            }
            if let (Some(request), Some(limit)) = (sizes.memory_request, sizes.memory_limit) {
                prop_assert!(request <= limit);
            }
        }
        // 8 GiB for an hour each, three times
        let hours = Bytes(attempts.len() as u64).as_f64();
        prop_assert!((asked - hours * 8.0 * 3.0).abs() < 1e-6 * hours);
        }
    }
}

#[test]
fn builds_get_sizes_at_other_build_jobs() {
    let build = |variants: &str, arch: &str| Key {
        version: "1.2".into(),
        variants: variants.into(),
        arch: arch.into(),
        ..Key::default()
    };
    let builds = vec![build("+mpi ~cuda", "a"), build("+cuda +mpi", "a"), build("+mpi ~cuda", "b")];
    let workload = Workload { builds, ..workload((0..6).map(|_| hour(3)).collect()) };
    let terms = ProposalTerms { build_jobs: vec![4, 8], ..TERMS };
    let predict = |key: &Key| {
        let jobs = u64::from(key.hints.build_jobs.unwrap_or(1));
        // nothing is known of the variant at 8 jobs
        let confidence = if jobs == 8 && key.variants.contains("+cuda") { 0.0 } else { 0.6 };
        predicted(jobs + u64::from(key.arch == "b"), 16, confidence)
    };
    let row = propose(workload.clone(), predict, &terms).with_today(&[]);
    let found: Vec<(&str, Vec<(u32, u64)>)> = row
        .builds
        .iter()
        .map(|of| {
            let sizes = of.sizes.iter().map(|size| (size.build_jobs, size.memory_request.0 / GIB)).collect();
            (of.variants.as_str(), sizes)
        })
        .collect();
    assert_eq!(found, [("~cuda", vec![(4, 5), (8, 9)]), ("+cuda", vec![(4, 4)])]);
    assert_eq!(row.highest_need, Some(Bytes(3 * GIB)));
    assert_eq!(propose(workload, predict, &TERMS).with_today(&[]).builds, [], "none without build jobs");
}
