//! Turns each kind of evidence into a clue. The confidences are estimates: a kernel counter and the cluster's own reason are nearly proof;
//! a signal can come from any process, and any process can write a line into a log.

use plimsoll_proto::{evidence::source_in_words, measured::process_words};

use crate::domain::{
    Cause, EvidenceSource as Source, Exit, LogOrder, Millis, OomOrigin, Outcome, RecordedCause, Summary,
};
use crate::retry::{
    cause::finding::Clue,
    log::failure_order::{may_be_overcome, may_follow},
    matching::rule::OutOfMemorySign,
    matching::rule_match::RuleMatch,
};

/// Failed memory charges a second above which a build is starved: the geometric mean of 110/s (healthy at its limit) and 88,000/s (the
/// lowest of starved builds).
const STARVED_RATE: f64 = 3_000.0;
/// Failed memory charges a second that show starvation even if the need was not near the limit: ten times the threshold, still below every
/// measured starved build.
const STARVED_ALONE_RATE: f64 = 30_000.0;
/// Share of the limit above which the need counts as near the limit: starved builds used 92 to 94 % of it (the rest is the compiler's own
/// code, which is read again and again).
const NEAR_LIMIT_SHARE: f64 = 0.9;

/// Share of its time that a build was starved, above which starvation is the cause. This is a judgement: a build that lost a fifth of its
/// time at its limit would have progressed further with more memory; measured starved builds lost nearly all of it.
const STARVED_SHARE: f64 = 0.2;
/// Starved time just before the end, above which starvation is the cause however long the build ran before. This is a judgement: healthy
/// builds reach their limit for seconds only.
const STARVED_AT_END: Millis = Millis(60_000);

/// Meaning of SIGPIPE.
const READER_GONE: &str = "the reader of its output had seen enough (SIGPIPE)";

pub(in crate::retry) fn make_clue(
    source: Source,
    cause: Cause,
    confidence: f64,
    text: impl Into<String>,
) -> Clue {
    Clue {
        source,
        cause: Some(cause),
        confidence,
        weak: false,
        against: None,
        text: text.into(),
        mend: None,
        rule: String::new(),
    }
}

pub(in crate::retry) fn as_weak(clue: Clue) -> Clue {
    Clue { weak: true, ..clue }
}

/// The clue from the cause that an imported history recorded for an attempt without an agent. Its strength is that of the record's source:
/// a counter or reason that another program saw, else the claim of the program that wrote the history.
///
/// Recorded log lines and corrections by persons are skipped, because they are clues of their own where they are known. A cause of memory
/// counts only if the record marks the attempt as stopped by memory.
pub(in crate::retry) fn recorded_clue(recorded: RecordedCause) -> Option<Clue> {
    let RecordedCause { cause, source: from, censored } = recorded;
    if cause == Cause::Unknown || (cause.is_memory() && !censored) {
        return None;
    }
    let (source, confidence) = match from {
        Some(Source::Log | Source::Policy | Source::Person) => return None,
        Some(source @ Source::Kernel) => (source, 0.97),
        Some(source @ (Source::Container | Source::Pod)) => (source, 0.95),
        Some(source @ (Source::Measured | Source::Exit | Source::Ci)) => (source, 0.85),
        None => (Source::Ci, 0.85),
    };
    let from =
        from.map_or(String::new(), |source| format!(", from the {}", source_in_words(source.as_str())));
    let text = format!("the imported history says {}{from}", cause.as_str());
    Some(make_clue(source, cause, confidence, text))
}

/// The clue from the kernel's count of OOM kills. Its text names the limit that caused them.
pub(in crate::retry) fn kernel_clue(summary: &Summary) -> Option<Clue> {
    let kills = match summary.oom_kill? {
        0 if is_end_unseen(summary) => return None,
        0 => {
            return Some(Clue {
                cause: None,
                against: Some(Cause::Oom),
                ..make_clue(
                    Source::Kernel,
                    Cause::Oom,
                    0.0,
                    "oom_kill 0: the kernel killed nothing for memory",
                )
            });
        }
        kills => kills,
    };
    let (cause, limit_words) = match summary.oom_origin {
        None => (Cause::Oom, ""),
        Some(OomOrigin::OwnLimit) => (Cause::Oom, " at the build's own limit"),
        Some(OomOrigin::LimitAbove) => {
            (Cause::Oom, " at the limit of a group above the build's, which others may share")
        }
        Some(OomOrigin::Host) => {
            (Cause::Infra, " because the whole machine had no memory left, not at a limit of the build")
        }
    };
    let text = format!("oom_kill {kills}: the kernel killed for memory{limit_words}{}", largest(summary));
    Some(make_clue(Source::Kernel, cause, 0.97, text))
}

