//! Serves HTTP requests on bounded connections, with answers that are sent as fast as the client
//! reads them. [`serve`](crate::door::net::serve) describes what happens to a client that
//! exceeds a bound.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, http::Response};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use super::{gate::Gate, guarded::CallSlot};
use crate::{
    door::net::{
        accept::{ConnectionCounts, ConnectionRequests, Listener, RunningRequest},
        body_timeout::BodyTimeout,
        response_budget::{ResponseBudget, Throttled},
        serve::{self, Bounds, LongAnswer, Peer, Policy, Protocol},
    },
    runtime::metrics::Metrics,
};

/// Concurrent requests on one HTTP/2 connection. Browsers and API servers use fewer, or open
/// another connection. Each may hold a piece of its answer that the client does not read.
const MAX_CONCURRENT_STREAMS: u32 = 32;

/// The bounds for this number of connections, and the time limits of each.
pub(crate) fn bounds(connections: usize) -> Bounds {
    let (head, body) = (Duration::from_secs(30), Duration::from_secs(30));
    Bounds { connections, head, body, idle: Duration::from_mins(2) }
}

/// Serves until `stopping`, then lets running requests finish.
pub(super) async fn serve(
    listener: Listener,
    (gate, response_budget): (Gate, ResponseBudget),
    bounds: Bounds,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
) {
    let counts = ConnectionCounts {
        open: metrics.http_connections.clone(),
        replaced: metrics.http_connections_replaced.clone(),
    };
    let cut = metrics.http_connections_cut.clone();
    let policy = Policy { bounds, protocol: Protocol::Http, streams: MAX_CONCURRENT_STREAMS, counts, cut };
    let gate = Arc::new(gate);
    let answer_request = move |request: hyper::Request<Incoming>| {
        let requests = request.extensions().get().map(|peer: &Peer| peer.requests.clone());
        let running = requests.as_ref().map(ConnectionRequests::begin);
        let request =
            request.map(|body| Body::new(BodyTimeout::new(body, bounds.body, too_late).watched_by(requests)));
        answer(request, running, (Arc::clone(&gate), response_budget.clone()))
    };
    serve::serve(listener, policy, answer_request, stopping).await;
}

/// Answers a request. The request counts as running until its answer is ready, so that a stopping
/// server waits for it. All is one future that keeps the request only once, because each connection
/// holds the memory for such a future until it ends.
async fn answer(
    request: Request,
    running: Option<RunningRequest>,
    (gate, response_budget): (Arc<Gate>, ResponseBudget),
) -> Result<Response<Throttled<Body, Option<CallSlot>>>, Infallible> {
    let _call = gate.calls.begin();
    let (answer, place) = match gate.begin(request) {
        Ok((answering, place)) => {
            let Ok(answer) = answering.await;
            // a call that waits has a slot of its own, so that its caller can still ask
            let waits = answer.extensions().get::<LongAnswer>().is_some();
            (answer, place.filter(|_| !waits))
        }
        Err(refused) => (*refused, None),
    };
    Ok(answer.map(|body| Throttled::new(body, (running, place), response_budget)))
}

fn too_late(within: Duration) -> Box<dyn std::error::Error + Send + Sync> {
    format!("the request did not come whole within {} s", within.as_secs()).into()
}

#[cfg(test)]
mod tests;
