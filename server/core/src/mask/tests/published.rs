//! The patterns against what issuers publish, and against what builds print every day.

use serde::Deserialize;

use super::made_up::Letters;
use crate::mask::{data, text};

/// All of the file, also what only tests read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) pattern: Vec<Pattern>,
    pub(super) named: Named,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, clippy::struct_excessive_bools, reason = "as the file has it")]
pub(super) struct Pattern {
    pub(super) name: String,
    find: String,
    #[serde(default)]
    holds: Vec<String>,
    unless: Option<String>,
    #[serde(default)]
    border: bool,
    #[serde(default)]
    pub(super) random: bool,
    #[serde(default)]
    pub(super) both_cases: bool,
    #[serde(default = "yes")]
    pub(super) cut: bool,
    pub(super) hides: Vec<String>,
    pub(super) keeps: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read by the code that masks")]
pub(super) struct Named {
    names: Vec<String>,
    words: Vec<String>,
    settings: Vec<String>,
    harmless: Vec<String>,
    nothing: Vec<String>,
    pub(super) hides: Vec<String>,
    pub(super) keeps: Vec<String>,
}

fn yes() -> bool {
    true
}

pub(super) fn file() -> File {
    toml::from_str(data::PATTERNS_TEXT).unwrap()
}

/// Random letters look less random now and then.
const DRAWS: u64 = 4;

/// Of so many texts made of each template, those that are hidden.
fn score<'t>(templates: impl Iterator<Item = &'t str>) -> (u64, u64, Vec<String>) {
    let (mut hidden, mut all, mut missed) = (0, 0, Vec::new());
    for template in templates {
        let planted = (0..DRAWS).map(|seed| Letters::new(seed + 1).fill(template));
        let safe = planted.filter(|planted| !planted.leaks(&text(&planted.text), 8)).count() as u64;
        if safe < DRAWS {
            missed.push(format!("{template}: {safe} of {DRAWS}"));
        }
        (hidden, all) = (hidden + safe, all + DRAWS);
    }
    (hidden, all, missed)
}

#[test]
fn nearly_all_published_formats_are_hidden() {
    let file = file();
    let templates: Vec<&String> =
        file.pattern.iter().flat_map(|pattern| &pattern.hides).chain(&file.named.hides).collect();
    assert!(templates.len() >= 250, "{}", templates.len());
    let (hidden, all, missed) = score(templates.iter().map(|template| template.as_str()));
    println!("{} formats: {hidden} of {all} texts hidden", templates.len());
    assert!(hidden * 100 >= all * 99, "{hidden} of {all}: {missed:#?}");
}

#[test]
fn formats_that_were_kept_apart_are_hidden_too() {
    let lines: Vec<&str> = include_str!("unseen.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| &line[20..])
        .collect();
    let (hidden, all, missed) = score(lines.iter().copied());
    println!("{} formats: {hidden} of {all} texts hidden, not {missed:#?}", lines.len());
    assert!(hidden * 100 >= all * 95, "{hidden} of {all}: {missed:#?}");
}

#[test]
fn patterns_have_lines_that_must_stay_unmasked() {
    let file = file();
    for pattern in &file.pattern {
        assert!(!pattern.keeps.is_empty(), "{}", pattern.name);
        assert!(!pattern.hides.is_empty() || pattern.name.contains("cut"), "{}", pattern.name);
    }
    let mut changed = Vec::new();
    for line in file.pattern.iter().flat_map(|pattern| &pattern.keeps).chain(&file.named.keeps) {
        let log = format!("one\n{line}\nmore\n");
        if text(&log) != log {
            changed.push(text(&log).into_owned());
        }
    }
    assert!(changed.is_empty(), "{changed:#?}");
}

#[test]
fn ordinary_lines_of_build_logs_stay() {
    let log = include_str!("ordinary.log");
    let masked = text(log);
    let changed: Vec<(&str, &str)> =
        log.lines().zip(masked.lines()).filter(|(one, other)| one != other).collect();
    assert!(changed.is_empty(), "{changed:#?}");
    for line in log.lines() {
        assert_eq!(text(line), line, "alone");
    }
}

#[test]
#[ignore = "prints how long a megabyte takes: run it in a release build"]
fn the_cost_of_a_megabyte() {
    for (name, log) in
        [("ordinary", include_str!("ordinary.log")), ("token=", "token= "), ("letters", "aB3dE6gH9jK2")]
    {
        let log = log.repeat((1 << 20) / log.len() + 1);
        let _warm = text(&log);
        let begun = std::time::Instant::now();
        let _masked = (0..5).map(|_| text(&log).len()).sum::<usize>();
        println!("{name:10} {:.1} ms for 1 MiB", begun.elapsed().as_secs_f64() * 200.0);
    }
}
