//! Classifies why an attempt failed: clues are ordered by strength, and the first that names a cause decides.
//!
//! Kernel counters > reasons of container and pod > starvation > exit code and signal > reason of the CI system > log. A deadline of the
//! container or pod comes after starvation: it shows that the time was over, not why it was too short. A `weak` clue (a signal that many
//! programs send, a line that only reports a failure) decides only if no other clue does. The order in which clues of one kind were
//! reported does not matter ([`join`](mod@crate::retry::evidence::join)). Clues that agree with the decision or argue against it are listed with it.

use crate::domain::{
    Cause, Evidence, EvidenceLine, EvidenceSource, Exit, LogOrder, MatchedRule, Outcome, RecordedCause,
    ReportedEvidence, Summary,
};
use crate::retry::{
    cause::clues,
    cause::corrections::is_rule_id,
    cause::finding::{Clue, Finding},
    cause::reasons::{self, OutOfMemory},
    decision::remedy::throttled_clue,
    evidence::join::join,
    evidence::reported::{reported, rule_matches},
    known::rule_records::{self, MAX_MATCHED_RULES, RuleRecord, RuleRecords, no_records},
    known::signature,
    matching::log_rules::LogRules,
    matching::rule::OutOfMemorySign,
    matching::rule_match::RuleMatch,
};

/// Change of the confidence for each clue after the first: up if it agrees, down if it does not.
const CLUE_STEP: f64 = 0.05;
/// Highest confidence in a fault outside the build if the same log also shows a failure of the build itself.
const UNCERTAIN_CONFIDENCE: f64 = 0.5;
/// Confidence if nothing names a cause.
const NO_CAUSE_CONFIDENCE: f64 = 0.2;

/// Finds why the attempt failed, from all evidence reported now and in earlier questions; `rules` match its log.
pub fn classify(evidence: &Evidence, rules: &LogRules) -> Finding {
    classify_with_records(evidence, rules, &no_records)
}

/// Like [`classify`]; a rule that is unreliable by the records `here` names no cause; the next clue decides.
pub fn classify_with_records(evidence: &Evidence, rules: &LogRules, here: RuleRecords<'_>) -> Finding {
    let mut joined = evidence.reported.clone();
    join(&mut joined, &reported(evidence, rules));
    let mut silenced: Vec<(MatchedRule, RuleRecord)> = Vec::new();
    loop {
        let mut finding = classify_ignoring(evidence, rules, &joined, &silenced);
        let record = finding.spoken.first().map(|spoken| here(&spoken.rule)).unwrap_or_default();
        if !record.is_reliable() && silenced.len() + 1 < MAX_MATCHED_RULES {
            silenced.extend(finding.spoken.pop().map(|spoken| (spoken, record)));
            continue;
        }
        finding.lines.extend(silenced.iter().map(|(spoken, record)| EvidenceLine {
            source: EvidenceSource::Measured,
            text: rule_records::sentence(spoken, *record),
            supports: false,
        }));
        finding.spoken.splice(0..0, silenced.into_iter().map(|(spoken, _)| spoken));
        return finding;
    }
}

