//! The marked lines of a file, which Plimsoll writes, and the groups of Spack in them. Everything outside is of people.
//!
//! Between the marks people may move names, change a memory request, add comments, and mark a name with `# keep`. A line of another form is
//! an error, because it would be lost.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _, ops::Range};

use plimsoll_proto::recommendations::quoted;

use super::classes::{Class, Classes};

const BEGIN: &str = "# plimsoll: begin";
const END: &str = "# plimsoll: end";
/// The first line, with what a reader has to know.
const BEGIN_LINE: &str =
    "# plimsoll: begin (written by plimsoll recommend; a name with the comment `# keep` stays as it is)";
/// Variables of a group's jobs.
pub(super) const VARIABLES: [&str; 4] =
    ["CI_JOB_SIZE", "SPACK_BUILD_JOBS", "KUBERNETES_CPU_REQUEST", "KUBERNETES_MEMORY_REQUEST"];

/// The marked lines, counted from 0, with both marks; `None` without marks.
/// Errors: a mark is missing or there twice.
pub(super) fn find(lines: &[&str]) -> Result<Option<Range<usize>>, String> {
    let marks = |mark: &str| -> Vec<usize> {
        let marked = lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with(mark));
        marked.map(|(at, _)| at).collect()
    };
    match (marks(BEGIN).as_slice(), marks(END).as_slice()) {
        ([], []) => Ok(None),
        ([begin], [end]) if begin < end => Ok(Some(*begin..end + 1)),
        (begins, ends) => {
            let at = begins.last().max(ends.last()).map_or(1, |at| at + 1);
            Err(format!(
                "line {at}: `{BEGIN}` and `{END}` must be there once, in this order: put back the mark that is missing, or delete both with the lines between"
            ))
        }
    }
}

/// The marks around lines.
pub(super) fn marked(indent: &str, lines: &str) -> String {
    format!("{indent}{BEGIN_LINE}\n{lines}{indent}{END}\n")
}

/// The file with new marked lines: `at` is where they begin, counted from 0, `count` how many lines they replace.
/// Line ends are those of the file.
pub(super) fn with_marked(old: &str, (at, count): (usize, usize), text: &str) -> String {
    let text = if old.contains("\r\n") { text.replace('\n', "\r\n") } else { text.to_owned() };
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let part = |range: Range<usize>| -> String { lines.get(range).unwrap_or_default().concat() };
    let mut new = part(0..at.min(lines.len()));
    if !new.is_empty() && !new.ends_with('\n') {
        new.push('\n');
    }
    new + &text + &part((at + count).min(lines.len())..lines.len())
}

/// Attributes of a group, as texts of YAML.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attributes {
    pub(super) tags: Vec<String>,
    /// Values of [`VARIABLES`], in their order; empty ones are not there.
    pub(super) variables: [String; 4],
}

impl Attributes {
    pub(super) fn of(class: &Class, request: u64) -> Self {
        Self { tags: class.tags.clone(), variables: class.variables(request).map(|(_, value)| value) }
    }

    pub(super) fn class(&self) -> &str {
        let [class, ..] = &self.variables;
        class
    }

    pub(super) fn memory(&self) -> &str {
        let [.., memory] = &self.variables;
        memory
    }

    /// For people: `large, 12288Mi`.
    pub(super) fn words(&self) -> String {
        format!("{} {}", self.class(), self.memory()).trim().to_owned()
    }
}

/// A spec in the marked lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) attributes: Attributes,
    pub(super) is_kept: bool,
    /// Comments on lines of their own above it, and the one behind it.
    comments: Vec<String>,
    behind: String,
}

/// Specs of one group.
type SpecEntries<'g> = Vec<(&'g String, &'g Entry)>;

/// The groups in the marked lines.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) entries: BTreeMap<String, Entry>,
    /// What all other packages get; `None` without such a section.
    pub(super) default: Option<Attributes>,
    /// Comments with no spec below them.
    rest: Vec<String>,
}

