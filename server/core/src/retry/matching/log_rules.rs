//! The log rules of `rules/*.toml`. They are data, compiled once, and matched in time linear in the length of the log.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use regex::bytes::{Regex, RegexSet, RegexSetBuilder};
use serde::Deserialize;

use crate::domain::{Cause, RootLine};
use crate::retry::{
    log::error_lines::begins_to_report,
    log::failure_order::OrderReader,
    log::log_tail::{LogTail, start, text_end},
    log::mentioned_failures::{went_well, without_mentions},
    matching::keyword_prefilter::KeywordPrefilter,
    matching::rule::{self, Rule},
    matching::rule_match::{Consequences, RuleMatch, note_all, says_no_reason, weaken_download_summaries},
};

/// Most bytes of a line that rules are matched against at once; a longer line is read in parts.
const LINE_BYTES: usize = 4 << 10;
/// Bytes that two neighbouring parts of a long line share, so that no phrase is cut.
const SHARED_BYTES: usize = 256;
/// Number of rules matched in one pass. An automaton for all rules would outgrow its cache on lines with parts of many rules, and the regex
/// library's fallback is 20 times as slow; automata of a few rules stay small for every log.
const RULES_PER_SET: usize = 4;
/// Most bytes of the compiled patterns of one pass.
const COMPILED_BYTES: usize = 16 << 20;

/// Log rules, compiled in sets.
#[derive(Debug, Default)]
pub struct LogRules {
    rules: Vec<Rule>,
    /// Number of built-in rules, which come before the operator's.
    built_in: usize,
    /// Compiled sets of `RULES_PER_SET` rules each, in order.
    sets: Vec<RegexSet>,
    /// Words without which a set matches nothing.
    words: KeywordPrefilter,
    /// `unless` of each rule that has one, compiled, by the rule's index.
    unless: HashMap<usize, Regex>,
}

/// Format of a rule file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    /// Rules for lines of logs.
    /// Value: 0 to 1000 tables in all files of the directory.
    #[serde(default)]
    rule: Vec<Rule>,
}

/// The built-in rule files, in the order of their rules.
const BUILT_IN_FILES: [&str; 10] = [
    include_str!("rules/machine.toml"),
    include_str!("rules/network.toml"),
    include_str!("rules/runner.toml"),
    include_str!("rules/states.toml"),
    include_str!("rules/memory.toml"),
    include_str!("rules/compilers.toml"),
    include_str!("rules/languages.toml"),
    include_str!("rules/packages.toml"),
    include_str!("rules/rpm.toml"),
    include_str!("rules/summaries.toml"),
];
// a test checks that the built-in files are valid, so the fallback is never used
static BUILT_IN: LazyLock<Arc<LogRules>> =
    LazyLock::new(|| Arc::new(LogRules::with(Vec::new()).unwrap_or_default()));
