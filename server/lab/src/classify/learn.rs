//! Learns how much general words speak for a cause, from labelled failures: the table that is used where no rule names a cause.
//!
//! Naive Bayes over whether a word occurs in a log. A word counts if failures of several tools have it, so that no name of a single tool or
//! sample is learnt. What a word adds is scaled by one factor for all, because words of one line are not independent. The factor is the one
//! that predicts best the tools left out of the learning, one after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use plimsoll_core::{
    domain::Cause,
    retry::{ByKind, LogRules, WordWeights, general_words},
};

use super::failure::Failure;

/// Fewest tools whose failures have a word.
const FEWEST_TOOLS: usize = 3;
/// Added to each count: a word that one kind never had may still come with it.
const SMOOTHING: f64 = 1.0;
/// Factors that are tried.
const FACTORS: [f64; 6] = [0.2, 0.3, 0.4, 0.5, 0.7, 1.0];
/// Share of the memory failures that pass when they are run again unchanged: a judgement, as it depends on what else runs on the machine.
const MEMORY_PASSES: f64 = 0.5;

/// Logarithms of the shares of the three kinds among failures that no rule knows. Of 212 failures of tools that the rules were not written
/// for, they knew no line of 61, and most of these were broken builds (65 %, 20 % and 15 %).
const LOG_PRIORS: ByKind = ByKind { own: -0.43, outside: -1.61, memory: -1.9 };

/// Words of one labelled failure.
#[derive(Debug)]
pub struct LabelledFailure {
    kind: usize,
    helps: bool,
    tool: String,
    words: BTreeSet<String>,
}

/// What was learnt, and how well it predicts tools that were left out.
#[derive(Debug)]
pub struct LearntWords {
    /// The table.
    pub weights: WordWeights,
    /// How well it predicts.
    pub quality: LearningQuality,
}

/// How well words predict the failures of tools that they were not learnt from.
#[derive(Debug, Clone, Copy)]
pub struct LearningQuality {
    /// Number of failures.
    pub failures: usize,
    /// Number of tools.
    pub tools: usize,
    /// Failures whose kind has the largest share.
    pub right: usize,
    /// Mean of the negative logarithm of the share of the right kind; 1.1 is guessing among three.
    pub log_loss: f64,
}

impl LabelledFailure {
    /// The words of a failure. `None` if its line has no `cause` or no log.
    pub fn of(failure: Failure) -> Option<Self> {
        let (cause, helps, tool) = failure.label()?;
        let kind = match cause {
            Cause::Unknown | Cause::Undecided => return None,
            cause if cause.is_memory() => 2,
            cause if cause.is_final() => 0,
            _ => 1,
        };
        let words = general_words(&failure.evidence(true).log_tail, &LogRules::built_in());
        (!words.is_empty()).then_some(Self { kind, helps, tool, words })
    }
}

/// Learns from failures.
/// Errors: there are fewer than ten failures of a kind.
pub fn learn(failures: &[LabelledFailure]) -> Result<LearntWords, String> {
    let all: Vec<&LabelledFailure> = failures.iter().collect();
    let counts = count_kinds(&all);
    if let Some(few) = counts.iter().find(|count| **count < 10) {
        return Err(format!(
            "one of the three kinds (the build itself, outside, memory) has only {few} failures; at least 10 are needed"
        ));
    }
    let tools: BTreeSet<&str> = failures.iter().map(|failure| failure.tool.as_str()).collect();
    let tried = FACTORS.map(|factor| (factor, leave_tools_out(failures, &tools, factor)));
    let best = tried.into_iter().min_by(|one, other| one.1.log_loss.total_cmp(&other.1.log_loss));
    let (factor, quality) = best.ok_or("nothing was tried")?;
    Ok(LearntWords { weights: weights(&all, factor), quality })
}

fn leave_tools_out(failures: &[LabelledFailure], tools: &BTreeSet<&str>, factor: f64) -> LearningQuality {
    let (mut right, mut loss) = (0, 0.0);
    for tool in tools {
        let others: Vec<&LabelledFailure> = failures.iter().filter(|failure| failure.tool != *tool).collect();
        let weights = weights(&others, factor);
        for failure in failures.iter().filter(|failure| failure.tool == *tool) {
            let shares = weights.weigh(&failure.words).shares();
            let share = shares.get(failure.kind).copied().unwrap_or_default();
            right += usize::from(shares.iter().all(|other| share >= *other));
            loss -= share.max(0.001).ln();
        }
    }
    LearningQuality {
        failures: failures.len(),
        tools: tools.len(),
        right,
        log_loss: loss / count_as_f64(failures.len()),
    }
}

