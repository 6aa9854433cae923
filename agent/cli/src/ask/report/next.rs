//! Suggestions for what to do next: one sentence for each useful action, the most urgent first.

use plimsoll_proto::{
    evidence::cause_name,
    figures::{self, count},
    json::Word as _,
    shown::clean,
    sums,
    v1::{Cause, StatsTotals},
};

use super::ReportData;

/// A package with at least this share of all waste is named in a suggestion.
const WASTER_SHARE: f64 = 0.1;

/// A suggestion about a cause of failures needs at least this many failures, and an increase by at least this
/// factor.
const FAILURE_RISE: (u64, f64) = (5, 1.5);

/// Fewest attempts for a suggestion about predictions.
const FEWEST_ATTEMPTS: u64 = 20;

/// Share of attempts that should stay within the predicted limit: the server chooses limits for this share.
const EXPECTED_SHARE: f64 = 0.99;

/// How many standard deviations below the expected share still count as chance: one miss in twenty attempts
/// proves nothing.
const CHANCE_DEVIATIONS: f64 = 2.0;

/// The suggestions; at least one sentence.
pub(super) fn next(digest: &ReportData) -> Vec<String> {
    if digest.now.attempts == 0 {
        return vec![
            "Nothing was measured in this time: see that builds run under `plimsoll run`.".to_owned(),
        ];
    }
    let all = [
        memory_advice(digest),
        rising_cause_advice(digest),
        waster_advice(digest),
        shifted_builds_advice(digest),
        mixed_need_advice(digest),
        switch_on_advice(&digest.now),
        predictions_below_promise(&digest.now),
        useless_retries_advice(&digest.now),
    ];
    let advice: Vec<String> = all.into_iter().flatten().collect();
    if advice.is_empty() { vec!["Nothing stands out: go on as you are.".to_owned()] } else { advice }
}

fn memory_advice(digest: &ReportData) -> Option<String> {
    let (now, before) = (digest.now.oom + digest.now.starved, digest.before.oom + digest.before.starved);
    if now == 0 {
        return None;
    }
    let hurt = |totals: &StatsTotals| totals.oom + totals.starved;
    let sums =
        sums::named_groups(&digest.stats.groups).filter_map(|group| Some((group, group.totals.as_ref()?)));
    let worst = sums.max_by_key(|(_, sums)| hurt(sums)).filter(|(_, sums)| hurt(sums) > 0);
    let of = worst.map(|(group, sums)| match hurt(sums) {
        all if all == now => format!(", all of {}", clean(&group.name)),
        some => format!(", {} of them of {}", count(some), clean(&group.name)),
    });
    Some(format!(
        "{} had too little memory{} ({} the time before): let jobs ask for what `plimsoll predict` says.",
        builds_words(now),
        of.unwrap_or_default(),
        count(before)
    ))
}

fn builds_words(number: u64) -> String {
    figures::counted(number, "build")
}

/// The cause, other than memory, with the largest increase of failures.
fn rising_cause_advice(digest: &ReportData) -> Option<String> {
    let before = || sums::failures_by_cause(&digest.before);
    let earlier = |cause: Cause| before().find(|(of, _)| *of == cause).map_or(0, |(_, failures)| failures);
    let memory = [Cause::Oom, Cause::Starved, Cause::Unspecified];
    #[expect(clippy::cast_precision_loss, reason = "compared with half as much again")]
    let rose = |(cause, now): &(Cause, u64)| {
        !memory.contains(cause)
            && *now >= FAILURE_RISE.0
            && *now as f64 >= earlier(*cause) as f64 * FAILURE_RISE.1
    };
    let now = sums::failures_by_cause(&digest.now);
    let (cause, now) = now.filter(rose).max_by_key(|(cause, now)| now - earlier(*cause))?;
    let name = cause_name(cause);
    let earlier = count(earlier(cause));
    Some(format!(
        "Failures with cause \"{name}\" rose from {earlier} to {}: `plimsoll attempts --cause {}` lists them.",
        count(now),
        cause.word()
    ))
}

fn waster_advice(digest: &ReportData) -> Option<String> {
    let (group, sums) = digest.wasters().next()?;
    let all = digest.now.memory_wasted_gib_hours;
    let wasted = sums.memory_wasted_gib_hours;
    (wasted >= all * WASTER_SHARE && wasted >= 1.0).then(|| {
        format!(
            "{} wasted {}, {} of all, and put {} of what it asked for to use: let it ask for less.",
            clean(&group.name),
            figures::gib_hours(wasted),
            figures::share(wasted, all),
            figures::known(sums::memory_used_share(&sums), figures::percent)
        )
    })
}

