//! Answers gRPC calls that were sent to an HTTP listener with a helpful status instead of "not
//! found".

use axum::{
    http::{HeaderMap, HeaderValue, Uri, header},
    response::{IntoResponse as _, Response},
};

/// gRPC status `UNIMPLEMENTED` (grpc/doc/statuscodes.md): the client need not repeat the call.
const UNIMPLEMENTED: HeaderValue = HeaderValue::from_static("12");
const GRPC: &str = "application/grpc";

/// Answers a gRPC call to any path with the port of the gRPC listener.
pub(super) fn refusal(headers: &HeaderMap, uri: &Uri, port: Option<u16>) -> Option<Response> {
    if !is_grpc(headers) {
        return None;
    }
    let path: String = uri.path().chars().take(100).collect();
    tracing::info!(path, "a call of gRPC came to the port for HTTP");
    let port = port.map_or_else(String::new, |port| format!(" {port}"));
    let text = format!(
        "this port serves HTTP; plimsoll-server serves gRPC at port{port} (grpc_listen): use that one, or have the proxy use it"
    );
    let message = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("this port serves no gRPC"));
    let headers = [("grpc-status", UNIMPLEMENTED), ("grpc-message", message)];
    Some(([(header::CONTENT_TYPE, HeaderValue::from_static(GRPC))], headers).into_response())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    // `application/grpc+proto` and the like are gRPC; `application/grpc-web` is not
    kind.and_then(|kind| kind.strip_prefix(GRPC)).is_some_and(|rest| !rest.starts_with("-web"))
}
