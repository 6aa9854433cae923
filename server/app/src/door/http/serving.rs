//! Serves HTTP requests on bounded connections, with answers that are sent as fast as the client
//! reads them. [`net`] describes what happens to a client that
//! exceeds a bound.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, http::Response};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::{gate::Gate, guarded::CallSlot};
use crate::{
    door::net::{
        self, BodyDeadline, Bounds, ConnectionRequests, Listener, Peer, Policy, RunningRequest, SentBody,
    },
    runtime::metrics::Metrics,
};

/// Concurrent requests on one HTTP/2 connection. Browsers and API servers use fewer, or open
/// another connection. Each may hold a piece of its answer that the client does not read.
const MAX_CONCURRENT_STREAMS: u32 = 32;

/// Marks an answer that may wait for hours, among its extensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongAnswer;

/// The bounds for this number of connections, and the time limits of each.
pub(crate) fn bounds(connections: usize) -> Bounds {
    let first = Duration::from_secs(30);
    Bounds { connections, first, admitted: first, body: first, idle: Duration::from_mins(2) }
}

/// Serves until `stopping`, then lets running requests finish.
pub(super) async fn serve(
    listener: Listener,
    gate: Gate,
    bounds: Bounds,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
) {
    let policy = Policy {
        bounds,
        streams: MAX_CONCURRENT_STREAMS,
        grpc: None,
        open: metrics.http_connections.clone(),
        replaced: metrics.http_connections_replaced.clone(),
        cut: metrics.http_connections_cut.clone(),
    };
    let gate = Arc::new(gate);
    let answer_request = move |request: hyper::Request<Incoming>| {
        let requests = request.extensions().get().map(|peer: &Peer| peer.requests.clone());
        let running = requests.as_ref().map(ConnectionRequests::begin);
        let request = request.map(|body| {
            let mut body = BodyDeadline::new(body, bounds.body, too_late);
            body.requests = requests;
            Body::new(body)
        });
        // boxed, because HTTP/1 keeps room for the future of a request until its connection ends
        Box::pin(answer(request, running, Arc::clone(&gate)))
    };
    net::serve(listener, policy, answer_request, stopping).await;
}

/// Answers a request. The request counts as running until its answer is ready, so that a stopping
/// server waits for it. All is one future that keeps the request only once, because each connection
/// holds the memory for such a future until it ends.
async fn answer(
    request: Request,
    running: Option<RunningRequest>,
    gate: Arc<Gate>,
) -> Result<Response<SentBody<Body, Option<CallSlot>>>, Infallible> {
    let _call = gate.calls.begin();
    let (answer, place) = match gate.begin(request) {
        Ok((answering, place)) => {
            let Ok(answer) = answering.await;
            // a call that waits has a slot of its own, so that its caller can still ask
            let waits = answer.extensions().get::<LongAnswer>().is_some();
            running.iter().filter(|_| waits).for_each(RunningRequest::mark_waiting);
            (answer, place.filter(|_| !waits))
        }
        Err(refused) => (*refused, None),
    };
    Ok(answer.map(|body| SentBody::new(body, running, place)))
}

fn too_late(within: Duration) -> Box<dyn std::error::Error + Send + Sync> {
    format!("the request did not come whole within {} s", within.as_secs()).into()
}

#[cfg(test)]
mod tests;
