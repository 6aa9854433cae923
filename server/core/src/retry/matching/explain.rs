//! Explains which rules match a log, on which lines, and why one rule decides: for people who write rules or doubt a verdict.
//!
//! The log is classified by the function that verdicts use, so both always agree. As in a verdict, only the end of the log is read.

use std::collections::HashMap;

use crate::domain::{AttemptId, Cause, Evidence, LogOrder, LogPlace};
use crate::retry::{
    cause::classify::classify_with_records,
    cause::clues,
    evidence::reported::{reported, rule_matches},
    known::rule_records::{RuleRecord, RuleRecords},
    known::signature,
    log::log_tail::{LogTail, NumberedLine, shown},
    log::mentioned_failures::went_well,
    matching::log_rules::LogRules,
    matching::rule_match::RuleMatch,
};

/// Most lines shown for each rule: the first ones of the log that it matches.
const MAX_LINES: usize = 5;

/// How the rules match a log.
#[derive(Debug)]
pub struct LogExplanation {
    /// The cause that follows from the log alone.
    pub cause: Cause,
    /// Confidence in the cause, 0 to 1.
    pub confidence: f64,
    /// The matching rules: the one that decides, then the others by strength.
    pub rules: Vec<FiredRule>,
    /// The last line that mentions an error in general words, if no rule matches.
    pub last_words: Option<String>,
}

/// A rule that matches lines of a log.
#[derive(Debug)]
pub struct FiredRule {
    /// ID of the rule.
    pub rule: String,
    /// The cause that the rule names.
    pub cause: Cause,
    /// Whether the rule counts only if no other rule matches.
    pub weak: bool,
    /// Whether the cause of the failure is taken from this rule.
    pub decides: bool,
    /// Why the rule decides or not.
    pub why: String,
    /// The first lines that the rule matches, with their positions; at most 5.
    pub lines: Vec<(Option<LogPlace>, String)>,
    /// Total number of matching lines.
    pub count: usize,
}

/// Explains the end of `log` by `rules`, without the rules that are silenced by the records `here`.
pub fn explain(log: &str, rules: &LogRules, here: RuleRecords<'_>) -> LogExplanation {
    let evidence = Evidence { log_tail: log.to_owned(), ..Evidence::about(AttemptId::unnamed()) };
    let finding = classify_with_records(&evidence, rules, here);
    let (mut known, _gone) = rule_matches(&reported(&evidence, rules), rules);
    known.sort_by_key(clues::rank_hit);
    let winner = signature::best_line(&finding).and_then(|line| clues::hit_of(&known, line));
    let winner = winner.filter(|winner| here(&winner.rule.id).is_reliable());
    let tail = LogTail::of(log);
    let mut lines = lines_by_rule(&tail, rules);
    let fired = |hit: &RuleMatch<'_>| {
        let decides = winner.is_some_and(|winner| winner.rule.id == hit.rule.id);
        let (lines, count) = lines.remove(hit.rule.id.as_str()).unwrap_or_default();
        FiredRule {
            rule: hit.rule.id.clone(),
            cause: hit.rule.cause,
            weak: hit.rule.weak,
            decides,
            why: if decides {
                why_it_decides(hit).to_owned()
            } else {
                why_not_deciding(hit, winner, here(&hit.rule.id))
            },
            lines: lines.into_iter().map(|line| (tail.place(line), shown(line.text))).collect(),
            count,
        }
    };
    let mut rules: Vec<FiredRule> = known.iter().map(fired).collect();
    rules.sort_by_key(|fired| !fired.decides);
    LogExplanation {
        cause: finding.decided_cause(finding.cause.unwrap_or(Cause::Unknown)),
        confidence: finding.confidence,
        rules,
        last_words: finding.last_words,
    }
}

/// For each rule in order: the first lines that it matches, and the total number.
fn lines_by_rule<'l, 'r>(
    tail: &'l LogTail,
    rules: &'r LogRules,
) -> HashMap<&'r str, (Vec<NumberedLine<'l>>, usize)> {
    let mut found: HashMap<&str, (Vec<NumberedLine<'_>>, usize)> = HashMap::new();
    let mut lines: Vec<NumberedLine<'_>> =
        tail.rev_with_passed().filter(|line| !went_well(line.text)).collect();
    lines.reverse();
    for line in lines {
        for rule in rules.matching(line.text) {
            let (first, count) = found.entry(rule.id.as_str()).or_default();
            *count += 1;
            if first.len() < MAX_LINES {
                first.push(line);
            }
        }
    }
    found
}

fn why_it_decides(hit: &RuleMatch<'_>) -> &'static str {
    match (hit.rule.cause, hit.log_order) {
        _ if hit.rule.weak => "no stronger rule knows a line",
        (_, LogOrder::Overcome) => "nothing else explains the failure, although the build went on after it",
        (_, LogOrder::Last) => "it came after the failures of the build itself",
        _ if hit.rule.place => "the machine failed, and tools report errors of their own after that",
        (Cause::Oom | Cause::Starved | Cause::ToolOom, _) => {
            "memory was short: a process that is killed reports nothing, and the tools that wait for it do"
        }
        (Cause::Infra | Cause::Undecided | Cause::Contention, _) => {
            "trouble outside the build explains errors that follow it"
        }
        (Cause::Deterministic, _) => "an error of the build itself, and no trouble outside it explains it",
        _ => "no stronger rule knows a line",
    }
}

fn why_not_deciding(hit: &RuleMatch<'_>, winner: Option<&RuleMatch<'_>>, here: RuleRecord) -> String {
    if !here.is_reliable() {
        return format!("it was {}, so it does not count", here.in_words());
    }
    let Some(winner) = winner else { return "the log decides nothing".to_owned() };
    let id = &winner.rule.id;
    if hit.line == winner.line {
        format!("a line counts once, by the strongest rule: {id}")
    } else if hit.log_order == LogOrder::Overcome {
        "the build went on after it, or was over before it".to_owned()
    } else if hit.rule.weak {
        "counts only where no stronger rule knows a line".to_owned()
    } else if hit.rule.cause == winner.rule.cause {
        format!("says the same as {id}")
    } else {
        format!("may follow from what {id} found")
    }
}
