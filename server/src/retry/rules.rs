//! The rules of `rules.toml`: what lines of a log mean. Data, compiled once, matched in time linear in the log.

use std::sync::{Arc, LazyLock};

use regex::{
    Regex,
    bytes::{RegexSet, RegexSetBuilder},
};
use serde::Deserialize;

use super::lines::{End, end, shown, start};
use crate::domain::Cause;

/// Bytes of one line that are matched.
const LINE: usize = 4 << 10;
/// Rules that are matched in one pass. A line that holds parts of many rules makes one large automaton outgrow its cache, and
/// the engine behind it is 20 times as slow; automata of a few rules stay small whatever the log holds.
const TOGETHER: usize = 4;
/// Most bytes that the compiled rules of one pass may take.
const COMPILED: usize = 16 << 20;

/// One rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) cause: Cause,
    pub(super) pattern: String,
    /// Says only that something failed.
    #[serde(default)]
    pub(super) weak: bool,
    /// The place failed; tools report errors of their own after that.
    #[serde(default)]
    pub(super) place: bool,
    /// For memory: what kind of candidate it is.
    #[serde(default)]
    pub(super) sign: Option<Sign>,
    /// What would mend it, for people.
    #[serde(default)]
    pub(super) mend: Option<String>,
    /// Lines that must match.
    #[serde(default)]
    pub(super) matches: Vec<String>,
    /// Lines that must not match.
    #[serde(default)]
    pub(super) spares: Vec<String>,
}

/// Kind of a sign of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sign {
    /// Somebody killed a process. A kernel that counted no OOM kill speaks against memory.
    Kill,
    /// Memory was refused. The kernel need not have killed anything.
    Alloc,
}

/// A rule that matched, the last line that did, and the first: of several errors the first is the one that the others follow from.
#[derive(Debug)]
pub(super) struct Hit<'r> {
    pub(super) rule: &'r Rule,
    pub(super) line: String,
    pub(super) first: String,
}

/// Rules that are compiled together.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    /// Each for `TOGETHER` rules, in their order.
    sets: Vec<RegexSet>,
}

/// The form of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Rule>,
}

// the file is part of the program: a test reads it strictly, and a program never starts without it
static BUILT_IN: LazyLock<Arc<Rules>> = LazyLock::new(|| {
    let rules = parse(include_str!("rules.toml")).unwrap_or_default();
    Arc::new(Rules::compile(rules).unwrap_or_default())
});
/// A line that begins to say what went wrong: the word for it, and a colon.
static BEGINS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i-u:(?:error|fatal|fail|failed|failure|exception|panic|abort) ?:)").ok());
static WORDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i-u:error|fatal|fail|abort|exception|panic|cannot|unable)").ok());

/// The rules of a file.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    Ok(file.rule)
}

impl Rules {
    /// The rules that are part of the program.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// The rules that are part of the program and `more`; one with the id of another takes its place.
    pub(super) fn with(more: Vec<Rule>) -> Result<Self, String> {
        let mut rules = parse(include_str!("rules.toml"))?;
        rules.retain(|rule| more.iter().all(|newer| newer.id != rule.id));
        rules.extend(more);
        Self::compile(rules)
    }

    fn compile(rules: Vec<Rule>) -> Result<Self, String> {
        let set = |rules: &[Rule]| {
            let patterns = rules.iter().map(|rule| &rule.pattern);
            // bytes: beside other letters a Unicode `\b` needs the slow engine, and a log may hold nothing else
            RegexSetBuilder::new(patterns).unicode(false).size_limit(COMPILED).build()
        };
        let sets = rules.chunks(TOGETHER).map(set).collect::<Result<_, _>>();
        Ok(Self { sets: sets.map_err(|error| error.to_string())?, rules })
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule with this id.
    pub(super) fn find(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// Rules that match the end of `log`, with the last line and the first of each; the one that matched last comes first.
    pub(super) fn read(&self, log: &str) -> Vec<Hit<'_>> {
        let mut hits: Vec<Hit<'_>> = Vec::new();
        // where the hit of each rule stands
        let mut places: Vec<Option<usize>> = vec![None; self.rules.len()];
        for line in End::of(log).rev() {
            self.note_line(line, &mut hits, &mut places);
        }
        hits
    }

    fn note_line<'r>(&'r self, line: &str, hits: &mut Vec<Hit<'r>>, places: &mut [Option<usize>]) {
        for at in matches(&self.sets, line) {
            if let (Some(rule), Some(place)) = (self.rules.get(at), places.get_mut(at)) {
                note(hits, place, rule, shown(line.trim()));
            }
        }
    }
}

