//! How callers are stored with their reports: a unique name, and the projects that they may report
//! on.

use plimsoll_core::domain::Reporter;
use ring::digest;

use super::Identity;

/// Longest stored name, in characters.
const NAME_CHARS: usize = 64;

/// Characters kept of a longer name; they are followed by `~` and the first 8 bytes of the SHA-256 of the whole name, in hexadecimal.
const START_CHARS: usize = NAME_CHARS - 1 - 16;

impl Identity {
    /// The name under which this caller's reports are stored; unique for each caller. Users choose
    /// the ends of the names (pods, branches), so the hash must resist collisions.
    pub(crate) fn stored_name(&self) -> String {
        let name = &self.name;
        if name.chars().nth(NAME_CHARS).is_none() {
            return name.to_string();
        }
        let start: String = name.chars().take(START_CHARS).collect();
        let sum = digest::digest(&digest::SHA256, name.as_bytes());
        let sum = sum.as_ref().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        format!("{start}~{sum:016x}")
    }

    /// This caller as the reporter for `project`. It may also report on the other projects of the
    /// grant that covers `project`.
    pub(crate) fn reporter_for(&self, project: &str) -> Reporter {
        if self.projects.is_all() {
            return Reporter::of_all(&self.stored_name());
        }
        let projects = if self.sees(project) { self.projects.matching_patterns(project) } else { Vec::new() };
        Reporter::of(&self.stored_name(), projects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_for_a_project_use_that_projects_grant() {
        let projects = ["a/*", "b/one"].map(str::to_owned).to_vec().into();
        let caller = Identity { projects, ..Identity::clone(&Identity::anyone()) };
        let spoken = |project: &str, of: &str| caller.reporter_for(project).may_report_on(of);
        assert!(spoken("a/x", "a/x") && spoken("a/x", "a/y") && !spoken("a/x", "b/one"));
        assert!(!spoken("c/x", "c/x") && !spoken("c/x", "a/x") && !spoken("", "a/x") && !spoken("", ""));
        assert!(Identity::anyone().reporter_for("").may_report_on(""));
        assert!(!Identity::unknown().reporter_for("").may_report_on(""));
    }
}
