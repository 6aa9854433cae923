//! A verdict as rows for people, the same on the terminal, on the page and in the report at the end of a job.
//!
//! The first line has the form `answer: changes (cause, confidence, attempts left)`. If no cause is known, there is no confidence, and only the
//! policy allows a retry: the line then says first that the cause is not known, and second what the policy allows. The reason below it says
//! how the cause can be found. Programs read the fields of the message instead.

use crate::{
    cause,
    evidence::{NOTHING_TO_RETRY, cause_words, is_of_success, is_retry},
    figures,
    reasons::{SizeBound, SizeKind, failure_line, line_place},
    shown::clean,
    v1::{Action, Cause, Outlook, Quantity, Verdict},
};

/// The reason of a verdict if no text of the log was read.
pub const LOG_UNREAD: &str = "its log was not read";
/// The reason of a verdict if a log was read and no rule names a cause.
pub const NO_RULE_KNOWS_IT: &str = "no rule knows a line of its log that says why";

/// Most log lines shown that only pass the failure on.
const MAX_CONSEQUENCES: usize = 3;

/// A verdict as rows for people, each a name and a value, without its evidence and sizes. The answer, which is the first row, and the reason
/// have no name. Callers clean the texts before they show them on a terminal.
pub fn rows(verdict: &Verdict) -> Vec<(&'static str, String)> {
    let outlook = verdict.outlook.clone().unwrap_or_default();
    let of_success = is_of_success(verdict);
    let failure = Some(failure(&outlook)).filter(|failure| !failure.is_empty());
    let has_failure = failure.is_some();
    let then = outlook.consequences.iter().take(MAX_CONSEQUENCES).filter(|_| has_failure);
    let then = then.map(|line| ("  then", line.clone()));
    let reason = Some(verdict.reason.clone()).filter(|reason| !reason.is_empty() && !of_success);
    // in most answers the reason already ends with what mends it
    let mend = !outlook.mend.is_empty() && !verdict.reason.contains(&outlook.mend);
    let cut = "cut to the most there is, so it may not be enough";
    let facts = [
        ("", reason),
        ("seen", (outlook.seen > 0).then(|| seen(&outlook))),
        ("chance", (outlook.retried > 0).then(|| chance(&outlook))),
        ("cost", cost(&outlook)),
        ("wait", (outlook.wait_ms > 0).then(|| wait(&outlook))),
        ("next size", outlook.clamped.then(|| cut.to_owned())),
        ("what mends it", mend.then_some(outlook.mend)),
    ];
    let answer = [("", first_line(verdict))].into_iter();
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    answer.chain(failure.map(|failure| ("failure", failure))).chain(then).chain(facts).collect()
}

/// The log line that identifies the failure, with its place in the log.
fn failure(outlook: &Outlook) -> String {
    let line = failure_line(&outlook.failure_line, &outlook.signature_line);
    match line_place(outlook.failure_line_number, outlook.failure_line_from_end) {
        Some(place) if !line.is_empty() => format!("{line} ({place})"),
        _ => line.to_owned(),
    }
}

fn seen(outlook: &Outlook) -> String {
    let times = match outlook.seen {
        1 => "once".to_owned(),
        times => format!("{} times", figures::count(times.into())),
    };
    format!("{times} more at this commit or in this job")
}

fn chance(outlook: &Outlook) -> String {
    let (passed, retried) = (outlook.passed.into(), outlook.retried.into());
    let retries = figures::counted_as(retried, "retry", "retries");
    format!("{passed} of {retries} of this failure passed ({})", figures::share_of(passed, retried))
}

fn cost(outlook: &Outlook) -> Option<String> {
    let (memory, cpu) = (outlook.cost_memory_gib_hours, outlook.cost_cpu_core_hours);
    let words = || format!("{} of memory, {}", figures::gib_hours(memory), figures::core_hours(cpu));
    (memory > 0.0 || cpu > 0.0).then(words)
}

fn wait(outlook: &Outlook) -> String {
    let wait = format!("{} before the retry", figures::millis(outlook.wait_ms));
    match outlook.waiting_saves_gib_hours {
        saves if saves > 0.0 => format!("{wait}, which saves {}", figures::gib_hours(saves)),
        _ => wait,
    }
}