fn shifted_builds_advice(digest: &ReportData) -> Option<String> {
    let worst = digest.stats.regressions.iter().find(|moved| moved.factor > 1.0)?;
    let changed =
        if worst.changed.is_empty() { String::new() } else { format!(", with {}", clean(&worst.changed)) };
    Some(format!(
        "{} needs {} the memory that it did before attempt {}{changed}: find out whether it must.",
        clean(&worst.key),
        figures::times(worst.factor),
        clean(&worst.attempt)
    ))
}

/// A build with attempts that have such different needs that no single size is right.
fn mixed_need_advice(digest: &ReportData) -> Option<String> {
    let worst = digest.stats.mixed.first()?;
    let groups = worst.groups.as_ref()?.groups.len();
    Some(format!(
        "{} hides {groups} groups with different needs: `plimsoll explain` says what tells them apart, or which label to record.",
        clean(&worst.key)
    ))
}

/// Suggests to use predicted sizes, if they would have been better than the requested ones.
fn switch_on_advice(now: &StatsTotals) -> Option<String> {
    let would = now.would_have_been.as_ref().filter(|would| would.attempts >= FEWEST_ATTEMPTS)?;
    let saved = would.asked_gib_hours - would.predicted_gib_hours;
    (saved > would.asked_gib_hours * WASTER_SHARE && would.would_fail <= would.failed).then(|| {
        format!(
            "With the predicted sizes {} ({}) less would have been asked for, with {}: take them.",
            figures::gib_hours(saved),
            figures::share(saved, would.asked_gib_hours),
            sums::memory_failures_with_predictions(would)
        )
    })
}

/// Reports that predictions cover fewer attempts than they should.
#[expect(clippy::cast_precision_loss, reason = "compared with 99 %")]
fn predictions_below_promise(now: &StatsTotals) -> Option<String> {
    let held = now.calibration.as_ref().filter(|held| held.attempts >= FEWEST_ATTEMPTS)?;
    let attempts = held.attempts as f64;
    // the standard deviation of a binomial distribution
    let deviation = (attempts * EXPECTED_SHARE * (1.0 - EXPECTED_SHARE)).sqrt();
    ((held.within_limit as f64) < attempts * EXPECTED_SHARE - CHANCE_DEVIATIONS * deviation).then(|| {
        format!(
            "Predicted memory limits held in {} of {} attempts, and 99 % are expected: look at the packages whose need varies most.",
            sums::within_limit(held),
            count(held.attempts)
        )
    })
}

/// Reports retries that could not help.
fn useless_retries_advice(now: &StatsTotals) -> Option<String> {
    let in_vain = [Cause::Deterministic, Cause::Configuration, Cause::Canceled].map(i32::from);
    let of = now.retries_by_cause.iter().filter(|of| in_vain.contains(&of.cause));
    let retries: u64 = of.map(|of| of.count).sum();
    (retries >= FAILURE_RISE.0).then(|| {
        format!(
            "{} retries were of failures that come again: let `plimsoll should-retry` decide.",
            count(retries)
        )
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::Calibration;

    use super::{
        super::tests::{empty, full},
        *,
    };

    #[test]
    fn limits_that_hold_as_often_as_chance_has_it_are_not_blamed() {
        let advice = |attempts, within_limit| {
            let calibration = Some(Calibration { attempts, within_limit, ..Calibration::default() });
            predictions_below_promise(&StatsTotals { calibration, ..StatsTotals::default() })
        };
        assert_eq!([advice(20, 19), advice(1000, 985)], [None, None]);
        assert!(advice(20, 18).is_some() && advice(1000, 970).is_some());
    }

    #[test]
    fn a_quiet_week_says_so_and_an_empty_one_does_not_praise() {
        let quiet = ReportData { now: StatsTotals { attempts: 5, ..StatsTotals::default() }, ..empty() };
        assert_eq!(next(&quiet), ["Nothing stands out: go on as you are."]);
        assert!(next(&empty())[0].starts_with("Nothing was measured"));
    }

    #[test]
    fn predictions_that_would_fail_more_often_are_not_recommended() {
        let mut digest = full();
        digest.now.would_have_been.as_mut().unwrap().would_fail = 21;
        assert!(!next(&digest).iter().any(|advice| advice.contains("take them")));
    }
}
