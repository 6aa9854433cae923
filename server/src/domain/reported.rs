//! What callers said of an ended attempt, as far as it can say why it failed. It is kept with the verdict on it, so that a later
//! question starts from all that was said before: evidence only adds up.
//!
//! | what | several callers say different things |
//! |---|---|
//! | reasons of container, pod and CI system | all of them are kept, a few of each kind |
//! | lines of the log | one for each rule that matched |
//! | exit, key | the newest counts; what it leaves open stays as it was said before |

use serde::{Deserialize, Serialize};

use super::{Cause, Exit, Key, Millis};

/// Reasons kept of each kind. Later ones that differ are not taken.
const REASONS: usize = 4;
/// Lines of the log that are kept, each of another rule.
const LINES: usize = 16;

/// What callers said of an ended attempt. Empty lists and `None` mean that nothing was said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportedEvidence {
    /// Project of the one who said it, or in whose name it was said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// What was built, if nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<Key>>,
    /// Number of the attempt, 1 for the first execution; 0 if nothing was said.
    #[serde(skip_serializing_if = "is_zero")]
    pub number: u32,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Kubernetes' reasons for the end of the container, at most 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_reasons: Vec<String>,
    /// Kubernetes' reasons for the end of the pod, at most 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_reasons: Vec<String>,
    /// The CI system's failure reasons, at most 4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ci_reasons: Vec<String>,
    /// Lines of the log that a rule knows, the strongest first, at most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<MatchedLine>,
    /// The last line of the log that speaks of an error, where no rule knows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_words: Option<String>,
    /// The first line of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_words: Option<String>,
    /// The last word of the CI system's runner in the log is that the container was killed for memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub runner_says_oom: bool,
    /// Earlier runs of the same job, as the CI system lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_before: Option<u32>,
    /// Time that it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Millis>,
}

/// A line of a log that a rule knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedLine {
    /// Id of the rule.
    pub rule: String,
    /// What the rule said when the line was read; counts if the rule is no longer known.
    pub cause: Cause,
    /// The line as it is shown, at most some 200 bytes; empty once lines of logs were removed for their age.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
    /// The first line that the rule knows: of several errors the one that the others follow from. Empty as `line` is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ReportedEvidence {
    /// Whether anything says that the attempt has ended.
    pub fn says_how_it_ended(&self) -> bool {
        let reasons = [&self.container_reasons, &self.pod_reasons, &self.ci_reasons];
        self.exit.is_some()
            || reasons.iter().any(|said| !said.is_empty())
            || !self.log.is_empty()
            || self.last_words.is_some()
    }

    /// Adds what was said later.
    pub fn join(&mut self, later: &Self) {
        if self.project.is_empty() {
            self.project.clone_from(&later.project);
        }
        self.key = match (self.key.take(), &later.key) {
            (Some(known), Some(said)) => Some(Box::new(completed(said, &known))),
            (known, said) => said.clone().or(known),
        };
        self.number = self.number.max(later.number);
        self.exit = later.exit.or(self.exit);
        add_reasons(&mut self.container_reasons, &later.container_reasons);
        add_reasons(&mut self.pod_reasons, &later.pod_reasons);
        add_reasons(&mut self.ci_reasons, &later.ci_reasons);
        self.add_lines(&later.log);
        self.last_words = later.last_words.clone().or_else(|| self.last_words.take());
        self.first_words = later.first_words.clone().or_else(|| self.first_words.take());
        self.runner_says_oom |= later.runner_says_oom;
        self.runs_before = self.runs_before.max(later.runs_before);
        self.time_limit = later.time_limit.or(self.time_limit);
    }

    /// A log that has all that was known stands in its own order: it is the more complete one. Of any other one only what is new is
    /// added, behind what was known.
    fn add_lines(&mut self, later: &[MatchedLine]) {
        let has = |lines: &[MatchedLine], one: &MatchedLine| lines.iter().any(|line| line.rule == one.rule);
        if !later.is_empty() && self.log.iter().all(|known| has(later, known)) {
            self.log = later.to_vec();
        } else {
            let gone = |known: &&mut MatchedLine| known.line.is_empty();
            for known in self.log.iter_mut().filter(gone) {
                let again = later.iter().find(|line| line.rule == known.rule);
                *known = again.unwrap_or(known).clone();
            }
            let new: Vec<MatchedLine> = later.iter().filter(|line| !has(&self.log, line)).cloned().collect();
            self.log.extend(new);
        }
        self.log.truncate(LINES);
    }

    /// What a job may say of itself without being trusted: how it ended and its log. The words of cluster and CI system are theirs.
    #[must_use]
    pub fn of_the_job_alone(&self) -> Self {
        Self {
            project: self.project.clone(),
            exit: self.exit,
            log: self.log.clone(),
            last_words: self.last_words.clone(),
            first_words: self.first_words.clone(),
            ..Self::default()
        }
    }

    /// The same without texts of the log, which may be removed for their age. It tells one state of knowledge from another.
    #[must_use]
    pub fn without_log_lines(&self) -> Self {
        let mut without = self.clone();
        without.drop_log_lines();
        without
    }

    /// Takes the lines of the log away; which rules matched stays. False if there is none.
    pub(crate) fn drop_log_lines(&mut self) -> bool {
        let mut dropped = self.last_words.take().is_some() | self.first_words.take().is_some();
        for matched in self.log.iter_mut().filter(|matched| !matched.line.is_empty()) {
            matched.line.clear();
            matched.first.clear();
            dropped = true;
        }
        dropped
    }
}

