//! The same sums, filters and groups by a plain scan of all attempts: what the book of rows is held against.

use super::*;

/// The same sums in the plainest way.
pub(super) fn plainly(
    all: &[Summary],
    counted: &[&Summary],
    refused: &BTreeSet<usize>,
) -> BTreeMap<&'static str, f64> {
    let mut sums = BTreeMap::new();
    for attempt in counted {
        let mut add = |name, value: f64| *sums.entry(name).or_insert(0.0) += value;
        let (hours, succeeded) = (attempt.wall.hours(), attempt.outcome == Outcome::Succeeded);
        let (gib_price, core_price) = if attempt.opening.pool == "big" { (0.02, 0.3) } else { (0.01, 0.1) };
        let used = attempt.measured_need_mean().map(|need| need.gib_hours(attempt.wall));
        let cpu = attempt.measured_cpu().map(|cpu| cpu.as_f64() / 3.6e9);
        // what was asked for and what of it was wasted, where both are known
        let held = |asked: Option<f64>, used: Option<f64>| {
            let (asked, used) = (asked?, used?);
            Some((asked, if succeeded { (asked - used).max(0.0) } else { asked }))
        };
        add("attempts", 1.0);
        add("succeeded", f64::from(succeeded));
        add("oom", f64::from(attempt.cause == Some(Cause::Oom)));
        add("wall", hours);
        add("used", used.unwrap_or(0.0));
        add("cpu", cpu.unwrap_or(0.0));
        add("memory not measured", f64::from(used.is_none()));
        add("cpu not measured", f64::from(cpu.is_none()));
        let is_refused = refused.contains(&attempt.attempt.as_str().parse().unwrap());
        add("refused", f64::from(is_refused && attempt.outcome != Outcome::Succeeded));
        if let Some(original) = &attempt.retries {
            let cause = all.iter().find(|other| other.attempt == *original).and_then(|other| other.cause);
            add("retries", 1.0);
            add("retries of oom", f64::from(cause == Some(Cause::Oom)));
            add("helped", f64::from(succeeded));
        }
        if let Some(asked) = attempt.resources.memory_asked() {
            if let Some((asked, wasted)) = held(Some(asked.gib_hours(attempt.wall)), used) {
                add("asked", asked);
                add("put to use", asked - wasted);
                add("wasted", wasted);
                add("money", wasted * gib_price);
            }
            add("over", attempt.need_peak.as_f64() / asked.as_f64());
            add("askers", 1.0);
        }
        let cores = attempt.resources.cpu_asked();
        if let Some((asked, wasted)) = held(cores.map(|cores| cores.0 * hours), cpu) {
            add("cpu put to use", asked - wasted);
            add("cpu wasted", wasted);
            add("money", wasted * core_price);
        }
        let learnt = attempt.opening.predicted.filter(|predicted| !predicted.is_default);
        if let Some(predicted) = learnt.filter(|_| attempt.teaches_memory()) {
            let (limit, cut) = (predicted.memory_limit, attempt.censored);
            add("calibrated", f64::from(!cut || attempt.need_peak >= limit));
            add("within", f64::from(!cut && attempt.need_peak <= limit));
            if attempt.resources.memory_asked().is_some() {
                add("predicted", predicted.memory_request.gib_hours(attempt.wall));
            }
        }
    }
    sums
}

pub(super) fn said(totals: &StatsTotals) -> BTreeMap<&'static str, f64> {
    let whole = |count: u64| Millis(count).as_f64();
    let of_oom =
        totals.retries_by_cause().find(|(cause, _)| *cause == Some(Cause::Oom)).map_or(0, |(_, count)| count);
    let askers = totals.need_over_ask();
    let mut sums = BTreeMap::from([
        ("attempts", whole(totals.attempts)),
        ("succeeded", whole(totals.succeeded())),
        ("oom", whole(totals.of_cause(Cause::Oom))),
        ("wall", totals.wall_hours),
        ("used", totals.memory_used_gib_hours),
        ("cpu", totals.cpu_core_hours),
        ("refused", whole(totals.retries_avoided)),
        ("retries", whole(totals.retries())),
        ("retries of oom", whole(of_oom)),
        ("helped", whole(totals.retries_helped)),
        ("asked", totals.memory_asked_gib_hours),
        ("put to use", totals.memory_used_of_asked_gib_hours),
        ("wasted", totals.memory_wasted_gib_hours),
        ("memory not measured", whole(totals.memory_not_measured)),
        ("cpu not measured", whole(totals.cpu_not_measured)),
        ("cpu put to use", totals.cpu_used_of_asked_core_hours),
        ("money", totals.wasted_money),
        ("over", askers.0),
        ("cpu wasted", totals.cpu_wasted_core_hours),
        ("calibrated", whole(totals.calibration.attempts)),
        ("within", whole(totals.calibration.within_limit)),
        ("predicted", totals.would_have_been.predicted_gib_hours),
    ]);
    sums.retain(|_, value| *value != 0.0);
    sums
}

