//! What people wrote in the `ci` section of Spack, outside of the marked lines.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    region::indent_of,
    yaml::{Documents, Node, Value},
};

/// A spec in a group that people wrote.
#[derive(Debug, Clone)]
pub(super) struct Mention {
    /// Its line, from 1.
    pub(super) line: usize,
    /// It names the package alone, without a version or variant.
    pub(super) is_whole: bool,
    /// Its group sets memory, class or tags.
    pub(super) sets_size: bool,
}

/// Whether a group of people sets memory, class or tags.
fn sets_size(group: &Node) -> bool {
    let Some(job) = group.get("build-job") else { return false };
    let sets = |name: &&str| job.get("variables").is_some_and(|of| of.get(name).is_some());
    let names = ["KUBERNETES_MEMORY_REQUEST", "KUBERNETES_MEMORY_LIMIT", "CI_JOB_SIZE"];
    job.get("tags").is_some() || names.iter().any(sets)
}

/// The list `pipeline-gen` of a file.
#[derive(Debug)]
pub(super) struct ByHand {
    /// The list.
    sections: Rc<Node>,
    /// Line of its key.
    key_line: usize,
    /// Mentions of each package, also with a version or variants.
    pub(super) packages: BTreeMap<String, Vec<Mention>>,
    /// Lines with a match that names no package.
    pub(super) broad: Vec<usize>,
}

impl ByHand {
    /// Reads the file, which may be an environment with the section below `spack`.
    /// Errors: it has no list `pipeline-gen`.
    pub(super) fn of(documents: &Documents) -> Result<Self, String> {
        let none = "has no list `ci: pipeline-gen:` for the sizes: add `ci:` with `pipeline-gen:` and one section, \
                    or name a new file";
        let root = documents.all.first().ok_or(none)?;
        let ci = root.get("ci").or_else(|| root.get("spack")?.get("ci")).ok_or(none)?;
        let pairs = ci.pairs().iter();
        let (key, sections) =
            pairs.map(|(key, of)| (key, of)).find(|(key, _)| key.text() == "pipeline-gen").ok_or(none)?;
        let mut found = Self {
            sections: Rc::clone(sections),
            key_line: key.line,
            packages: BTreeMap::new(),
            broad: Vec::new(),
        };
        for section in sections.list() {
            let groups = section.get("submapping").map(Node::list).unwrap_or_default();
            for (group, spec) in groups.iter().flat_map(|group| {
                let specs = group.get("match").map(Node::list).unwrap_or_default();
                specs.iter().map(move |spec| (group, spec))
            }) {
                let package = package_of(spec.text());
                let is_whole = spec.text().trim().chars().all(is_name_letter);
                let mention = Mention { line: spec.line, is_whole, sets_size: sets_size(group) };
                match package {
                    Some(package) => found.packages.entry(package.to_owned()).or_default().push(mention),
                    None => found.broad.push(spec.line),
                }
            }
        }
        Ok(found)
    }

    /// Where marked lines go into a file without them: the line before which they are put (from 1), and their indentation. It is behind the
    /// last mapping, before the defaults of all jobs, which later sections are.
    /// Errors: the list is empty or not written in lines of its own.
    pub(super) fn place(&self, lines: &[&str]) -> Result<(usize, String), String> {
        let odd = |line| {
            format!("line {line}: pipeline-gen is not a list with a line for each section: write it so")
        };
        let list = self.sections.list();
        let first = list.first().ok_or_else(|| odd(self.key_line))?;
        let line = lines.get(first.line - 1).copied().unwrap_or_default();
        let indent = indent_of(line);
        if !line.trim_start().starts_with("- ")
            || list.iter().any(|section| !matches!(section.value, Value::Map(_)))
        {
            return Err(odd(first.line));
        }
        let is_mapping =
            |of: &&Rc<Node>| of.get("submapping").or_else(|| of.get("dynamic-mapping")).is_some();
        let line = match list.iter().rev().find(is_mapping) {
            Some(last) => content_end(lines, last.end),
            None => self.key_line + 1,
        };
        Ok((line, indent.to_owned()))
    }
}

/// The line after the last one with content before `end`, which both count from 1.
fn content_end(lines: &[&str], end: usize) -> usize {
    let is_empty = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let before = lines.get(..(end - 1).min(lines.len())).unwrap_or_default();
    before.iter().rposition(|line| !is_empty(line)).map_or(1, |at| at + 2)
}

fn is_name_letter(of: char) -> bool {
    of.is_ascii_alphanumeric() || "_-.".contains(of)
}

/// The package of a spec, without its namespace; `None` if the spec names none, as `+cuda` or `target=x86_64`.
pub(super) fn package_of(spec: &str) -> Option<&str> {
    let spec = spec.trim_start();
    let end = spec.find(|of| !is_name_letter(of)).unwrap_or(spec.len());
    let (name, rest) = spec.split_at_checked(end)?;
    let is_namespace = |of: &str| of.starts_with(|of: char| of.is_ascii_alphabetic()) && !of.contains('-');
    let package = name.rsplit_once('.').filter(|(space, _)| is_namespace(space));
    let name = package.map_or(name, |(_, package)| package);
    (!name.is_empty() && !rest.starts_with('=')).then_some(name)
}
