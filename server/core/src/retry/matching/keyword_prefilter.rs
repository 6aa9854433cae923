//! Finds the rules that may match a line by words that each of their matches contains. All words of all rules are searched in one pass; most
//! lines of a log contain none, and no expression is run on them.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind},
};

/// Least bytes of a word. Shorter ones are in too many lines.
const MIN_WORD_BYTES: usize = 3;
/// Most words that one part of an expression is spelled out to.
const MAX_WORDS: usize = 64;
/// Most words of one expression. One with more is tried on every line.
const MAX_WORDS_OF_RULE: usize = 1024;
/// Most bytes that a class of an expression may contain, to be spelled out.
const MAX_CLASS_BYTES: usize = 4;

/// Prefilter: for each group of regular expressions, literal words; every line that the group matches contains at least one of them.
#[derive(Debug, Default)]
pub(in crate::retry) struct KeywordPrefilter {
    search: Option<AhoCorasick>,
    /// The groups of each word.
    groups: Vec<Vec<usize>>,
    /// For each group, whether it must be tried on every line.
    always: Vec<bool>,
}

impl KeywordPrefilter {
    /// Finds the words of these groups of expressions for bytes.
    /// Errors: the words are too many for one search.
    pub(in crate::retry) fn of<'p>(
        groups: impl IntoIterator<Item = impl IntoIterator<Item = &'p str>>,
    ) -> Result<Self, String> {
        let mut found = Self::default();
        let mut words: HashMap<Vec<u8>, usize> = HashMap::new();
        for (group, expressions) in groups.into_iter().enumerate() {
            let needed: Option<Vec<_>> = expressions.into_iter().map(words_of).collect();
            found.always.push(needed.is_none());
            for word in needed.into_iter().flatten().flatten() {
                let next = words.len();
                let at = *words.entry(word).or_insert(next);
                found.groups.resize_with(words.len(), Vec::new);
                found.groups.get_mut(at).into_iter().for_each(|groups| groups.push(group));
            }
        }
        let mut texts: Vec<(Vec<u8>, usize)> = words.into_iter().collect();
        texts.sort_unstable_by_key(|(_, at)| *at);
        let texts = texts.into_iter().map(|(word, _)| word);
        let search =
            AhoCorasick::builder().match_kind(MatchKind::Standard).ascii_case_insensitive(true).build(texts);
        found.search = Some(search.map_err(|error| error.to_string())?);
        Ok(found)
    }

    /// The groups that may match the line, in order.
    pub(in crate::retry) fn groups_in(&self, line: &[u8]) -> impl Iterator<Item = usize> {
        let mut may_match = self.always.clone();
        let words = self.search.iter().flat_map(|search| search.find_overlapping_iter(line));
        let groups = words.filter_map(|word| self.groups.get(word.pattern().as_usize())).flatten();
        for group in groups {
            may_match.get_mut(*group).into_iter().for_each(|may_match| *may_match = true);
        }
        may_match.into_iter().enumerate().filter_map(|(group, may_match)| may_match.then_some(group))
    }
}

/// Words, in lower case, of which one is in each match of the expression; `None` if there are none that are long enough.
fn words_of(expression: &str) -> Option<Vec<Vec<u8>>> {
    let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
    needed(&parser.parse(expression).ok()?)
        .filter(|words| shortest(words) >= MIN_WORD_BYTES && words.len() <= MAX_WORDS_OF_RULE)
}

fn shortest(words: &[Vec<u8>]) -> usize {
    words.iter().map(Vec::len).min().unwrap_or_default()
}

fn needed(part: &Hir) -> Option<Vec<Vec<u8>>> {
    let best = |one: &Vec<Vec<u8>>, other: &Vec<Vec<u8>>| {
        shortest(one).cmp(&shortest(other)).then(other.len().cmp(&one.len()))
    };
    match part.kind() {
        HirKind::Concat(parts) => {
            let (mut choices, mut run) = (Vec::new(), vec![Vec::new()]);
            for part in parts {
                if let Some(longer) = spelled(part).and_then(|words| joined(&run, &words)) {
                    run = longer;
                } else {
                    choices.push(std::mem::replace(&mut run, vec![Vec::new()]));
                    choices.extend(needed(part));
                }
            }
            choices.push(run);
            choices.into_iter().max_by(best)
        }
        HirKind::Alternation(parts) => {
            let all: Option<Vec<_>> = parts.iter().map(needed).collect();
            Some(all?.into_iter().flatten().collect())
        }
        HirKind::Capture(capture) => needed(&capture.sub),
        HirKind::Repetition(repeated) if repeated.min > 0 => needed(&repeated.sub),
        _ => spelled(part),
    }
}

