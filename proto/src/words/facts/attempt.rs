//! The facts of an attempt.

use super::{
    Described, Fact, Line,
    Value::{Bytes, Cores, Count, Micros, Millis, Time, Words},
    always_named, card, fact,
};
use crate::{
    evidence, figures, measured,
    shown::clean,
    v1::{OomOrigin, Outcome, Rescue, Source, Summary},
};

impl Described for Summary {
    const FACTS: &'static [Fact<Self>] = FACTS;
}

/// All facts, in the order in which they are shown.
#[rustfmt::skip]
const FACTS: &[Fact<Summary>] = &[
    fact(Line::Where, "pool", "pool {}", Words(|of| named(&of.pool))),
    fact(Line::Where, "trust", "; {}", Words(|of| of.untrusted.then(|| measured::NOT_TRUSTED.to_owned()))),
    fact(Line::Result, "result", "{}", Words(|of| Some(evidence::result(of)))),
    fact(Line::Result, "cause from", ", cause from the {}", Words(|of| named(evidence::source_in_words(&of.cause_source)))),
    fact(Line::Time, "ended", "{} UTC", Time(|of| (!is_running(of)).then(|| measured::ended_unix_ms(of)))),
    card(fact(Line::Time, "took", ", after {}", Millis(|of| (!is_running(of)).then_some(of.wall_ms)))),
    fact(Line::Time, "running since", "since {} UTC", Time(|of| is_running(of).then_some(of.started_unix_ms))),
    fact(Line::Time, "measured for", ", measured for {}", Millis(|of| is_running(of).then_some(of.wall_ms))),
    card(always_named(fact(Line::Cpu, "CPU time", "{}", Micros(measured::cpu_usec)))),
    fact(Line::Cpu, "CPU use", ", {}", Words(|of| measured::cpu_usec(of).map(|_| measured::cpu_words(of)))),
    fact(Line::Cpu, "CPU request", ", asked for {}", Cores(|of| of.resources?.cpu_request_cores)),
    fact(Line::Cpu, "CPU limit", ", limit {}", Cores(|of| of.resources?.cpu_limit_cores)),
    card(always_named(fact(Line::Memory, "need", "needed {}", Words(|of| measured::proven_need(of).map(|_| measured::noted_need_words(of)))))),
    fact(Line::Memory, "mean need", ", mean {}", Bytes(measured::mean_need)),
    fact(Line::Memory, "peak phase", ", most in {}", Words(|of| measured::proven_need(of).and_then(|_| named(&of.peak_phase)))),
    fact(Line::Memory, "with page cache", ", {} with page cache", Bytes(|of| Some(measured::memory_peak(of)?.max(measured::proven_need(of).unwrap_or(0))))),
    card(fact(Line::Memory, "asked for", "; asked for {}", Words(|of| Some(measured::memory_asked_words(of.resources.as_ref()))))),
    fact(Line::Memory, "limit at the start", ", {} at the start", Words(|of| of.memory_limit_at_start_bytes.map(limit_at_start))),
    fact(Line::Memory, "need of that", " ({})", Words(measured::need_of_ask_words)),
    fact(Line::Killed, "killed for memory", "the kernel killed {}", Words(killed)),
    fact(Line::Killed, "whole group killed", ", the whole group {}", Words(|of| times_of(of.oom_group_kill))),
    fact(Line::Processes, "largest process", "largest {}", Words(largest)),
    fact(Line::Processes, "compilers at once", "; compilers at once: {}", Count(|of| measured::above_zero(of.compilers_peak.map(u64::from)))),
    fact(Line::HeldBack, "starved for", ", starved for {}", Millis(|of| measured::above_zero(of.starved_ms))),
    fact(Line::HeldBack, "stalled for memory for", ", stalled for memory for {}", Micros(|of| measured::above_zero(of.memory_stall_usec))),
    // the kernel adds up the time of all processors, so it may be longer than the attempt
    fact(Line::HeldBack, "throttled for", ", throttled for {} over all processors", Micros(|of| measured::above_zero(of.throttled_usec))),
    fact(Line::Rescue, "rescue", "{}", Words(|of| rescued(of.rescue.as_ref()?, of.need_peak_bytes))),
    fact(Line::Samples, "samples", "{}", Words(samples)),
    fact(Line::Samples, "samples lost", ", {} lost", Count(|of| measured::above_zero(Some(of.samples_lost)))),
    fact(Line::Samples, "read from", ", from {}", Words(|of| measured::source_words(of.source()).map(str::to_owned))),
    card(fact(Line::Predicted, "predicted limit", "limit {}", Words(predicted_limit))),
    fact(Line::Predicted, "predicted request", "; request {}", Words(predicted_request)),
    fact(Line::Predicted, "predicted time", "; time for 95 % {}", Words(predicted_time)),
    fact(Line::Predicted, "predicted CPU", "; CPU request {}", Words(predicted_cpu)),
    fact(Line::Notes, "done elsewhere", "{}", Words(measured::offloaded_sentence)),
    fact(Line::Notes, "not seen", "{}", Words(|of| measured::unseen_note(of).map(str::to_owned))),
    fact(Line::Notes, "need and page cache", "{}", Words(|of| measured::need_below_mark(of).map(str::to_owned))),
    fact(Line::Evidence, "began", "{}", Time(|of| Some(of.started_unix_ms))),
    fact(Line::Evidence, "exit code", "{}", Words(|of| Some(of.exit?.code?.to_string()))),
    fact(Line::Evidence, "killed for memory", "{}", Words(|of| (of.oom_kill == Some(0)).then(|| "no process".to_owned()))),
    fact(Line::Evidence, "failed charges", "{}", Count(|of| of.reclaim_failures)),
    fact(Line::Evidence, "pages read again", "{}", Count(|of| measured::above_zero(of.refaults))),
];