/// Words before the sizes for another attempt.
pub fn next_words(verdict: &Verdict) -> &'static str {
    if is_retry(verdict.action()) { "next attempt" } else { "to start it by hand" }
}

/// The first line of a verdict, cleaned of control characters.
fn first_line(verdict: &Verdict) -> String {
    if is_of_success(verdict) {
        return NOTHING_TO_RETRY.to_owned();
    }
    let left = || format!("{} left", figures::counted(attempts_left(verdict).into(), "attempt"));
    let left = is_retry(verdict.action()).then(left);
    if let (true, Some(left)) = (is_policy_alone(verdict), &left) {
        return format!("{} ({left})", answer(verdict));
    }
    let sure = format!("{} sure", figures::percent(verdict.confidence));
    let sure = Some(sure).filter(|_| !is_cause_unknown(verdict));
    let (means, cause) = match change_words(verdict) {
        Some(change) => (clean(&change), Some(cause(verdict))),
        None => (cause(verdict), None),
    };
    let answer = answer(verdict);
    match [cause, sure, left].into_iter().flatten().collect::<Vec<_>>().join(", ") {
        beside if beside.is_empty() => format!("{answer}: {means}"),
        beside => format!("{answer}: {means} ({beside})"),
    }
}

/// Whether no evidence names a cause, so that there is no confidence to report.
#[must_use]
pub fn is_cause_unknown(verdict: &Verdict) -> bool {
    matches!(verdict.cause(), Cause::Unknown | Cause::Unspecified)
}

/// Whether the verdict is a retry that only the policy allows, because no cause is known.
fn is_policy_alone(verdict: &Verdict) -> bool {
    is_cause_unknown(verdict) && is_retry(verdict.action())
}

/// Why no cause is known, taken from the verdict's reason; empty if the reason does not say it.
fn unknown_because(reason: &str) -> String {
    let why = [LOG_UNREAD, NO_RULE_KNOWS_IT].into_iter().find(|why| reason.contains(why));
    why.map_or(String::new(), |why| format!(": {why}"))
}

/// Number of attempts that may follow: what the budget leaves, or fewer if the policy allows fewer retries after such a failure.
fn attempts_left(verdict: &Verdict) -> u32 {
    let allowed = verdict.outlook.as_ref().and_then(|outlook| outlook.retries_allowed);
    allowed.map_or(verdict.attempts_left, |allowed| allowed.min(verdict.attempts_left))
}

/// What to do, in a few words. If no cause is known, the text says that first, and then what the retry policy allows.
#[must_use]
pub fn answer(verdict: &Verdict) -> String {
    let remedy = remedy_words(verdict);
    if !is_policy_alone(verdict) {
        return remedy.to_owned();
    }
    let (why, size) = (unknown_because(&verdict.reason), remedy.trim_start_matches("Retry"));
    format!("Cause not known{why}; the retry policy allows another attempt{size}")
}

fn remedy_words(verdict: &Verdict) -> &'static str {
    let cause = verdict.cause();
    match verdict.action() {
        Action::No | Action::Unspecified => "Do not retry",
        // an unchanged retry can get another size, if the old size is not available: the reason says which
        Action::AsIs if verdict.reason.is_empty() || verdict.reason.contains("same size") => {
            "Retry with the same size"
        }
        Action::AsIs if verdict.reason.contains("the predicted size") => "Retry with the predicted size",
        Action::AsIs => "Retry",
        Action::Bigger if exceeded_request(verdict).is_some() => "Retry with a larger memory request",
        Action::Bigger if !is_memory_cause(cause) => "Retry with more CPU",
        Action::Bigger if jobs_had(verdict).is_some() => "Retry with more memory and fewer build jobs",
        Action::Bigger => "Retry with more memory",
        Action::FewerJobs => "Retry with fewer build jobs",
        Action::Longer => "Retry with more time",
        Action::Elsewhere if matches!(cause, Cause::DiskFull | Cause::EphemeralStorage) => {
            "Retry on a machine with more free disk"
        }
        Action::Elsewhere => "Retry on another machine",
    }
}

