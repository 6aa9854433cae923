//! README and guides: links lead somewhere, commands and settings exist. `guide_blocks` reads and runs their examples.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use plimsoll_tests::Programs;
use regex::Regex;

use crate::{
    guide_blocks::{Block, all_blocks},
    tools::repository,
};

/// Longest README, lines.
const README_LINES: usize = 200;

/// A document without its fenced blocks.
struct Guide {
    path: PathBuf,
    prose: String,
}

impl Guide {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(repository().join(path)).unwrap();
        Self { path: path.to_owned(), prose: text.split("```").step_by(2).collect() }
    }

    fn anchors(&self) -> BTreeSet<String> {
        self.prose.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
    }

    /// What stands between backticks.
    fn code(&self) -> impl Iterator<Item = &str> {
        self.prose.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
    }

    fn name(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

fn guides() -> Vec<Guide> {
    let mut names: Vec<PathBuf> = fs::read_dir(repository().join("deploy/docs"))
        .unwrap()
        .map(|file| Path::new("deploy/docs").join(file.unwrap().file_name()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    names.push("README.md".into());
    names.sort();
    names.iter().map(|path| Guide::read(path)).collect()
}

/// The anchor that GitLab and GitHub give a heading.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// `path` without `..`, as a link in a file below `root` means it.
fn resolved(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts
}

#[test]
fn every_link_leads_to_an_existing_target() {
    let link = Regex::new(r#"\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)""#).unwrap();
    let mut dead = Vec::new();
    for guide in guides() {
        for found in link.captures_iter(&guide.prose) {
            let target = found.get(1).or_else(|| found.get(2)).unwrap().as_str();
            if target.starts_with("https://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => guide.path.clone(),
                file => resolved(&guide.path.parent().unwrap().join(file)),
            };
            let leads = repository().join(&path).try_exists().unwrap()
                && (heading.is_empty() || Guide::read(&path).anchors().contains(heading));
            if !leads {
                dead.push(format!("{}: {target}", guide.name()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn every_guide_is_in_the_readme_index() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    assert!(readme.lines().count() <= README_LINES);
    for guide in guides() {
        let name = guide.name();
        assert!(guide.path.ends_with("README.md") || readme.contains(&name.to_string()), "{name}");
    }
}

/// The help of a program, and of each of its commands that was asked for.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, String>);

impl Helps {
    fn of(&mut self, command: &[String]) -> &str {
        let programs = Programs::for_tests();
        self.0.entry(command.to_owned()).or_insert_with(|| {
            let program = if command[0] == "plimsoll" { &programs.agent } else { &programs.server };
            let answer = Command::new(program).args(&command[1..]).arg("--help").output().unwrap();
            String::from_utf8(answer.stdout).unwrap()
        })
    }

    /// What of a command line the program does not know.
    fn unknown(&mut self, line: &str) -> Vec<String> {
        let line = line.split(" -- ").next().unwrap_or_default();
        let mut command = vec![line.split_whitespace().next().unwrap().to_owned()];
        let mut known = self.of(&command).to_owned();
        for word in line.split_whitespace().skip(1) {
            if known.lines().any(|line| line.split_whitespace().next() == Some(word))
                && !word.starts_with('-')
            {
                command.push(word.to_owned());
                known += self.of(&command);
            }
        }
        let is_option = |word: &&str| word.starts_with("--") && word.len() > 2;
        let options = line.split_whitespace().filter(is_option).map(|word| word.split('=').next().unwrap());
        options.filter(|option| !known.contains(option)).map(str::to_owned).collect()
    }
}

#[test]
fn every_option_in_a_command_line_exists() {
    let mut helps = Helps::default();
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for Block { guide, text, .. } in all_blocks().iter().filter(|block| block.language == "console") {
        let text = text.replace("\\\n", " ");
        let lines = text.lines().flat_map(|line| line.split(" | "));
        let lines = lines.map(|line| line.trim().trim_start_matches("$ "));
        for line in lines.filter(|line| line.starts_with("plimsoll")) {
            looked_at += 1;
            let unknown = helps.unknown(line).into_iter();
            wrong.extend(unknown.map(|option| format!("{guide}: {option} in {line}")));
        }
    }
    assert!(wrong.is_empty() && looked_at > 30, "{looked_at} looked at: {wrong:#?}");
}

#[test]
fn every_setting_and_metric_that_is_named_exists() {
    let server = &Programs::for_tests().server;
    let printed = Command::new(server).arg("--print-config").output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let setting = Regex::new(r"(?m)^(?:# )?([a-z0-9_]+) (?:=|is not set)").unwrap();
    let settings: BTreeSet<&str> =
        setting.captures_iter(&printed).map(|found| found.get(1).unwrap().as_str()).collect();
    let metrics = fs::read_to_string(repository().join("deploy/prometheus/METRICS.md")).unwrap();
    let metric = Regex::new("^plimsoll_[a-z_]+$").unwrap();
    let prefixed = Regex::new("^(admit|allocation|tls|history|gitlab)_[a-z_]+$").unwrap();
    for guide in guides() {
        for word in guide.code() {
            let exists = !metric.is_match(word) || metrics.contains(&format!("`{word}`"));
            assert!(exists, "{}: no metric {word}", guide.name());
            let exists = !prefixed.is_match(word) || settings.contains(word);
            assert!(exists, "{}: no setting {word}", guide.name());
        }
    }
}