/// Whether the agent died with the build, so that its last reading was taken before the end.
fn is_end_unseen(summary: &Summary) -> bool {
    summary.outcome == Outcome::Lost && summary.exit.is_none()
}

/// Number of OOM kills at a memory limit, if known. Kills on a machine that is out of memory are left out, because they show nothing about
/// the build's need.
fn kills_at_limit(summary: &Summary) -> Option<u64> {
    if summary.was_killed_by_host() {
        return Some(0);
    }
    summary.oom_kill.filter(|kills| *kills > 0 || !is_end_unseen(summary))
}

/// The clue that the build ran at its memory limit, where the kernel kept reclaiming memory and the build made no progress.
pub(in crate::retry) fn starved_clue(summary: &Summary) -> Option<Clue> {
    match summary.starved {
        Some(starved) => starved_for(starved, summary),
        // the agent did not count starved time
        None => starved_by_rate(summary),
    }
}

/// The clue that the build's own agent ended the build, because it hung at its memory limit. The exit is then the agent's doing.
pub(in crate::retry) fn rescue_clue(summary: &Summary) -> Option<Clue> {
    let ended = summary.rescue.as_ref()?.ended?;
    let text =
        format!("rescue ended the build after {ended}: it hung at its memory limit{}", largest(summary));
    Some(make_clue(Source::Measured, Cause::Starved, 0.95, text))
}

/// A clause that names the largest process; empty if none was seen.
fn largest(summary: &Summary) -> String {
    let Some(process) = &summary.largest_process else { return String::new() };
    format!("; largest: {}", process_words(&process.program, &process.file, process.memory.0))
}

/// The clue from the time that the agent counted as starved.
fn starved_for(starved: Millis, summary: &Summary) -> Option<Clue> {
    let at_end = summary.starved_at_end.unwrap_or_default();
    let share = (starved.as_f64() / summary.wall.max(Millis(1)).as_f64()).min(1.0);
    if share < STARVED_SHARE && at_end < STARVED_AT_END {
        return None;
    }
    let confidence = if at_end >= STARVED_AT_END || share >= 0.5 { 0.9 } else { 0.8 };
    let end = if at_end.0 > 0 { format!(", {at_end} of them just before the end") } else { String::new() };
    let (wall, share) = (summary.wall, share * 100.0);
    let largest = largest(summary);
    let text = format!("starved at its memory limit for {starved} of {wall} ({share:.0} %){end}{largest}");
    Some(make_clue(Source::Kernel, Cause::Starved, confidence, text))
}

fn starved_by_rate(summary: &Summary) -> Option<Clue> {
    let (limit, failures) = (summary.holding_limit()?, summary.reclaim_failures?);
    let seconds = (summary.wall.as_f64() / 1000.0).max(0.001);
    // `failures` is a count, not bytes: `Bytes` only converts it to a float
    let rate = crate::domain::Bytes(failures).as_f64() / seconds;
    let near = summary.need_peak.as_f64() >= NEAR_LIMIT_SHARE * limit.as_f64();
    if rate < if near { STARVED_RATE } else { STARVED_ALONE_RATE } {
        return None;
    }
    let confidence = if near { 0.9 } else { 0.75 };
    let text = format!(
        "need {} at a limit of {limit}, {rate:.0} charges a second failed without reclaim",
        summary.need_peak
    );
    Some(make_clue(Source::Measured, Cause::Starved, confidence, text))
}

/// The clue that a signal which the build cannot handle, or `timeout`, ended the build after its whole time limit.
pub(in crate::retry) fn time_was_over(
    limit: Option<Millis>,
    measured: Option<&Summary>,
    exit: Option<Exit>,
) -> Option<Clue> {
    let (limit, measured) = (limit?, measured?);
    let ended_from_outside = matches!(exit.map(signal_of), None | Some((Some(124), _) | (_, Some(9 | 15))));
    if limit.0 == 0 || measured.wall < limit || !ended_from_outside {
        return None;
    }
    let text = format!("ran for {} of the {limit} that it was given", measured.wall);
    Some(make_clue(Source::Measured, Cause::Timeout, 0.9, text))
}

