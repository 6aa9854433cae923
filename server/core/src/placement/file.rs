//! Parses the operator's file: TOML with `[[pool]]`, `[[rule]]` and `[kind.NAME]` tables. All errors are reported at once with their lines,
//! and a file with an error is rejected.

mod nodes;
mod pools;
mod rules;
mod tables;
mod tickets;
mod upstream;

use std::{collections::HashMap, fmt};

use plimsoll_base::quantity;
use toml::Spanned;

use self::tables::{Cpu, PlacementFile};
use super::{Placement, kind::BuildKind, pattern::Pattern};
use crate::{
    domain::{Bytes, Cores},
    mask,
};

/// Most pools in a file.
const MAX_POOLS: usize = 64;
/// Most rules in a file.
const MAX_RULES: usize = 500;
/// Most nodes in a file.
const MAX_NODES: usize = 1000;
/// Most expressions in a file, including those in Copr's tables.
const MAX_PATTERNS: usize = 1000;

/// An error in the file, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mistake {
    line: usize,
    text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl Placement {
    /// Parses an operator's file that names no other files.
    /// Errors: as [`Self::parse_with`], and if the file names another one.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_with(text, &mut |name| Err(format!("{:?} is not read here", shortened(name))))
    }

    /// Parses an operator's file. `files` reads the files that it names, and returns an error as text for people.
    /// Errors: all errors of the file, each on a line of its own, with its line number.
    pub fn parse_with(
        text: &str,
        files: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, String> {
        let file: PlacementFile = toml::from_str(text).map_err(|error| {
            // it shows the line, which may hold a password
            mask::text(error.to_string().trim_end()).into_owned()
        })?;
        let mut reading =
            PlacementReader { text, mistakes: Vec::new(), pattern_count: 0, hosts: HashMap::new(), files };
        let placement = reading.read_placement(file);
        if reading.mistakes.is_empty() {
            return Ok(placement);
        }
        reading.mistakes.sort_by_key(|mistake| mistake.line);
        let lines: Vec<String> = reading.mistakes.iter().map(ToString::to_string).collect();
        Err(lines.join("\n"))
    }
}

/// State of the parser while it reads one file.
struct PlacementReader<'t> {
    text: &'t str,
    mistakes: Vec<Mistake>,
    pattern_count: usize,
    /// All hosts read so far, spelled by `one_spelling`, with the pool of each.
    hosts: HashMap<String, String>,
    files: &'t mut dyn FnMut(&str) -> Result<String, String>,
}

impl PlacementReader<'_> {
    fn read_placement(&mut self, file: PlacementFile) -> Placement {
        let mut placement = Placement { currency: file.currency, ..Placement::default() };
        for (most, count, what) in [
            (MAX_POOLS, file.pool.len(), "pools"),
            (MAX_RULES, file.rule.len(), "rules"),
            (MAX_NODES, file.node.len(), "nodes"),
        ] {
            if count > most {
                self.add_mistake(1, format!("{count} {what}, at most {most} are read"));
                return placement;
            }
        }
        for (name, table) in file.kind {
            let line = self.line_of(&table);
            match BuildKind::parse(&name) {
                Some(kind) if placement.kind(kind).is_some() => {
                    self.add_mistake(line, format!("kind {} is there twice", kind.as_str()));
                }
                Some(kind) => {
                    let policy = (kind, self.read_policy(kind, table));
                    self.check_orchestrator_labels(line, &policy, &file.node, &placement);
                    placement.kinds.push(policy);
                }
                None => self.add_mistake(
                    line,
                    format!("kind {name:?} is none of {}", BuildKind::ALL.map(BuildKind::as_str).join(", ")),
                ),
            }
        }
        for table in file.node {
            let node = self.read_node(table, &placement);
            placement.nodes.push(node);
        }
        for table in file.pool {
            let line = self.line_of(&table.name);
            let pool = self.read_pool(line, table);
            self.check_contradictions(line, &pool, &placement);
            self.check_upstream_contradictions(line, &pool, &placement);
            placement.pools.push(pool);
        }
        for (at, table) in file.rule.into_iter().enumerate() {
            if let Some(rule) = self.read_rule(at, table, &placement) {
                placement.rules.push(rule);
            }
        }
        placement.terms = self.read_terms(file.tickets, &placement);
        placement
    }

    fn read_pattern(&mut self, at: &str, field: &str, text: &Spanned<String>) -> Option<Pattern> {
        let line = self.line_of(text);
        if !self.count_patterns(line, 1) {
            return None;
        }
        let message = |why| format!("{at}: {field}: '{}': {why}", shortened(text.get_ref()));
        match Pattern::for_whole_text(text.get_ref()) {
            Ok(pattern) => Some(pattern),
            Err(why) => {
                self.add_mistake(line, message(why));
                None
            }
        }
    }

    /// Counts `more` expressions; returns false if the file has too many. Only the first expression too many is reported.
    fn count_patterns(&mut self, line: usize, more: usize) -> bool {
        let before = self.pattern_count;
        self.pattern_count += more;
        if before <= MAX_PATTERNS && self.pattern_count > MAX_PATTERNS {
            self.add_mistake(line, format!("more than {MAX_PATTERNS} expressions in one file"));
        }
        self.pattern_count <= MAX_PATTERNS
    }

    fn read_size(&mut self, at: &str, field: &str, text: Option<Spanned<String>>) -> Option<Bytes> {
        let text = text?;
        match quantity::memory(text.get_ref()) {
            Ok(bytes) => return Some(Bytes(bytes)),
            Err(why) => self.add_mistake(self.line_of(&text), format!("{at}: {field}: {why}")),
        }
        None
    }

    fn read_cores(&mut self, at: &str, field: &str, text: Option<Spanned<Cpu>>) -> Option<Cores> {
        let text = text?;
        match text.get_ref().cores() {
            Ok(cores) if cores > 0.0 => return Some(Cores(cores)),
            Ok(_) => {
                self.add_mistake(self.line_of(&text), format!("{at}: {field} is 0, so nothing would fit"));
            }
            Err(why) => self.add_mistake(self.line_of(&text), format!("{at}: {field}: {why}")),
        }
        None
    }

    fn add_mistake(&mut self, line: usize, text: String) {
        self.mistakes.push(Mistake { line, text });
    }

    /// The line of a value in the file, from 1.
    fn line_of<T>(&self, value: &Spanned<T>) -> usize {
        self.text.get(..value.span().start).unwrap_or_default().matches('\n').count() + 1
    }
}

/// The beginning of a text that may be long, for a message.
fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}
