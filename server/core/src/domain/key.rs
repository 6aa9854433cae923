//! The key of a build: what is built.

use std::{collections::BTreeMap, fmt::Write as _};

use plimsoll_proto::{
    key::{BUILD_TEXTS, KEY_TEXTS, TEXTS},
    key_texts,
};
use serde::{Deserialize, Serialize};

use super::weight;

/// The label that names the pipeline of an attempt's job.
pub const PIPELINE_LABEL: &str = "pipeline";
/// The labels that may name the commit; the first one present is used.
pub const COMMIT_LABELS: [&str; 3] = ["commit", "commit_sha", "sha"];

/// The texts that keys have had from the first release on.
const FIRST_TEXTS: [&str; 11] = [
    "project",
    "stack",
    "package",
    "version",
    "variants",
    "compiler",
    "compiler_version",
    "arch",
    "build_system",
    "ref",
    "owner",
];

/// What is built. Attempts with equal keys are expected to need the same sizes. An empty text means not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Key {
    /// Project or tenant.
    pub project: String,
    /// Name of a group of builds that are made together.
    pub stack: String,
    /// Package, crate, target or job; never empty in a checked key.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// Build options in canonical order.
    pub variants: String,
    /// Compiler name.
    pub compiler: String,
    /// Compiler version.
    pub compiler_version: String,
    /// Architecture.
    pub arch: String,
    /// Build system.
    pub build_system: String,
    /// Branch or tag.
    #[serde(rename = "ref")]
    pub git_ref: String,
    /// Cost centre that pays for the build.
    pub owner: String,
    /// Free labels. Only statistics use them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Numbers known before the build starts.
    pub hints: Hints,
}

/// Numbers that are known before a build starts and may explain its size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Hints {
    /// Number of parallel build jobs, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_jobs: Option<u32>,
    /// Size of the input, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
}

impl Key {
    /// The key without the fields that change between attempts of one build: branch, owner, labels and hints.
    #[must_use]
    pub fn build_key(&self) -> Self {
        Self::of_texts(self.build_key_texts())
    }

    /// A key with these texts, the first of [`KEY_TEXTS`], and nothing else.
    pub fn of_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut key = Self::default();
        key.texts_mut().into_iter().zip(texts).for_each(|(to, from)| from.clone_into(to));
        key
    }

    /// The texts of [`Self::build_key`].
    pub fn build_key_texts(&self) -> [&str; BUILD_TEXTS] {
        let [built @ .., _ref, _owner] = self.texts();
        built
    }

    /// All text fields of the key, in the order of [`KEY_TEXTS`].
    pub fn texts(&self) -> [&str; TEXTS] {
        key_texts!(self, git_ref, &)
    }

    /// [`Self::texts`], to be changed.
    pub fn texts_mut(&mut self) -> [&mut String; TEXTS] {
        key_texts!(self, git_ref, &mut)
    }

    /// All text fields of the key with their names, without labels and hints.
    pub fn named_texts(&self) -> [(&'static str, &str); TEXTS] {
        let mut names = KEY_TEXTS.into_iter();
        self.texts().map(|text| (names.next().unwrap_or_default().0, text))
    }

    /// The texts, with their names, that stored fingerprints count: those of the first release, and a later one only where it is set, so that
    /// a new text changes no stored fingerprint.
    pub fn fingerprint_texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.named_texts().into_iter().filter(|(name, text)| counts_in_fingerprint(name, text))
    }

    /// The texts, with their names, in which builds of one package differ.
    pub fn distinguishing_texts(&self) -> [(&'static str, &str); 5] {
        [
            ("version", &self.version),
            ("variants", &self.variants),
            ("compiler", &self.compiler),
            ("compiler_version", &self.compiler_version),
            ("arch", &self.arch),
        ]
    }

    /// Bytes of memory that an `Arc` of the key takes, without labels.
    pub fn allocated_bytes(&self) -> usize {
        let texts = self.texts().iter().map(|text| weight::allocation_bytes(text.len())).sum::<usize>();
        weight::arc_bytes(size_of::<Self>()) + texts
    }

    /// Pipeline and name of the CI job, if the labels name both.
    pub fn job(&self) -> Option<(&str, &str)> {
        let label = |name: &str| self.labels.get(name).map(String::as_str).filter(|value| !value.is_empty());
        Some((label(PIPELINE_LABEL)?, label("job")?))
    }

    /// The commit, if a label names it or the ref is one (40 hexadecimal digits or more).
    pub fn commit(&self) -> Option<&str> {
        let label = COMMIT_LABELS.iter().find_map(|name| self.labels.get(*name));
        let git_ref = Some(&self.git_ref)
            .filter(|git_ref| git_ref.len() >= 40 && git_ref.bytes().all(|byte| byte.is_ascii_hexdigit()));
        label.filter(|commit| !commit.is_empty()).or(git_ref).map(String::as_str)
    }

    /// The key as people write it: `zlib@1.3 +pic %gcc@12.2 x86_64 -j8`.
    pub fn describe(&self) -> String {
        let mut text = if self.package.is_empty() { "(no package)".to_owned() } else { self.package.clone() };
        for (mark, value) in [("@", &self.version), (" ", &self.variants), (" %", &self.compiler)] {
            if !value.is_empty() {
                text.push_str(mark);
                text.push_str(value);
            }
        }
        if !self.compiler.is_empty() && !self.compiler_version.is_empty() {
            text.push('@');
            text.push_str(&self.compiler_version);
        }
        if !self.arch.is_empty() {
            text.push(' ');
            text.push_str(&self.arch);
        }
        if let Some(jobs) = self.hints.build_jobs {
            let _written = write!(text, " -j{jobs}");
        }
        text
    }
}

fn counts_in_fingerprint(name: &str, text: &str) -> bool {
    !text.is_empty() || FIRST_TEXTS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_only_what_is_known() {
        let mut key = Key { package: "zlib".into(), ..Key::default() };
        assert_eq!(key.describe(), "zlib");
        key.version = "1.3".into();
        key.compiler = "gcc".into();
        key.compiler_version = "12".into();
        key.hints.build_jobs = Some(4);
        assert_eq!(key.describe(), "zlib@1.3 %gcc@12 -j4");
    }

    #[test]
    fn new_key_fields_keep_stored_fingerprints() {
        let order = KEY_TEXTS.map(|(name, _)| name).into_iter().filter(|name| FIRST_TEXTS.contains(name));
        assert!(order.eq(FIRST_TEXTS), "stored fingerprints depend on the order");
        let counted = [("owner", ""), ("later", ""), ("later", "x")]
            .map(|(name, text)| counts_in_fingerprint(name, text));
        assert_eq!((Key::default().fingerprint_texts().count(), counted), (11, [true, false, true]));
    }

    #[test]
    fn each_text_has_the_name_of_its_field() {
        let mut key = Key::default();
        KEY_TEXTS.into_iter().zip(key.texts_mut()).for_each(|((name, _), text)| name.clone_into(text));
        let fields = serde_json::to_value(&key).unwrap();
        let named = key.named_texts().map(|(name, _)| fields[name].as_str());
        assert_eq!(named, KEY_TEXTS.map(|(name, _)| Some(name)));
    }
}