/// The clue that the build was killed from outside while page cache and need together filled its limit. Used only without counters of
/// failed charges, and then starvation is only the likelier of two explanations.
pub(in crate::retry) fn killed_at_limit(summary: &Summary, exit: Option<Exit>) -> Option<Clue> {
    let limit = summary.holding_limit()?;
    let counted = summary.starved.is_some() || summary.reclaim_failures.is_some();
    let killed = matches!(exit.map(signal_of), Some((_, Some(9))));
    if counted || !killed || summary.oom_kill != Some(0) || summary.memory_peak < limit {
        return None;
    }
    let text = format!("killed from outside with its limit of {limit} full, and the kernel killed nothing");
    Some(as_weak(make_clue(Source::Measured, Cause::Starved, 0.6, text)))
}

/// The exit code with which programs of batch systems and workflows pass on -9, the status of a process that SIGKILL ended.
const MINUS_SIGKILL: i32 = 256 - 9;

/// The exit code or the signal of an exit: shells report a signal as code 128 + signal.
fn signal_of(exit: Exit) -> (Option<i32>, Option<i32>) {
    match exit {
        Exit::Signal(signal) => (None, Some(signal)),
        Exit::Code(MINUS_SIGKILL) => (None, Some(9)),
        Exit::Code(code @ 129..=165) => (None, Some(code - 128)),
        Exit::Code(code) => (Some(code), None),
    }
}

/// The clue from the exit code or signal. `kills` is the kernel's count of OOM kills, if known.
pub(in crate::retry) fn exit_clue(exit: Exit, kills: Option<u64>) -> Option<Clue> {
    let found = |cause, confidence, means: &str| {
        Some(make_clue(Source::Exit, cause, confidence, format!("{exit}: {means}")))
    };
    let (code, signal) = signal_of(exit);
    match (code, signal) {
        _ if exit == Exit::Code(MINUS_SIGKILL) => {
            found(Cause::Oom, 0.5, "killed (-9), as batch systems mostly do for memory").map(as_weak)
        }
        (Some(124), _) => found(Cause::Timeout, 0.8, "the time was over"),
        (Some(126 | 127), _) => found(Cause::Deterministic, 0.8, "a command is missing or cannot be run"),
        (_, Some(9)) if kills == Some(0) => {
            found(Cause::Infra, 0.6, "killed, and not by the kernel for memory").map(as_weak)
        }
        (_, Some(9)) => {
            found(Cause::Infra, 0.4, "killed, by whom is not known; alone no proof of memory").map(as_weak)
        }
        // a canceled job has a reason of the CI system; a node that vanishes often cannot report one
        (_, Some(15)) => {
            found(Cause::Infra, 0.4, "asked to end from outside, by whom is not known").map(as_weak)
        }
        (_, Some(2)) => found(Cause::Canceled, 0.8, "interrupted"),
        // SIGPIPE, as under `| head`: the reader closed the output, and the build did not fail. Code 141 of a shell is weaker, because it
        // may hide another failure
        (None, Some(13)) if matches!(exit, Exit::Signal(_)) => found(Cause::Canceled, 0.8, READER_GONE),
        (_, Some(13)) => found(Cause::Canceled, 0.6, READER_GONE).map(as_weak),
        (_, Some(4 | 6 | 8 | 11)) => found(Cause::Deterministic, 0.5, "the program crashed").map(as_weak),
        _ => None,
    }
}

