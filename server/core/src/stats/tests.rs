//! Sums against a plain scan of the same attempts.

mod order;
mod plain;
mod refused;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    AttemptOrder, Filter, GroupBy, PageBuilder, PoolPrices, Price, Prices, Question, Report, Settings, Stats,
    StatsTotals,
};
use crate::{
    domain::{
        AttemptId, Bytes, Cause, Cores, CpuMicros, History, Millis, Outcome, PredictionSnapshot, Resources,
        RetryStatus, Summary, Verdict, test_summary,
    },
    shared_history::SharedHistory,
};

use plain::{assert_same, filter, group_by, group_of, plainly, takes};
use refused::no;

const HOUR: u64 = 3_600_000;
const START: u64 = 1_700_000_000_000;
const OWNERS: [&str; 3] = ["", "science", "tools"];
const POOLS: [&str; 3] = ["", "big", "small"];
const REFS: [&str; 4] = ["", "pr1_x", "develop", "me/try"];
const CLASSES: [&str; 4] = ["", "pull-request", "protected", "other"];
const GROUPS: [&str; 13] = [
    "package", "stack", "project", "version", "compiler", "arch", "pool", "ref", "owner", "cause", "outcome",
    "stage", "none",
];

fn settings() -> Settings {
    let prices = Prices::parse("0.01/0.1, big=0.02/0.3").unwrap();
    Settings { prices, currency: "EUR".into(), ..Settings::default() }
}

/// The `n`th attempt, as twelve dice fall.
fn attempt(n: usize, dice: [u64; 12]) -> Summary {
    let pick = |of: &[&str], die: u64| of[usize::try_from(die).unwrap() % of.len()].to_owned();
    let mut summary = test_summary(
        &n.to_string(),
        &format!("p{}", dice[0] % 4),
        &format!("{}", dice[1] % 2),
        64 + dice[2] % 4096,
    );
    summary.key.stack = format!("s{}", dice[0] % 3);
    summary.key.owner = pick(&OWNERS, dice[1]);
    summary.key.git_ref = pick(&REFS, dice[3]);
    if dice[3].is_multiple_of(2) {
        summary.key.labels = [("stage".to_owned(), (dice[4] % 3).to_string())].into();
    }
    summary.opening.pool = pick(&POOLS, dice[5]);
    summary.started_unix_ms = START + dice[6] % (50 * HOUR);
    summary.wall = Millis(1 + dice[7] % (3 * HOUR));
    summary.cpu = CpuMicros(dice[8] % 20_000_000_000);
    if !dice[9].is_multiple_of(4) {
        summary.resources = Resources {
            memory_request: Some(Bytes((1 + dice[9] % 8) << 29)),
            cpu_request: (!dice[9].is_multiple_of(3)).then_some(Cores(2.5)),
            ..Resources::default()
        };
    }
    if dice[10].is_multiple_of(3) {
        summary.outcome = if dice[10].is_multiple_of(2) { Outcome::Failed } else { Outcome::Lost };
        let cause = Cause::ALL[usize::try_from(dice[10]).unwrap() % Cause::ALL.len()];
        (summary.cause, summary.censored) = (Some(cause), cause.is_memory());
    }
    if dice[8].is_multiple_of(7) {
        (summary.need_mean, summary.cpu) = (Bytes(0), CpuMicros(0));
    }
    if n > 0 && dice[11].is_multiple_of(3) {
        (summary.number, summary.retries) = (2, Some(id(n - 1)));
    }
    if dice[11].is_multiple_of(2) {
        let need = Bytes((64 + dice[11] % 4096) << 20);
        let [memory_request, memory_limit] = [need, Bytes(need.0 * 2)];
        let predicted = PredictionSnapshot {
            memory_request,
            memory_limit,
            wall_p95: Millis(HOUR),
            ..PredictionSnapshot::default()
        };
        // a default is no prediction
        let is_default = dice[11].is_multiple_of(14);
        summary.opening.predicted = Some(PredictionSnapshot { is_default, ..predicted });
    }
    summary
}

fn id(n: usize) -> AttemptId {
    AttemptId::parse(&n.to_string()).unwrap()
}

fn history(attempts: &[Summary]) -> SharedHistory {
    let history = SharedHistory::with_stats(History::new(10_000), Stats::new(settings()));
    for attempt in attempts {
        history.learn(attempt);
    }
    history
}

fn ask(history: &SharedHistory, filter: Filter, group_by: GroupBy, step_ms: u64) -> Report {
    ask_by(history, filter, (group_by, ""), step_ms)
}

