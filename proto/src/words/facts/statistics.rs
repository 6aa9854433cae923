//! The facts of statistics over attempts.

use super::{
    Described, Fact, Line,
    Value::{Count, Words},
    always_named, card, fact,
};
use crate::{
    evidence::cause_name,
    figures::{self, amount, core_hours, count, counted, counted_as, gib_hours, known, percent, rate, share},
    measured::above_zero,
    shown::clean,
    sums,
    v1::{Calibration, Cause, GetStatsResponse, RescueTotals, StatsTotals, WouldHaveBeen},
};

impl Described for GetStatsResponse {
    const FACTS: &'static [Fact<Self>] = FACTS;
}

/// All facts, in the order in which they are shown.
#[rustfmt::skip]
const FACTS: &[Fact<GetStatsResponse>] = &[
    card(fact(Line::Attempts, "attempts ended", "{}", Count(|of| Some(all(of).attempts)))),
    fact(Line::Attempts, "succeeded", ": {} succeeded", Words(|of| Some(part(all(of).succeeded, &all(of))))),
    fact(Line::Attempts, "lost", ", {} lost", Count(|of| Some(all(of).lost))),
    fact(Line::Attempts, "ended", ", {} ended with no exit status known", Count(|of| above_zero(Some(all(of).ended)))),
    fact(Line::Attempts, "canceled", ", {} canceled", Count(|of| above_zero(Some(all(of).canceled)))),
    card(fact(Line::Failures, "failed", "{}", Words(|of| Some(part(all(of).failed, &all(of)))))),
    fact(Line::Failures, "failures by cause", ": {}", Words(|of| by_cause(sums::failures_by_cause(&all(of))))),
    card(fact(Line::Retries, "retries", "{}", Count(|of| Some(all(of).retries)))),
    fact(Line::Retries, "retries by cause", ", after: {}", Words(|of| by_cause(sums::retries_by_cause(&all(of))))),
    fact(Line::Retries, "retries that helped", "; {} helped", Count(|of| above_zero(Some(all(of).retries_helped)))),
    fact(Line::Retries, "retries avoided", "; {} not made because a verdict said no", Words(avoided)),
    fact(Line::Time, "time of builds", "{} h of builds", Words(|of| Some(amount(all(of).wall_hours)))),
    card(always_named(fact(Line::Cpu, "CPU used", "{}", Words(|of| sums::cpu_time(&all(of)).map(core_hours))))),
    fact(Line::Cpu, "time of these builds", " over {}", Words(|of| Some(all(of).cpu_wall_hours).filter(|hours| *hours > 0.0).map(|hours| format!("{} h of builds", amount(hours))))),
    fact(Line::Cpu, "CPU put to use", "; put to use {}", Words(|of| used(all(of).cpu_used_of_asked_core_hours, core_hours, sums::cpu_used_share(&all(of))))),
    fact(Line::Cpu, "CPU asked for", " of {} asked", Words(|of| sums::cpu_asked(&all(of)).map(core_hours))),
    fact(Line::Cpu, "CPU wasted", "; wasted {}", Words(|of| Some(priced(of, core_hours(sums::cpu_wasted_hours(&all(of))?), all(of).cpu_wasted_money)))),
    card(always_named(fact(Line::Memory, "memory wasted", "wasted {}", Words(|of| sums::memory_wasted_hours(&all(of)).map(gib_hours))))),
    fact(Line::Memory, "share wasted", ": {}", Words(|of| Some(sums::memory_wasted_words(&all(of))))),
    fact(Line::Memory, "money for it", ", {}", Words(|of| sums::memory_asked(&all(of)).and_then(|_| money(of, all(of).memory_wasted_money)))),
    card(fact(Line::Memory, "memory put to use", "; put to use {}", Words(|of| used(all(of).memory_used_of_asked_gib_hours, gib_hours, sums::memory_used_share(&all(of)))))),
    fact(Line::Memory, "memory asked for", " of {} asked", Words(|of| sums::memory_asked(&all(of)).map(gib_hours))),
    fact(Line::Memory, "memory used", "; used {}", Words(|of| Some(known(sums::memory_used(&all(of)), gib_hours)))),
    card(fact(Line::Memory, "highest need", "; highest need {}", Words(|of| Some(sums::highest_need_words(&all(of)))))),
    fact(Line::Memory, "need over ask", "; need over ask: {}", Words(|of| Some(sums::need_over_ask_words(&all(of))))),
    fact(Line::Notes, "left out", "{}", Words(|of| sums::left_out_words(&all(of)))),
    fact(Line::Money, "money asked for", "{} asked for", Words(|of| money(of, all(of).asked_money))),
    fact(Line::Money, "money wasted", ", {} wasted", Words(|of| Some(format!("{} ({})", money(of, all(of).wasted_money)?, share(all(of).wasted_money, all(of).asked_money))))),
    card(fact(Line::Predicted, "stayed within the predicted limit", "{} stayed within the limit", Words(|of| held(of).map(|held| rate(held.within_limit, held.attempts))))),
    fact(Line::Predicted, "predicted attempts", ", over {}", Words(|of| held(of).map(|held| counted(held.attempts, "attempt")))),
    fact(Line::Predicted, "limit against need", "; limit and need differ by a factor of {} on average", Words(|of| held(of).filter(|held| held.error_log2_mean > 0.0).map(|held| amount(held.error_log2_mean.exp2())))),
    card(fact(Line::Predicted, "stayed within the predicted request", "; {} within the request", Words(|of| held(of).map(|held| rate(held.within_request, held.request_attempts))))),
    card(fact(Line::Predicted, "ended within the predicted time", "; {} within the time for 95 %", Words(|of| timed(of).map(|held| rate(held.within_wall_p95, held.timed))))),
    fact(Line::Predicted, "attempts with a time", ", over {} that succeeded (95 % is right)", Words(|of| timed(of).map(|held| count(held.timed)))),
    card(fact(Line::Rescue, "saved by rescue", "{} saved for certain", Words(|of| rescue(of).map(|rescue| count(rescue.saved))))),
    fact(Line::Rescue, "probably saved", ", {} probably", Words(|of| rescue(of).map(|rescue| count(rescue.probably_saved)))),
    fact(Line::Rescue, "attempts in which it acted", ", of {} in which it acted", Words(|of| rescue(of).map(|rescue| count(rescue.attempts)))),
    fact(Line::Rescue, "ended because they hung", "; {} ended because they hung", Count(|of| above_zero(Some(rescue(of)?.ended)))),
    card(fact(Line::Rescue, "time of paused processes", "; processes paused for {}", Words(|of| rescue(of).filter(|rescue| rescue.paused_process_hours > 0.0).map(|rescue| hours(rescue.paused_process_hours))))),
    fact(Line::Rescue, "time over the median", ", {} over the predicted median time", Words(|of| rescue(of).filter(|rescue| rescue.timed > 0).map(|rescue| hours(rescue.over_median_hours)))),
    fact(Line::Rescue, "attempts with a median", ", in {}", Words(|of| rescue(of).filter(|rescue| rescue.timed > 0).map(|rescue| counted(rescue.timed, "attempt")))),
    card(fact(Line::Rescue, "memory of raised limits", "; raised limits allowed {} more", Words(|of| rescue(of).filter(|rescue| rescue.raised_gib_hours > 0.0).map(|rescue| gib_hours(rescue.raised_gib_hours))))),
    card(fact(Line::WouldBe, "asked with predicted sizes", "{} asked", Words(|of| would(of).map(|would| gib_hours(would.predicted_gib_hours))))),
    fact(Line::WouldBe, "asked for", " instead of {}", Words(|of| would(of).map(|would| gib_hours(would.asked_gib_hours)))),
    fact(Line::WouldBe, "attempts with a prediction", ", over {}", Words(|of| would(of).map(|would| counted(would.attempts, "attempt")))),
    card(fact(Line::WouldBe, "change of what is asked for", "; {}", Words(|of| would(of).map(|would| change(of, &would))))),
    card(fact(Line::WouldBe, "would fail for memory", "; {} would fail for memory", Words(|of| would(of).map(would_fail)))),
    fact(Line::WouldBe, "failed for memory", ", {} did", Words(|of| would(of).map(|would| count(would.failed)))),
    fact(Line::WouldBe, "not known", " ({} of them not known: stopped below the predicted limit)", Count(|of| above_zero(Some(would(of)?.not_known)))),
];

