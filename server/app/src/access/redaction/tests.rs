//! What is private, in what is shown to others.

use plimsoll_core::{
    domain::{AttemptId, Cause, EvidenceLine, LogPlace, RetryOutlook, RootLine, test_summary},
    retry::RetrySuccess,
};

use super::*;
use crate::{
    access::identity::{ProvenClaims, Role, TokenJob},
    ingest::fixture,
};

fn redactor(projects: &[&str]) -> Redactor {
    let caller = Identity {
        roles: [Role::Reader].into_iter().collect(),
        projects: projects.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
        ..(*Identity::unknown()).clone()
    };
    let private = PrivacySettings { labels: vec!["customer".into()], logs: true };
    Redactor { private: Arc::new(private), caller: Arc::new(caller) }
}

fn key() -> Key {
    let labels = [("customer", "acme"), ("stage", "build")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    Key { project: "spack/packages".into(), labels: labels.into(), ..Key::default() }
}

fn signature() -> Signature {
    Signature { id: "1".into(), line: "error: acme".into(), first: "error: acme".into() }
}

/// What stays hidden whole: counting lines tells nothing, but what followed them is a line of the log.
fn root() -> RetryOutlook {
    let root = RootLine { at: LogPlace::FromStart(2), then: vec!["error: acme".into()] };
    RetryOutlook { root: Some(root), own_failure: Some("test: acme".into()), ..RetryOutlook::default() }
}

fn verdict() -> Verdict {
    let line = |source, text: &str| EvidenceLine { source, text: text.to_owned(), supports: true };
    Verdict {
        evidence: vec![line(EvidenceSource::Log, "error: acme"), line(EvidenceSource::Kernel, "oom_kill 1")],
        reason: "The build itself is broken (error: acme)".into(),
        outlook: RetryOutlook { signature: Some(signature()), ..root() },
        ..fixture::verdict(&AttemptId::parse("1").unwrap())
    }
}

fn group() -> FailureGroup {
    FailureGroup {
        project: "spack/packages".into(),
        cause: Cause::Deterministic,
        signature: signature(),
        attempts: 1,
        packages: vec!["zlib".into()],
        packages_total: 1,
        newest: AttemptId::parse("1").unwrap(),
        ended_unix_ms: 1,
        retried: 0,
        passed: 0,
        retries_gib_h: 0.0,
        retries_h: 0.0,
    }
}

/// All that is shown, in one text.
fn shown(redactor: &Redactor) -> String {
    let summary = redactor.summary(Summary { key: key(), ..test_summary("1", "zlib", "1", 10) });
    let mut running = Arc::new(Attempt { key: key(), ..fixture::attempt("1") });
    redactor.attempt(&mut running);
    let mut flaky =
        [FlakyFailure { key: String::new(), signature: signature(), helped: RetrySuccess::default() }];
    redactor.redact_flaky(&mut flaky);
    let mut group = group();
    redactor.redact_failures(&mut group);
    let verdict = redactor.verdict(verdict(), "spack/packages");
    format!("{summary:?} {running:?} {verdict:?} {flaky:?} {group:?}")
}

#[test]
fn redacted_answers_contain_no_private_data() {
    for projects in [&[][..], &["*"], &["other/*"]] {
        let shown = shown(&redactor(projects));
        assert!(!shown.contains("acme"), "{shown}");
        assert!(shown.contains("build"), "{shown}");
        assert!(shown.contains("oom_kill 1"), "{shown}");
        assert_eq!(shown.matches(HIDDEN).count(), 10, "{shown}");
    }
    let named = shown(&redactor(&["spack/*"]));
    assert_eq!(named.matches("acme").count(), 12 - 2, "flaky failures are over all projects: {named}");
}

#[test]
fn filters_cannot_reveal_private_label_values() {
    let filter = |project: &str| Filter {
        project: project.into(),
        labels: [("customer".to_owned(), "acme".to_owned())].into(),
        ..Filter::default()
    };
    assert!(redactor(&[]).may_ask(&Filter::default(), "customer").is_err());
    assert!(redactor(&[]).may_ask(&filter(""), "").is_err());
    assert!(redactor(&[]).may_ask(&filter("spack/packages"), "").is_err());
    assert!(redactor(&["spack/*"]).may_ask(&filter("spack/packages"), "customer").is_ok());
    assert!(redactor(&[]).may_ask(&Filter::default(), "stage").is_ok());
}

#[test]
fn jobs_see_own_log_lines_but_no_corrections() {
    let job = Some(TokenJob { host: "ci".into(), id: "7".into() });
    let verdict = |attempt: &str| {
        let person = EvidenceLine {
            source: EvidenceSource::Person,
            text: "ann corrected the cause: acme's mirror".into(),
            supports: true,
        };
        let reason = format!("infrastructure ({})", person.text);
        let evidence = [vec![person], verdict().evidence].concat();
        Verdict { attempt: AttemptId::parse(attempt).unwrap(), evidence, reason, ..verdict() }
    };
    let shown = |attempt: &str| {
        let redactor = redactor(&[]);
        let proven = ProvenClaims { job: job.clone(), ..ProvenClaims::default() };
        let caller = Arc::new(Identity { proven, ..(*redactor.caller).clone() });
        Redactor { caller, ..redactor }.verdict(verdict(attempt), "spack/packages")
    };
    let own = shown("ci:7");
    assert_eq!(own.reason, "infrastructure (corrected by a person)");
    assert_eq!(own.evidence[0].text.as_str(), "corrected by a person");
    assert_eq!(own.evidence[1].text.as_str(), "error: acme");
    assert_eq!(own.outlook.signature.unwrap().line, "error: acme");
    let other = format!("{:?}", shown("ci:8"));
    assert!(!other.contains("acme") && !other.contains("ann"), "{other}");
}
