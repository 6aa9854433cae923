//! The address of a server upstream, as clients of Resalloc write it.

use std::{fmt, net::Ipv6Addr};

/// Longest address, bytes.
pub const ADDRESS_BYTES: usize = 512;
/// The path that Python's `xmlrpc.client` asks where an address names none.
const PATH: &str = "/RPC2";

/// Address of an upstream server. The credentials are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// The address without credentials: scheme, host, port and path.
    shown: String,
    credentials: Option<String>,
}

impl UpstreamAddress {
    /// Reads `http://HOST:PORT`, or with `https`, `USER:PASSWORD@` and a path.
    /// Errors: why it is no such address; never with a part of it, since any part may be a password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > ADDRESS_BYTES {
            return Err("is too long");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has spaces, or characters that are not ASCII");
        }
        let (scheme, rest) = text.split_once("://").ok_or(EXPECTED_FORM)?;
        let scheme = scheme.to_ascii_lowercase();
        if !["http", "https"].contains(&scheme.as_str()) {
            return Err("begins with neither http:// nor https://");
        }
        if rest.contains(['?', '#']) {
            return Err("has a ? or a #; write those in a password as %3F and %23");
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => {
                (Some(decoded(credentials).ok_or("has a % that begins no character")?), host)
            }
            None => (None, authority),
        };
        if !is_host(host) {
            return Err(EXPECTED_FORM);
        }
        let path = if ["", "/"].contains(&path) { PATH } else { path };
        let shown = format!("{scheme}://{}{path}", host.to_ascii_lowercase());
        Ok(Self { shown, credentials })
    }

    /// The address without credentials.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// `USER:PASSWORD`, if the address has them.
    pub fn credentials(&self) -> Option<&str> {
        self.credentials.as_deref()
    }
}

const EXPECTED_FORM: &str = "is no address; write it as http://HOST:PORT";

/// Whether a text is a host with or without a port.
fn is_host(text: &str) -> bool {
    let after_address = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (is_name, port) = if let Some((address, rest)) = after_address {
        let port = if rest.is_empty() { Some(None) } else { rest.strip_prefix(':').map(Some) };
        (port.is_some() && address.parse::<Ipv6Addr>().is_ok(), port.flatten())
    } else {
        let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        (!name.is_empty() && name.bytes().all(fits), port)
    };
    let is_digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = port.is_none_or(|port| is_digits(port) && port.parse::<u16>().is_ok_and(|port| port > 0));
    is_name && is_port
}

/// Replaces each `%XX` by its byte (RFC 3986, section 2.1).
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Debug for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resalloc_addresses_parse_and_hide_their_password() {
        for (text, shown, credentials) in [
            ("http://resalloc:49100", "http://resalloc:49100/RPC2", None),
            ("HTTPS://Resalloc.Example/", "https://resalloc.example/RPC2", None),
            ("http://[::1]:49100/x", "http://[::1]:49100/x", None),
            ("http://copr:s%40cret%2f@h:1", "http://h:1/RPC2", Some("copr:s@cret/")),
            ("http://a:b@c@h", "http://h/RPC2", Some("a:b@c")),
        ] {
            let address = UpstreamAddress::parse(text).unwrap();
            assert_eq!((address.shown(), address.credentials()), (shown, credentials), "{text}");
            assert_eq!(format!("{address:?}"), format!("{shown:?}"));
        }
        for wrong in [
            "",
            "resalloc:49100",
            "ftp://h",
            "http://",
            "http://:49100",
            "http://h:0",
            "http://h:+1",
            "http://h:65536",
            "http://h:",
            "http://a b",
            "http://h/?secret",
            "http://x:se%zzcret@h",
            "http://x:se%2",
            "http://[::1",
            "http://[h]:1",
            "http://[::1]1",
        ] {
            let why = UpstreamAddress::parse(wrong).unwrap_err();
            assert!(!why.contains("cret"), "{wrong}: {why}");
        }
        assert!(UpstreamAddress::parse(&format!("http://{}", "h".repeat(ADDRESS_BYTES))).is_err());
    }
}
