//! The store as a stream of bytes.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header, uri::Authority},
    response::{IntoResponse, Response},
};
use http_body::Frame;

use super::{Parts, serving::Local};
use crate::{admin::backup::Live, identity::Identity, log::AUDIT};

/// What a proxy says of whom it asks for; so does whatever begins with [`FORWARDED`].
const OF_PROXIES: [&str; 3] = ["forwarded", "via", "x-real-ip"];
const FORWARDED: &str = "x-forwarded-";
/// What somebody hears who is not here.
const ELSEWHERE: &str = "a backup is given to callers on the server's own machine only, who ask it as localhost and through no proxy: \
     plimsoll-server backup FILE\n";

/// An archive of the store as it is now. It holds everything that builds said, so only this machine gets it: neither a page in one of
/// its browsers, which asks a name of its own that means this machine, nor who comes through a proxy on it that says so.
pub(super) async fn backup(
    State(parts): State<Parts>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let said = request.extensions();
    let caller =
        said.get::<Arc<Identity>>().map_or_else(|| "anyone".into(), |caller| Arc::clone(&caller.name));
    let local = said.get::<Local>().and_then(|local| local.0);
    if !is_here(peer.ip(), local) || is_for_others(request.headers()) || !names_us(&request, local) {
        tracing::warn!(target: AUDIT, %peer, %caller, "refused a backup to another machine");
        return (StatusCode::FORBIDDEN, ELSEWHERE).into_response();
    }
    match parts.store.snapshot().await {
        Ok(snapshot) => {
            tracing::info!(target: AUDIT, %peer, %caller, "gave a backup");
            let content_type = [(header::CONTENT_TYPE, "application/octet-stream")];
            (content_type, Body::new(Archive::new(Live::new(snapshot)))).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// Whether who calls from `peer` is on this machine, whose end of the connection is `local`: a listener on one address of the machine
/// is called from that address, not from the loopback one.
fn is_here(peer: IpAddr, local: Option<IpAddr>) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback() || local.is_some_and(|local| local.to_canonical() == peer)
}

/// Whether a proxy asks, and says so.
fn is_for_others(headers: &HeaderMap) -> bool {
    headers
        .keys()
        .map(HeaderName::as_str)
        .any(|name| OF_PROXIES.contains(&name) || name.starts_with(FORWARDED))
}

/// Whether the request names this machine by its own address or as localhost, wherever it names whom it asks.
fn names_us(request: &Request, local: Option<IpAddr>) -> bool {
    let hosts = request.headers().get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let mut asked = request.uri().authority().map(Authority::as_str).into_iter().chain(hosts).peekable();
    asked.peek().is_some() && asked.all(|asked| is_ours(asked, local))
}

/// Whether a name, which may have a port behind it, means this machine whoever asks.
fn is_ours(asked: &str, local: Option<IpAddr>) -> bool {
    let Ok(asked) = asked.parse::<Authority>() else { return false };
    let host = asked.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|host| is_here(host, local))
}

type Step = (Live, anyhow::Result<Option<Vec<u8>>>);

/// A body whose next piece is read when the last one is on its way.
struct Archive(Option<Pin<Box<dyn Future<Output = Step> + Send>>>);

impl Archive {
    fn new(live: Live) -> Self {
        Self(Some(Box::pin(step(live))))
    }
}

async fn step(mut live: Live) -> Step {
    let piece = live.next().await;
    (live, piece)
}

impl http_body::Body for Archive {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(running) = self.0.as_mut() else { return Poll::Ready(None) };
        let (live, piece) = ready!(running.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(match piece {
            Ok(Some(bytes)) => {
                self.0 = Some(Box::pin(step(live)));
                Some(Ok(Frame::data(bytes.into())))
            }
            Ok(None) => None,
            Err(error) => {
                tracing::error!(%error, "a backup was cut short");
                Some(Err(error.into()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_calls_from_this_machine_is_here_whatever_address_the_listener_has() {
        let here = |peer: &str, local: Option<&str>| {
            is_here(peer.parse().unwrap(), local.map(|local| local.parse().unwrap()))
        };
        assert!(here("127.0.0.1", Some("127.0.0.1")) && here("::1", None) && here("::ffff:127.0.0.1", None));
        assert!(here("10.0.0.5", Some("10.0.0.5")) && here("::ffff:10.0.0.5", Some("10.0.0.5")));
        assert!(!here("10.0.0.6", Some("10.0.0.5")) && !here("10.0.0.5", None));
    }

    #[test]
    fn a_request_that_names_another_machine_or_comes_for_one_is_not_of_this_one() {
        let local = Some("10.0.0.5".parse().unwrap());
        let is_own = |uri: &str, headers: &[(&str, &str)]| {
            let empty = axum::http::Request::builder().uri(uri);
            let filled = headers.iter().fold(empty, |request, (name, value)| request.header(*name, *value));
            let request = filled.body(Body::empty()).unwrap();
            !is_for_others(request.headers()) && names_us(&request, local)
        };
        let hosts =
            ["localhost", "LocalHost:7411", "127.0.0.1:7411", "127.8.9.1", "[::1]:7411", "10.0.0.5:1"];
        for host in hosts {
            assert!(is_own("/", &[("host", host)]), "{host}");
            assert!(!is_own("/", &[("host", host), ("host", "evil.example")]), "{host}");
            for proxy in ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"] {
                assert!(!is_own("/", &[("host", host), (proxy, "10.9.9.9")]), "{proxy}");
            }
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.6",
            "127.0.0.1.evil.example",
            "",
            "a b",
            "[::2]",
        ] {
            assert!(!is_own("/", &[("host", host)]), "{host}");
        }
        // as HTTP/2 names it
        assert!(is_own("http://localhost:7411/", &[]) && !is_own("http://evil.example/", &[]));
        assert!(!is_own("http://evil.example/", &[("host", "localhost")]));
        assert!(!is_own("/", &[]), "it names nobody");
    }
}