pub(super) fn assert_same(totals: &StatsTotals, mut expected: BTreeMap<&'static str, f64>, what: &str) {
    let askers = expected.remove("askers");
    if let (Some(over), Some(askers)) = (expected.get_mut("over"), askers) {
        *over /= askers;
    }
    expected.retain(|_, value| *value != 0.0);
    let said = said(totals);
    // what is left of what was asked for is as exact as that, not as itself
    let scale = 1.0 + totals.memory_asked_gib_hours + totals.cpu_asked_core_hours;
    for name in said.keys().chain(expected.keys()) {
        let [said, expected] = [&said, &expected].map(|sums| sums.get(name).copied().unwrap_or_default());
        assert!(
            (said - expected).abs() <= 1e-6 * expected.abs().max(scale),
            "{what}: {name} {said} {expected}"
        );
    }
}

pub(super) fn group_by(name: &str) -> GroupBy {
    match name {
        "package" => GroupBy::Package,
        "stack" => GroupBy::Stack,
        "project" => GroupBy::Project,
        "version" => GroupBy::Version,
        "compiler" => GroupBy::Compiler,
        "arch" => GroupBy::Arch,
        "pool" => GroupBy::Pool,
        "ref" => GroupBy::RefClass,
        "owner" => GroupBy::Owner,
        "cause" => GroupBy::Cause,
        "outcome" => GroupBy::Outcome,
        "stage" => GroupBy::Label("stage".into()),
        _ => GroupBy::Label("unheard of".into()),
    }
}

pub(super) fn class(attempt: &Summary) -> &'static str {
    CLASSES[REFS.iter().position(|git_ref| *git_ref == attempt.key.git_ref).unwrap()]
}

pub(super) fn group_of(attempt: &Summary, by: &str) -> String {
    let key = &attempt.key;
    match by {
        "package" => key.package.clone(),
        "stack" => key.stack.clone(),
        "version" => key.version.clone(),
        "pool" => attempt.opening.pool.clone(),
        "ref" => class(attempt).to_owned(),
        "owner" => key.owner.clone(),
        "cause" => attempt.cause.map(Cause::as_str).unwrap_or_default().to_owned(),
        "outcome" => format!("{:?}", attempt.outcome).to_lowercase(),
        "stage" => key.labels.get("stage").cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// A filter with some parts, as eight dice fall.
pub(super) fn filter(dice: [u64; 8]) -> Filter {
    let when = |die: u64, text: String| if die.is_multiple_of(5) { text } else { String::new() };
    let pick = |of: &[&str], die: u64| of[usize::try_from(die / 5).unwrap() % of.len()].to_owned();
    Filter {
        package: when(dice[0], format!("p{}", dice[0] / 5 % 5)),
        version: when(dice[1], (dice[1] / 5 % 2).to_string()),
        owner: when(dice[2], pick(&OWNERS, dice[2])),
        pool: when(dice[3], pick(&POOLS, dice[3])),
        ref_class: when(dice[4], pick(&CLASSES, dice[4])),
        from_unix_ms: (dice[5].is_multiple_of(3)).then_some(START + dice[5] % (60 * HOUR)),
        to_unix_ms: (dice[5].is_multiple_of(4)).then_some(START + 60 * HOUR - dice[6] % HOUR),
        outcome: (dice[6].is_multiple_of(5)).then_some(Outcome::Failed),
        cause: (dice[6].is_multiple_of(7)).then_some(Cause::Oom),
        labels: if dice[7].is_multiple_of(4) {
            [("stage".to_owned(), (dice[7] % 3).to_string())].into()
        } else {
            BTreeMap::new()
        },
        ..Filter::default()
    }
}

pub(super) fn takes(filter: &Filter, attempt: &Summary) -> bool {
    let same = |asked: &str, is: &str| asked.is_empty() || asked == is;
    let ended = attempt.ended_unix_ms();
    same(&filter.package, &attempt.key.package)
        && same(&filter.version, &attempt.key.version)
        && same(&filter.owner, &attempt.key.owner)
        && same(&filter.pool, &attempt.opening.pool)
        && same(&filter.ref_class, class(attempt))
        && filter.from_unix_ms.is_none_or(|from| ended >= from)
        && filter.to_unix_ms.is_none_or(|to| ended < to)
        && filter.outcome.is_none_or(|outcome| outcome == attempt.outcome)
        && filter.cause.is_none_or(|cause| Some(cause) == attempt.cause)
        && filter.labels.iter().all(|(name, value)| attempt.key.labels.get(name) == Some(value))
}
