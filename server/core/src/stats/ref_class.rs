//! The operator's classes of refs: which kind of branch or tag an attempt was built from.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Most bytes that one compiled expression may take.
const PATTERN_BYTES: usize = 256 * 1024;
/// Most classes that the operator may define.
const MAX_CLASSES: usize = 32;
/// Name of the class of a ref that no expression matches.
const OTHER_CLASS: &str = "other";
/// Default classes: pull requests in Spack's mirror (`pr123_name`), GitLab and GitHub; tags, and versions with or without `v`; protected
/// branches.
const DEFAULT_CLASSES: [(&str, &str); 3] = [
    ("pull-request", r"^pr\d+_|^refs/(merge-requests|pull)/"),
    ("tag", r"^refs/tags/|^v?\d+(\.\d+)+([-+.].*)?$"),
    ("protected", r"^(refs/heads/)?(main|master|develop|releases/.+)$"),
];

/// The classes, each with its expression; the first one that matches a ref decides.
#[derive(Debug, Clone)]
pub struct RefClasses(Vec<(String, Regex)>);

impl RefClasses {
    /// Parses `NAME=EXPRESSION NAME=EXPRESSION`. Spaces separate the classes, because a ref contains no spaces and no expression needs one.
    /// Errors: Names the invalid class.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut classes: Vec<(String, Regex)> = Vec::new();
        for part in text.split_whitespace() {
            let (name, pattern) = part.split_once('=').filter(|(name, _)| is_name(name)).ok_or_else(|| {
                format!("{part:?} is not a class; write it as release=^releases/, with a-z, 0-9 and - in its name")
            })?;
            if name == OTHER_CLASS || classes.iter().any(|(known, _)| known == name) {
                return Err(format!("{name} is there already; \"{OTHER_CLASS}\" is what no pattern takes"));
            }
            let built =
                RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build();
            let wrong = |error| format!("the pattern of {name} is wrong or too large: {error}");
            classes.push((name.to_owned(), built.map_err(wrong)?));
        }
        if classes.is_empty() {
            return Err("is empty; write at least one class as release=^releases/".to_owned());
        }
        if classes.len() > MAX_CLASSES {
            return Err(format!("has {} classes, at most {MAX_CLASSES} are allowed", classes.len()));
        }
        Ok(Self(classes))
    }

    /// Number of the class of a ref: 0 if the ref is empty, then the classes in order, then [`OTHER_CLASS`].
    pub(super) fn of(&self, git_ref: &str) -> u8 {
        if git_ref.is_empty() {
            return 0;
        }
        let place = self.0.iter().position(|(_, pattern)| pattern.is_match(git_ref));
        u8::try_from(1 + place.unwrap_or(self.0.len())).unwrap_or(u8::MAX)
    }

    /// Names of the classes, in the order of their numbers.
    pub(super) fn names(&self) -> Vec<&str> {
        let named = self.0.iter().map(|(name, _)| name.as_str());
        std::iter::once("").chain(named).chain([OTHER_CLASS]).collect()
    }
}

impl Default for RefClasses {
    fn default() -> Self {
        let build = |(name, pattern): (&str, &str)| Some((name.to_owned(), Regex::new(pattern).ok()?));
        Self(DEFAULT_CLASSES.into_iter().filter_map(build).collect())
    }
}

impl fmt::Display for RefClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes: Vec<String> = self.0.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
        f.write_str(&classes.join(" "))
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class<'c>(classes: &'c RefClasses, git_ref: &str) -> &'c str {
        classes.names()[usize::from(classes.of(git_ref))]
    }

    #[test]
    fn common_refs_have_a_class_without_any_setting() {
        let classes = RefClasses::default();
        let shown = [
            "",
            "pr51_new-package",
            "refs/merge-requests/7/head",
            "v1.2",
            "refs/tags/x",
            "develop",
            "me/try",
        ]
        .map(|git_ref| class(&classes, git_ref));
        assert_eq!(shown, ["", "pull-request", "pull-request", "tag", "tag", "protected", "other"]);
        assert_eq!(RefClasses::parse(&classes.to_string()).unwrap().to_string(), classes.to_string());
    }

    #[test]
    fn invalid_ref_classes_are_refused_by_name() {
        let large = format!("a=({}){{1000}}", "x{1000}");
        for (bad, message) in [
            ("", "empty"),
            ("a", "\"a\""),
            ("A=x", "\"A=x\""),
            ("a=(", "of a"),
            ("other=x", "other"),
            ("a=x a=y", "a is"),
            (&large, "of a"),
        ] {
            let error = RefClasses::parse(bad).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        let many: Vec<String> = (0..33).map(|n| format!("c{n}=x")).collect();
        assert!(RefClasses::parse(&many.join(" ")).unwrap_err().contains("33"));
    }
}
