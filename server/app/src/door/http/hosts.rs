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

use std::net::IpAddr;

use axum::{
    http::{HeaderMap, StatusCode, Uri, header, uri::Authority},
    response::Response,
};
use plimsoll_core::domain::FieldViolation;

use super::{refusal::refuse, shown_path};

/// Characters of a refused name that the answer repeats: the longest host name (RFC 1035, section
/// 2.3.4).
const SHOWN_CHARS: usize = 253;

/// Refuses a request for another host. `own`: the configured names, in lower case.
pub(super) fn refusal(headers: &HeaderMap, uri: &Uri, own: &[String]) -> Option<Response> {
    let foreign = requested_hosts(headers, uri).find(|asked| !is_own(asked, own))?;
    let foreign: String = foreign.chars().take(SHOWN_CHARS).collect();
    let text = format!(
        "{foreign:?} is no name of this server: without an access_file it answers to localhost, IP addresses and the names in http_hosts \
         (PLIMSOLL_HTTP_HOSTS); add the name there"
    );
    let fault = FieldViolation::new("Host", text);
    Some(refuse(shown_path(uri), StatusCode::MISDIRECTED_REQUEST, &fault))
}

/// All host names in a request, each with or without port; a value that is not text is empty.
pub(super) fn requested_hosts<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> impl Iterator<Item = &'r str> {
    let hosts = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    uri.authority().map(Authority::as_str).into_iter().chain(hosts)
}

/// A host that a request names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Host {
    Address(IpAddr),
    /// A DNS name, in lower case, without a dot at the end.
    Name(String),
}

impl Host {
    /// Parses a host with or without port; `None` if it is not a host.
    pub(super) fn parse(asked: &str) -> Option<Self> {
        let asked = asked.parse::<Authority>().ok()?;
        let host = asked.host().trim_start_matches('[').trim_end_matches(']');
        let name = || Self::Name(host.trim_end_matches('.').to_ascii_lowercase());
        Some(host.parse().map_or_else(|_| name(), Self::Address))
    }

    /// Whether the name always means this machine.
    pub(super) fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}

fn is_own(asked: &str, own: &[String]) -> bool {
    Host::parse(asked).is_some_and(|host| match &host {
        Host::Address(_) => true,
        Host::Name(name) => host.is_localhost() || own.contains(name),
    })
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, extract::Request};

    use super::*;

    #[tokio::test]
    async fn rebound_host_names_are_refused() {
        let own = ["plimsoll.example".to_owned(), "plimsoll".to_owned()];
        let answer = async |uri: &str, hosts: &[&str]| {
            let request = Request::builder().method("POST").uri(uri);
            let request = hosts.iter().fold(request, |request, host| request.header("host", *host));
            let request = request.body(Body::empty()).unwrap();
            let answer = refusal(request.headers(), request.uri(), &own).unwrap_or_default();
            let status = answer.status().as_u16();
            let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
            (status, String::from_utf8(body.to_vec()).unwrap())
        };
        for host in [
            "localhost:7411",
            "LocalHost",
            "localhost.",
            "ci.localhost:7411",
            "127.0.0.1:7411",
            "127.8.9.1",
            "[::1]:7411",
            "10.0.0.5:7411",
            "[2001:db8::1]",
            "plimsoll.example",
            "Plimsoll.Example.:7411",
            "plimsoll:7411",
        ] {
            assert_eq!(answer("/attempts/1", &[host]).await.0, 200, "{host}");
            assert_eq!(answer("/attempts/1", &[host, "evil.example"]).await.0, 421, "{host}");
        }
        for host in [
            "evil.example:7411",
            "evil.plimsoll.example",
            "plimsoll.example.evil",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.1.evil",
            "0x7f.1",
            "",
            "a b",
        ] {
            let (status, body) = answer("/attempts/1", &[host]).await;
            assert_eq!(status, 421, "{host}: {body}");
            assert!(body.contains("http_hosts") && body.contains("access_file"), "{body}");
        }
        // as HTTP/2 names it
        assert_eq!(answer("http://evil.example/", &[]).await.0, 421);
        assert_eq!(answer("http://localhost:7411/", &[]).await.0, 200);
        assert_eq!(answer("/", &[]).await.0, 200, "no browser asks so");
        let (_, long) = answer("/", &[&"x".repeat(5000)]).await;
        assert!(long.len() < 600, "{long}");
    }
}
