//! The same sums, filters and groups by a plain scan of all attempts: what the book of rows is held against.

use plimsoll_proto::WireEnum as _;

use super::*;

/// Whether an attempt is a retry, and after what. What runs again after a success is none.
fn retry_after(all: &[Summary], attempt: &Summary) -> RetryStatus {
    let Some(id) = &attempt.retries else { return RetryStatus::Nothing };
    match all.iter().find(|other| other.attempt == *id) {
        Some(original) if original.outcome == Outcome::Succeeded => RetryStatus::Nothing,
        Some(original) => original.cause.map_or(RetryStatus::Unknown, RetryStatus::Cause),
        None => RetryStatus::Unknown,
    }
}

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
        add("wall", hours);
        add("used", used.unwrap_or(0.0));
        add("cpu", cpu.unwrap_or(0.0));
        add("cpu wall", if cpu.is_some() { hours } else { 0.0 });
        for (name, counts) in counts(attempt) {
            add(name, f64::from(counts));
        }
        add("refused", f64::from(!succeeded && refused.contains(&attempt.attempt.as_str().parse().unwrap())));
        let after = retry_after(all, attempt);
        if after != RetryStatus::Nothing {
            add("retries", 1.0);
            add("retries of oom", f64::from(after == RetryStatus::Cause(Cause::Oom)));
            add("helped", f64::from(succeeded));
        }
        if let Some(asked) = attempt.resources.memory_size_asked() {
            add("retries asked", f64::from(after != RetryStatus::Nothing) * asked.gib_hours(attempt.wall));
            if let Some((asked, wasted)) = held(Some(asked.gib_hours(attempt.wall)), used) {
                add("asked", asked);
                add("put to use", asked - wasted);
                add("wasted", wasted);
                add("memory money", wasted * gib_price);
            }
            let over = attempt.proven_need().as_f64() / asked.as_f64();
            add("over", over);
            add("above", f64::from(over > 1.0));
            add("lower bounds", f64::from(attempt.censored));
            add("askers", 1.0);
        }
        let cores = attempt.resources.cpu_asked();
        if let Some((asked, wasted)) = held(cores.map(|cores| cores.0 * hours), cpu) {
            add("cpu put to use", asked - wasted);
            add("cpu wasted", wasted);
            add("cpu money", wasted * core_price);
        }
        let learnt = attempt.opening.predicted.filter(|predicted| !predicted.is_default);
        if let Some(predicted) = learnt.filter(|_| attempt.counts_for_memory()) {
            let (limit, cut) = (predicted.memory_limit, attempt.censored);
            add("calibrated", f64::from(!cut || attempt.proven_need() >= limit));
            let request = predicted.memory_request;
            add("request judged", f64::from(!cut || attempt.proven_need() >= request));
            add("within request", f64::from(!cut && attempt.need_peak <= request));
            add("within", f64::from(!cut && attempt.need_peak <= limit));
            if attempt.resources.memory_size_asked().is_some() {
                add("predicted", predicted.memory_request.gib_hours(attempt.wall));
            }
        }
    }
    sums
}

