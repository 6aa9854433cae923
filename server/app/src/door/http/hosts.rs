//! From where a request may come: which host it names, and which page sends it.
//!
//! Without an access file the server answers only requests for its own host names. A page of
//! another site can make its DNS name resolve to this machine (DNS rebinding). The browser then
//! treats page and server as one origin, and the page could act as the user. But it cannot change
//! the name in the header `Host`.
//!
//! | accepted | why |
//! |---|---|
//! | `localhost`, and names below it | always this machine (RFC 6761, section 6.3) |
//! | an IP address | cannot resolve to another machine |
//! | a name in the setting `http_hosts` | configured by the operator |
//! | a request without a name | HTTP/1.0: browsers always send one |
//!
//! Changes requested by pages of other origins are always refused: any page that is open in a browser on the
//! server's machine or network can send requests to the server. The browser then sends the page's
//! origin in `Sec-Fetch-Site`; older browsers send it in `Origin`. Programs send neither.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header, uri::Authority};
use plimsoll_core::domain::FieldViolation;

/// Characters of a refused name that the answer repeats: the longest host name (RFC 1035, section
/// 2.3.4).
const SHOWN_CHARS: usize = 253;
/// Header in which browsers describe the requesting page (Fetch Metadata, section 2.3).
const SITE_HEADER: &str = "Sec-Fetch-Site";
/// Headers that proxies add; so are all headers that start with [`FORWARDED_PREFIX`].
const PROXY_HEADERS: [&str; 3] = ["forwarded", "via", "x-real-ip"];
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// Refuses a request for another host. `own`: the configured names, in lower case.
pub(super) fn foreign_host(
    headers: &HeaderMap,
    uri: &Uri,
    own: &[String],
) -> Option<(StatusCode, FieldViolation)> {
    let is_own = |asked: &str| match Host::parse(asked) {
        Some(Host::Address(_)) => true,
        Some(Host::Name(name)) => is_localhost(&name) || own.contains(&name),
        None => false,
    };
    let foreign = requested_hosts(headers, uri).find(|asked| !is_own(asked))?;
    let foreign: String = foreign.chars().take(SHOWN_CHARS).collect();
    let text = format!(
        "{foreign:?} is no name of this server: without an access_file it answers to localhost, IP addresses and the names in http_hosts \
         (PLIMSOLL_HTTP_HOSTS); add the name there"
    );
    Some((StatusCode::MISDIRECTED_REQUEST, FieldViolation::new("Host", text)))
}

/// Refuses a request that may change something and comes from a page of another origin.
pub(super) fn foreign_page(
    method: &Method,
    headers: &HeaderMap,
    uri: &Uri,
) -> Option<(StatusCode, FieldViolation)> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_foreign_site = value(SITE_HEADER).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let asked = uri.authority().map(Authority::as_str).or_else(|| value(header::HOST.as_str()));
    let is_ours = |origin: &str| origin.split_once("://").is_some_and(|(_scheme, host)| Some(host) == asked);
    let name = match value(header::ORIGIN.as_str()) {
        _ if is_foreign_site => SITE_HEADER,
        Some(origin) if !is_ours(origin) => "Origin",
        _ => return None,
    };
    let fault = FieldViolation::new(name, "says that a page of another origin sends this; only programs may");
    Some((StatusCode::FORBIDDEN, fault))
}

/// Whether a request from address `peer` is of this machine: it comes from here, and all host names in it always mean this machine. `local`
/// is this machine's end of the connection: a listener on one address of the machine is reached from the same address, not from loopback.
pub(super) fn is_of_this_machine(
    (headers, uri): (&HeaderMap, &Uri),
    (peer, local): (IpAddr, Option<IpAddr>),
) -> bool {
    let is_here = |address: IpAddr| {
        let address = address.to_canonical();
        address.is_loopback() || local.is_some_and(|local| local.to_canonical() == address)
    };
    let mut asked = requested_hosts(headers, uri).map(Host::parse).peekable();
    let is_local_name = |host| match host {
        Some(Host::Address(address)) => is_here(address),
        Some(Host::Name(name)) => is_localhost(&name),
        None => false,
    };
    is_here(peer) && asked.peek().is_some() && asked.all(is_local_name)
}

/// Whether a request came through a proxy that adds its headers.
pub(super) fn is_through_proxy(headers: &HeaderMap) -> bool {
    let mut names = headers.keys().map(HeaderName::as_str);
    names.any(|name| PROXY_HEADERS.contains(&name) || name.starts_with(FORWARDED_PREFIX))
}

/// All host names in a request, each with or without port; a value that is not text is empty.
fn requested_hosts<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> impl Iterator<Item = &'r str> {
    let hosts = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    uri.authority().map(Authority::as_str).into_iter().chain(hosts)
}

/// A host that a request names.
enum Host {
    Address(IpAddr),
    /// A DNS name, in lower case, without a dot at the end.
    Name(String),
}

