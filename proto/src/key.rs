//! The texts of a key, declared once, in one order (first those that say what is built, then ref and owner): the check, the conversions,
//! the disk, the masks, the join of two keys, fingerprints and options on a command line go through this list. A new text is added here,
//! and as a field of the type of the server (`core/domain/key.rs`, which also says whether it tells builds apart) and of the message of
//! the store (`store/packed_summary/nested.rs`).

use crate::{figures, limits, v1::Key};

/// Number of texts of a key.
pub const TEXTS: usize = 11;

/// Name of each text, and the most bytes that it may have.
pub const KEY_TEXTS: [(&str, usize); TEXTS] = [
    ("project", limits::KEY_FIELD_BYTES),
    ("stack", limits::KEY_FIELD_BYTES),
    ("package", limits::KEY_FIELD_BYTES),
    ("version", limits::KEY_FIELD_BYTES),
    ("variants", limits::VARIANTS_BYTES),
    ("compiler", limits::KEY_FIELD_BYTES),
    ("compiler_version", limits::KEY_FIELD_BYTES),
    ("arch", limits::KEY_FIELD_BYTES),
    ("build_system", limits::KEY_FIELD_BYTES),
    ("ref", limits::KEY_FIELD_BYTES),
    ("owner", limits::KEY_FIELD_BYTES),
];

/// The names of all texts, as a list for people.
pub fn text_names() -> String {
    KEY_TEXTS.map(|(name, _)| name).join(", ")
}

/// The texts of a key in the order of [`KEY_TEXTS`], borrowed as `&` or as `&mut`: of a message, of the server's type or of a record.
/// `$git_ref` is how that type calls the branch or tag.
#[macro_export]
macro_rules! key_texts {
    ($key:ident, $git_ref:ident, $($borrow:tt)+) => {
        [
            $($borrow)+ $key.project,
            $($borrow)+ $key.stack,
            $($borrow)+ $key.package,
            $($borrow)+ $key.version,
            $($borrow)+ $key.variants,
            $($borrow)+ $key.compiler,
            $($borrow)+ $key.compiler_version,
            $($borrow)+ $key.arch,
            $($borrow)+ $key.build_system,
            $($borrow)+ $key.$git_ref,
            $($borrow)+ $key.owner,
        ]
    };
}

/// So many texts, the first ones, say what is built. The others change between attempts of one build.
pub const BUILD_TEXTS: usize = 9;

impl Key {
    /// The texts, in the order of [`KEY_TEXTS`].
    pub fn texts_mut(&mut self) -> [&mut String; TEXTS] {
        key_texts!(self, r#ref, &mut)
    }

    /// What is known of the build, for people: the name of each fact, and its value.
    pub fn facts(&self) -> Vec<(String, String)> {
        let hints = self.hints.unwrap_or_default();
        let compiler = [self.compiler.as_str(), self.compiler_version.as_str()];
        let compiler: Vec<&str> = compiler.into_iter().filter(|part| !part.is_empty()).collect();
        let facts = [
            ("package", self.package.clone()),
            ("version", self.version.clone()),
            ("variants", self.variants.clone()),
            ("compiler", compiler.join("@")),
            ("arch", self.arch.clone()),
            ("build system", self.build_system.clone()),
            ("project", self.project.clone()),
            ("stack", self.stack.clone()),
            ("ref", self.r#ref.clone()),
            ("owner", self.owner.clone()),
            ("build jobs", hints.build_jobs.map(|jobs| jobs.to_string()).unwrap_or_default()),
            ("input", hints.input_bytes.map(figures::bytes).unwrap_or_default()),
        ];
        let mut labels: Vec<_> = self.labels.iter().collect();
        labels.sort_unstable();
        let labels = labels.into_iter().map(|(name, value)| (format!("label {name}"), value.clone()));
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(labels);
        facts.filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The text of this name, with the most bytes that it may have.
    pub fn text_mut(&mut self, name: &str) -> Option<(&mut String, usize)> {
        let texts = KEY_TEXTS.into_iter().zip(self.texts_mut());
        texts.into_iter().find(|((known, _), _)| *known == name).map(|((_, most), text)| (text, most))
    }
}