/// The groups while they are read.
#[derive(Default)]
struct GroupReader {
    groups: Groups,
    /// Specs of the group that is read, and what its jobs get.
    specs: Vec<String>,
    attributes: Attributes,
    /// Whether the attributes that follow are removed from jobs.
    is_removal: bool,
    /// Lines of the specs.
    lines_of: BTreeMap<String, usize>,
}

impl GroupReader {
    /// Reads a line without its comment and spaces; `None` if Plimsoll writes no such line.
    fn line(&mut self, content: &str) -> Option<()> {
        let (key, value) = content.split_once(':').unwrap_or((content, ""));
        let value = value.trim();
        match key {
            "" => {}
            "- match" | "- build-job" | "- match_behavior" => {
                self.close();
                return (value.is_empty() || value == "first").then_some(());
            }
            "submapping" | "build-job" | "variables" | "build-job-remove" if value.is_empty() => {
                self.is_removal = key == "build-job-remove" || (self.is_removal && key != "build-job");
            }
            "tags" => {
                let tags = value.strip_prefix('[')?.strip_suffix(']')?;
                if !self.is_removal {
                    self.attributes.tags =
                        tags.split(',').map(unquoted).filter(|tag| !tag.is_empty()).collect();
                }
            }
            _ => {
                let at = VARIABLES.iter().position(|name| *name == key)?;
                *self.attributes.variables.get_mut(at)? = unquoted(value);
            }
        }
        Some(())
    }

    /// Adds a spec with the comment behind it.
    /// Errors: it is there twice.
    fn spec(&mut self, spec: String, number: usize, comment: &str) -> Result<(), String> {
        if let Some(before) = self.lines_of.insert(spec.clone(), number) {
            return Err(format!("line {number}: {spec} is there twice, also in line {before}: delete one"));
        }
        let entry = Entry {
            is_kept: is_keep(comment),
            comments: std::mem::take(&mut self.groups.rest),
            behind: comment.to_owned(),
            ..Entry::default()
        };
        self.groups.entries.insert(spec.clone(), entry);
        self.specs.push(spec);
        Ok(())
    }

    /// Ends a group.
    fn close(&mut self) {
        let attributes = std::mem::take(&mut self.attributes);
        self.is_removal = false;
        if self.specs.is_empty() && attributes != Attributes::default() {
            self.groups.default = Some(attributes);
            return;
        }
        for spec in self.specs.drain(..) {
            if let Some(entry) = self.groups.entries.get_mut(&spec) {
                entry.attributes = attributes.clone();
            }
        }
    }
}

impl Groups {
    /// Reads the lines between the marks. `first`: number of the first of them, from 1.
    /// Errors: a line that Plimsoll does not write, or a spec that is there twice.
    pub(super) fn read(lines: &[&str], first: usize) -> Result<Self, String> {
        let mut reader = GroupReader::default();
        for (number, line) in (first..).zip(lines) {
            let (content, comment) = split_comment(line.trim());
            let name = content.strip_prefix("- ").map(str::trim);
            let is_key = |name: &str| name.contains(": ") || (name.ends_with(':') && !name.ends_with("':"));
            if let Some(name) = name.filter(|name| !name.is_empty() && !is_key(name)) {
                reader.spec(unquoted(name), number, comment)?;
                continue;
            }
            reader.line(content).ok_or_else(|| {
                let line = line.trim();
                format!("line {number}: {line:?} is not of the form that Plimsoll writes: move it out of the marked lines")
            })?;
            if !comment.is_empty() {
                reader.groups.rest.push(comment.to_owned());
            }
        }
        reader.close();
        Ok(reader.groups)
    }

