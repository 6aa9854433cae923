//! Rules that were wrong here: their records, what speaks in their place, and what cannot turn them.

use super::*;
use crate::retry::{Corrections, RuleExperience, RuleRecord, SilencedRule};

const BROKEN: &str = "a.c:1:1: error: no";
const LOST: &str = "curl: (6) Could not resolve host: x";

/// An installation: what verdicts depend on.
struct Installation {
    seen: KnownFailures,
    history: History,
    corrections: Corrections,
}

impl Installation {
    fn new() -> Self {
        Self {
            seen: KnownFailures::new(1000),
            history: History::new(1000),
            corrections: Corrections::new(100),
        }
    }

    fn record(&self, rule: &str, project: &str) -> RuleRecord {
        self.experience().record(rule, project)
    }

    fn experience(&self) -> RuleExperience<'_> {
        RuleExperience { seen: &self.seen, history: &self.history, corrections: &self.corrections }
    }

    fn judge(&self, evidence: &Evidence) -> Verdict {
        let (settings, policy) = (Settings::default(), RetryPolicy::default());
        let here = |rule: &str| self.record(rule, &evidence.key.project);
        let finding = classify_with_records(evidence, &LogRules::built_in(), &here);
        let known =
            VerdictInputs { history: &self.history, seen: &self.seen, settings: &settings, policy: &policy };
        super::super::judge(evidence, finding, &known)
    }

    /// A failure of this project at a commit of its own, with a retry that ended so; `None`: no retry.
    fn fails(&mut self, id: &str, project: &str, log: &str, retry: Option<Outcome>) -> Verdict {
        let asked = asked(id, project, id, log);
        let verdict = Verdict { given_unix_ms: Some(1000), ..self.judge(&asked) };
        self.seen.learn(&asked.key, &verdict);
        if let Some(outcome) = retry {
            self.retries(id, &asked.key, outcome);
        }
        verdict
    }

    fn retries(&mut self, of: &str, key: &Key, outcome: Outcome) {
        let retry = test_summary(&format!("{of}-again"), "zlib", "1", 100);
        let exit = Some(Exit::Code(i32::from(outcome != Outcome::Succeeded)));
        let retries = AttemptId::parse(of).ok();
        self.history.learn(Arc::new(Summary { key: key.clone(), outcome, exit, retries, ..retry }));
    }
}

fn asked(id: &str, project: &str, commit: &str, log: &str) -> Evidence {
    let mut evidence = Evidence { attempt: AttemptId::parse(id).unwrap(), ..code(1, log) };
    evidence.key.project = project.into();
    evidence.key.labels.insert("commit".into(), commit.into());
    evidence
}

fn record(right: u32, wrong: u32) -> RuleRecord {
    RuleRecord { right, wrong }
}

#[test]
fn a_frequently_wrong_rule_is_silenced() {
    for (right, wrong, is_reliable) in [
        (0, 0, true),
        (0, 5, true),
        (0, 6, false),
        (2, 6, true),
        (2, 7, false),
        (3, 7, true),
        (20, 12, true),
        (u32::MAX / 2, 3, true),
    ] {
        assert_eq!(record(right, wrong).is_reliable(), is_reliable, "{right} {wrong}");
    }
}

#[test]
fn retry_outcomes_silence_a_rule_per_project() {
    use Outcome::{Failed, Lost, Succeeded};
    for (log, wrong, right) in [(BROKEN, Succeeded, Failed), (LOST, Failed, Succeeded)] {
        let mut here = Installation::new();
        let natural = here.judge(&asked("x", "p", "x", log));
        let rule = &natural.basis.spoken[0].rule;
        for (n, outcome) in [right, wrong, wrong, wrong, right, wrong, wrong, Lost, wrong].iter().enumerate()
        {
            // another line each time, so that the same failure is not flaky
            let log = format!("{log}{}\n", "y".repeat(n));
            let verdict = here.fails(&format!("f{n}"), "p", &log, Some(*outcome));
            assert_eq!(verdict.basis.spoken.len(), 1, "{:?}", verdict.evidence);
        }
        assert_eq!(here.record(rule, "p"), record(2, 6), "{rule}");
        here.fails("last", "p", &format!("{log}w"), Some(wrong));
        let next = here.fails("next", "p", &format!("{log}z"), None);
        assert_eq!((next.cause, &next.basis.spoken), (Cause::Unknown, &natural.basis.spoken));
        let says = "but it was wrong here in 7 of 9 cases, so it does not count";
        assert!(next.evidence.iter().any(|line| line.text.contains(says)), "{:?}", next.evidence);
        assert!(next.outlook.signature.is_some(), "later failures must be recognized, to get its say back");
        let elsewhere = here.judge(&asked("x", "q", "x", &format!("{log}z")));
        assert_eq!(elsewhere.cause, natural.cause, "in another project it has a say");
    }
}

