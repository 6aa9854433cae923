//! The last part of a spool file's name: the server that the file is for, and the agent's identity there.
//!
//! ```text
//! ATTEMPT-SESSION.HOST-ADDRESS-IDENTITY.spool
//! ```
//!
//! `HOST` is the server's host and port, for people: at most 32 characters, with `_` instead of everything except letters, digits and `_`.
//! `ADDRESS` is the CRC-32 (IEEE) of the server's address, of several servers over one store that of the first; `IDENTITY` is that of the
//! agent's credentials. Both are eight hexadecimal digits. A run only delivers files with an `ADDRESS` of one of its servers and with its own
//! `IDENTITY`, because another server must not learn what was built, and an attempt must not count for a caller that did not measure it. Any
//! run tries a file without this part, and sets it aside if no agent wrote it.

use std::path::Path;

use crate::{channel::addresses_in, token::Token, trust::Trust};

/// Most characters of the host in a file's name. With the longest attempt and session, the name then fits in the 255 bytes that file
/// systems allow.
const HOST_CHARS: usize = 32;

/// The servers over one store, and the identity of the agent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpoolDestination {
    /// The part of a spool file's name that identifies the destination: `HOST-ADDRESS-IDENTITY`.
    name_part: String,
    /// `ADDRESS-IDENTITY` of each server.
    marks: Vec<String>,
}

impl SpoolDestination {
    /// The destination for the addresses of servers and an agent's credentials. Of a token in a file, the path is used, because the content
    /// changes.
    pub(super) fn of(servers: &str, trust: &Trust) -> Self {
        let identity = match (&trust.token, &trust.certificate) {
            (Some(Token::Text(token)), _) => format!("token {}", token.trim()),
            (Some(Token::File(path)), _) => format!("token in {}", path.display()),
            (Some(Token::Issued(source)), _) => format!("token from {}", source.address()),
            (None, Some(path)) => format!("certificate in {}", path.display()),
            (None, None) => String::new(),
        };
        let identity = crc32fast::hash(identity.as_bytes());
        let servers = servers.to_ascii_lowercase();
        let addresses = || addresses_in(&servers).map(|address| address.trim_end_matches('/'));
        let mark = |address: &str| format!("{:08x}-{identity:08x}", crc32fast::hash(address.as_bytes()));
        let marks: Vec<String> = addresses().map(mark).collect();
        let first = addresses().next().unwrap_or_default();
        let host = first.split_once("://").map_or(first, |(_, host)| host);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let host: String = host.chars().take(HOST_CHARS).map(plain).collect();
        Self { name_part: format!("{host}-{}", mark(first)), marks }
    }

    /// The part of a spool file's name for this destination.
    pub(super) fn name_part(&self) -> &str {
        &self.name_part
    }

    pub(super) fn is_for(&self, file: &Path) -> bool {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        stem.rsplit_once('.')
            .is_none_or(|(_attempt, part)| self.marks.iter().any(|mark| mark == without_host(part)))
    }
}

/// `ADDRESS-IDENTITY`, the last two fields of this part of a file's name: only these are compared.
fn without_host(part: &str) -> &str {
    part.split_once('-').map_or(part, |(_host, marks)| marks)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn with(token: Option<Token>) -> Trust {
        Trust { token, ..Trust::default() }
    }

    #[test]
    fn a_spool_file_belongs_to_server_and_identity() {
        let text = |text: &str| with(Some(Token::Text(text.into())));
        let own = SpoolDestination::of("http://A.example:7410/", &text("one"));
        let file = PathBuf::from(format!("/spool/h_7-01ABC.{}.spool", own.name_part()));
        assert!(own.name_part().starts_with("a_example_7410-"), "{own:?}");
        assert!(own.is_for(&file));
        assert!(SpoolDestination::of("http://a.example:7410", &text("one ")).is_for(&file), "the same");
        for (server, trust) in [
            ("http://b.example:7410", text("one")),
            ("https://a.example:7410", text("one")),
            ("http://a.example:7410", text("two")),
            ("http://a.example:7410", with(Some(Token::File("/token".into())))),
            ("http://a.example:7410", with(None)),
        ] {
            assert!(!SpoolDestination::of(server, &trust).is_for(&file), "{server} {trust:?}");
        }
        for several in
            ["http://b.example:7410,http://a.example:7410", "http://A.example:7410/, http://b.example:7410"]
        {
            assert!(SpoolDestination::of(several, &text("one")).is_for(&file), "{several}");
        }
        assert!(own.is_for(Path::new("/spool/h_7-01ABC.spool")), "it waits for no server in particular");
        assert!(!own.name_part().contains("one"), "the token is not in the name");
    }
}
