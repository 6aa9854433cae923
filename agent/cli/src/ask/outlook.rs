//! Describes a failure and its retry for people: the chance of a retry, its cost, and further facts.

use plimsoll_proto::{evidence::is_of_success, figures, reasons, shown::clean, v1::Verdict, verdict};

/// Most log lines shown that only pass the failure on.
const MAX_CONSEQUENCES: usize = 3;

/// The answer, the log line that identifies the failure, and what to do and why. An answer to `should-retry` and the report in the job's log
/// show the same lines.
pub(crate) fn answer_lines(verdict: &Verdict) -> Vec<String> {
    let reason = clean(&verdict.reason);
    let reason = (!reason.is_empty() && !is_of_success(verdict)).then_some(reason);
    std::iter::once(verdict::first_line(verdict)).chain(failure_lines(verdict)).chain(reason).collect()
}

/// The log line that identifies the failure, with its place in the code; then the log lines that only pass it
/// on.
pub(crate) fn failure_lines(verdict: &Verdict) -> Vec<String> {
    let Some(outlook) = &verdict.outlook else { return Vec::new() };
    let failure = reasons::failure_line(&outlook.failure_line, &outlook.signature_line);
    if failure.is_empty() {
        return Vec::new();
    }
    let place = reasons::failure_place(outlook).map_or(String::new(), |place| format!(" ({place})"));
    let consequences = outlook.consequences.iter().take(MAX_CONSEQUENCES);
    let first = format!("failure: {}{place}", clean(failure));
    std::iter::once(first).chain(consequences.map(|line| format!("  then: {}", clean(line)))).collect()
}

/// One line for each further fact, as in [`answer_lines`].
pub(crate) fn fact_lines(verdict: &Verdict) -> Vec<String> {
    let Some(outlook) = &verdict.outlook else { return Vec::new() };
    let mut lines = Vec::new();
    if outlook.seen > 0 {
        lines.push(format!("seen {} at this commit or in this job", times_words(outlook.seen)));
    }
    if outlook.retried > 0 {
        let share = figures::share_of(outlook.passed.into(), outlook.retried.into());
        lines.push(format!(
            "chance: {} of {} of this failure passed ({share})",
            outlook.passed,
            figures::counted_as(outlook.retried.into(), "retry", "retries")
        ));
    }
    let (memory, cpu) = (outlook.cost_memory_gib_hours, outlook.cost_cpu_core_hours);
    if memory > 0.0 || cpu > 0.0 {
        let (memory, cpu) = (figures::gib_hours(memory), figures::core_hours(cpu));
        lines.push(format!("cost: {memory} of memory, {cpu}"));
    }
    if outlook.wait_ms > 0 {
        let (wait, saves) = (figures::millis(outlook.wait_ms), outlook.waiting_saves_gib_hours);
        let saved =
            if saves > 0.0 { format!(", which saves {}", figures::gib_hours(saves)) } else { String::new() };
        lines.push(format!("wait {wait} before it{saved}"));
    }
    if outlook.clamped {
        lines.push("the next size is cut to the most there is, so it may not be enough".to_owned());
    }
    // in most answers the reason already ends with this text
    if !outlook.mend.is_empty() && !verdict.reason.contains(&outlook.mend) {
        lines.push(format!("what mends it: {}", clean(&outlook.mend)));
    }
    lines
}

fn times_words(count: u32) -> String {
    if count == 1 { "once more".to_owned() } else { format!("{} times more", figures::count(count.into())) }
}