/// Words for the cause, as in [`cause_words`], with "probably" if it is not proven.
fn cause(verdict: &Verdict) -> String {
    let cause = verdict.cause();
    let words = match cause_words(cause) {
        _ if is_cause_unknown(verdict) => "cause not known",
        // only a repeated failure is certain to fail every time
        _ if cause == Cause::Deterministic && is_repeated(verdict) => "fails every time",
        // the log shows a failed test and a lost connection, but not which of them caused the other
        _ if cause == Cause::Undecided => "undecided: the build itself or infrastructure",
        words => words,
    };
    // a log does not prove that memory was short
    let probably = is_memory_cause(cause) && verdict.cause_source == "log";
    format!("{}{words}", if probably { "probably " } else { "" })
}

/// Whether the same failure was seen before, at this commit or in this job.
fn is_repeated(verdict: &Verdict) -> bool {
    verdict.outlook.as_ref().is_some_and(|outlook| outlook.seen > 0)
}

/// The change for the retry, as old value -> new value; or the rule that forbids a retry. `None` if the answer needs no such detail.
fn change_words(verdict: &Verdict) -> Option<String> {
    let next = verdict.next.as_ref();
    match verdict.action() {
        Action::No | Action::Unspecified => {
            let rule = verdict.evidence.iter().find(|line| line.source == "policy" && line.supports)?;
            Some(rule.text.clone())
        }
        Action::Bigger if is_memory_cause(verdict.cause()) => {
            let kind = SizeKind::MemoryLimit;
            let limit = kind.of(next?)?.value;
            let had = verdict.outlook.as_ref().and_then(|outlook| outlook.stopped_at_bytes);
            let had = had.filter(|had| *had < limit).map(|had| kind.shown(had));
            let memory = format!("limit {}", from_to(had, &kind.shown(limit)));
            Some(match jobs_had(verdict) {
                Some(jobs) => format!("{memory}, {jobs}"),
                None => memory,
            })
        }
        Action::Bigger if exceeded_request(verdict).is_some() => {
            let kind = SizeKind::MemoryRequest;
            Some(from_to(exceeded_request(verdict), &kind.shown(kind.of(next?)?.value)))
        }
        Action::Bigger => {
            let kind = SizeKind::CpuLimit;
            let limit = kind.of(next?)?;
            let had = match bound_of(limit) {
                SizeBound::HeldBack(cores) => cores.parse().ok().map(figures::cores_named),
                _ => None,
            };
            Some(format!("limit {}", from_to(had, &kind.shown(limit.value))))
        }
        Action::FewerJobs => jobs_had(verdict),
        Action::Longer => {
            let kind = SizeKind::LongTime;
            let time = kind.of(next?)?;
            match bound_of(time) {
                SizeBound::TooShort(had) => Some(from_to(Some(had), &kind.shown(time.value))),
                _ => None,
            }
        }
        Action::AsIs | Action::Elsewhere => None,
    }
}

fn from_to(had: Option<String>, now: &str) -> String {
    had.map_or_else(|| now.to_owned(), |had| format!("{had} -> {now}"))
}

/// The change of build jobs, such as `-j8 -> -j4`, if the next attempt gets fewer because memory is short.
fn jobs_had(verdict: &Verdict) -> Option<String> {
    let jobs = SizeKind::BuildJobs.of(verdict.next.as_ref()?)?;
    match bound_of(jobs) {
        SizeBound::HalfOf(had, _) => Some(format!("-j{had} -> -j{}", jobs.value)),
        SizeBound::RoomIn(_) => Some(format!("-j{}", jobs.value)),
        _ => None,
    }
}

/// The attempt's memory request, if it was evicted for using more.
fn exceeded_request(verdict: &Verdict) -> Option<String> {
    match bound_of(SizeKind::MemoryRequest.of(verdict.next.as_ref()?)?) {
        SizeBound::AboveRequest(had) => Some(had),
        _ => None,
    }
}

fn bound_of(quantity: &Quantity) -> SizeBound {
    quantity.basis.as_ref().map_or(SizeBound::None, SizeBound::of)
}

fn is_memory_cause(cause: Cause) -> bool {
    cause::Cause::of_wire(cause).is_some_and(cause::Cause::is_memory)
}

#[cfg(test)]
mod tests;
