//! The access file of a test's server.

use ring::digest::{SHA256, digest};

/// Text of an access file, made table by table.
#[derive(Debug, Clone, Default)]
pub struct AccessFile(String);

impl AccessFile {
    /// A caller with this token, whose name is `of-TOKEN`. `lines`: more of its table, such as `trusted = true`.
    #[must_use]
    pub fn token(self, token: &str, roles: &[&str], lines: &str) -> Self {
        self.named(&format!("of-{token}"), token, roles, lines)
    }

    /// As [`Self::token`], with another name.
    #[must_use]
    pub fn named(self, name: &str, token: &str, roles: &[&str], lines: &str) -> Self {
        let sum = digest(&SHA256, token.as_bytes());
        let sum: Vec<String> = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let sum = sum.concat();
        self.table(&format!("[[token]]\nname = {name:?}\nsha256 = {sum:?}\nroles = {roles:?}\n{lines}"))
    }

    /// An issuer of tokens, with the lines of its table.
    #[must_use]
    pub fn issuer(self, url: &str, lines: &str) -> Self {
        self.table(&format!("[[issuer]]\nissuer = {url:?}\n{lines}"))
    }

    /// Any other table.
    #[must_use]
    pub fn table(self, table: &str) -> Self {
        Self(format!("{}{table}\n", self.0))
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.0
    }
}