fn is_running(of: &Summary) -> bool {
    of.outcome() == Outcome::Running
}

fn named(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| clean(text))
}

fn times_of(number: Option<u64>) -> Option<String> {
    measured::above_zero(number).map(|number| figures::counted_as(number, "time", "times"))
}

fn samples(of: &Summary) -> Option<String> {
    let is_imported = of.source() == Source::Unspecified && of.samples == 0;
    Some(if is_imported { "none: the attempt was imported".to_owned() } else { figures::count(of.samples) })
}

fn predicted_limit(of: &Summary) -> Option<String> {
    let limit = measured::predicted_limit(of)?;
    let Some(need) = measured::proven_need(of) else { return Some(figures::bytes(limit)) };
    let held = measured::limit_sufficed(of).map(|held| format!("{}, ", held_words(of, held)));
    let (needed, share) = (measured::need_words(of), figures::share_of(need, limit));
    let held = held.unwrap_or_default();
    Some(format!("{}: {held}it needed {needed} ({share} of it)", figures::bytes(limit)))
}

fn predicted_request(of: &Summary) -> Option<String> {
    let request = measured::above_zero(measured::predicted(of).map(|sizes| sizes.memory_request_bytes))?;
    let share = measured::proven_need(of).map(|need| format!(": {} of it", figures::share_of(need, request)));
    Some(figures::bytes(request) + &share.unwrap_or_default())
}

/// Only of attempts that succeeded or still run: a failed attempt may have ended early.
fn predicted_time(of: &Summary) -> Option<String> {
    let is_comparable = is_running(of) || of.outcome() == Outcome::Succeeded;
    let most =
        measured::predicted(of).map(|sizes| sizes.wall_p95_ms).filter(|most| *most > 0 && is_comparable)?;
    let held = held_words(of, of.wall_ms <= most);
    Some(format!("{}: {held}, it took {}", figures::millis(most), figures::millis(of.wall_ms)))
}

fn predicted_cpu(of: &Summary) -> Option<String> {
    let request =
        measured::predicted(of).map(|sizes| sizes.cpu_request_cores).filter(|cores| *cores > 0.0)?;
    let used = measured::mean_cores(of).map(|used| format!(": it used {} on average", figures::cores(used)));
    Some(figures::cores_named(request) + &used.unwrap_or_default())
}

/// Words for whether a predicted size was enough.
fn held_words(of: &Summary, held: bool) -> &'static str {
    match held {
        true if is_running(of) => "held so far",
        true => "held",
        false => "too small",
    }
}

/// A need counts as having reached a limit if the limit exceeds it by at most this part (one eighth) of the limit.
const NEAR_LIMIT_PART: u64 = 8;

/// Words for the memory limit that an attempt began with, where it changed.
fn limit_at_start(bytes: u64) -> String {
    if bytes == 0 { "no limit".to_owned() } else { format!("limit {}", figures::bytes(bytes)) }
}

/// How many processes the kernel killed, and at which limit. If the need did not come close to the build's own limit, a part of the build
/// may have reached a lower limit that the build itself had set: the kernel's counters do not show which of the two it was.
fn killed(of: &Summary) -> Option<String> {
    let processes = figures::counted_as(measured::above_zero(of.oom_kill)?, "process", "processes");
    let limit = of.resources.and_then(|resources| resources.memory_limit_bytes);
    let is_near = |limit| of.need_peak_bytes.is_none_or(|need| need >= limit - limit / NEAR_LIMIT_PART);
    let place = match of.oom_origin() {
        OomOrigin::Unspecified => "for memory",
        OomOrigin::OwnLimit if !limit.is_some_and(is_near) => {
            "at the build's own limit, or at one that the build set itself"
        }
        OomOrigin::OwnLimit => "at the build's own limit",
        OomOrigin::LimitAbove => "at a limit above the build's own, which others may share",
        OomOrigin::Host => "because the whole machine had no memory left",
    };
    Some(format!("{processes} {place}"))
}

fn largest(of: &Summary) -> Option<String> {
    let elapsed = of.largest_process.as_ref()?.elapsed_ms;
    Some(format!("{} at {}", measured::largest_process(of)?, figures::millis(elapsed)))
}

/// What rescue did for a build that needed `need` bytes at once.
fn rescued(rescue: &Rescue, need: Option<u64>) -> Option<String> {
    let times = |number: u32| figures::counted_as(number.into(), "time", "times");
    let would = rescue.would_pause_ms.map(|at| {
        let processes = figures::counted_as(rescue.would_pause_processes.into(), "process", "processes");
        format!("would have paused {processes} at {}", figures::millis(at))
    });
    let paused = (rescue.pauses > 0 || rescue.paused_ms > 0).then(|| {
        let together = rescue.together_peak_bytes;
        let spared = need.filter(|need| together > *need).map(|_| figures::bytes(together));
        let spared = spared.map(|all| format!(" (without that, {all} at once)")).unwrap_or_default();
        format!("paused {}, {} in all{spared}", times(rescue.pauses), figures::millis(rescue.paused_ms))
    });
    let raised = (rescue.raises > 0).then(|| format!("raised the memory limit {}", times(rescue.raises)));
    let ended = rescue
        .ended_ms
        .map(|at| format!("ended the build after {}: it hung at its memory limit", figures::millis(at)));
    let gave_up = named(&rescue.gave_up).map(|why| format!("gave up: {why}"));
    let all: Vec<String> = [would, paused, raised, ended, gave_up].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}
