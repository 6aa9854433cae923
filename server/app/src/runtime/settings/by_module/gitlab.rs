//! Address and credentials of GitLab.

use std::{fmt, path::PathBuf};

use axum::http::Uri;
use plimsoll_core::mask;

/// Access to GitLab's API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Address of GitLab; `None`: the server sends it no requests.
    pub url: Option<BaseUrl>,
    /// File with a token of scope `read_api`. Read again when GitLab refuses the token.
    pub token_file: Option<PathBuf>,
    /// PEM file of the CA that signed GitLab's certificate, in addition to the system's CAs.
    pub ca_file: Option<PathBuf>,
}

/// The address of a GitLab or another program: `https://gitlab.example`, possibly with a port and a
/// path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    base: String,
    host: String,
}

impl BaseUrl {
    /// Parses an address.
    /// Errors: the address is invalid; the text describes a valid one.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_of(text, "GitLab", "https://gitlab.example")
    }

    /// Parses the address of another product; `example` is shown in errors.
    /// Errors: the address is invalid; the text describes a valid one.
    pub(crate) fn parse_of(text: &str, product: &str, example: &str) -> Result<Self, String> {
        if text.contains('@') {
            // the text does not quote the address, because it may contain a password
            return Err(format!("must be an address without a user or a password; write it as {example}"));
        }
        let shown = mask::text(text);
        let wrong = || format!("{shown:?} is not an address of {product}; write it as {example}");
        let base = text.trim_end_matches('/');
        let uri: Uri = base.parse().map_err(|_unhelpful| wrong())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        if !is_http || uri.query().is_some() {
            return Err(wrong());
        }
        Ok(Self { base: base.to_owned(), host: host.to_owned() })
    }

    /// Host of GitLab without the port, which is the first part of its attempts' IDs.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// An address in GitLab's API.
    pub(crate) fn api(&self, path: &str) -> String {
        self.at(&format!("api/v4/{path}"))
    }

    /// An address below this one.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_hold_scheme_and_host_only() {
        let place = BaseUrl::parse("https://gitlab.example:8443/sub/").unwrap();
        assert_eq!(place.host(), "gitlab.example");
        assert_eq!(place.to_string().as_str(), "https://gitlab.example:8443/sub");
        assert_eq!(place.api("jobs"), "https://gitlab.example:8443/sub/api/v4/jobs");
        for wrong in ["", "gitlab.example", "ftp://x", "https://", "https://a:b@x", "https://x/?a=b"] {
            assert!(BaseUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