fn ask_by(history: &SharedHistory, filter: Filter, by: (GroupBy, &str), step_ms: u64) -> Report {
    let (group_by, group_label) = (by.0, by.1.to_owned());
    let question = Question { filter, group_by, group_label, step_ms, confined: false };
    history.stats().report(&question, &PoolPrices::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn statistics_equal_a_plain_scan(
        dice in proptest::collection::vec(any::<[u64; 12]>(), 1..120),
        asked in any::<[u64; 8]>(),
        by in 0..GROUPS.len(),
        step in prop_oneof![Just(0), Just(HOUR), Just(HOUR / 7 + 1), Just(24 * HOUR)],
    ) {
        let mut all: Vec<Summary> = dice.into_iter().enumerate().map(|(n, dice)| attempt(n, dice)).collect();
        let history = history(&all);
        // some are settled after others that retry them came, and some are judged
        let mut refused = BTreeSet::new();
        for (n, attempt) in all.iter_mut().enumerate() {
            if attempt.outcome == Outcome::Lost && n.is_multiple_of(2) {
                *attempt = Summary { outcome: Outcome::Failed, cause: Some(Cause::Oom), ..attempt.clone() };
                history.replace_summary(attempt);
            }
            if n.is_multiple_of(5) {
                history.count_verdict(&no(&attempt.attempt), None);
                refused.insert(n);
            }
        }
        let filter = filter(asked);
        let report = ask_by(&history, filter.clone(), group_by(GROUPS[by]), step);
        let counted: Vec<&Summary> = all.iter().filter(|attempt| takes(&filter, attempt)).collect();
        assert_same(&report.totals, plainly(&all, &counted, &refused), "all");
        let groups: BTreeSet<String> = counted.iter().map(|attempt| group_of(attempt, GROUPS[by])).collect();
        prop_assert_eq!(report.groups.iter().map(|group| group.name.clone()).collect::<BTreeSet<_>>(), groups);
        for group in &report.groups {
            let of: Vec<&Summary> =
                counted.iter().copied().filter(|attempt| group_of(attempt, GROUPS[by]) == group.name).collect();
            assert_same(&group.totals, plainly(&all, &of, &refused), &group.name);
        }
        for one in &report.steps {
            let within = |attempt: &&Summary| attempt.ended_unix_ms() / step * step == one.from_unix_ms;
            let of: Vec<&Summary> = counted.iter().copied().filter(within).collect();
            assert_same(&one.totals, plainly(&all, &of, &refused), "step");
        }
        let page = history.stats().list(&filter, PageBuilder::new(AttemptOrder::Unspecified, counted.len(), None));
        prop_assert_eq!((page.cursors.len(), page.has_more), (counted.len(), false));
    }
}

fn many(count: usize, change: impl Fn(usize, &mut Summary)) -> Vec<Summary> {
    let one = |n: usize| {
        let mut summary = test_summary(&n.to_string(), "zlib", "1", 1024);
        summary.started_unix_ms = START + n as u64 * 1000;
        summary.resources.memory_request = Some(Bytes(4 << 30));
        change(n, &mut summary);
        summary
    };
    (0..count).map(one).collect()
}

#[test]
fn evicted_attempts_leave_the_sums_with_a_note() {
    let history = SharedHistory::with_stats(History::new(300), Stats::new(settings()));
    for summary in many(3000, |_, _| {}) {
        history.learn(&summary);
    }
    let report = ask(&history, Filter::default(), GroupBy::Unspecified, 0);
    assert!((300..400).contains(&report.totals.attempts), "{}", report.totals.attempts);
    assert_eq!(report.covers.attempts, report.totals.attempts);
    assert!(report.covers.is_cut, "{:?}", report.notes);
    assert!(report.notes[0].contains("at or after 2023-11-14T22:"), "{:?}", report.notes);
    let recent = Filter { from_unix_ms: Some(START + 2900 * 1000), ..Filter::default() };
    assert_eq!(ask(&history, recent, GroupBy::Unspecified, 0).notes, Vec::<String>::new());
    history.remove_from_stats(&id(2999));
    let now = ask(&history, Filter::default(), GroupBy::Unspecified, 0);
    assert_eq!(now.totals.attempts, report.totals.attempts - 1);
}

#[test]
fn confined_readers_learn_nothing_of_other_projects() {
    let all = many(10, |n, summary| summary.key.project = if n < 3 { "own" } else { "other" }.into());
    let history = history(&all);
    let covers = |project: &str, from_unix_ms| {
        let filter = Filter { project: project.into(), from_unix_ms, ..Filter::default() };
        let question = Question { filter, confined: true, ..Question::default() };
        let report = history.stats().report(&question, &PoolPrices::default()).unwrap();
        (report.covers.attempts, report.covers.ended.map(|(_, last)| u64::from(last)), report.notes)
    };
    let last = all[2].ended_unix_ms() / 1000;
    assert_eq!(covers("own", None), (3, Some(last), vec![]));
    let (_, _, notes) = covers("own", Some((last + 5) * 1000));
    assert!(notes[0].contains("the last one ended at"), "{notes:?}");
    let (attempts, ended, _) = covers("none", None);
    assert_eq!((attempts, ended), (0, None));
}

#[test]
fn a_repeated_attempt_counts_once() {
    let history = history(&many(3, |_, _| {}));
    for summary in many(3, |_, _| {}) {
        history.learn(&summary);
    }
    assert_eq!(ask(&history, Filter::default(), GroupBy::Unspecified, 0).totals.attempts, 3);
}

#[test]
fn an_early_verdict_counts_once_its_attempt_ends() {
    let history = history(&[]);
    history.count_verdict(&no(&id(1)), None);
    for summary in many(3, |_, summary| summary.outcome = Outcome::Failed) {
        history.learn(&summary);
    }
    assert_eq!(ask(&history, Filter::default(), GroupBy::Unspecified, 0).totals.retries_avoided, 1);
}

#[test]
fn high_cardinality_groups_are_bounded_without_loss() {
    let owners = many(40_000, |n, summary| {
        summary.key.owner = format!("owner-{n}");
        summary.key.package = format!("package-{}", n % 9000);
        summary.wall = Millis(60_000 + n as u64);
    });
    let history = SharedHistory::with_stats(History::new(50_000), Stats::new(settings()));
    for summary in owners {
        history.learn(&summary);
    }
    for (by, notes) in [(GroupBy::Owner, 1), (GroupBy::Package, 0)] {
        let report = ask(&history, Filter::default(), by, 0);
        assert_eq!((report.groups.len(), report.notes.len()), (1000, notes));
        assert_eq!(report.groups[999].name, "(others)");
        assert_eq!(report.groups.iter().map(|group| group.totals.attempts).sum::<u64>(), 40_000);
        let wastes: Vec<f64> =
            report.groups[..999].iter().map(|group| group.totals.memory_wasted_gib_hours).collect();
        assert!(wastes.is_sorted_by(|a, b| a >= b));
    }
    let lost = Filter { owner: "owner-39999".into(), ..Filter::default() };
    let report = ask(&history, lost, GroupBy::Unspecified, 0);
    assert!(report.totals.attempts == 0 && report.notes[0].contains("(others)"), "{:?}", report.notes);
}

#[test]
fn empty_results_are_zero_and_explained() {
    let history = history(&many(3, |_, _| {}));
    let report =
        ask(&history, Filter { package: "none".into(), ..Filter::default() }, GroupBy::Package, 1000);
    assert_eq!((report.totals, report.groups, report.steps), (StatsTotals::default(), vec![], vec![]));
    let future = Filter { from_unix_ms: Some(START + HOUR), ..Filter::default() };
    let report = ask(&history, future, GroupBy::Unspecified, 0);
    assert!(report.totals.attempts == 0 && report.notes[0].contains("the last one ended at 2023-11-14"));
    let label = (GroupBy::Label, "unheard-of");
    assert!(ask_by(&history, Filter::default(), label, 0).notes[0].contains("no attempt has it"));
}

#[test]
fn steps_have_no_gaps_and_are_bounded() {
    let history = history(&many(4, |n, summary| {
        summary.started_unix_ms = START / HOUR * HOUR + [0, 0, 0, 3][n] * HOUR;
    }));
    let ask = |step_ms| {
        history.stats().report(&Question { step_ms, ..Question::default() }, &PoolPrices::default())
    };
    let steps = ask(HOUR).unwrap().steps;
    assert_eq!(steps.iter().map(|step| step.totals.attempts).collect::<Vec<_>>(), [3, 0, 0, 1]);
    assert_eq!(ask(1).unwrap_err().field.as_str(), "step_ms");
    assert!(ask(10_800).is_err());
    assert!(ask(10_812).is_ok());
}

#[test]
fn packages_come_with_the_most_variable_first() {
    let history = history(&many(30, |n, summary| {
        let (package, apart) = [("calm", 1), ("wild", 300), ("even", 0)][n % 3];
        package.clone_into(&mut summary.key.package);
        summary.need_peak = Bytes((1000 + apart * (n as u64 / 3 % 2)) << 20);
        // another build needs other things, which is no variation
        if n >= 15 {
            (summary.key.version, summary.need_peak) = ("2".to_owned(), Bytes(summary.need_peak.0 * 9));
        }
    }));
    let variable = ask(&history, Filter::default(), GroupBy::Unspecified, 0).variable;
    assert_eq!(variable.iter().map(|one| one.package.as_str()).collect::<Vec<_>>(), ["wild", "calm"]);
    let wild = &variable[0];
    assert!((0.1..0.2).contains(&wild.variation) && wild.attempts == 10, "{wild:?}");
    assert_eq!((wild.need_min, wild.need_max), (Bytes(1000 << 20), Bytes((9 * 1300) << 20)));
}

#[test]
fn pool_file_prices_override_the_settings() {
    let history =
        history(&many(3, |n, summary| summary.opening.pool = ["big", "small", "filed"][n].to_owned()));
    let filed = Price { gib_hour: 1.0, core_hour: 0.0 };
    let pools = PoolPrices { pools: [("filed".to_owned(), filed)].into(), currency: "USD".to_owned() };
    let report = history.stats().report(&Question::default(), &pools).unwrap();
    // three minutes of 4 GiB each
    assert!((report.totals.asked_money * 60.0 - 4.0 * (0.02 + 0.01 + 1.0)).abs() < 1e-5);
    assert!(report.currency == "EUR" && report.notes[0].contains("USD"), "{:?}", report.notes);
}

/// An attempt of a job, as GitLab runs it: nothing says that it is a retry.
fn of_gitlab(number: u64, cause: Option<Cause>) -> Summary {
    let mut summary = test_summary(&format!("gitlab.example:{number}"), "zlib", "1", 100);
    summary.key.labels =
        [("pipeline".to_owned(), "9".to_owned()), ("job".to_owned(), "build".to_owned())].into();
    summary.started_unix_ms = START + number * 60_000;
    if cause.is_some() {
        (summary.outcome, summary.cause) = (Outcome::Failed, cause);
    }
    summary
}

fn retries(history: &SharedHistory) -> (u64, u64, Vec<(Option<Cause>, u64)>) {
    let totals = ask(history, Filter::default(), GroupBy::Unspecified, 0).totals;
    let retries = totals.retries();
    let by_cause = totals.retries_by_cause().map(|(cause, of)| (cause, of.count));
    (retries.count, retries.passed, by_cause.collect())
}

#[test]
fn gitlab_retries_count_in_any_order() {
    let all = [of_gitlab(7001, Some(Cause::Oom)), of_gitlab(7002, Some(Cause::Infra)), of_gitlab(7003, None)];
    let expected = (2, 1, vec![(Some(Cause::Oom), 1), (Some(Cause::Infra), 1)]);
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let one_by_one = history(&order.map(|at| all[at].clone()));
        let (seen, helped, mut causes) = retries(&one_by_one);
        causes.sort_unstable_by_key(|(cause, _)| *cause != Some(Cause::Oom));
        assert_eq!((seen, helped, causes), expected, "{order:?}");
        let at_once = SharedHistory::with_stats(History::new(100), Stats::new(settings()));
        let facts = order.map(|at| crate::domain::RungObservation::from(&all[at]));
        for (fact, at) in facts.iter().zip(order) {
            at_once.stats().add(&(&all[at]).into(), &fact.brief);
        }
        at_once.learn_all(facts.to_vec());
        assert_eq!(retries(&at_once), retries(&one_by_one), "{order:?}");
    }
}

