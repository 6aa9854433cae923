//! The record of a rule in this installation, and what it means: whether the rule may still name a cause.
//!
//! The share of right cases is estimated as the mean of a Beta distribution. The shipped share is its prior, worth [`PRIOR_CASES`].

use plimsoll_proto::figures;

use crate::domain::MatchedRule;

/// Number of cases that the shipped share is worth.
const PRIOR_CASES: u32 = 10;
/// Share of the failures of tools that no rule was written for of which the cause, where a rule named one, was right.
const SHIPPED_SHARE: f64 = 0.93;
/// Least share with which a rule may name a cause. It is a judgement: a rule that is wrong more often than that costs more retries than it
/// saves. With the prior, 6 wrong cases of 6 are below it, and 7 of 9.
const MIN_RIGHT_SHARE: f64 = 0.6;
/// Most rules of one verdict.
pub(in crate::retry) const MAX_MATCHED_RULES: usize = 4;

/// How often a rule was right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleRecord {
    /// Number of cases in which it was right.
    pub right: u32,
    /// Number of cases in which it was wrong.
    pub wrong: u32,
}

/// Gives the record of a rule, for the project of the failure.
pub type RuleRecords<'f> = &'f dyn Fn(&str) -> RuleRecord;

/// The records of an installation that has no cases.
pub fn no_records(_rule: &str) -> RuleRecord {
    RuleRecord::default()
}

impl RuleRecord {
    /// Number of cases.
    pub fn cases(self) -> u32 {
        self.right + self.wrong
    }

    /// The estimated share of cases in which the rule is right, 0 to 1.
    pub fn share(self) -> f64 {
        let prior = f64::from(PRIOR_CASES);
        (SHIPPED_SHARE * prior + f64::from(self.right)) / (prior + f64::from(self.cases()))
    }

    /// The figures, as a part of a sentence.
    pub fn in_words(self) -> String {
        format!("wrong here in {} of {}", self.wrong, figures::counted(self.cases().into(), "case"))
    }

    /// Whether the rule is right often enough to name a cause.
    pub fn is_reliable(self) -> bool {
        self.share() >= MIN_RIGHT_SHARE
    }

    pub(in crate::retry) fn add(self, more: Self) -> Self {
        Self { right: self.right + more.right, wrong: self.wrong + more.wrong }
    }

    /// The record of the first of these cases.
    pub(in crate::retry) fn of(cases: &[bool], most: usize) -> Self {
        cases.iter().take(most).fold(Self::default(), |record, is_right| {
            record.add(Self { right: (*is_right).into(), wrong: (!*is_right).into() })
        })
    }
}

/// Says with its figures that a rule does not count here.
pub(in crate::retry) fn sentence(spoken: &MatchedRule, record: RuleRecord) -> String {
    let MatchedRule { rule, cause } = spoken;
    format!("{rule} names {}, but it was {}, so it does not count", cause.as_str(), record.in_words())
}