impl Host {
    /// Parses a host with or without port; `None` if it is not a host.
    fn parse(asked: &str) -> Option<Self> {
        let asked = asked.parse::<Authority>().ok()?;
        let host = asked.host().trim_start_matches('[').trim_end_matches(']');
        let name = || Self::Name(host.trim_end_matches('.').to_ascii_lowercase());
        Some(host.parse().map_or_else(|_| name(), Self::Address))
    }
}

/// Whether the name always means this machine.
fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "10.0.0.5";

    /// A request for `uri` with these headers.
    fn request(uri: &str, headers: &[(&str, &str)]) -> (HeaderMap, Uri) {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        (all, uri.parse().unwrap())
    }

    #[test]
    fn only_known_host_names_are_answered() {
        let own = ["plimsoll.example".to_owned(), "plimsoll".to_owned()];
        // a host, and whether it is a name of this server, and always means this machine
        let table = [
            ("localhost:7411", true, true),
            ("LocalHost", true, true),
            ("localhost.", true, true),
            ("ci.localhost:7411", true, true),
            ("127.0.0.1:7411", true, true),
            ("127.8.9.1", true, true),
            ("[::1]:7411", true, true),
            ("10.0.0.5:7411", true, true),
            ("10.0.0.6:7411", true, false),
            ("[2001:db8::1]", true, false),
            ("plimsoll.example", true, false),
            ("Plimsoll.Example.:7411", true, false),
            ("plimsoll:7411", true, false),
            ("evil.example:7411", false, false),
            ("evil.plimsoll.example", false, false),
            ("plimsoll.example.evil", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("127.1.evil", false, false),
            ("0x7f.1", false, false),
            ("", false, false),
            ("a b", false, false),
        ];
        let peer = ("127.0.0.1".parse().unwrap(), Some(LOCAL.parse().unwrap()));
        let seen = |uri: &str, headers: &[(&str, &str)]| {
            let (headers, uri) = request(uri, headers);
            (foreign_host(&headers, &uri, &own).is_none(), is_of_this_machine((&headers, &uri), peer))
        };
        for (host, is_own, is_local) in table {
            assert_eq!(seen("/", &[("host", host)]), (is_own, is_local), "{host}");
            assert_eq!(seen("/", &[("host", host), ("host", "evil.example")]), (false, false), "{host}");
            if let Ok(of_http2) = format!("http://{host}/").parse::<Uri>() {
                assert_eq!(seen(&of_http2.to_string(), &[]), (is_own, is_local), "{of_http2}");
            }
        }
        assert_eq!(seen("http://localhost/", &[("host", "evil.example")]), (false, false));
        assert_eq!(seen("/", &[]), (true, false), "no browser asks so, and it names no machine");
        let (headers, uri) = request("/", &[("host", &"x".repeat(5000))]);
        let (status, fault) = foreign_host(&headers, &uri, &own).unwrap();
        assert!(status == 421 && fault.to_string().len() < 600 && fault.description.contains("http_hosts"));
    }

    #[test]
    fn only_own_addresses_without_a_proxy_are_local() {
        let (headers, uri) = request("/", &[("host", "localhost")]);
        let table = [
            ("127.0.0.1", Some("127.0.0.1"), true),
            ("::1", None, true),
            ("::ffff:127.0.0.1", None, true),
            (LOCAL, Some(LOCAL), true),
            ("::ffff:10.0.0.5", Some(LOCAL), true),
            ("10.0.0.6", Some(LOCAL), false),
            (LOCAL, None, false),
        ];
        for (peer, local, is_local) in table {
            let addresses = (peer.parse().unwrap(), local.map(|local| local.parse().unwrap()));
            assert_eq!(is_of_this_machine((&headers, &uri), addresses), is_local, "{peer} to {local:?}");
        }
        for name in ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"] {
            assert!(is_through_proxy(&request("/", &[(name, "10.9.9.9")]).0), "{name}");
        }
        assert!(!is_through_proxy(&headers));
    }

    #[test]
    fn pages_of_other_origins_change_nothing() {
        let own = ("origin", "http://plimsoll:7411");
        let foreign = |method: Method, headers: &[(&str, &str)]| {
            let (headers, uri) = request("/v1/collect", &[headers, &[("host", "plimsoll:7411")]].concat());
            foreign_page(&method, &headers, &uri).map(|(_, fault)| fault.field)
        };
        for of_own in [&[][..], &[("sec-fetch-site", "same-origin"), own], &[("sec-fetch-site", "none")]] {
            assert_eq!(foreign(Method::POST, of_own), None, "a program, an own page, a person: {of_own:?}");
        }
        for site in ["cross-site", "same-site", "of-2030", ""] {
            let named = [("sec-fetch-site", site)];
            assert_eq!(foreign(Method::POST, &named).as_deref(), Some(SITE_HEADER), "{site}");
            assert_eq!(foreign(Method::GET, &named), None);
        }
        for origin in ["null", "https://evil.example", "http://plimsoll", "http://plimsoll:7411.evil.example"]
        {
            assert_eq!(foreign(Method::PUT, &[("origin", origin)]).as_deref(), Some("Origin"), "{origin}");
        }
    }
}
