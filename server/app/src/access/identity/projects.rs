//! Patterns of names, and the projects that a caller may speak of.

use std::fmt;

use plimsoll_core::domain::is_like;

/// Names of projects: whole ones (`group/project`), and all below a group (`group/*`). Empty means every project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Projects(Vec<String>);

impl Projects {
    /// Whether every project is one of them.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a name or a group of the list is meant for `project`. Who sees every project is named for none, whether the list is empty
    /// or says so with a bare `*`.
    pub(crate) fn name(&self, project: &str) -> bool {
        self.0.iter().any(|pattern| pattern != "*" && is_like(pattern, project))
    }

    /// The list, as it is written; empty for every project.
    pub(crate) fn patterns(&self) -> &[String] {
        &self.0
    }

    /// Those that are named in whole, not by a pattern.
    pub(crate) fn whole(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str).filter(|pattern| !pattern.ends_with('*'))
    }

    /// Those that `project` is one of.
    pub(crate) fn like(&self, project: &str) -> Vec<String> {
        self.0.iter().filter(|pattern| is_like(pattern, project)).cloned().collect()
    }

    /// Whether `project` is one of them.
    pub(crate) fn has(&self, project: &str) -> bool {
        self.is_all() || self.0.iter().any(|pattern| is_like(pattern, project))
    }
}

impl From<Vec<String>> for Projects {
    fn from(patterns: Vec<String>) -> Self {
        Self(patterns)
    }
}

impl fmt::Display for Projects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// Says of the patterns of a list that one can never be like anything: `*` stands for the rest of a text, and no project, branch or
/// account has one in its name.
///
/// # Errors
/// By the field and the number of the pattern, without its words: a secret may stand there.
pub(crate) fn can_match<'p>(
    field: &str,
    patterns: impl IntoIterator<Item = &'p String>,
) -> Result<(), String> {
    for (number, pattern) in (1..).zip(patterns) {
        if pattern.strip_suffix('*').unwrap_or(pattern).contains('*') {
            return Err(format!(
                "{field} {number} can never match: * stands for the rest of a text, so only at its end, as in group/*"
            ));
        }
    }
    Ok(())
}
