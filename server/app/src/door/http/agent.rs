//! `GET /agent/linux-amd64`: the agent's binary, for jobs that download it. `GET
//! /agent/sha256sums`: its checksum, so that a job can check what it downloaded. Open to every
//! caller: the program contains no secret, and a job without a token should be measured too.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use plimsoll_core::domain::FieldViolation;

use super::refusal::refuse;
use crate::door::http_state::HttpState;

pub(super) async fn agent(
    State(parts): State<HttpState>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    if name == "sha256sums" {
        return parts.agent_files.sha256sums().into_response();
    }
    let Some(file) = parts.agent_files.get(&name) else {
        let text = format!("{name:?} is not here: see GET /agent/sha256sums, and the setting agent_dir");
        return refuse("/agent", StatusCode::NOT_FOUND, &FieldViolation::new("platform", text));
    };
    let tag = format!("\"{}\"", file.sha256);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let about = [(header::ETAG, tag.as_str()), (header::CONTENT_TYPE, "application/octet-stream")];
    if known {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    // all answers share its bytes
    (about, Bytes::from_owner(Arc::clone(&file.bytes))).into_response()
}