    /// The lines for all entries: a section with specs that have a version or variants, one with packages, and the defaults. They are sections
    /// of their own because stock Spack takes the last match of a section, although it is called the first, and the earlier section.
    pub(super) fn write(&self, classes: &Classes, indent: &str) -> String {
        let mut text = String::new();
        for has_variant in [true, false] {
            let is_variant = |spec: &str| super::by_hand::package_of(spec) != Some(spec);
            let mut groups: BTreeMap<(Reverse<u64>, &Attributes), SpecEntries<'_>> = BTreeMap::new();
            for (spec, entry) in self.entries.iter().filter(|(spec, _)| is_variant(spec) == has_variant) {
                let bytes = plimsoll_base::quantity::bytes(entry.attributes.memory()).unwrap_or_default();
                groups.entry((Reverse(bytes), &entry.attributes)).or_default().push((spec, entry));
            }
            if groups.is_empty() {
                continue;
            }
            let _written = write!(text, "{indent}- match_behavior: first\n{indent}  submapping:\n");
            let inner = format!("{indent}  ");
            for ((_, attributes), specs) in groups {
                let _written = writeln!(text, "{inner}- match:");
                write_specs(&mut text, &inner, specs);
                write_job(&mut text, &format!("{inner}  "), attributes, classes);
            }
        }
        for comment in &self.rest {
            let _written = writeln!(text, "{indent}{comment}");
        }
        if let Some(attributes) = &self.default {
            let _written = writeln!(text, "{indent}- build-job:");
            write_attributes(&mut text, &format!("{indent}    "), attributes);
        }
        text
    }
}

fn write_specs(text: &mut String, indent: &str, specs: SpecEntries<'_>) {
    for (spec, entry) in specs {
        for comment in &entry.comments {
            let _written = writeln!(text, "{indent}  {comment}");
        }
        let behind = if entry.behind.is_empty() { String::new() } else { format!(" {}", entry.behind) };
        let _written = writeln!(text, "{indent}  - {}{behind}", quoted(spec));
    }
}

fn write_job(text: &mut String, indent: &str, attributes: &Attributes, classes: &Classes) {
    let others = classes.other_tags(&attributes.tags);
    if !others.is_empty() {
        let _written = write!(text, "{indent}build-job-remove:\n{indent}  tags: [{}]\n", flow(&others));
    }
    let _written = writeln!(text, "{indent}build-job:");
    write_attributes(text, &format!("{indent}  "), attributes);
}

fn write_attributes(text: &mut String, indent: &str, attributes: &Attributes) {
    if !attributes.tags.is_empty() {
        let _written = writeln!(text, "{indent}tags: [{}]", flow(&attributes.tags));
    }
    let _written = writeln!(text, "{indent}variables:");
    for (name, value) in VARIABLES.iter().zip(&attributes.variables).filter(|(_, value)| !value.is_empty()) {
        let _written = writeln!(text, "{indent}  {name}: {}", quoted(value));
    }
}

fn flow(texts: &[impl AsRef<str>]) -> String {
    texts.iter().map(|text| quoted(text.as_ref())).collect::<Vec<_>>().join(", ")
}

/// The spaces at the beginning of a line.
pub(super) fn indent_of(line: &str) -> &str {
    line.strip_suffix(line.trim_start()).unwrap_or_default()
}

/// Whether a comment marks what stays.
pub(super) fn is_keep(comment: &str) -> bool {
    let rest = comment.trim_start_matches('#').trim_start().strip_prefix("keep");
    rest.is_some_and(|rest| !rest.starts_with(|of: char| of.is_alphanumeric() || "_-".contains(of)))
}

/// A line without its comment, and the comment from its `#`.
pub(super) fn split_comment(line: &str) -> (&str, &str) {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') if before != '\\' && !before.is_alphanumeric() => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            (None, '#') if before.is_whitespace() => {
                let (content, comment) = line.split_at(at);
                return (content.trim_end(), comment);
            }
            _ => {}
        }
        before = letter;
    }
    (line, "")
}

/// The text of a scalar.
pub(super) fn unquoted(scalar: &str) -> String {
    let scalar = scalar.trim();
    let inner = |quote: char| scalar.strip_prefix(quote).and_then(|of| of.strip_suffix(quote));
    match (inner('\''), inner('"')) {
        (Some(text), _) => text.replace("''", "'"),
        (None, Some(text)) => text.to_owned(),
        (None, None) => scalar.to_owned(),
    }
}
