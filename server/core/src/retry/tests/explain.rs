//! Why a rule decides, and files of rules that are looked at before a server reads them.

use super::*;
use crate::{domain::LogPlace, retry::matching::log_rules};

const LOG: &str = "cc -c a.c\n\
                   curl: (28) Failed to connect to x port 443: Connection timed out\n\
                   curl: (28) Failed to connect to y port 443: Connection timed out\n\
                   a.c:1:10: fatal error: zlib.h: No such file or directory\n\
                   make: *** [Makefile:3: a.o] Error 1\n";

#[test]
fn an_explanation_lists_rules_lines_and_the_decision() {
    let explained = explain(LOG, &LogRules::built_in(), &no_records);
    assert_eq!(explained.cause, Cause::Undecided);
    let rule = |id: &str| explained.rules.iter().find(|fired| fired.rule == id).unwrap();
    let first = &explained.rules[0];
    assert_eq!((first.rule.as_str(), first.decides, first.count), ("connection", true, 2));
    assert_eq!(first.lines[0].0, Some(LogPlace::FromStart(2)));
    assert!(first.why.contains("outside the build"), "{}", first.why);
    assert!(rule("network-time-out").why.contains("counts once"), "{:?}", rule("network-time-out"));
    assert!(rule("compile-error").why.contains("may follow from what connection found"));
    assert!(rule("tool-failed").why.starts_with("counts only"), "{:?}", rule("tool-failed"));
    assert_eq!(explained.rules.iter().filter(|fired| fired.decides).count(), 1);
}

#[test]
fn explanations_and_verdicts_agree_on_all_examples() {
    let rules = LogRules::built_in();
    for line in log_rules::built_in().unwrap().iter().flat_map(|rule| &rule.matches) {
        let (explained, verdict) =
            (explain(line, &rules, &no_records), judged(&Evidence { exit: None, ..code(1, line) }));
        assert_eq!(explained.cause, verdict.cause, "{line}");
        assert!(explained.rules.first().is_some_and(|rule| rule.decides), "{line}: {:?}", explained.rules);
    }
}

#[test]
fn unmatched_logs_are_explained_by_their_last_error() {
    let explained = explain("building\nfatal: the moon is full\n", &LogRules::built_in(), &no_records);
    assert!(explained.rules.is_empty());
    assert_eq!(explained.last_words.as_deref(), Some("fatal: the moon is full"));
    let many = explain(&"a.c:3:1: error: no\n".repeat(100), &LogRules::built_in(), &no_records);
    assert_eq!((many.rules[0].lines.len(), many.rules[0].count), (5, 100));
}

fn checked(files: &[(&str, &str)]) -> RuleReport {
    let files: Vec<(String, String)> =
        files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    check_files(&files)
}

const GOOD: &str = "[[rule]]\nid = \"moon\"\ncause = \"infra\"\npattern = 'the moon is full'\n\
                    matches = ['the moon is full']\nspares = ['the moon']\n";

#[test]
fn rule_mistakes_name_file_and_rule() {
    let good = checked(&[("a.toml", GOOD)]);
    assert_eq!((good.rule_count, good.errors.len(), good.notes.len()), (1, 0, 0), "{good:?}");
    let twice = checked(&[("a.toml", GOOD), ("b.toml", GOOD)]).errors.join("\n");
    assert!(twice.contains("b.toml: rule moon: there are two of this name"), "{twice}");
    assert!(twice.contains("a.toml"), "{twice}");
    for (what, with, named) in [
        ("'the moon is full'\nmatches", "'(?:a|b){9999}{9999}'\nmatches", "a.toml: rule moon: pattern"),
        ("['the moon is full']", "['the sun']", "a.toml: rule moon: does not match its example"),
        ("['the moon']", "['the moon is full']", "a.toml: rule moon: matches"),
    ] {
        let wrong = checked(&[("a.toml", &GOOD.replace(what, with))]).errors;
        assert!(wrong.len() == 1 && wrong[0].starts_with(named), "{wrong:?}");
    }
    let words: Vec<String> = (0..20_000).map(|n| format!("x{n}[a-z]{{50}}")).collect();
    let endless = format!("'{}'\nmatches", words.join("|"));
    let wrong = checked(&[("a.toml", &GOOD.replace("'the moon is full'\nmatches", &endless))]).errors;
    let shown: String = wrong.join(" ").chars().take(200).collect();
    assert!(wrong.len() == 1 && shown.starts_with("a.toml: rule moon: pattern: "), "{shown}");
}

#[test]
fn a_rule_hidden_by_others_is_a_mistake() {
    let hidden = "[[rule]]\nid = \"full\"\ncause = \"deterministic\"\npattern = 'No space left'\n\
                  matches = ['x: No space left on device']\n";
    let wrong = checked(&[("a.toml", hidden)]).errors.join("\n");
    assert!(wrong.starts_with("a.toml: rule full: other rules decide"), "{wrong}");
    assert!(wrong.contains("disk-full"), "{wrong}");
    let notes =
        checked(&[("a.toml", &GOOD.replace("\"moon\"", "\"disk-full\"").replace("matches", "#"))]).notes;
    assert_eq!(notes.len(), 2, "it replaces one of the program, and has no examples: {notes:?}");
}