fn all(of: &GetStatsResponse) -> StatsTotals {
    of.totals.clone().unwrap_or_default()
}

fn held(of: &GetStatsResponse) -> Option<Calibration> {
    all(of).calibration.filter(|held| held.attempts > 0)
}

fn timed(of: &GetStatsResponse) -> Option<Calibration> {
    held(of).filter(|held| held.timed > 0)
}

fn would(of: &GetStatsResponse) -> Option<WouldHaveBeen> {
    all(of).would_have_been.filter(|would| would.attempts > 0)
}

fn rescue(of: &GetStatsResponse) -> Option<RescueTotals> {
    of.totals.as_ref()?.rescue
}

/// Hours as a time.
fn hours(hours: f64) -> String {
    figures::millis(figures::to_whole(hours * 3_600_000.0))
}

/// A part of what was asked for: `100 GiB·h (25 %)`; `None` if nothing was asked for.
fn used(part: f64, say: fn(f64) -> String, share: Option<f64>) -> Option<String> {
    share.map(|share| format!("{} ({})", say(part), percent(share)))
}

/// `34 (3 %)`.
fn part(part: u64, of: &StatsTotals) -> String {
    format!("{} ({})", count(part), figures::share_of(part, of.attempts))
}

/// Counts by cause, the most frequent cause first.
fn by_cause(counts: impl Iterator<Item = (Cause, u64)>) -> Option<String> {
    let mut counts: Vec<_> = counts.collect();
    counts.sort_by_key(|(_, failures)| std::cmp::Reverse(*failures));
    let parts =
        counts.into_iter().map(|(cause, failures)| format!("{} {}", cause_name(cause), count(failures)));
    Some(parts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

fn avoided(of: &GetStatsResponse) -> Option<String> {
    above_zero(Some(all(of).retries_avoided)).map(|avoided| counted_as(avoided, "was", "were"))
}

/// An amount of money; `None` if it is not known, as without a price.
fn money(of: &GetStatsResponse, money: f64) -> Option<String> {
    (!of.currency.is_empty() && money > 0.0).then(|| figures::money(money, &clean(&of.currency)))
}

/// The text with what it costs, if there are prices.
fn priced(of: &GetStatsResponse, text: String, cost: f64) -> String {
    money(of, cost).map_or(text.clone(), |cost| format!("{text}, {cost}"))
}

/// `at least 3` if that is not known for some attempts.
fn would_fail(would: WouldHaveBeen) -> String {
    let least = if would.not_known > 0 { "at least " } else { "" };
    format!("{least}{}", count(would.would_fail))
}

/// How much less or more predicted sizes ask for. The prices of pools count, so the money may be more although the memory is less.
fn change(of: &GetStatsResponse, would: &WouldHaveBeen) -> String {
    let less = would.asked_gib_hours - would.predicted_gib_hours;
    let word = if less >= 0.0 { "less" } else { "more" };
    let costs = money(of, would.predicted_money).zip(money(of, would.asked_money));
    let costs = costs.map(|(now, before)| format!(", {now} instead of {before}")).unwrap_or_default();
    let share = share(less.abs(), would.asked_gib_hours);
    format!("{share} {word}: {}{costs}", gib_hours(less.abs()))
}

#[cfg(test)]
mod tests {
    use crate::facts::{Line, cards};

    use super::*;

    #[test]
    fn money_stands_beside_what_it_is_for() {
        let totals = StatsTotals {
            attempts: 1,
            memory_asked_gib_hours: 2.0,
            asked_money: 20.0,
            wasted_money: 9.21,
            memory_wasted_money: 2.22,
            cpu_wasted_money: 6.99,
            cpu_asked_core_hours: 2.0,
            ..StatsTotals::default()
        };
        let stats =
            GetStatsResponse { totals: Some(totals), currency: "EUR".to_owned(), ..Default::default() };
        let notes = |line| cards(&stats, line).into_iter().map(|(_, _, note)| note).collect::<String>();
        assert!(notes(Line::Memory).contains("2.22 EUR") && notes(Line::Cpu).contains("6.99 EUR"));
        assert!(!notes(Line::Memory).contains("9.21"), "{}", notes(Line::Memory));
    }
}
