//! Causes that persons corrected: how one changes a finding, which of them hold for other failures with the same signature, and which
//! rules were wrong how often.
//!
//! | a correction | holds for | over |
//! |---|---|---|
//! | of an attempt | that attempt, until it is undone | every evidence |
//! | with a signature | failures of the project with the signature, until it expires or is undone | exit, CI system and log: what kernel, container, pod or agent prove stays |
//!
//! Bounded: the newest corrections, one of each attempt.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    finding::{Clue, Finding},
    signature,
};
use crate::domain::{AttemptId, Cause, EvidenceLine, EvidenceSource, Verdict, VerdictCorrection};

/// The word of a person is as sure as anything gets.
const SURE: f64 = 0.99;
/// The rule of a cause that nothing decided.
const NO_RULE: &str = "none";
/// Longest id of a rule that is counted by, bytes.
const RULE_BYTES: usize = 64;

/// Corrections in force.
#[derive(Debug)]
pub struct Corrections {
    capacity: usize,
    /// The oldest first: when each was said, and of which attempt.
    order: BTreeSet<(u64, AttemptId)>,
    of: HashMap<AttemptId, VerdictCorrection>,
    /// The attempts whose corrections are words about a signature of a project.
    by_signature: HashMap<(String, String), Vec<AttemptId>>,
}

/// How often a rule was wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongVerdicts {
    /// The rule ([`VerdictCorrection::rule`]).
    pub rule: String,
    /// What it found.
    pub found: Cause,
    /// What persons say.
    pub cause: Cause,
    /// Attempts.
    pub count: u64,
}

impl Corrections {
    /// Room for this many (at least 1).
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            order: BTreeSet::new(),
            of: HashMap::new(),
            by_signature: HashMap::new(),
        }
    }

    /// Takes note of the correction in a verdict, which takes the place of an earlier one of the attempt; one that was undone goes.
    pub fn note(&mut self, verdict: &Verdict) {
        let Some(correction) = &verdict.basis.correction else { return };
        self.forget(&verdict.attempt);
        if correction.undone {
            return;
        }
        if let Some(rule) = &correction.signature {
            let name = (correction.project.clone(), rule.id.clone());
            self.by_signature.entry(name).or_default().push(verdict.attempt.clone());
        }
        self.order.insert((correction.at_unix_ms, verdict.attempt.clone()));
        self.of.insert(verdict.attempt.clone(), (**correction).clone());
        while self.order.len() > self.capacity
            && let Some((_at, oldest)) = self.order.first().cloned()
        {
            self.forget(&oldest);
        }
    }

    /// Forgets the correction of an attempt; whether there was one.
    pub fn forget(&mut self, attempt: &AttemptId) -> bool {
        let Some(gone) = self.of.remove(attempt) else { return false };
        self.order.remove(&(gone.at_unix_ms, attempt.clone()));
        if let Some(rule) = gone.signature {
            let name = (gone.project, rule.id);
            let others = self.by_signature.get_mut(&name);
            let is_last = others.is_some_and(|others| {
                others.retain(|known| known != attempt);
                others.is_empty()
            });
            if is_last {
                self.by_signature.remove(&name);
            }
        }
        true
    }

    /// The finding with the cause that holds for its signature in this project now, if a person said one of another attempt than `own`, and
    /// nothing proves another cause. Of several words the last one counts.
    pub fn apply(&self, project: &str, own: &AttemptId, finding: Finding, now_unix_ms: u64) -> Finding {
        if self.by_signature.is_empty() || is_measured(&finding) {
            return finding;
        }
        let Some(signature) = signature::of(&finding) else { return finding };
        let attempts = self.by_signature.get(&(project.to_owned(), signature.id)).into_iter().flatten();
        let others = attempts.filter(|attempt| *attempt != own);
        let known = others.filter_map(|attempt| Some((attempt, self.of.get(attempt)?)));
        let holds = |known: &(&AttemptId, &VerdictCorrection)| {
            known.1.signature.as_ref().is_some_and(|rule| now_unix_ms < rule.until_unix_ms)
        };
        match known.filter(holds).max_by_key(|(attempt, correction)| (correction.at_unix_ms, *attempt)) {
            Some((attempt, correction)) => {
                let says = format!("{} (attempt {attempt}, which failed the same way)", correction.says());
                finding.corrected(correction.cause, says)
            }
            None => finding,
        }
    }

    /// Which rules were wrong how often, in the projects for which `sees` is true: most often first.
    pub fn wrong(&self, sees: impl Fn(&str) -> bool) -> Vec<WrongVerdicts> {
        let mut counts: BTreeMap<(&str, &str, &str), WrongVerdicts> = BTreeMap::new();
        let seen = self.of.values().filter(|correction| sees(&correction.project));
        for VerdictCorrection { rule, found, cause, .. } in seen.filter(|one| one.found != one.cause) {
            let none = || WrongVerdicts { rule: rule.clone(), found: *found, cause: *cause, count: 0 };
            counts.entry((rule, found.as_str(), cause.as_str())).or_insert_with(none).count += 1;
        }
        let mut wrong: Vec<WrongVerdicts> = counts.into_values().collect();
        wrong.sort_by_key(|wrong| std::cmp::Reverse(wrong.count));
        wrong
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// Something better than an exit, the CI system or the log names the cause.
fn is_measured(finding: &Finding) -> bool {
    let decided = finding.decided_by.filter(|_| finding.cause != Some(Cause::Unknown));
    decided.is_some_and(|source| source < EvidenceSource::Exit)
}

impl Finding {
    /// The finding with the cause that a person says; as it was, if the attempt did not fail.
    #[must_use]
    pub fn corrected(mut self, cause: Cause, says: String) -> Self {
        let Some(found) = self.cause else { return self };
        self.by_rules = self.by_rules.or(Some((found, self.decided_by)));
        let seen = self.lines.iter_mut().filter(|line| line.source != EvidenceSource::Person);
        for (line, clue) in seen.zip(&self.clues) {
            line.supports = clue.supports(cause);
        }
        self.lines.insert(0, EvidenceLine { source: EvidenceSource::Person, text: says, supports: true });
        let (decided_by, cause) = (Some(EvidenceSource::Person), Some(cause));
        Self { cause, decided_by, confidence: SURE, mend: None, own_failure: None, ..self }
    }
}

/// The correction with what the rules found, and the lines of evidence.
pub(super) fn noted(
    correction: Option<&VerdictCorrection>,
    finding: &Finding,
) -> (Option<Box<VerdictCorrection>>, Vec<EvidenceLine>) {
    let lines = finding.lines.clone();
    let Some((found, found_source)) = finding.by_rules else {
        return (correction.cloned().map(Box::new), lines);
    };
    let rule = rule_of(&finding.clues, found, found_source);
    let noted = |one: &VerdictCorrection| VerdictCorrection { found, found_source, rule, ..one.clone() };
    (correction.map(noted).map(Box::new), lines)
}

/// What found a cause.
fn rule_of(clues: &[Clue], found: Cause, source: Option<EvidenceSource>) -> String {
    let Some(source) = source else { return NO_RULE.to_owned() };
    let decided = clues.iter().find(|clue| clue.supports(found) && clue.source == source);
    let of_log = decided.filter(|_line| source == EvidenceSource::Log);
    let is_id = |rule: &&str| {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        !rule.is_empty() && rule.len() <= RULE_BYTES && rule.chars().all(letters)
    };
    let id = of_log.and_then(|line| line.text.split_once(": ")).map(|(rule, _line)| rule).filter(is_id);
    id.unwrap_or(source.as_str()).to_owned()
}
