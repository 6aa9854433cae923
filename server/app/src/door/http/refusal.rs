//! Refuses a request: a status, a body that names the field, one line in the log.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use plimsoll_core::domain::FieldViolation;

/// Most bytes of a path in the log.
const MAX_LOGGED_PATH_BYTES: usize = 100;

/// Refuses a request, and logs that.
pub(super) fn refuse(path: &str, status: StatusCode, fault: &FieldViolation) -> Response {
    let path: String = path.chars().take(MAX_LOGGED_PATH_BYTES).collect();
    tracing::info!(path, status = status.as_u16(), %fault, "refused a request");
    json(status, serde_json::json!({ "error": fault.to_string() }).to_string())
}

/// An answer with a complete JSON body.
pub(super) fn json(status: StatusCode, body: impl IntoResponse) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()
}
