//! Results of a program's check of itself (`plimsoll doctor`, `plimsoll-server doctor`), as text and as JSON.

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

use crate::named_enum;

named_enum! {
    /// How a check ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CheckState {
        /// Works, and nothing needs to be done.
        Ok => "ok",
        /// Works, but something should be changed.
        Warn => "warn",
        /// Does not work.
        Fail => "fail",
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    /// What was checked, in one or two words.
    pub check: &'static str,
    /// The result of the check.
    pub state: CheckState,
    /// What was found; if something is wrong, also what to do.
    pub finding: String,
}

impl CheckLine {
    /// A check that succeeded.
    pub fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, state: CheckState::Ok, finding: says.into() }
    }

    /// A check that succeeded, but found something that should be changed.
    pub fn warn(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, state: CheckState::Warn, finding: says.into() }
    }

    /// A check that failed.
    pub fn fail(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, state: CheckState::Fail, finding: says.into() }
    }

    /// Whether nothing needs to be done.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.state == CheckState::Ok
    }

    /// Whether the check failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.state == CheckState::Fail
    }
}

impl Serialize for CheckLine {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut line = to.serialize_struct("CheckLine", 3)?;
        line.serialize_field("check", self.check)?;
        line.serialize_field("state", self.state.as_str())?;
        line.serialize_field("says", &self.finding)?;
        line.end()
    }
}

/// The results as text, one row for each check. Two spaces separate the columns, so that wrapped text continues in the last column.
#[must_use]
pub fn checks_text(lines: &[CheckLine]) -> String {
    let widest = lines.iter().map(|line| line.check.len()).max().unwrap_or_default();
    let row =
        |line: &CheckLine| format!("{:<4}  {:<widest$}  {}\n", line.state.as_str(), line.check, line.finding);
    lines.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_checks_use_equal_wording() {
        let lines = [
            CheckLine::ok("clock", "as the server's"),
            CheckLine::warn("spool", "full"),
            CheckLine::fail("server", "silent"),
        ];
        let expected = "ok    clock   as the server's\nwarn  spool   full\nfail  server  silent\n";
        assert_eq!(checks_text(&lines), expected);
        let json = serde_json::to_string(&lines[1]).unwrap();
        assert_eq!(json, r#"{"check":"spool","state":"warn","says":"full"}"#);
        assert!(lines[0].is_ok() && !lines[1].is_ok() && !lines[1].is_failed() && lines[2].is_failed());
    }
}