#[test]
fn a_later_pass_counts_across_pipelines() {
    let mut here = Installation::new();
    let failed = here.fails("f", "p", BROKEN, None);
    let rule = &failed.basis.spoken[0].rule;
    let mut ends = |id: &str, commit: &str, started_unix_ms: u64, outcome: Outcome| {
        let mut key = asked(id, "p", commit, BROKEN).key;
        key.labels.insert("pipeline".into(), id.into());
        let exit = Some(Exit::Code(i32::from(outcome != Outcome::Succeeded)));
        let summary = test_summary(id, "zlib", "1", 100);
        here.history.learn(Arc::new(Summary { key, started_unix_ms, outcome, exit, ..summary }));
        here.record(rule, "p")
    };
    for (id, commit, ended, outcome, wrong) in [
        ("f", "f", 1000, Outcome::Failed, 0),
        ("before", "f", 900, Outcome::Succeeded, 0),
        ("another", "g", 1900, Outcome::Succeeded, 0),
        ("broken", "f", 2000, Outcome::Failed, 0),
        ("later", "f", 3000, Outcome::Succeeded, 1),
    ] {
        assert_eq!(ends(id, commit, ended, outcome), record(0, wrong), "{id}");
    }
}

#[test]
fn one_projects_flood_silences_no_rule_elsewhere() {
    let mut here = Installation::new();
    for n in 0..100 {
        here.fails(&format!("f{n}"), "p", &format!("{BROKEN}{}", "y".repeat(n)), Some(Outcome::Succeeded));
    }
    let rule = here.judge(&asked("x", "q", "x", BROKEN)).basis.spoken[0].rule.clone();
    assert_eq!((here.record(&rule, "p"), here.record(&rule, "q")), (record(0, 32), record(0, 3)));
    let silenced = |here: &Installation| here.experience().silenced(&rule);
    let of = |project: &str, wrong| SilencedRule {
        rule: rule.clone(),
        project: project.into(),
        record: record(0, wrong),
    };
    assert_eq!(silenced(&here), [of("p", 32)]);
    for n in 0..3 {
        here.fails(&format!("g{n}"), "q", &format!("{BROKEN}{}", "y".repeat(n)), Some(Outcome::Succeeded));
    }
    assert_eq!(silenced(&here), [of("", 6), of("p", 35), of("q", 6)], "two projects agree");

    let mut here = Installation::new();
    for n in 0..40 {
        let id = format!("f{n}");
        let asked = asked(&id, "p", "one commit", BROKEN);
        here.seen.learn(&asked.key, &here.judge(&asked));
        here.retries(&id, &asked.key, if n == 20 { Outcome::Succeeded } else { Outcome::Failed });
    }
    assert_eq!(here.record(&rule, "p"), record(0, 1));
}

#[test]
fn corrections_replace_retries_in_a_rules_record() {
    let mut here = Installation::new();
    let correct = |here: &mut Installation, id: &str, cause| {
        let mut verdict = here.judge(&asked(id, "p", id, BROKEN));
        verdict.basis.correction = Some(Box::new(corrected::correction(cause)));
        here.corrections.record(&verdict);
    };
    for id in ["a", "b", "c"] {
        here.fails(id, "p", BROKEN, Some(Outcome::Succeeded));
    }
    let rule = here.judge(&asked("x", "p", "x", BROKEN)).basis.spoken[0].rule.clone();
    assert_eq!(here.record(&rule, "p"), record(0, 3));
    for (id, cause, expected) in [
        ("a", Cause::Deterministic, record(1, 2)),
        ("b", Cause::Oom, record(1, 2)),
        ("a", Cause::Infra, record(0, 3)),
        ("a", Cause::Deterministic, record(1, 2)),
        ("unknown", Cause::Infra, record(1, 2)),
    ] {
        correct(&mut here, id, cause);
        assert_eq!(here.record(&rule, "p"), expected, "{id} {cause:?}");
    }
}

#[test]
fn records_ignore_arrival_order_and_untrusted_reports() {
    let failures: Vec<(Key, Verdict)> = (0..300)
        .map(|n| {
            let (id, commit) = (format!("f{n}"), format!("{}", n % 90));
            let asked = asked(&id, ["p", "q", "r"][n % 3], &commit, BROKEN);
            let mut verdict = judged(&asked);
            verdict.given_unix_ms = Some(1000 + n as u64 / 4);
            verdict.basis.by_untrusted = n % 5 == 0;
            verdict.outlook.signature.as_mut().unwrap().id = format!("{}", n % 90);
            (asked.key, verdict)
        })
        .collect();
    let records = |step: usize| {
        let mut here = Installation::new();
        here.seen = KnownFailures::new(200);
        for n in (0..300).map(|n| n * step % 300) {
            let (key, verdict) = &failures[n];
            if n % 2 == 0 {
                here.seen.learn(key, verdict);
            }
            let outcome = if n % 90 % 4 == 1 { Outcome::Failed } else { Outcome::Succeeded };
            here.retries(verdict.attempt.as_str(), key, outcome);
            if n % 2 == 1 {
                here.seen.learn(key, verdict);
            }
        }
        let rule = &failures[0].1.basis.spoken[0].rule;
        (["p", "q", "r", "s"].map(|project| here.record(rule, project)), here.seen.rules_with_cases())
    };
    let expected = records(1);
    assert!(expected.0.iter().all(|record| record.cases() > 3 && record.right > 0), "{expected:?}");
    for step in [299, 7, 113] {
        assert_eq!(records(step), expected, "step {step}");
    }
    let mut all = KnownFailures::new(500);
    for (key, verdict) in failures.iter().filter(|(_, verdict)| verdict.basis.by_untrusted) {
        all.learn(key, verdict);
    }
    assert_eq!(all.rules_with_cases(), [""; 0]);
    for (key, verdict) in &failures {
        all.learn(key, verdict);
    }
    for (_, verdict) in &failures {
        all.unlearn(&verdict.attempt, None);
    }
    assert_eq!(all.rules_with_cases(), [""; 0], "nothing is left");
}