fn add_reasons(known: &mut Vec<String>, later: &[String]) {
    for reason in later {
        if known.len() < REASONS && !known.contains(reason) {
            known.push(reason.clone());
        }
    }
}

/// The key that was said last, with what it leaves open as it was said before.
fn completed(said: &Key, known: &Key) -> Key {
    let mut labels = known.labels.clone();
    labels.extend(said.labels.clone());
    let mut key = Key { labels, hints: said.hints, ..Key::default() };
    key.hints.build_jobs = key.hints.build_jobs.or(known.hints.build_jobs);
    key.hints.input_bytes = key.hints.input_bytes.or(known.hints.input_bytes);
    let either = |said: &str, known: &str| if said.is_empty() { known.to_owned() } else { said.to_owned() };
    let Key { project, stack, package, version, variants, compiler, .. } = &mut key;
    *project = either(&said.project, &known.project);
    *stack = either(&said.stack, &known.stack);
    *package = either(&said.package, &known.package);
    *version = either(&said.version, &known.version);
    *variants = either(&said.variants, &known.variants);
    *compiler = either(&said.compiler, &known.compiler);
    key.compiler_version = either(&said.compiler_version, &known.compiler_version);
    key.arch = either(&said.arch, &known.arch);
    key.build_system = either(&said.build_system, &known.build_system);
    key.git_ref = either(&said.git_ref, &known.git_ref);
    key.owner = either(&said.owner, &known.owner);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rule: &str, line: &str) -> MatchedLine {
        MatchedLine { rule: rule.into(), cause: Cause::Deterministic, line: line.into(), first: line.into() }
    }

    fn joined(parts: &[ReportedEvidence]) -> ReportedEvidence {
        let mut all = ReportedEvidence::default();
        for part in parts {
            all.join(part);
        }
        all
    }

    #[test]
    fn nothing_that_was_said_is_lost_and_saying_it_again_adds_nothing() {
        let container = |reason: &str| ReportedEvidence {
            container_reasons: vec![reason.to_owned()],
            ..ReportedEvidence::default()
        };
        let log = ReportedEvidence { log: vec![line("a", "a: no")], ..ReportedEvidence::default() };
        let exit = ReportedEvidence { exit: Some(Exit::Code(1)), number: 2, ..ReportedEvidence::default() };
        let parts = [container("OOMKilled"), log, exit, container("Error"), ReportedEvidence::default()];
        let all = joined(&parts);
        assert_eq!(all.container_reasons, ["OOMKilled", "Error"]);
        assert_eq!((all.exit, all.number, all.log.len()), (Some(Exit::Code(1)), 2, 1));
        for part in &parts {
            let again = joined(&[all.clone(), part.clone()]);
            assert_eq!(again, all);
        }
        let many: Vec<ReportedEvidence> = (0..100).map(|n| container(&n.to_string())).collect();
        assert_eq!(joined(&many).container_reasons.len(), REASONS);
    }

    #[test]
    fn a_log_with_all_that_was_known_stands_in_its_own_order_and_another_one_comes_behind() {
        let log =
            |lines: &[MatchedLine]| ReportedEvidence { log: lines.to_vec(), ..ReportedEvidence::default() };
        let (a, b, c) = (line("a", "1"), line("b", "2"), line("c", "3"));
        let full = joined(&[log(std::slice::from_ref(&a)), log(&[b.clone(), a.clone()])]);
        assert_eq!(full.log, [b.clone(), a.clone()]);
        assert_eq!(joined(&[full, log(std::slice::from_ref(&c))]).log, [b, a.clone(), c]);
        let mut gone = log(std::slice::from_ref(&a));
        assert!(gone.drop_log_lines() && !gone.drop_log_lines());
        assert_eq!((gone.log[0].rule.as_str(), gone.log[0].line.as_str()), ("a", ""));
        assert_eq!(joined(&[gone, log(std::slice::from_ref(&a))]).log, [a]);
    }

    #[test]
    fn a_key_that_says_less_takes_nothing_away() {
        let key = |package: &str, version: &str| ReportedEvidence {
            key: Some(Box::new(Key { package: package.into(), version: version.into(), ..Key::default() })),
            ..ReportedEvidence::default()
        };
        let all = joined(&[key("zlib", "1"), key("zlib", ""), ReportedEvidence::default()]);
        assert_eq!(all, key("zlib", "1"));
    }
}
