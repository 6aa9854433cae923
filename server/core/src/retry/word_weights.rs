//! The last resort where no rule names a cause: the general words of the lines that look like an error, weighed.
//!
//! For each word, `words.toml` has how much it speaks for a fault of the build itself, for one outside, and for memory: naive Bayes over
//! whether a word occurs in the log, learnt from labelled failures by `plimsoll-server rules learn`. The shares are those of the three kinds
//! after all words; the chance that the same build passes when it is run again follows from how often each kind does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::{
    lines::{LogTail, start},
    rules::LogRules,
};
use crate::domain::{Cause, WeighedWords};

/// The weights that are shipped.
const SHIPPED: &str = include_str!("words.toml");
/// Most error-shaped lines of a log that are read, the last ones.
const MAX_LINES: usize = 20;
/// Fewest known words that are weighed: fewer say less than how often each kind of failure occurs at all.
const FEWEST_WORDS: usize = 5;
/// Most bytes of a line that are read.
const LINE_BYTES: usize = 1 << 10;
/// Letters of a word that can be general: shorter ones mean nothing, longer ones are names.
const LETTERS: std::ops::RangeInclusive<usize> = 3..=14;

static ERROR_WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i-u:error|fatal|fail|abort|exception|panic|cannot|can't|unable|could not|denied|refused|time[ds]? ?out",
        r"|not found|no such|unexpected|invalid|missing|exceed|lost|reset|unavailable|unknown)"
    ))
    .ok()
});
// a test checks that the shipped table is valid, so the fallback is never used
static WEIGHTS: LazyLock<WordWeights> = LazyLock::new(|| WordWeights::parse(SHIPPED).unwrap_or_default());

/// The three kinds of failures that words are weighed for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByKind {
    /// A fault of the build itself or of its set-up.
    pub own: f64,
    /// A fault outside, which may be gone on a retry.
    pub outside: f64,
    /// Memory ran out.
    pub memory: f64,
}

/// Weights of words, in the form of `words.toml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordWeights {
    /// Share of the failures of each kind that pass when they are run again unchanged, 0 to 1.
    pub passes: ByKind,
    /// Natural logarithm of the share of each kind among failures.
    pub before: ByKind,
    /// For each word, how much it adds to the logarithm of each kind.
    pub words: BTreeMap<String, [f64; 3]>,
}

impl WordWeights {
    /// Parses weights.
    /// Errors: what is wrong, with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Weighs words. The same words give the same shares.
    pub fn weigh<'w>(&self, words: impl IntoIterator<Item = &'w String>) -> WeighedWords {
        let mut sums = [self.before.own, self.before.outside, self.before.memory];
        for weights in words.into_iter().filter_map(|word| self.words.get(word)) {
            sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        }
        let most = sums.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let shares = sums.map(|sum| (sum - most).exp());
        let all: f64 = shares.iter().sum();
        let [own, outside, memory] = shares.map(|share| share / all);
        let ByKind { own: own_passes, outside: outside_passes, memory: memory_passes } = self.passes;
        let passes = own * own_passes + outside * outside_passes + memory * memory_passes;
        WeighedWords::of(passes, [own, outside, memory])
    }
}

/// The words of the last error-shaped lines of a log: those that can speak for a cause.
/// Lines that only pass a failure on, as a rule of `rules` knows them, do not count.
pub fn general_words(log: &str, rules: &LogRules) -> BTreeSet<String> {
    words_of(&LogTail::of(log), rules)
}

fn words_of(tail: &LogTail, rules: &LogRules) -> BTreeSet<String> {
    let speaks = |line: &&str| {
        ERROR_WORDS.as_ref().is_some_and(|words| words.is_match(start(line, LINE_BYTES).as_bytes()))
    };
    let lines =
        tail.failure_lines_reversed().filter(speaks).filter(|line| !rules.is_summary(line)).take(MAX_LINES);
    // words of prose: no parts of paths, addresses and names
    let words = lines.flat_map(|line| start(line, LINE_BYTES).split_ascii_whitespace());
    let words = words.map(|word| word.trim_matches(|c: char| c.is_ascii_punctuation()));
    let is_word = |word: &&str| {
        LETTERS.contains(&word.len()) && word.bytes().all(|c| c.is_ascii_alphabetic() || c == b'\'')
    };
    words.filter(is_word).map(str::to_ascii_lowercase).collect()
}

/// Weighs the words of a log. `None` if too few of them are known.
pub(super) fn weigh(tail: &LogTail, rules: &LogRules) -> Option<WeighedWords> {
    let words = words_of(tail, rules);
    let known = words.iter().filter(|word| WEIGHTS.words.contains_key(*word)).count();
    (known >= FEWEST_WORDS).then(|| WEIGHTS.weigh(&words))
}

impl WeighedWords {
    /// The cause that more than half of the words indicate.
    pub(super) fn cause(self) -> Cause {
        let [own, outside, memory] = self.shares();
        if own > 0.5 {
            Cause::Deterministic
        } else if outside > 0.5 {
            Cause::Infra
        } else if memory > 0.5 {
            Cause::Oom
        } else {
            Cause::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_weights_are_valid_general_words() {
        let weights = WordWeights::parse(SHIPPED).unwrap();
        assert!(weights.words.len() > 50);
        for (word, all) in &weights.words {
            assert!(
                LETTERS.contains(&word.len())
                    && all.iter().all(|weight| weight.is_finite() && weight.abs() < 5.0),
                "{word}"
            );
        }
        let ByKind { own, outside, memory } = weights.passes;
        assert!(own < memory && memory < outside && outside < 1.0);
    }

    #[test]
    fn words_add_up_and_their_order_and_number_mean_nothing() {
        let text = "passes = { own = 0.1, outside = 0.9, memory = 0.3 }\nbefore = { own = 0, outside = 0, memory = -9 }\n\
                    [words]\nsyntax = [2, -2, 0]\nserver = [-1, 1, 0]\n";
        let weights = WordWeights::parse(text).unwrap();
        let shares = |log: &str| weights.weigh(&general_words(log, &LogRules::built_in()));
        let broken = shares("error: the syntax of x\nerror: the syntax of y\n");
        assert_eq!(broken, shares("error: syntax\n"));
        assert_eq!((broken.cause(), broken.pass_chance() < 0.15), (Cause::Deterministic, true));
        assert_eq!(shares("error: a server\n").cause(), Cause::Infra);
        assert_eq!(shares("all is well\n").cause(), Cause::Unknown);
        assert!((shares("x").pass_chance() - 0.5).abs() < 0.01);
    }

    #[test]
    fn any_log_is_read_and_one_of_few_words_is_not_weighed() {
        for log in ["", "\n", "\0\0", "ü ü ü", &"error ".repeat(100_000)] {
            assert!(weigh(&LogTail::of(log), &LogRules::built_in()).is_none(), "{log:.9}");
        }
        let log = "error: the build failed and could not be completed: the command returned an exit code, and this error was unexpected\n";
        let chance = weigh(&LogTail::of(log), &LogRules::built_in()).unwrap().pass_chance();
        assert!((0.0..=1.0).contains(&chance));
    }
}
