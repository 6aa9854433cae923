//! Structs in Rust source, as far as a reference needs them: names, comments and types of their fields.

use std::{collections::BTreeMap, fs, path::Path};

/// A field of a file: a key, or a table.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: String,
    /// What its comment says.
    pub(super) about: String,
    /// What its comment says of its value, where the type does not say all.
    pub(super) value: Option<String>,
    /// What its comment says of its default.
    pub(super) default: Option<String>,
    /// Whether it may be left out.
    pub(super) is_optional: bool,
}

impl Field {
    /// Its type without what only says that it may be left out, or where it stands in the file.
    pub(super) fn plain_kind(&self) -> String {
        let mut kind = self.kind.clone();
        for around in ["Option<", "Spanned<"] {
            while let Some((before, rest)) = kind.split_once(around) {
                let (held, behind) = rest.split_at(closing(rest));
                kind = format!("{before}{held}{}", behind.strip_prefix('>').unwrap());
            }
        }
        kind
    }

    /// The type of what it holds one or more of: of a list or of named tables, the one behind all brackets.
    pub(super) fn inner_kind(&self) -> String {
        let kind = self.plain_kind();
        let inner = kind.trim_end_matches('>').rsplit(['<', ' ']).next().unwrap();
        inner.to_owned()
    }
}

/// Where the bracket closes that was opened before `text`.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    let end = text.char_indices().find(|(_, letter)| {
        depth += match letter {
            '<' => 1,
            '>' => -1,
            _ => 0,
        };
        depth == 0
    });
    end.expect("every bracket is closed").0
}

/// The fields of `name`, which `text` declares.
fn fields(text: &str, name: &str) -> Option<Vec<Field>> {
    let (before, rest) = text.split_once(&format!("struct {name} {{\n"))?;
    let attributes = before.rsplit("\n\n").next().unwrap();
    let is_all_optional =
        attributes.lines().any(|line| line.starts_with("#[serde(") && line.contains("default"));
    let (mut fields, mut comments, mut has_default) = (Vec::new(), Vec::new(), is_all_optional);
    for line in rest.split("\n}").next().unwrap().lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            comments.push(comment.trim());
        } else if line.starts_with("#[serde(") {
            has_default |= line.contains("default");
        } else if let Some((declared, kind)) = line.strip_suffix(',').and_then(|line| line.split_once(": ")) {
            let about = std::mem::take(&mut comments).join(" ");
            let (about, default) = tagged(&about, "Default: ");
            let (about, value) = tagged(about, "Value: ");
            let name = declared.rsplit(' ').next().unwrap().trim_start_matches("r#");
            fields.push(Field {
                name: name.to_owned(),
                kind: kind.to_owned(),
                about: about.to_owned(),
                value: value.map(str::to_owned),
                default: default.map(str::to_owned),
                is_optional: has_default || kind.starts_with("Option<"),
            });
            has_default = is_all_optional;
        }
    }
    Some(fields)
}

/// A comment without what stands behind `tag`, and that, without its full stop.
fn tagged<'t>(about: &'t str, tag: &str) -> (&'t str, Option<&'t str>) {
    match about.split_once(tag) {
        Some((about, value)) => {
            let value = value.trim();
            (about.trim(), Some(value.strip_suffix('.').unwrap_or(value)))
        }
        None => (about, None),
    }
}

/// The fields of `root` and of all structs that it holds, by their names; each is looked for in these files of the repository.
pub(super) fn read_structs(files: &[&str], root: &str) -> BTreeMap<String, Vec<Field>> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let texts: Vec<String> =
        files.iter().map(|file| fs::read_to_string(repository.join(file)).unwrap()).collect();
    let (mut all, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(name) = open.pop() {
        let Some(fields) = texts.iter().find_map(|text| fields(text, &name)) else { continue };
        open.extend(fields.iter().map(Field::inner_kind).filter(|inner| !all.contains_key(inner)));
        all.insert(name, fields);
    }
    assert!(all.contains_key(root), "no struct {root} in {files:?}");
    all
}
