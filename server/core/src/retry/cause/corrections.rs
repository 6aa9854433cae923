//! Causes corrected by people: how a correction changes a finding, which ones apply to other failures with the same signature, and how
//! often each rule was wrong.
//!
//! | correction | applies to | overrides |
//! |---|---|---|
//! | of an attempt | that attempt, until it is undone | all evidence |
//! | with a signature | failures of the project with the signature, until it expires or is undone | exit, CI system and log; not proof from kernel, container, pod or agent |
//!
//! At most a set number of corrections is kept, one for each attempt; the oldest are dropped.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::domain::{AttemptId, Cause, EvidenceLine, EvidenceSource, Verdict, VerdictCorrection};
use crate::retry::{
    cause::finding::{Clue, Finding},
    known::signature,
};

/// Confidence in a person's correction.
const CORRECTION_CONFIDENCE: f64 = 0.99;
/// Rule name in the counts if no rule decided the cause.
const NO_RULE: &str = "none";
/// Longest rule id in the counts, bytes.
const RULE_BYTES: usize = 64;

/// Corrections in force.
#[derive(Debug)]
pub struct Corrections {
    capacity: usize,
    /// Time and attempt of each correction, oldest first.
    order: BTreeSet<(u64, AttemptId)>,
    by_attempt: HashMap<AttemptId, VerdictCorrection>,
    /// Attempts with corrections that apply to a signature of a project.
    by_signature: HashMap<(String, String), Vec<AttemptId>>,
}

/// How often one rule found a cause that people corrected to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongVerdicts {
    /// The rule ([`VerdictCorrection::rule`]).
    pub rule: String,
    /// The cause that the rule found.
    pub found: Cause,
    /// The cause that people corrected it to.
    pub cause: Cause,
    /// Number of attempts that were corrected so.
    pub count: u64,
}

impl Corrections {
    /// An empty set for at most `capacity` corrections (at least 1).
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            order: BTreeSet::new(),
            by_attempt: HashMap::new(),
            by_signature: HashMap::new(),
        }
    }

    /// Stores the correction in a verdict, in place of an earlier one for the attempt; removes it if the verdict has none because it was
    /// undone.
    pub fn record(&mut self, verdict: &Verdict) {
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
        self.by_attempt.insert(verdict.attempt.clone(), (**correction).clone());
        while self.order.len() > self.capacity
            && let Some((_at, oldest)) = self.order.first().cloned()
        {
            self.forget(&oldest);
        }
    }

    /// Removes the correction of an attempt; returns whether there was one.
    pub fn forget(&mut self, attempt: &AttemptId) -> bool {
        let Some(gone) = self.by_attempt.remove(attempt) else { return false };
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

    /// Returns the finding with the cause corrected, if the finding is not proven and a correction for its signature in this project is in
    /// force that was made for another attempt than `own`. The newest correction wins.
    pub fn apply(&self, project: &str, own: &AttemptId, finding: Finding, now_unix_ms: u64) -> Finding {
        if self.by_signature.is_empty() || is_measured(&finding) {
            return finding;
        }
        let Some(signature) = signature::of(&finding) else { return finding };
        let attempts = self.by_signature.get(&(project.to_owned(), signature.id)).into_iter().flatten();
        let others = attempts.filter(|attempt| *attempt != own);
        let known = others.filter_map(|attempt| Some((attempt, self.by_attempt.get(attempt)?)));
        let holds = |known: &(&AttemptId, &VerdictCorrection)| {
            known.1.signature.as_ref().is_some_and(|rule| now_unix_ms < rule.until_unix_ms)
        };
        match known.filter(holds).max_by_key(|(attempt, correction)| (correction.at_unix_ms, *attempt)) {
            Some((attempt, correction)) => {
                let says =
                    format!("{} (attempt {attempt}, which failed the same way)", correction.evidence_text());
                finding.corrected(correction.cause, says)
            }
            None => finding,
        }
    }

    /// The correction of an attempt in a project.
    pub(in crate::retry) fn of(&self, attempt: &AttemptId, project: &str) -> Option<&VerdictCorrection> {
        self.by_attempt.get(attempt).filter(|correction| correction.project == project)
    }

    /// How often each rule was wrong, in the projects for which `sees` returns true; the most frequent first.
    pub fn wrong_verdicts(&self, sees: impl Fn(&str) -> bool) -> Vec<WrongVerdicts> {
        let mut counts: BTreeMap<(&str, &str, &str), WrongVerdicts> = BTreeMap::new();
        let seen = self.by_attempt.values().filter(|correction| sees(&correction.project));
        for VerdictCorrection { rule, found, cause, .. } in seen.filter(|one| one.found != one.cause) {
            let none = || WrongVerdicts { rule: rule.clone(), found: *found, cause: *cause, count: 0 };
            counts.entry((rule, found.as_str(), cause.as_str())).or_insert_with(none).count += 1;
        }
        let mut wrong: Vec<WrongVerdicts> = counts.into_values().collect();
        wrong.sort_by_key(|wrong| std::cmp::Reverse(wrong.count));
        wrong
    }

    /// Number of corrections.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are no corrections.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// Whether stronger evidence than exit, CI system or log names the cause.
fn is_measured(finding: &Finding) -> bool {
    let decided = finding.decided_by.filter(|_| finding.cause != Some(Cause::Unknown));
    decided.is_some_and(|source| source < EvidenceSource::Exit)
}

impl Finding {
    /// The finding with the corrected cause; unchanged if the attempt did not fail.
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
        Self { cause, decided_by, confidence: CORRECTION_CONFIDENCE, mend: None, own_failure: None, ..self }
    }
}

/// Completes a correction with the cause and rule that it corrects, and the lines of evidence.
pub(in crate::retry) fn completed_correction(
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

/// Name of the rule that found a cause, or of the kind of evidence that did.
fn rule_of(clues: &[Clue], found: Cause, source: Option<EvidenceSource>) -> String {
    let Some(source) = source else { return NO_RULE.to_owned() };
    let decided = clues.iter().find(|clue| clue.supports(found) && clue.source == source);
    decided
        .map(|clue| clue.rule.as_str())
        .filter(|rule| is_rule_id(rule))
        .unwrap_or(source.as_str())
        .to_owned()
}

/// Whether the text can be shown as the id of a rule.
pub(in crate::retry) fn is_rule_id(rule: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    !rule.is_empty() && rule.len() <= RULE_BYTES && rule.chars().all(letters)
}