#[test]
fn a_retry_follows_its_originals_changes() {
    let history = history(&[of_gitlab(7001, Some(Cause::Unknown)), of_gitlab(7002, None)]);
    assert_eq!(retries(&history).2, [(Some(Cause::Unknown), 1)]);
    history.replace_summary(&of_gitlab(7001, Some(Cause::Oom)));
    assert_eq!(retries(&history).2, [(Some(Cause::Oom), 1)]);
    history.unlearn(&of_gitlab(7001, None).attempt);
    assert_eq!(retries(&history), (0, 0, Vec::new()), "it is the first of those that are known");
}

#[test]
fn a_retry_ending_first_learns_its_cause_later() {
    let mut second = of_gitlab(7002, None);
    second.key.labels.clear();
    (second.number, second.retries) = (2, Some(of_gitlab(7001, None).attempt));
    let mut first = of_gitlab(7001, Some(Cause::Oom));
    first.key.labels.clear();
    let history = history(&[second]);
    assert_eq!(retries(&history).2, [(None, 1)]);
    history.learn(&first);
    assert_eq!(retries(&history).2, [(Some(Cause::Oom), 1)]);
}

#[test]
fn an_attempt_shows_its_place_in_the_job() {
    let all = [of_gitlab(7001, Some(Cause::Oom)), of_gitlab(7002, None)];
    let history = history(&all);
    let shown = history.related(&all[1]);
    assert_eq!((shown.number, shown.retries.as_ref()), (2, Some(&all[0].attempt)));
    let first = history.related(&all[0]);
    assert_eq!((first.number, first.retries.as_ref()), (1, None));
    assert!(history.is_retry(&all[1]) && !history.is_retry(&all[0]));
}
