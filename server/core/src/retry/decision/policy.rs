//! The operator's settings for retries: a budget for every build, and terms for each cause, project and stack.

use plimsoll_base::with_defaults;
use plimsoll_proto::cause::{CauseTraits, RetryLimit};
use serde::{Deserialize, Serialize};

use crate::domain::{AttemptId, Cause, Fnv, Key, Millis};

with_defaults! {
    /// The operator's settings for retries.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct RetryPolicy {
        /// Most attempts of one build, including the first.
        // GitLab allows two retries at most
        pub max_attempts: u32 = 3,
        /// Most attempts lost by preemption that do not count against the budget.
        // a spot market that preempted a build ten times will probably preempt it again
        pub max_preempted: u32 = 10,
        /// Most retries if the cause is unknown, or only the log names it.
        pub unproven_retries: u32 = 1,
        /// Least confidence in a memory cause for which the next attempt gets a larger size.
        // this is above every confidence in a memory cause from a log alone (0.4), and not above that of a starved build (0.6 to 0.9)
        pub grow_from: f64 = 0.6,
        /// Factor for the next time limit, and for the room that memory must have when build jobs are reduced.
        pub grow_factor: f64 = 1.5,
        /// Least chance to pass for which a retry is worth its cost, 0 to 1.
        // a judgement: the look of a person at a red pipeline costs as much as four builds
        pub least_chance: f64 = 0.25,
        /// Share of the retries that are not worth it which are made all the same, to keep measuring the chance.
        pub explore: f64 = 0.05,
        /// Exceptions in order: if several apply to an attempt, a later one wins over an earlier one.
        pub terms: Vec<PolicyException>,
    }
}

/// Terms for retries after one cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryTerms {
    /// Most retries after a failure with this cause.
    pub retries: u32,
    /// Wait before the first retry; each further one waits twice as long.
    pub wait: Millis,
    /// Longest wait before any retry.
    pub longest_wait: Millis,
    /// Share of the wait that is random, 0 to 1, so that jobs that failed together do not retry together.
    pub jitter: f64,
    /// Whether the attempt counts against the budget.
    pub counts_in_budget: bool,
}

/// Terms that differ for some attempts. A field that is not set keeps the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyException {
    /// Only this project.
    /// Value: text.
    /// Default: every project.
    pub project: Option<String>,
    /// Only this stack.
    /// Value: text.
    /// Default: every stack.
    pub stack: Option<String>,
    /// Only this cause.
    /// Value: cause.
    /// Default: every cause.
    pub cause: Option<Cause>,
    /// Retries at most.
    /// Value: whole number, 0 to 100.
    /// Default: by the cause.
    pub retries: Option<u32>,
    /// Seconds before the first retry. Each further one waits twice as long.
    /// Value: whole number.
    /// Default: by the cause.
    pub wait_s: Option<u32>,
    /// Seconds before any retry, at most.
    /// Value: whole number.
    /// Default: by the cause.
    pub wait_most_s: Option<u32>,
    /// Share of the wait that is left to chance, so that jobs that failed together do not come back together.
    /// Value: number, 0 to 1.
    /// Default: `0.25`.
    pub jitter: Option<f64>,
    /// Whether the attempt counts against the budget.
    /// Value: true or false.
    /// Default: by the cause.
    pub counts: Option<bool>,
}

/// Format of a policy file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    /// Terms of a retry that differ from the built-in ones. Of those that fit, a later one wins over an earlier one.
    #[serde(default)]
    terms: Vec<PolicyException>,
}

impl RetryPolicy {
    /// Parses the exceptions of a policy file: `[[terms]]` tables.
    /// Errors: Names the error and its position.
    pub fn parse_terms(text: &str) -> Result<Vec<PolicyException>, String> {
        let file: PolicyFile = toml::from_str(text).map_err(|error| error.to_string())?;
        for (at, terms) in file.terms.iter().enumerate() {
            let wrong = |what: &str| Err(format!("terms {} (counted from 1): {what}", at + 1));
            if terms.jitter.is_some_and(|jitter| !(0.0..=1.0).contains(&jitter)) {
                return wrong("jitter must be from 0 to 1");
            }
            if terms.retries.is_some_and(|retries| retries > 100) {
                return wrong("retries must be at most 100");
            }
        }
        Ok(file.terms)
    }

    /// The terms for an attempt of `key` that failed for `cause`.
    pub fn terms(&self, key: &Key, cause: Cause) -> RetryTerms {
        let mut terms = self.default_terms(cause);
        for other in &self.terms {
            let fits = other.project.as_ref().is_none_or(|project| *project == key.project)
                && other.stack.as_ref().is_none_or(|stack| *stack == key.stack)
                && other
                    .cause
                    .is_none_or(|only| only == cause || (only, cause) == (Cause::Infra, Cause::Undecided));
            if !fits {
                continue;
            }
            let seconds = |seconds: u32| Millis(u64::from(seconds) * 1000);
            terms.retries = other.retries.unwrap_or(terms.retries);
            terms.wait = other.wait_s.map_or(terms.wait, seconds);
            terms.longest_wait = other.wait_most_s.map_or(terms.longest_wait, seconds);
            terms.jitter = other.jitter.unwrap_or(terms.jitter);
            terms.counts_in_budget = other.counts.unwrap_or(terms.counts_in_budget);
        }
        terms
    }

    /// Default terms of a cause.
    fn default_terms(&self, cause: Cause) -> RetryTerms {
        let CauseTraits { retries, wait_s: [wait, longest_wait], .. } = cause.traits();
        let retries = match retries {
            RetryLimit::Preempted => self.max_preempted,
            RetryLimit::Budget => self.max_attempts.saturating_sub(1),
            RetryLimit::Unproven => self.unproven_retries,
            RetryLimit::Zero => 0,
        };
        RetryTerms {
            retries,
            wait: Millis(wait * 1000),
            longest_wait: Millis(longest_wait * 1000),
            jitter: 0.25,
            counts_in_budget: !cause.is_taken_away(),
        }
    }
}

impl RetryTerms {
    /// The wait before the retry after the attempt with this number: exponential back-off with jitter. The same attempt always gets the
    /// same wait.
    pub fn wait_before(&self, attempt: &AttemptId, number: u32) -> Millis {
        let doubled = number.saturating_sub(1).min(16);
        let wait = Millis(self.wait.0.saturating_mul(1 << doubled)).min(self.longest_wait.max(self.wait));
        Millis::from_f64(wait.as_f64() * (1.0 - self.jitter * pseudo_random(attempt)))
    }
}

/// A pseudo-random number from 0 to 1, derived from the attempt's id.
pub(in crate::retry) fn pseudo_random(attempt: &AttemptId) -> f64 {
    let hash = Fnv::default().with(attempt.as_str().bytes()).value();
    // the upper bits of the hash are mixed best
    let upper = u32::try_from(hash.rotate_left(29) & 0xffff_ffff).unwrap_or(0);
    f64::from(upper) / f64::from(u32::MAX)
}
