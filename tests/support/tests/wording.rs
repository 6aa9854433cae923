//! What users read is plain English: it names who is meant, and its sentences are short. That is guides and examples, recorded output
//! (help is in it), and the messages of the programs. Comments and names in code are for reviews.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the tree must fail")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use plimsoll_support::house::{
    files, is_of_tests,
    wording::{lines_with, messages, sentences},
};

/// Phrases that make a reader ask who is meant, each with what to write.
const RIDDLES: &[(&str, &str)] = &[
    ("whoever", "the caller, the user, the program that does it"),
    ("nobody", "no caller, no process; or what is not done"),
    ("nobody's", "of no caller"),
    ("nobodys", "of no caller"),
    ("somebody", "a caller, a user, an operator, another process"),
    ("somebody's", "of another caller"),
    ("somebodys", "of another caller"),
    ("anybody", "any caller, any process"),
    ("everybody", "every caller, all users"),
    ("someone else's", "of another caller"),
    ("that is heard", "that is answered, accepted or counted"),
    ("is told", "gets, learns; or what is reported, shown, distinguished"),
    ("are told", "get, learn; or what is reported, shown, distinguished"),
    ("was told", "got, was asked to; or what was reported"),
    ("were told", "got, were asked to; or what was reported"),
    ("be told", "get, learn; or what can be distinguished"),
    ("been told", "got, was reported"),
    ("being told", "getting, being asked to"),
    ("not told", "not reported, not known"),
];

/// Files that say such a phrase for a reason: the end of their path, the phrase, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "server/app/src/access/identity/denied.rs",
        "nobody",
        "a value of a metric's label, which dashboards name",
    ),
    ("deploy/prometheus/RUNBOOK.md", "nobody", "the same value"),
    ("deploy/prometheus/plimsoll.test.yml", "nobody", "the same value"),
    ("server/app/src/access/identity/mod.rs", "nobody", "a name in logs, which programs may look for"),
];

/// Folders whose files users read as they are, beside the guides.
const READ_AS_THEY_ARE: [&str; 3] = ["deploy/", "tests/golden/", "tests/e2e/golden/"];
/// Folders with code whose messages users read.
const PROGRAMS: [&str; 3] = ["proto/src/", "server/", "agent/"];
/// Longest sentence of a guide, words.
const LONGEST: usize = 35;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap().to_owned()
}

/// What users read of a file; `None` if they read nothing of it.
fn text(name: &str, file: &Path) -> Option<String> {
    let ends_with = |end: &str| file.extension().is_some_and(|extension| extension == end);
    if ends_with("rs") {
        let is_program = PROGRAMS.iter().any(|part| name.starts_with(part)) && !is_of_tests(file);
        return if is_program { Some(messages(&fs::read_to_string(file).unwrap())) } else { None };
    }
    let is_read = ends_with("md") || READ_AS_THEY_ARE.iter().any(|part| name.starts_with(part));
    // what is not text has no words
    if is_read { fs::read_to_string(file).ok() } else { None }
}

/// What users read, each with the path of its file from the root of the repository.
fn texts() -> Vec<(String, String)> {
    let root = repository();
    let parts = ["proto", "server", "agent", "tests", "deploy"].map(|part| files(&root.join(part)));
    let all = parts.concat().into_iter().chain([root.join("README.md")]);
    let named = all.filter_map(|file| {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let text = text(&name, &file)?;
        Some((name, text))
    });
    named.collect()
}

#[test]
fn every_text_says_who_is_meant() {
    let phrases: Vec<&str> = RIDDLES.iter().map(|(phrase, _)| *phrase).collect();
    let (mut wrong, mut excepted) = (Vec::new(), BTreeSet::new());
    let texts = texts();
    assert!(texts.len() > 500, "the tree was read: {}", texts.len());
    for (name, text) in &texts {
        for (line, phrase) in lines_with(text, &phrases) {
            let is_exception = |(file, refused, _): &&(&str, &str, &str)| name == file && phrase == *refused;
            if let Some((file, refused, _)) = EXCEPTIONS.iter().find(is_exception) {
                excepted.insert((*file, *refused));
            } else {
                let instead = RIDDLES.iter().find(|(refused, _)| phrase == *refused).unwrap().1;
                wrong.push(format!("{name}:{line}: {phrase:?}; write for example: {instead}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let unused = EXCEPTIONS.iter().filter(|(file, refused, _)| !excepted.contains(&(*file, *refused)));
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&(&str, &str, &str)>::new(), "remove these exceptions");
}

#[test]
fn sentences_of_guides_are_short() {
    let mut wrong = Vec::new();
    let is_guide = |name: &str| {
        let path = Path::new(name);
        let is_markdown = path.extension().is_some_and(|end| end == "md");
        path.ends_with("README.md") || (path.starts_with("deploy/docs") && is_markdown)
    };
    for (name, text) in texts().iter().filter(|(name, _)| is_guide(name)) {
        let long =
            sentences(text).into_iter().filter(|sentence| sentence.split_whitespace().count() > LONGEST);
        wrong.extend(long.map(|sentence| format!("{name}: {sentence}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
