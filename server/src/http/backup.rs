//! The store as a stream of bytes.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{ConnectInfo, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use http_body::Frame;

use super::{Parts, serving::Local};
use crate::{admin::backup::Live, guard::AUDIT, identity::Identity};

/// An archive of the store as it is now. It holds everything that builds said, so only this machine gets it.
pub(super) async fn backup(
    State(parts): State<Parts>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    local: Option<Extension<Local>>,
    caller: Option<Extension<Arc<Identity>>>,
) -> Response {
    let caller = caller.map_or_else(|| "anyone".into(), |Extension(caller)| Arc::clone(&caller.name));
    if !is_here(peer.ip(), local.and_then(|Extension(Local(local))| local)) {
        tracing::warn!(target: AUDIT, %peer, %caller, "refused a backup to another machine");
        return (StatusCode::FORBIDDEN, "a backup is given to callers on the server's own machine only\n")
            .into_response();
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
}