/// All texts that the part matches, in lower case, if they are few. What matches a place and no text counts as empty.
fn spelled(part: &Hir) -> Option<Vec<Vec<u8>>> {
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(vec![Vec::new()]),
        HirKind::Literal(literal) => Some(vec![literal.0.to_ascii_lowercase()]),
        HirKind::Class(Class::Bytes(class)) => {
            let bytes: Vec<u8> = class
                .iter()
                .flat_map(|range| range.start()..=range.end())
                .take(2 * MAX_CLASS_BYTES + 1)
                .collect();
            let mut lower: Vec<Vec<u8>> = bytes.iter().map(|byte| vec![byte.to_ascii_lowercase()]).collect();
            lower.sort_unstable();
            lower.dedup();
            (bytes.len() <= 2 * MAX_CLASS_BYTES && lower.len() <= MAX_CLASS_BYTES).then_some(lower)
        }
        HirKind::Capture(capture) => spelled(&capture.sub),
        HirKind::Repetition(repeated) if (repeated.min, repeated.max) == (0, Some(1)) => {
            let mut words = spelled(&repeated.sub)?;
            words.push(Vec::new());
            Some(words)
        }
        HirKind::Concat(parts) => parts
            .iter()
            .try_fold(vec![Vec::new()], |run, part| spelled(part).and_then(|words| joined(&run, &words))),
        HirKind::Alternation(parts) => {
            let all: Option<Vec<_>> = parts.iter().map(spelled).collect();
            Some(all?.into_iter().flatten().collect::<Vec<_>>()).filter(|words| words.len() <= MAX_WORDS)
        }
        HirKind::Class(Class::Unicode(_)) | HirKind::Repetition(_) => None,
    }
}

/// Each of the first followed by each of the second, if they are few.
fn joined(first: &[Vec<u8>], second: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let few = first.len().saturating_mul(second.len()) <= MAX_WORDS;
    few.then(|| first.iter().flat_map(|one| second.iter().map(|two| [&one[..], &two[..]].concat())).collect())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{log_rules, rule::RulePattern},
        *,
    };

    #[test]
    fn every_match_contains_one_of_its_keywords() {
        let words = |expression: &str| {
            let words = words_of(expression)?;
            Some(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>())
        };
        for (expression, expected) in [
            (r"(?i:\bOut of memory\b)", &["out of memory"][..]),
            (r"^x\d+: (?:Killed|Abort(?:ed)?)$", &[": killed", ": aborted", ": abort"]),
            (r"a+bcd[0-9]*(?:longer words)?", &["bcd"]),
            (r"(?:one two)+ .* three", &["one two"]),
            (r"[ab]cd", &["acd", "bcd"]),
        ] {
            assert_eq!(words(expression).unwrap(), expected, "{expression}");
        }
        assert_eq!(words(&"abc|".repeat(9_000)), None, "too many, and an empty one");
        for none in [r"(?:abc)?", r"\d+", r"abc|[a-z]+", r"ab", r"(?u)(?i)k", r"(?:abc)*"] {
            assert_eq!(words(none), None, "{none}");
        }
    }

    #[test]
    fn only_groups_with_matching_or_no_keywords_run() {
        let words =
            KeywordPrefilter::of([vec!["killed", "abort"], vec![r"\d"], vec!["illed"], vec!["other"]]);
        let groups = |line: &str| words.as_ref().unwrap().groups_in(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!([groups("Killed"), groups("x"), groups("ABORT")], [vec![0, 1, 2], vec![1], vec![0, 1]]);
    }

    #[test]
    fn no_example_of_any_rule_is_passed_over() {
        let rules = log_rules::built_in().unwrap();
        let words = KeywordPrefilter::of(rules.iter().map(|rule| [rule.pattern.as_str()])).unwrap();
        let patterns: Vec<RulePattern> = rules.iter().map(|rule| RulePattern::of(rule).unwrap()).collect();
        for line in rules.iter().flat_map(|rule| rule.matches.iter().chain(&rule.spares)) {
            for line in [line.clone(), line.to_uppercase(), line.to_lowercase()] {
                let tried: Vec<usize> = words.groups_in(line.as_bytes()).collect();
                let missed =
                    |(at, pattern): &(usize, &RulePattern)| pattern.is_match(&line) && !tried.contains(at);
                assert!(!patterns.iter().enumerate().any(|found| missed(&found)), "{line}");
            }
        }
    }
}