pub(super) fn sums_of(totals: &StatsTotals) -> BTreeMap<&'static str, f64> {
    let whole = |count: u64| Millis(count).as_f64();
    let of_oom =
        totals.retries_by_cause().find(|(cause, _)| *cause == Some(Cause::Oom)).map_or(0, |(_, of)| of.count);
    let askers = totals.need_over_ask.mean_and_max();
    let mut sums = BTreeMap::from([
        ("attempts", whole(totals.attempts)),
        ("succeeded", whole(totals.succeeded())),
        ("oom", whole(totals.of_cause(Cause::Oom))),
        ("wall", totals.wall_hours),
        ("used", totals.memory_used_gib_hours),
        ("cpu", totals.cpu_core_hours),
        ("refused", whole(totals.retries_avoided)),
        ("retries", whole(totals.retries().count)),
        ("retries asked", totals.retries().asked_gib_hours),
        ("retries of oom", whole(of_oom)),
        ("helped", whole(totals.retries().passed)),
        ("asked", totals.memory_asked_gib_hours),
        ("put to use", totals.memory_used_of_asked_gib_hours),
        ("wasted", totals.memory_wasted_gib_hours),
        ("memory not measured", whole(totals.memory_not_measured)),
        ("cpu not measured", whole(totals.cpu_not_measured)),
        ("cpu put to use", totals.cpu_used_of_asked_core_hours),
        ("memory money", totals.memory_wasted_money),
        ("cpu money", totals.cpu_wasted_money),
        ("over", askers.0),
        ("above", whole(totals.need_over_ask.above)),
        ("memory not asked", whole(totals.memory_not_asked)),
        ("cpu not asked", whole(totals.cpu_not_asked)),
        ("cpu wall", totals.cpu_wall_hours),
        ("failed", whole(totals.failed())),
        ("canceled", whole(totals.canceled())),
        ("cpu wasted", totals.cpu_wasted_core_hours),
        ("calibrated", whole(totals.calibration.attempts)),
        ("within", whole(totals.calibration.within_limit)),
        ("request judged", whole(totals.calibration.request_attempts)),
        ("within request", whole(totals.calibration.within_request)),
        ("lower bounds", whole(totals.need_over_ask.lower_bounds)),
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
    let sums_of = sums_of(totals);
    // what is left of what was asked for is as exact as that, not as itself
    let scale = 1.0 + totals.memory_asked_gib_hours + totals.cpu_asked_core_hours;
    for name in sums_of.keys().chain(expected.keys()) {
        let [sums_of, expected] =
            [&sums_of, &expected].map(|sums| sums.get(name).copied().unwrap_or_default());
        assert!(
            (sums_of - expected).abs() <= 1e-6 * expected.abs().max(scale),
            "{what}: {name} {sums_of} {expected}"
        );
    }
}

pub(super) fn group_by(name: &'static str) -> (GroupBy, &'static str) {
    match name {
        "ref" => (GroupBy::RefClass, ""),
        name => GroupBy::parse(name).map_or((GroupBy::Label, name), |by| (by, "")),
    }
}

pub(super) fn class(attempt: &Summary) -> &'static str {
    CLASSES[REFS.iter().position(|git_ref| *git_ref == attempt.key.git_ref).unwrap()]
}

fn counts(attempt: &Summary) -> [(&'static str, bool); 8] {
    let (used, cpu) = (attempt.measured_need_mean().is_some(), attempt.measured_cpu().is_some());
    let asks_memory = attempt.resources.memory_size_asked().is_some();
    let asks_cpu = attempt.resources.cpu_asked().is_some_and(|asked| asked.0 > 0.0);
    let canceled = is_canceled(attempt);
    [
        ("succeeded", attempt.outcome == Outcome::Succeeded),
        ("failed", attempt.outcome == Outcome::Failed && !canceled),
        ("canceled", canceled),
        ("oom", attempt.cause == Some(Cause::Oom)),
        ("memory not measured", !used),
        ("cpu not measured", !cpu),
        ("memory not asked", used && !asks_memory),
        ("cpu not asked", cpu && !asks_cpu),
    ]
}

/// What was canceled is no failure.
fn is_canceled(attempt: &Summary) -> bool {
    attempt.outcome == Outcome::Failed && attempt.cause == Some(Cause::Canceled)
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
        "outcome" if is_canceled(attempt) => "canceled".to_owned(),
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
        && !(filter.outcome.is_some() && filter.cause.is_none() && is_canceled(attempt))
        && filter.cause.is_none_or(|cause| Some(cause) == attempt.cause)
        && filter.labels.iter().all(|(name, value)| attempt.key.labels.get(name) == Some(value))
}
