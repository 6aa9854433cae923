//! A project, or a group of projects, that got another name.

use plimsoll_proto::limits;
use serde::{Deserialize, Serialize};

use super::FieldViolation;

/// A new name for a project, and for all projects below it if it is a group: `group` to `team` names `group/app` `team/app`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRename {
    /// The former name.
    pub from: String,
    /// The name that takes its place.
    pub to: String,
}

impl ProjectRename {
    /// A rename.
    /// Errors: a name cannot be that of a project, or one of them is the other or below it, so that no end would be known.
    pub fn new(from: &str, to: &str) -> Result<Self, FieldViolation> {
        for (field, name) in [("the old name", from), ("the new name", to)] {
            let fits = name.len() <= limits::KEY_FIELD_BYTES && !name.chars().any(char::is_control);
            if !fits || name.trim_matches('/') != name || name.is_empty() {
                return Err(FieldViolation::new(field, "must be the name of a project, as group/name"));
            }
        }
        let rename = Self { from: from.to_owned(), to: to.to_owned() };
        let back = Self { from: to.to_owned(), to: from.to_owned() };
        if rename.renamed(to).is_some() || back.renamed(from).is_some() {
            return Err(FieldViolation::new(
                "the new name",
                format!("{to:?} is {from:?}, or one is below the other"),
            ));
        }
        Ok(rename)
    }

    /// The new name of a project; `None` if it keeps its name, or the new one would be too long.
    pub fn renamed(&self, project: &str) -> Option<String> {
        let below =
            project.strip_prefix(&self.from).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some(format!("{}{below}", self.to)).filter(|name| name.len() <= limits::KEY_FIELD_BYTES)
    }
}
