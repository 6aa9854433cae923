//! What is in force after files have changed.

use std::{fs, path::Path, time::Duration};

use plimsoll_core::{
    domain::{Action, AttemptId, Exit},
    predict,
    retry::VerdictInputs,
};

use super::*;
use crate::{patience::eventually, runtime::metrics::KindLabel};

const RULE: &str = "[[rule]]\nid = \"moon\"\ncause = \"contention\"\npattern = 'the moon is full'\n";
const NEVER: &str = "[[terms]]\ncause = \"contention\"\nretries = 0\n";

/// Rules in `rules/own.toml`, terms in `terms.toml`.
fn open(dir: &Path) -> anyhow::Result<FailureClassifier> {
    let sources = RuleSources {
        rules_dir: Some(dir.join("rules")),
        policy_file: Some(dir.join("terms.toml")),
        policy: RetryPolicy::default(),
    };
    FailureClassifier::open(sources, &SharedHistory::new(History::new(1)), Arc::new(Metrics::new()))
}

fn write(dir: &Path, rules: &str, terms: &str) {
    fs::create_dir_all(dir.join("rules")).unwrap();
    fs::write(dir.join("rules/own.toml"), rules).unwrap();
    fs::write(dir.join("terms.toml"), terms).unwrap();
}

/// Cause and action for a log that only the operator's rule knows.
fn judged(classifier: &FailureClassifier) -> (&'static str, Action) {
    let about = Evidence::about(AttemptId::parse("a").unwrap());
    let evidence = Evidence { exit: Some(Exit::Code(1)), log_tail: "the moon is full".into(), ..about };
    let settings = &predict::Settings::default();
    let verdict = classifier.with_finding(&evidence, |finding, history, seen, policy| {
        retry::judge(&evidence, finding, &VerdictInputs { history, seen, settings, policy })
    });
    (verdict.cause.as_str(), verdict.action)
}

fn reloads(classifier: &FailureClassifier, kind: &'static str) -> u64 {
    classifier.0.metrics.rules_reloads.get_or_create(&KindLabel::of(kind)).get()
}

#[test]
fn rules_and_policy_reload_atomically() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "", "");
    let classifier = open(dir.path()).unwrap();
    assert_eq!(judged(&classifier), ("unknown", Action::AsIs));
    write(dir.path(), RULE, NEVER);
    classifier.reload_if_changed(false);
    assert_eq!(judged(&classifier), ("contention", Action::No));
    for (rules, terms) in
        [("", "[[terms]]\njitter = 7\n"), ("[[rule]]\nid = 1\n", ""), ("[[rule]]\n", "terms = 1\n")]
    {
        write(dir.path(), rules, terms);
        classifier.reload_if_changed(false);
        assert_eq!(judged(&classifier), ("contention", Action::No), "{rules:?} {terms:?}");
        assert_eq!(classifier.0.metrics.rules_refused.get(), 1);
    }
    assert_eq!((reloads(&classifier, "taken"), reloads(&classifier, "refused")), (1, 3));
    write(dir.path(), RULE, "");
    classifier.reload_if_changed(false);
    assert_eq!(judged(&classifier), ("contention", Action::AsIs));
    assert_eq!(classifier.0.metrics.rules_refused.get(), 0);
}

#[test]
fn irregular_files_are_refused_before_opening() {
    let dir = tempfile::tempdir().unwrap();
    let of = |rules_dir, policy_file: Option<&str>| {
        let sources = RuleSources {
            rules_dir,
            policy_file: policy_file.map(Into::into),
            policy: RetryPolicy::default(),
        };
        FailureClassifier::open(sources, &SharedHistory::new(History::new(1)), Arc::new(Metrics::new()))
    };
    let error = format!("{:#}", of(None, Some("/dev/null")).unwrap_err());
    assert!(error.contains("retry_policy: /dev/null is not a regular file"), "{error}");
    std::os::unix::fs::symlink("/dev/null", dir.path().join("own.toml")).unwrap();
    let error = format!("{:#}", of(Some(dir.path().to_owned()), None).unwrap_err());
    assert!(error.contains("own.toml is not a regular file"), "{error}");
}

#[test]
fn a_grown_file_is_read_to_its_limit() {
    let (_dir, path) = plimsoll_support::temporary::file_with("own.toml", "#".repeat((1 << 20) + 1));
    let error = reload::text(&path, 1).unwrap_err().to_string();
    assert!(error.contains("has more than 1048576 bytes"), "{error}");
    fs::write(&path, "#".repeat(1 << 20)).unwrap();
    assert_eq!(reload::text(&path, 1).unwrap().len(), 1 << 20);
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "it stands for a look at a disk that hangs")]
async fn a_hanging_file_check_does_not_delay_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "", "");
    let classifier = open(dir.path()).unwrap();
    let end = CancellationToken::new();
    let hanging = classifier.0.kept.hang();
    let stop = async {
        // the test, the watch and its look hold one each
        eventually("the look begins", async || Arc::strong_count(&classifier.0), |count| *count >= 3).await;
        end.cancel();
    };
    let watch = classifier.clone().watch(end.clone());
    let both = async { tokio::join!(watch, stop).0 };
    let ended = tokio::time::timeout(Duration::from_secs(30), both).await;
    drop(hanging);
    ended.expect("the watch ends").unwrap();
}
