//! Patterns of the projects that a caller may use.

use std::fmt;

use plimsoll_core::domain::matches_pattern;

/// Patterns of projects: whole names (`group/project`), and all projects of a group (`group/*`). An
/// empty list means every project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Projects(Vec<String>);

impl Projects {
    /// Whether the list covers every project.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a pattern names `project` or its group. False for an empty list and for `*`, which
    /// cover every project without naming one.
    pub(crate) fn name(&self, project: &str) -> bool {
        self.0.iter().any(|pattern| pattern != "*" && matches_pattern(pattern, project))
    }

    /// The patterns as written in the access file; empty for every project.
    pub(crate) fn patterns(&self) -> &[String] {
        &self.0
    }

    /// The patterns that are complete names of projects.
    pub(crate) fn whole_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str).filter(|pattern| !pattern.ends_with('*'))
    }

    pub(crate) fn matching_patterns(&self, project: &str) -> Vec<String> {
        self.0.iter().filter(|pattern| matches_pattern(pattern, project)).cloned().collect()
    }

    /// Whether the list covers `project`.
    pub(crate) fn covers(&self, project: &str) -> bool {
        self.is_all() || self.0.iter().any(|pattern| matches_pattern(pattern, project))
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

/// Checks that each pattern can match a name: `*` is allowed only at the end, because no name of a
/// project, branch or account contains it.
/// Errors: A pattern cannot match. The error names the field and the number of the pattern but does not quote it, because it may be a
/// secret.
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