/// Parses the built-in rules, with their examples.
pub(in crate::retry) fn built_in() -> Result<Vec<Rule>, String> {
    let files = BUILT_IN_FILES.iter().map(|file| parse(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(files.into_iter().flatten().collect())
}

pub(in crate::retry) fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let file: RulesFile = toml::from_str(text).map_err(|error| error.to_string())?;
    Ok(file.rule)
}

impl LogRules {
    /// The built-in rules.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// Compiles the built-in rules and `more`; a rule in `more` with the id of another rule replaces that one.
    pub(in crate::retry) fn with(more: Vec<Rule>) -> Result<Self, String> {
        let mut rules = built_in()?;
        rules.retain(|rule| more.iter().all(|newer| newer.id != rule.id));
        let built_in = rules.len();
        rules.extend(more);
        let set = |rules: &[Rule]| {
            let patterns = rules.iter().map(|rule| &rule.pattern);
            // bytes are matched instead of characters: on non-ASCII text a Unicode `\b` needs the slow engine, and a log may be entirely
            // non-ASCII
            RegexSetBuilder::new(patterns).unicode(false).size_limit(COMPILED_BYTES).build()
        };
        let sets = rules
            .chunks(RULES_PER_SET)
            .map(set)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let words = KeywordPrefilter::of(
            rules.chunks(RULES_PER_SET).map(|rules| rules.iter().map(|rule| rule.pattern.as_str())),
        )?;
        let unless = rules.iter().enumerate().filter_map(|(at, rule)| Some((at, rule.unless.as_ref()?)));
        let unless = unless.map(|(at, unless)| Ok((at, rule::compile("unless", unless)?)));
        Ok(Self { sets, words, unless: unless.collect::<Result<_, String>>()?, rules, built_in })
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(in crate::retry) fn find(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// Rules that match the end of `log`, with their lines; the rule that matched last comes first.
    pub(in crate::retry) fn read(&self, log: &str) -> Vec<RuleMatch<'_>> {
        self.read_tail(&LogTail::of(log))
    }

    /// Like [`Self::read`], of a log that was taken already.
    pub(in crate::retry) fn read_tail(&self, tail: &LogTail) -> Vec<RuleMatch<'_>> {
        let mut hits: Vec<RuleMatch<'_>> = Vec::new();
        // for each rule, the index of its hit
        let mut places: Vec<Option<usize>> = vec![None; self.rules.len()];
        let mut order = OrderReader::default();
        let mut then = Consequences::default();
        for numbered in tail.rev_with_passed() {
            let line = numbered.text;
            if went_well(line) {
                order.read_passed(start(line, LINE_BYTES));
                continue;
            }
            let matched: Vec<usize> = self.matches(line);
            let rules = matched.iter().filter_map(|at| Some((*at, self.rules.get(*at)?)));
            let mut rules: Vec<(usize, &Rule)> = rules.collect();
            self.drop_faults_with_answer(&mut rules);
            order.read(start(line, LINE_BYTES), &rules);
            if !rules.is_empty() {
                let root = tail.place(numbered).map(|at| RootLine { at, then: then.nearest() });
                then.read(&rules, line);
                note_all(&mut hits, &mut places, rules, (line, root));
            }
        }
        for (at, place) in places.into_iter().enumerate() {
            if let Some(hit) = place.and_then(|place| hits.get_mut(place)) {
                hit.log_order = order.order_of(at);
            }
        }
        if hits.iter().any(|hit| hit.rule.silent) {
            let reported =
                tail.failure_lines_reversed().any(|line| begins_to_report(line) && !self.is_summary(line));
            hits.retain(|hit| !hit.rule.silent || (hit.repeated && !reported));
        }
        weaken_download_summaries(&mut hits);
        hits
    }

    /// Drops the rules for faults outside the build if the other side answered. If a rule of the operator calls the line such a fault, only
    /// the operator's rules can call it an answer.
    fn drop_faults_with_answer(&self, rules: &mut Vec<(usize, &Rule)>) {
        let is_fault = |rule: &Rule| matches!(rule.cause, Cause::Infra | Cause::Contention);
        // the classes of Spack's taxonomy are not the operator's own
        let is_operators = |at: usize| at >= self.built_in;
        let is_own =
            |at: usize, rule: &Rule| is_operators(at) && !rule.weak && !rule.id.starts_with("spack/");
        if rules.iter().any(|(at, rule)| is_own(*at, rule) && is_fault(rule)) {
            rules.retain(|(at, rule)| is_operators(*at) || !rule.answered);
        }
        if rules.iter().any(|(_, rule)| rule.answered) {
            rules.retain(|(_, rule)| !is_fault(rule));
        }
    }

    /// Indexes of the rules that match a line.
    fn matches(&self, line: &str) -> Vec<usize> {
        let mut found = Vec::new();
        for part in parts_of(line).map(without_mentions) {
            for (at, set) in
                self.words.groups_in(part.as_bytes()).filter_map(|at| Some((at, self.sets.get(at)?)))
            {
                let hits = set.matches(part.as_bytes()).into_iter().map(|rule| at * RULES_PER_SET + rule);
                found.extend(hits.filter(|rule| !self.is_spared(*rule, &part)));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether the line has the surroundings in which a rule does not count.
    fn is_spared(&self, rule: usize, line: &str) -> bool {
        self.unless.get(&rule).is_some_and(|unless| unless.is_match(line.as_bytes()))
    }

    pub(in crate::retry) fn matching(&self, line: &str) -> impl Iterator<Item = &Rule> {
        self.matches(line).into_iter().filter_map(|at| self.rules.get(at))
    }

    /// Whether a rule matches the line only as a report that something failed.
    pub(in crate::retry) fn is_summary(&self, line: &str) -> bool {
        self.matching(line).any(says_no_reason)
    }
}

/// A line in parts of at most [`LINE_BYTES`].
fn parts_of(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let part = start(rest?, LINE_BYTES);
        let line = rest.filter(|line| line.len() > LINE_BYTES);
        rest = line.map(|line| text_end(line, line.len() - part.len() + SHARED_BYTES));
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::{super::rule::RulePattern, *};

    #[test]
    fn rules_match_their_examples_and_spare_their_counterexamples() {
        let rules = built_in().unwrap();
        assert_eq!(LogRules::built_in().len(), rules.len());
        let mut ids: Vec<&str> = rules.iter().map(|rule| &*rule.id).collect();
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|a, b| a < b), "two rules with one id: {ids:?}");
        let mut wrong = Vec::new();
        for rule in &rules {
            let pattern = RulePattern::of(rule).unwrap();
            assert!(!rule.matches.is_empty() && !rule.spares.is_empty(), "{} has no examples", rule.id);
            assert!(!pattern.is_match(""), "{} matches an empty line", rule.id);
            wrong.extend(
                rule.matches
                    .iter()
                    .filter(|line| !pattern.is_match(line))
                    .map(|line| (&rule.id, "misses", line)),
            );
            wrong.extend(
                rule.spares
                    .iter()
                    .filter(|line| pattern.is_match(line))
                    .map(|line| (&rule.id, "matches", line)),
            );
            assert_eq!(rule.cause.is_memory(), rule.sign.is_some(), "{}", rule.id);
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn control_characters_do_not_hide_a_line() {
        let rules = LogRules::built_in();
        let ids = |log: &str| rules.read(log).iter().map(|hit| hit.rule.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids("\x1b[1;31ma.c:1:2: \x1b[0merror: no"), ["compile-error"]);
        assert_eq!(ids("10 %\r50 %\rERROR: Job failed: execution took longer than 1h"), ["job-time-out"]);
        let wide: String = "a.c:1:2: error: no".chars().flat_map(|c| [c, '\0']).collect();
        assert_eq!(ids(&wide), ["compile-error"]);
    }

    #[test]
    fn long_logs_are_read_at_errors_and_end() {
        let noise = "ü building\n".repeat(20_000);
        let log = format!("a.c:1:2: error: no\n{noise}");
        let rules = LogRules::built_in();
        let hits = rules.read(&log);
        assert_eq!((hits.len(), hits[0].line.as_str(), &hits[0].root), (1, "a.c:1:2: error: no", &None));
        let hits =
            rules.read(&format!("{noise}{} curl: (6) Could not resolve host: x {0}", "ü".repeat(5_000)));
        assert_eq!(hits[0].rule.id, "dns", "in the middle of a long line");
    }
}
