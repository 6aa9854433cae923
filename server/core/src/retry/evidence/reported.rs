//! Extracts from a caller's question the evidence to store: the lines of the log that match a rule, and all other fields unchanged.

use crate::domain::{Evidence, EvidenceSource, Key, MatchedLine, REMOVED_LINE, ReportedEvidence};
use crate::retry::{
    cause::clues::{as_weak, make_clue},
    cause::finding::Clue,
    evidence::containers::other_container,
    known::lineage,
    log::error_lines::{first_words, last_words, runners_last_word},
    log::log_tail::LogTail,
    matching::log_rules::LogRules,
    matching::rule_match::RuleMatch,
};

/// Rule id for the last line of GitLab's runner which reports that the build's container was killed for memory.
const RUNNER_OOM: &str = "runner-oomkilled";
/// Rule id for the same line about another container of the pod.
const CONTAINER_OOM: &str = "container-oomkilled";
/// Confidence in a stored line, if its rule no longer exists.
const WITHOUT_RULE: f64 = 0.5;

/// Extracts the evidence of a question that is stored; `rules` match its log.
pub fn reported(evidence: &Evidence, rules: &LogRules) -> ReportedEvidence {
    let Evidence { attempt: _, key, number, measured, exit, log_tail, .. } = evidence;
    let one =
        |reason: &String| Some(reason.clone()).filter(|reason| !reason.is_empty()).into_iter().collect();
    let tail = LogTail::of(log_tail);
    let hits = rules.read_tail(&tail);
    let last = runners_last_word(&tail).unwrap_or_default();
    let last_hits = rules.read(&last);
    let says = |id: &str| last_hits.iter().any(|hit| hit.rule.id == id);
    let runner_oom_container =
        other_container(&last).filter(|_| says(CONTAINER_OOM)).unwrap_or_default().to_owned();
    let built = measured.as_deref().map_or(key, |summary| &summary.key);
    let is_named = measured.is_none() && *key != Key::default();
    ReportedEvidence {
        project: key.project.clone(),
        key: is_named.then(|| Box::new(key.clone())),
        number: if *number > 1 { *number } else { 0 },
        exit: *exit,
        container_reasons: one(&evidence.container_reason),
        pod_reasons: one(&evidence.pod_reason),
        ci_reasons: one(&evidence.failure_reason),
        last_words: if hits.is_empty() { last_words(&tail) } else { None },
        first_words: if hits.is_empty() { first_words(&tail) } else { None },
        log: hits.into_iter().map(matched_line).collect(),
        log_read: !log_tail.trim().is_empty(),
        runner_says_oom: says(RUNNER_OOM),
        runner_oom_container,
        runs_before: lineage::listed(evidence, built).map(|runs| u32::try_from(runs).unwrap_or(u32::MAX)),
        time_limit: evidence.time_limit,
    }
}

fn matched_line(hit: RuleMatch<'_>) -> MatchedLine {
    let RuleMatch { rule, line, first_line: first, root, log_order: order, .. } = hit;
    MatchedLine { rule: rule.id.clone(), cause: rule.cause, line, first, root, order }
}

/// The stored lines of the log with their rules, and clues for lines that have no rule any more.
pub(in crate::retry) fn rule_matches<'r>(
    reported: &ReportedEvidence,
    rules: &'r LogRules,
) -> (Vec<RuleMatch<'r>>, Vec<Clue>) {
    let (mut hits, mut unknown) = (Vec::new(), Vec::new());
    for MatchedLine { rule, cause, line, first, root, order } in &reported.log {
        let line = if line.is_empty() { REMOVED_LINE.to_owned() } else { line.clone() };
        if let Some(rule) = rules.find(rule) {
            hits.push(RuleMatch {
                rule,
                line,
                first_line: first.clone(),
                root: root.clone(),
                log_order: *order,
                repeated: false,
                has_reason: true,
            });
        } else {
            let text = if rule.is_empty() { line } else { format!("{rule}: {line}") };
            let clue = as_weak(make_clue(EvidenceSource::Log, *cause, WITHOUT_RULE, text));
            unknown.push(Clue { rule: rule.clone(), ..clue });
        }
    }
    (hits, unknown)
}