/// The finding in which the clues of these rules name no cause.
fn classify_ignoring(
    evidence: &Evidence,
    rules: &LogRules,
    joined: &ReportedEvidence,
    silenced: &[(MatchedRule, RuleRecord)],
) -> Finding {
    let measured = evidence.measured.as_deref();
    let is_silenced = |rule: &str| silenced.iter().any(|(spoken, _)| spoken.rule == rule);
    let exit = joined.exit.or_else(|| measured.and_then(|summary| summary.exit));
    let (hits, unknown): (Vec<RuleMatch<'_>>, Vec<Clue>) = rule_matches(joined, rules);
    let reasons = ReportedReasons::of(joined, out_of_memory(joined, measured));
    if succeeded(exit, measured) {
        return after_success(measured, reasons.into_clues().collect());
    }
    let ReportedReasons { container, pod, ci } = reasons;
    let (deadlines, places): (Vec<Clue>, Vec<Clue>) =
        container.into_iter().chain(pod).partition(|clue| clue.cause == Some(Cause::Timeout));
    let mut found = Vec::new();
    found.extend(measured.and_then(clues::kernel_clue));
    found.extend(places);
    found.extend(measured.and_then(clues::rescue_clue));
    found.extend(measured.and_then(clues::starved_clue));
    let time_was_over = clues::time_was_over(joined.time_limit, measured, exit);
    let ended = exit.and_then(|exit| clues::exit_clue(exit, measured.and_then(|summary| summary.oom_kill)));
    let is_timeout = |clue: &&Clue| clue.cause == Some(Cause::Timeout);
    if time_was_over.iter().chain(&deadlines).chain(&ended).chain(&ci).any(|clue| is_timeout(&clue)) {
        found.extend(measured.and_then(throttled_clue));
    }
    found.extend(time_was_over);
    found.extend(measured.and_then(|summary| clues::killed_at_limit(summary, exit)));
    found.extend(deadlines);
    let logged = clues::log_clues(&hits, measured);
    let log_says_why = log_says_why(ended.as_ref(), &hits, &is_silenced);
    let (ended, ended_after) = if log_says_why { (None, ended) } else { (ended, None) };
    found.extend(ended);
    found.extend(ci);
    found.extend(logged);
    found.extend(ended_after);
    found.extend(unknown);
    for clue in found.iter_mut().filter(|clue| is_silenced(&clue.rule)) {
        (clue.cause, clue.weak) = (None, true);
    }
    // the cause in the summary comes second, because an earlier verdict may have replaced it
    let recorded = evidence.recorded.or_else(|| measured.and_then(RecordedCause::of));
    add_recorded(&mut found, recorded);
    let finding = Finding { log_unread: is_log_unread(joined), ..decide_cause(&found) };
    let finding = lowered_by_failed_test(finding, &hits);
    with_first_line(finding, joined, &hits)
}

/// Whether the log says better than the exit why the build ended. A signal says that it was killed, and a line may say for what; a program
/// that aborts itself may say why; schedulers interrupt what is over its limit, which then was not canceled.
fn log_says_why(ended: Option<&Clue>, hits: &[RuleMatch<'_>], is_silenced: &impl Fn(&str) -> bool) -> bool {
    let Some(ended) = ended else { return false };
    let speaks = |hit: &&RuleMatch<'_>| {
        !is_silenced(&hit.rule.id) && (ended.cause != Some(Cause::Canceled) || !hit.rule.weak)
    };
    hits.iter().filter(speaks).any(|hit| match hit.rule.cause {
        cause if cause.is_memory() => {
            (ended.weak || ended.cause == Some(Cause::Canceled)) && !hit.rule.summary
        }
        Cause::Timeout | Cause::Infra => {
            let may_be_for_time = hit.rule.cause == Cause::Timeout && ended.cause == Some(Cause::Canceled);
            let names_the_end = !hit.rule.weak && hit.log_order != LogOrder::Overcome;
            may_be_for_time || (names_the_end && ended.weak && ended.cause == Some(Cause::Deterministic))
        }
        _ => false,
    })
}

/// The finding with the line of the log with which the failure began.
fn with_first_line(finding: Finding, joined: &ReportedEvidence, hits: &[RuleMatch<'_>]) -> Finding {
    if joined.log.is_empty() {
        let (last_words, failure_line) = (joined.last_words.clone(), joined.first_words.clone());
        return Finding { last_words, failure_line, ..finding };
    }
    let first = signature::best_line(&finding).and_then(|line| clues::hit_of(hits, line));
    let refused = first.is_some_and(|hit| hit.rule.sign == Some(OutOfMemorySign::Alloc));
    let (failure_line, root) = first.map(|hit| (hit.first_line.clone(), hit.root.clone())).unzip();
    Finding { failure_line, memory_refused: refused, root: root.flatten(), ..finding }
}

/// Adds the cause that an imported history recorded, under the record's source. If another clue of that source already names the cause, it
/// is the same evidence and is not counted twice.
fn add_recorded(found: &mut Vec<Clue>, recorded: Option<RecordedCause>) {
    let Some(recorded) = recorded.and_then(clues::recorded_clue) else { return };
    let is_known = |clue: &Clue| (clue.source, clue.cause) == (recorded.source, recorded.cause);
    if !found.iter().any(is_known) {
        let place = found.iter().position(|clue| clue.source > recorded.source).unwrap_or(found.len());
        found.insert(place, recorded);
    }
}

/// Lowers the confidence in a fault outside the build if a test failed too: the test may have failed without the fault.
fn lowered_by_failed_test(finding: Finding, hits: &[RuleMatch<'_>]) -> Finding {
    let by_log = finding.decided_by == Some(EvidenceSource::Log) && finding.cause == Some(Cause::Infra);
    if !by_log || finding.own_failure.is_some() {
        return finding;
    }
    let Some(test) = hits.iter().find(|hit| hit.names_test()) else { return finding };
    let own_failure = Some(clues::text_of(test));
    let confidence = finding.confidence.min(UNCERTAIN_CONFIDENCE);
    Finding { own_failure, own_is_test: true, confidence, ..finding }
}

/// Whether no text of a log was ever sent.
fn is_log_unread(reported: &ReportedEvidence) -> bool {
    !reported.log_read && reported.log.is_empty() && reported.last_words.is_none()
}

/// Reasons reported by cluster and CI system, one clue each.
struct ReportedReasons {
    container: Vec<Clue>,
    pod: Vec<Clue>,
    ci: Vec<Clue>,
}

impl ReportedReasons {
    fn of(reported: &ReportedEvidence, killed: OutOfMemory<'_>) -> Self {
        Self {
            container: reported
                .container_reasons
                .iter()
                .filter_map(|reason| reasons::container_clue(reason))
                .collect(),
            pod: reported.pod_reasons.iter().filter_map(|reason| reasons::pod_clue(reason)).collect(),
            ci: reported.ci_reasons.iter().filter_map(|reason| reasons::ci_clue(reason, killed)).collect(),
        }
    }

    fn into_clues(self) -> impl Iterator<Item = Clue> {
        self.container.into_iter().chain(self.pod).chain(self.ci)
    }
}

/// Finding for a command that succeeded. The job around it may still have failed, if the cluster or the CI system names a cause.
fn after_success(measured: Option<&Summary>, reported: Vec<Clue>) -> Finding {
    let mut finding = not_failed_finding(measured);
    // OOMKilled with exit code 0 means that another process of the container was killed
    let failed = reported.iter().any(|clue| clue.cause.is_some() && clue.cause != Some(Cause::Oom));
    if !failed {
        let line = |clue: Clue| EvidenceLine { source: clue.source, text: clue.text, supports: false };
        finding.lines.extend(reported.into_iter().map(line));
        return finding;
    }
    let mut found = reported;
    found.push(Clue {
        cause: None,
        weak: true,
        ..clues::make_clue(EvidenceSource::Exit, Cause::Unknown, 0.0, "exit code 0: the command succeeded")
    });
    decide_cause(&found)
}

/// The cause of a failure and its source, from counters and exit alone. It is used when the attempt is sealed, before any question.
pub fn cause_of(summary: &Summary) -> Option<(Cause, Option<EvidenceSource>)> {
    if succeeded(summary.exit, Some(summary)) {
        return None;
    }
    let mut found: Vec<Clue> = clues::kernel_clue(summary).into_iter().collect();
    found.extend(clues::rescue_clue(summary));
    found.extend(clues::starved_clue(summary));
    let ended = summary.exit.and_then(|exit| clues::exit_clue(exit, summary.oom_kill));
    if ended.as_ref().is_some_and(|clue| clue.cause == Some(Cause::Timeout)) {
        found.extend(throttled_clue(summary));
    }
    found.extend(ended);
    let finding = decide_cause(&found);
    Some((finding.cause?, finding.decided_by))
}

/// Which container was killed for memory, according to the last line of GitLab's runner. For the build's own container the line counts
/// unless a counter read after the end shows otherwise. A build can print the same line, but not after the runner.
fn out_of_memory<'s>(reported: &'s ReportedEvidence, measured: Option<&Summary>) -> OutOfMemory<'s> {
    let spared = measured.is_some_and(|m| m.oom_kill == Some(0) && m.exit.is_some());
    match reported.runner_oom_container.as_str() {
        "" if reported.runner_says_oom && !spared => OutOfMemory::Build,
        "" => OutOfMemory::Unknown,
        container => OutOfMemory::OtherContainer(container),
    }
}

/// Whether the need of an attempt that failed for `cause` is only a lower bound, because a memory limit (of its cgroup or a parent's)
/// stopped it. A kill on a machine that is out of memory does not count, because it can hit any process; nor does a log line, because it
/// proves nothing.
pub fn is_censored(summary: &Summary, cause: Option<Cause>) -> bool {
    if summary.cause_source == Some(EvidenceSource::Person) {
        // a person's correction changes the cause, not the measurements
        return summary.censored;
    }
    summary.outcome != Outcome::Succeeded
        && !summary.is_cause_by_log()
        && cause.is_some_and(Cause::is_memory)
        && !summary.was_killed_by_host()
}

fn succeeded(exit: Option<Exit>, measured: Option<&Summary>) -> bool {
    match exit {
        Some(exit) => exit == Exit::Code(0),
        None => measured.is_some_and(|summary| summary.outcome == Outcome::Succeeded),
    }
}

fn not_failed_finding(measured: Option<&Summary>) -> Finding {
    let kills = measured.and_then(|summary| summary.oom_kill).filter(|kills| *kills > 0);
    let lines = kills.map(|kills| EvidenceLine {
        source: EvidenceSource::Kernel,
        text: format!("oom_kill {kills}, but the build succeeded"),
        supports: false,
    });
    Finding {
        cause: None,
        confidence: 1.0,
        decided_by: Some(EvidenceSource::Exit),
        lines: lines.into_iter().collect(),
        ..Finding::default()
    }
}

fn decide_cause(found: &[Clue]) -> Finding {
    let named = || found.iter().filter(|clue| clue.cause.is_some());
    let winner = named().find(|clue| !clue.weak).or_else(|| named().next()).cloned();
    let cause = winner.as_ref().and_then(|clue| clue.cause).unwrap_or(Cause::Unknown);
    let mut confidence = winner.as_ref().map_or(NO_CAUSE_CONFIDENCE, |clue| clue.confidence);
    for clue in found.iter().filter(|clue| Some(*clue) != winner.as_ref() && !clue.weak) {
        confidence += if clue.supports(cause) { CLUE_STEP } else { -CLUE_STEP };
    }
    // all lines of a log are one piece of evidence, and never prove a cause of memory
    let most: f64 =
        if winner.as_ref().is_some_and(|clue| clue.source == EvidenceSource::Log) && cause.is_memory() {
            0.4
        } else {
            0.99
        };
    let own_failure = winner.as_ref().and_then(|winner| own_failure(winner, found));
    let most = if own_failure.is_some() { most.min(UNCERTAIN_CONFIDENCE) } else { most };
    let lines = found.iter().map(|clue| EvidenceLine {
        source: clue.source,
        text: clue.text.clone(),
        supports: clue.supports(cause),
    });
    let spoken = winner
        .as_ref()
        .filter(|winner| is_rule_id(&winner.rule))
        .map(|winner| MatchedRule { rule: winner.rule.clone(), cause });
    let spoken = spoken.into_iter().collect();
    Finding {
        cause: Some(cause),
        confidence: confidence.clamp(0.05, most),
        decided_by: winner.as_ref().map(|clue| clue.source),
        lines: lines.collect(),
        mend: winner.and_then(|clue| clue.mend),
        own_failure,
        spoken,
        clues: found.to_vec(),
        ..Finding::default()
    }
}

/// A line of the log that shows a failure of the build itself, if the deciding line shows a fault outside the build.
fn own_failure(winner: &Clue, found: &[Clue]) -> Option<String> {
    let is_of_log = |clue: &Clue, cause| clue.source == EvidenceSource::Log && clue.cause == Some(cause);
    if !is_of_log(winner, Cause::Infra) {
        return None;
    }
    let own = found.iter().find(|clue| !clue.weak && is_of_log(clue, Cause::Deterministic));
    own.map(|clue| clue.text.clone())
}