/// Clues from the log, strongest first. Equally strong lines keep the order that [`join`](mod@crate::retry::evidence::join) gives them.
///
/// A line counts once, by the strongest rule that matches it. There is one exception: a line that shows both a fault outside and a failure
/// of the build itself gives two clues, so that the verdict does not rule out the build. A failure whose every line may follow from a fault
/// outside that came before it is weak.
pub(in crate::retry) fn log_clues(hits: &[RuleMatch<'_>], measured: Option<&Summary>) -> Vec<Clue> {
    let mut by_rank: Vec<&RuleMatch<'_>> = hits.iter().collect();
    by_rank.sort_by_key(|hit| rank_hit(hit));
    let is_alone = |hit: &RuleMatch<'_>| may_be_overcome(hit.rule) && hit.log_order == LogOrder::Alone;
    let has_fault = hits.iter().any(is_alone);
    let follows = |hit: &RuleMatch<'_>| {
        has_fault
            && !hit.rule.own
            && !hit.rule.answered
            && [&hit.line, &hit.first_line].iter().all(|line| may_follow(line))
    };
    let is_own = |hit: &RuleMatch<'_>| hit.rule.cause == Cause::Deterministic && !hit.rule.weak;
    let mut once: Vec<&RuleMatch<'_>> = Vec::new();
    for hit in by_rank {
        let mut same = once.iter().filter(|stronger| stronger.line == hit.line);
        if same.all(|stronger| is_own(hit) && !is_own(stronger)) {
            once.push(hit);
        }
    }
    let clue = |hit: &RuleMatch<'_>| line_clue(hit, measured);
    once.into_iter()
        .map(|hit| if is_own(hit) && follows(hit) { as_weak(clue(hit)) } else { clue(hit) })
        .collect()
}

/// Rank of a matching line: the lowest decides. After a full disk or a killed compiler, tools report further errors of their own, so lines
/// about the machine and about memory come first.
pub(in crate::retry) fn rank_hit(hit: &RuleMatch<'_>) -> u8 {
    match (hit.rule.cause, hit.rule.weak) {
        _ if is_overcome(hit) => 6,
        // what says why comes before what says only that something failed
        (Cause::Unknown, true) => 5,
        (Cause::Deterministic, true) if hit.rule.summary => 5,
        // an answer explains why something could not be fetched, and a worker that went away why its tests failed
        (_, true) if hit.rule.answered || hit.rule.cause == Cause::Flaky => 3,
        (_, true) => 4,
        _ if hit.rule.place => 0,
        (Cause::Oom | Cause::ToolOom, _) => 1,
        _ => 2,
    }
}

/// Whether the build had a later failure of its own after this hit, a fault outside. The hit is then shown as evidence, and decides only if
/// nothing else does.
fn is_overcome(hit: &RuleMatch<'_>) -> bool {
    hit.log_order == LogOrder::Overcome
}

/// Whether the measured need stayed below [`NEAR_LIMIT_SHARE`] of a known limit.
fn is_far_below_limit(summary: &Summary) -> bool {
    let limit = summary.holding_limit();
    limit.is_some_and(|limit| summary.need_peak.as_f64() < NEAR_LIMIT_SHARE * limit.as_f64())
}

/// The text to show for a hit: rule and line.
pub(in crate::retry) fn text_of(hit: &RuleMatch<'_>) -> String {
    format!("{}: {}", hit.rule.id, hit.line)
}

/// The hit that a shown line came from.
pub(in crate::retry) fn hit_of<'h, 'r>(hits: &'h [RuleMatch<'r>], shown: &str) -> Option<&'h RuleMatch<'r>> {
    hits.iter().find(|hit| text_of(hit) == shown)
}

fn line_clue(hit: &RuleMatch<'_>, measured: Option<&Summary>) -> Clue {
    let kills = measured.and_then(kills_at_limit);
    let text = text_of(hit);
    let (cause, confidence): (Cause, f64) = match (hit.rule.sign, hit.rule.cause) {
        // the log reports a killed process, but the kernel counted no OOM kill
        (Some(OutOfMemorySign::Kill), _) if kills == Some(0) => (Cause::Infra, 0.6),
        // memory was refused far below the build's limit, so it was refused by a limit of the tool itself
        (Some(OutOfMemorySign::Alloc), _)
            if measured.is_some_and(|m| kills == Some(0) && is_far_below_limit(m)) =>
        {
            (Cause::ToolOom, 0.6)
        }
        (Some(_), cause) => (cause, 0.4),
        (None, cause) if cause.is_final() => (cause, 0.8),
        (None, cause) => (cause, 0.7),
    };
    let weak = hit.rule.weak || is_overcome(hit);
    let clue = make_clue(Source::Log, cause, if weak { confidence.min(0.5) } else { confidence }, text);
    Clue { weak, mend: hit.rule.mend.clone(), rule: hit.rule.id.clone(), ..clue }
}