fn weights(failures: &[&LabelledFailure], factor: f64) -> WordWeights {
    let counts = count_kinds(failures);
    let mut seen: BTreeMap<&str, ([usize; 3], BTreeSet<&str>)> = BTreeMap::new();
    for failure in failures {
        for word in &failure.words {
            let (with, tools) = seen.entry(word).or_default();
            with.iter_mut().skip(failure.kind).take(1).for_each(|count| *count += 1);
            tools.insert(&failure.tool);
        }
    }
    seen.retain(|_word, (_with, tools)| tools.len() >= FEWEST_TOOLS);
    let weigh = |(word, (with, _tools)): (&str, ([usize; 3], _))| {
        let logarithms: [f64; 3] = std::array::from_fn(|kind| {
            let [with, all] =
                [&with, &counts].map(|counts| count_as_f64(counts.get(kind).copied().unwrap_or_default()));
            ((with + SMOOTHING) / (all + 2.0 * SMOOTHING)).ln()
        });
        let mean = logarithms.iter().sum::<f64>() / 3.0;
        (word.to_owned(), logarithms.map(|logarithm| rounded((logarithm - mean) * factor)))
    };
    let share = |kind: usize| count_as_f64(counts.get(kind).copied().unwrap_or_default());
    let passes = |kind: usize| {
        let helped = failures.iter().filter(|failure| failure.kind == kind && failure.helps).count();
        rounded((count_as_f64(helped) + 1.0) / (share(kind) + 2.0))
    };
    WordWeights {
        passes: ByKind { own: passes(0), outside: passes(1), memory: MEMORY_PASSES },
        before: LOG_PRIORS,
        words: seen.into_iter().map(weigh).collect(),
    }
}

fn count_kinds(failures: &[&LabelledFailure]) -> [usize; 3] {
    let mut counts = [0; 3];
    for failure in failures {
        counts.iter_mut().skip(failure.kind).take(1).for_each(|count| *count += 1);
    }
    counts
}

fn count_as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

impl fmt::Display for LearningQuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failures, tools, right, log_loss } = self;
        write!(
            f,
            "learnt from {failures} failures of {tools} tools; with each tool left out in turn, {right} kinds are right, log loss {log_loss:.3}"
        )
    }
}

impl fmt::Display for LearntWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WordWeights { passes, before, words } = &self.weights;
        writeln!(f, "# {}", self.quality)?;
        for (name, ByKind { own, outside, memory }) in [("passes", passes), ("before", before)] {
            writeln!(f, "{name} = {{ own = {own:?}, outside = {outside:?}, memory = {memory:?} }}")?;
        }
        writeln!(f, "\n[words]")?;
        words.iter().try_for_each(|(word, weights)| writeln!(f, "{word:?} = {weights:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: usize, tool: &str, words: &[&str]) -> LabelledFailure {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        LabelledFailure { kind, helps: kind == 1, tool: tool.into(), words }
    }

    #[test]
    fn words_of_several_tools_are_learnt_and_names_of_one_are_not() {
        let mut failures = Vec::new();
        for tool in ["a", "b", "c", "d"] {
            for _ in 0..5 {
                failures.push(failure(0, tool, &["syntax", "error", tool]));
                failures.push(failure(1, tool, &["server", "error", tool]));
                failures.push(failure(2, tool, &["memory", "error", tool]));
            }
        }
        let learnt = learn(&failures).unwrap();
        let words: Vec<&str> = learnt.weights.words.keys().map(String::as_str).collect();
        assert_eq!(words, ["error", "memory", "server", "syntax"]);
        assert_eq!((learnt.quality.right, learnt.quality.failures, learnt.quality.tools), (60, 60, 4));
        let passes = learnt.weights.passes;
        assert!(passes.own < 0.1 && passes.outside > 0.9, "{passes:?}");
        assert_eq!(
            WordWeights::parse(&learnt.to_string()).unwrap(),
            learnt.weights,
            "what is printed is read"
        );
        assert!(learn(&failures[..12]).unwrap_err().contains("only"));
    }
}
