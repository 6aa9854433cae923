//! The secret that GitLab sends with each hook.

use std::{fmt, fs, hint::black_box, path::Path, sync::Arc};

use anyhow::{Context as _, ensure};

/// A secret. It is never written anywhere.
#[derive(Clone)]
pub(crate) struct Token(Arc<[u8]>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// The text of a file, without white space around it.
    ///
    /// # Errors
    /// It cannot be read, or is empty.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            !text.trim().is_empty(),
            "{} is empty; write the hook's secret token into it",
            path.display()
        );
        Ok(Self(text.trim().as_bytes().into()))
    }

    /// Whether `said` is the token. The time it takes says nothing of the token but its length.
    pub(super) fn is(&self, said: &[u8]) -> bool {
        let differing = self.0.iter().zip(said).fold(0, |bits, (a, b)| bits | black_box(a ^ b));
        self.0.len() == said.len() && black_box(differing) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_equal_to_itself_alone_and_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        fs::write(&file, "secret\n").unwrap();
        let token = Token::read(&file).unwrap();
        assert!(token.is(b"secret"));
        for other in [b"secreT".as_slice(), b"secret ", b"secre", b"", b"xsecret"] {
            assert!(!token.is(other), "{other:?}");
        }
        assert!(!format!("{token:?}").contains("secret"));
        fs::write(&file, " \n").unwrap();
        assert!(Token::read(&file).is_err() && Token::read(dir.path()).is_err());
    }
}
