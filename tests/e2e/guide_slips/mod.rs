//! The tables "you see | why | what to do" of the guides: each slip of [`typed`] is typed against real servers, and what is seen
//! begins as one row of its guide says. A row without a slip stands in [`NOT_TYPED`] with the reason.

mod site;
mod typed;
mod webhook;

use std::{collections::BTreeSet, fs};

use site::Site;
use typed::{NOT_TYPED, SLIPS};

use crate::tools::has_curl;

/// The head of such a table.
const HEAD: &str = "| you see | why | what to do |";
/// Guides whose commands people type: each has such a table.
const WITH_SLIPS: [&str; 14] = [
    "agent",
    "evaluate",
    "gitlab",
    "import",
    "install",
    "kubernetes",
    "on-premises",
    "operate",
    "pools-and-tickets",
    "results",
    "security",
    "shadow-mode",
    "spack",
    "troubleshooting",
];
/// What programs write before a message.
const BEFORE: [&str; 5] = ["plimsoll: ", "plimsoll-server: ", "error: ", "curl: ", "{\"error\":\""];

/// A row: its guide, and its first column without the marks of code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    guide: String,
    seen: String,
}

impl Row {
    /// What a reader sees: the first code of the column, in which `...` stands for any text.
    fn pattern(&self) -> Option<&str> {
        self.seen.split('`').nth(1)
    }

    fn fits(&self, printed: &str) -> bool {
        let Some(pattern) = self.pattern() else { return false };
        printed.lines().any(|line| begins_as(line, pattern))
    }
}

/// Whether a line begins as a pattern says.
fn begins_as(line: &str, pattern: &str) -> bool {
    let mut line = line.trim_start();
    for before in BEFORE {
        line = line.strip_prefix(before).unwrap_or(line);
    }
    let mut pieces = pattern.split("...").map(str::trim);
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    pieces.all(|piece| {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
        true
    })
}

fn rows(guide: &str) -> Vec<Row> {
    let path = format!("{}/../deploy/docs/{guide}.md", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    let (mut rows, mut in_table) = (Vec::new(), false);
    for line in text.lines() {
        in_table = line == HEAD || (in_table && line.starts_with('|'));
        let cells: Vec<&str> = line.split(" | ").collect();
        if in_table && line != HEAD && !line.starts_with("|---") {
            assert_eq!(cells.len(), 3, "{guide}: {line}");
            let seen = cells[0].trim_start_matches("| ").to_owned();
            rows.push(Row { guide: guide.to_owned(), seen });
        }
    }
    rows
}

/// The reason why a row is not typed.
fn not_typed(row: &Row) -> Option<&'static (&'static str, &'static str, &'static str)> {
    NOT_TYPED.iter().find(|(guide, seen, _)| row.guide == *guide && row.seen.starts_with(seen))
}

#[test]
fn each_row_begins_as_what_is_seen_after_its_slip() {
    let (site, mut wrong, mut seen) = (Site::start(), Vec::new(), BTreeSet::new());
    let has_curl = has_curl();
    for (guide, command) in SLIPS.iter().filter(|(_, command)| has_curl || !command.starts_with("curl ")) {
        let (printed, rows) = (site.run(command), rows(guide));
        let fitting: Vec<&Row> = rows.iter().filter(|row| row.fits(&printed)).collect();
        match fitting.as_slice() {
            [row] => {
                seen.insert((*row).clone());
            }
            [] => wrong.push(format!("{guide}: no row for\n$ {command}\n{printed}")),
            more => wrong.push(format!("{guide}: {more:?} all fit\n$ {command}\n{printed}")),
        }
    }
    let all: Vec<Row> = WITH_SLIPS.iter().flat_map(|guide| rows(guide)).collect();
    let is_open = |row: &&Row| !seen.contains(row) && not_typed(row).is_none() && !webhook::is_typed(row);
    let open: Vec<&Row> = if has_curl { all.iter().filter(is_open).collect() } else { Vec::new() };
    assert!(wrong.is_empty() && open.is_empty(), "{}\nno slip for {open:#?}", wrong.join("\n\n"));
}

#[test]
fn each_guide_says_what_to_do_if_it_does_not_work() {
    for guide in WITH_SLIPS {
        assert!(rows(guide).len() > 2, "{guide}: no table {HEAD:?}");
    }
    let all: Vec<Row> = WITH_SLIPS.iter().flat_map(|guide| rows(guide)).collect();
    let is_stale = |(guide, seen, _): &&(&str, &str, &str)| {
        !all.iter().any(|row| row.guide == *guide && row.seen.starts_with(seen))
    };
    let stale: Vec<_> = NOT_TYPED.iter().filter(is_stale).collect();
    assert!(stale.is_empty(), "no guide has these rows any more: {stale:#?}");
}