/// A line that a rule matches, in a log that is read from its end: the line of a new hit, or an earlier one of a hit that is known.
fn note<'r>(hits: &mut Vec<Hit<'r>>, place: &mut Option<usize>, rule: &'r Rule, line: String) {
    if let Some(hit) = place.and_then(|place| hits.get_mut(place)) {
        hit.first = line;
    } else {
        *place = Some(hits.len());
        hits.push(Hit { rule, first: line.clone(), line });
    }
}

/// The last line that speaks of an error in general words: where no rule knows it, it still tells one failure from another.
pub(super) fn last_words(log: &str) -> Option<String> {
    let speaks = |line: &&str| WORDS.as_ref().is_some_and(|words| words.is_match(start(line, LINE)));
    End::of(log).rev().find(speaks).map(|line| shown(line.trim()))
}

/// The first line that names an error in general words; the last words where none does.
pub(super) fn first_words(log: &str) -> Option<String> {
    let end = End::of(log);
    let begins = |line: &&str| BEGINS.as_ref().is_some_and(|words| words.is_match(start(line, LINE)));
    let first = end.rev().filter(begins).last().map(|line| shown(line.trim()));
    first.or_else(|| last_words(log))
}

/// The last line in which GitLab's runner says that the job failed. It is the end of the log: a build that prints the same
/// prints it before.
pub(super) fn runners_last_word(log: &str) -> Option<String> {
    End::of(log).rev().find(|line| line.starts_with("ERROR: Job failed")).map(|line| shown(line.trim()))
}

/// Rules that match the start or the end of a line: of a long command line the end says how it went.
fn matches(sets: &[RegexSet], line: &str) -> Vec<usize> {
    let ends = [start(line, LINE), end(line, LINE)];
    let ends = ends.iter().take(if line.len() > LINE { 2 } else { 1 });
    let mut found = Vec::new();
    for part in ends {
        for (at, set) in sets.iter().enumerate() {
            found.extend(set.matches(part.as_bytes()).into_iter().map(|rule| at * TOGETHER + rule));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_matches_its_examples_and_spares_the_others() {
        let rules = parse(include_str!("rules.toml")).unwrap();
        assert_eq!(Rules::built_in().len(), rules.len());
        let mut ids: Vec<&str> = rules.iter().map(|rule| &*rule.id).collect();
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|a, b| a < b), "two rules with one id: {ids:?}");
        for rule in &rules {
            let pattern = Regex::new(&rule.pattern).unwrap();
            assert!(!rule.matches.is_empty() && !rule.spares.is_empty(), "{} has no examples", rule.id);
            for line in &rule.matches {
                assert!(pattern.is_match(line), "{} does not match {line:?}", rule.id);
            }
            for line in &rule.spares {
                assert!(!pattern.is_match(line), "{} matches {line:?}", rule.id);
            }
            assert_eq!(rule.cause.is_memory(), rule.sign.is_some(), "{}", rule.id);
        }
    }

    #[test]
    fn colours_carriage_returns_and_nul_do_not_hide_a_line() {
        let rules = Rules::built_in();
        let ids = |log: &str| rules.read(log).iter().map(|hit| hit.rule.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids("\x1b[1;31ma.c:1:2: \x1b[0merror: no"), ["compile-error"]);
        assert_eq!(ids("10 %\r50 %\rERROR: Job failed: execution took longer than 1h"), ["job-time-out"]);
        let wide: String = "a.c:1:2: error: no".chars().flat_map(|c| [c, '\0']).collect();
        assert_eq!(ids(&wide), ["compile-error"]);
    }

    #[test]
    fn only_the_end_of_a_long_log_is_read() {
        let log = format!("a.c:1:2: error: no\n{}", "ü building\n".repeat(20_000));
        let rules = Rules::built_in();
        assert!(rules.read(&log).is_empty());
        let hits = rules.read(&format!("{log}\nb.c:1:2: error: {}", "ü".repeat(50_000)));
        assert_eq!(hits.len(), 0, "the beginning of a line that is too long is not read");
    }
}
