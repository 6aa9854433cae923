//! Rules of the operator, and Spack's taxonomy.

use super::*;

fn rules(name: &str, text: &str) -> Result<LogRules, Vec<String>> {
    LogRules::extended(&[(name.to_owned(), text.to_owned())])
}

fn cause(rules: &LogRules, log: &str) -> Option<Cause> {
    classify(&code(1, log), rules).cause
}

const OWN: &str = "[[rule]]\nid = \"licence\"\ncause = \"contention\"\npattern = 'no free licence'\n\
                   matches = [\"E: no free licence for x\"]\nspares = [\"a free licence\"]\n";

#[test]
fn operator_rules_extend_or_replace_built_in_ones() {
    let own = rules("own.toml", OWN).unwrap();
    assert_eq!(own.len(), LogRules::built_in().len() + 1);
    assert_eq!(cause(&own, "E: no free licence for icc"), Some(Cause::Contention));
    assert_eq!(cause(&own, "x: No space left on device"), Some(Cause::DiskFull));
    let mirror = rules("own.toml", &OWN.replace("no free licence", "returned error: 404")).unwrap();
    let log = "curl: (22) The requested URL returned error: 404\nmake: *** [all] Error 1";
    assert_eq!(cause(&mirror, log), Some(Cause::Contention), "it calls the answer a fault of the other side");
    let replaced = rules("own.toml", &OWN.replace("licence\"\ncause", "disk-full\"\ncause")).unwrap();
    assert_eq!(replaced.len(), LogRules::built_in().len());
    assert_eq!(cause(&replaced, "x: No space left on device"), Some(Cause::Unknown));
}

#[test]
fn all_wrong_rules_are_reported_together() {
    let bad = |what: &str, with: &str| OWN.replace(what, with);
    for (text, named) in [
        (bad("no free licence'", "(no'"), "licence: pattern"),
        (bad("no free licence'", "a*'"), "matches an empty line"),
        (bad("E: no free", "E: one free"), "does not match its example"),
        (bad("a free licence", "no free licence"), "should spare"),
        (bad("contention", "oom"), "sign must be"),
        (bad("contention", "bad_luck"), "bad_luck"),
        (bad("pattern", "patern"), "patern"),
        (format!("{OWN}{OWN}"), "two of this name"),
        (bad("'no free licence'", "'(?:a{1000}){1000}'"), "licence: pattern"),
    ] {
        let wrong = rules("own.toml", &text).unwrap_err().join("\n");
        assert!(wrong.contains(named), "{wrong}");
    }
    let two =
        OWN.replace("contention", "oom") + &OWN.replace("licence\"\n", "other\"\n").replace("'no", "'(no");
    assert_eq!(rules("own.toml", &two).unwrap_err().len(), 2);
}

/// In the form of Spack's file.
const TAXONOMY: &str = "---\ntaxonomy:\n  version: \"0\"\n  error_classes:\n    write_lock_timeout:\n      grep_for:\n        \
    - 'waited for the big lock'\n    killed:\n      grep_for:\n        - \"Killed\"\n        - 'it''s dead'\n    brand_new:\n      \
    grep_for:\n        - plain words # why\n    # a note\n    scheduler_failure: null\n\n  deconflict_order:\n    # first\n    - 'killed'\n";

#[test]
fn spacks_taxonomy_is_read_as_it_is() {
    let theirs = rules("error_taxonomy.yaml", TAXONOMY).unwrap();
    assert_eq!(theirs.len(), LogRules::built_in().len() + 3);
    assert_eq!(cause(&theirs, "waited for the big lock"), Some(Cause::Contention));
    assert_eq!(cause(&theirs, "it's dead"), Some(Cause::Oom), "a candidate");
    assert_eq!(cause(&theirs, "Killed\na.c:1:1: error: no"), Some(Cause::Deterministic), "a weak one");
    assert_eq!(cause(&theirs, "plain words"), Some(Cause::Unknown));
    let counted = evidence(Some(failed(Some(0))), Exit::Code(1), "Killed");
    assert_eq!(classify(&counted, &theirs).cause, Some(Cause::Infra), "the kernel counted no kill");
}

#[test]
fn malformed_files_are_reported_with_their_line() {
    for (text, named) in [
        ("", "has no error_classes"),
        ("taxonomy:\n  - x\n", "line 2"),
        ("error_classes:\n  a:\n    grep_for:\n      - \"x\n", "line 4"),
        ("error_classes:\n  a: [1, 2]\n", "line 2"),
        ("error_classes:\n  a:\n    - '('\n", "spack/a: pattern"),
    ] {
        let wrong = rules("x.yaml", text).unwrap_err().join("\n");
        assert!(wrong.contains(named), "{text:?}: {wrong}");
    }
    let deep = format!("error_classes:\n a:\n  - '{}'\n", "(".repeat(100_000));
    assert!(rules("x.yaml", &deep).is_err(), "a pattern that is too deep is refused, not followed");
}
