//! Values of variables that must not leave the job with the end of its log.
//!
//! GitLab masks what is secret only on the way from the runner to its own log, after the agent has read it. Which variables are masked is not
//! told to the job, so the name decides.

use std::{ffi::OsString, fmt, os::unix::ffi::OsStrExt as _};

use memchr::memmem;

/// A variable with one of these in its name is secret.
const NAMES: [&str; 9] = [
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "PRIVATE_KEY",
    "API_KEY",
    "ACCESS_KEY",
    "CREDENTIAL",
];
/// What is shorter is no secret, and would blacken half of the log: GitLab masks nothing shorter either.
const LEAST_BYTES: usize = 8;
/// Variables that are looked for.
const MOST: usize = 256;
/// What stands in their place.
const MASK: &[u8] = b"[MASKED]";

/// Secret values. Never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<Vec<u8>>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Those among these variables. The lines of a value that has several are secrets each, because a log has them in lines.
    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let secret = |name: &OsString| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            NAMES.iter().any(|part| name.contains(part))
        };
        let values = variables.into_iter().filter(|(name, _)| secret(name)).map(|(_, value)| value);
        let lines = values.flat_map(|value| {
            value.as_bytes().split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>()
        });
        let mut found: Vec<Vec<u8>> = lines.filter(|line| line.len() >= LEAST_BYTES).take(MOST).collect();
        // one that holds another goes first, so that no end of it is left
        found.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(found)
    }

    /// The text without them.
    pub(crate) fn mask(&self, text: Vec<u8>) -> Vec<u8> {
        self.0.iter().fold(text, |text, secret| {
            let mut masked = Vec::with_capacity(text.len());
            let mut from = 0;
            for at in memmem::find_iter(&text, secret) {
                masked.extend_from_slice(text.get(from..at).unwrap_or_default());
                masked.extend_from_slice(MASK);
                from = at.saturating_add(secret.len());
            }
            masked.extend_from_slice(text.get(from..).unwrap_or_default());
            masked
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(variables: &[(&str, &str)]) -> Secrets {
        Secrets::of(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn a_secret_does_not_leave_with_the_log() {
        let secrets = secrets(&[
            ("CI_JOB_TOKEN", "glcbt-12345678"),
            ("aws_secret_access_key", "glcbt-12345678+more"),
            ("DEPLOY_PRIVATE_KEY", "-----BEGIN KEY-----\nAAAABBBBCCCC\n"),
            ("PATH", "/usr/local/bin"),
            ("SHORT_PASSWORD", "abc"),
        ]);
        let log =
            b"curl https://u:glcbt-12345678@x/ glcbt-12345678+more\nAAAABBBBCCCC /usr/local/bin abc".to_vec();
        let masked = String::from_utf8(secrets.mask(log)).unwrap();
        assert_eq!(masked, "curl https://u:[MASKED]@x/ [MASKED]\n[MASKED] /usr/local/bin abc");
        assert_eq!(format!("{secrets:?}"), "Secrets(4)");
    }
}
