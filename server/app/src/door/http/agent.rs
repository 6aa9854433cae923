//! `GET /agent/linux-amd64`: the agent's binary, for jobs that download it. `GET
//! /agent/sha256sums`: its checksum, so that a job can check what it downloaded. Open to every
//! caller: the program contains no secret, and a job without a token should be measured too.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use http_body::{Frame, SizeHint};
use plimsoll_core::domain::FieldViolation;

use super::refusal::refuse;
use crate::door::{http_state::HttpState, net::response_budget::PIECE_BYTES};

/// The rest of a file; all answers share its bytes. It is sent in small pieces: as a
/// single piece it would count as memory of this answer, and some simultaneous downloads would be
/// refused.
struct SharedFile(Bytes);

impl http_body::Body for SharedFile {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.0.len().min(PIECE_BYTES);
        let piece = self.0.split_to(bytes);
        Poll::Ready(Some(piece).filter(|piece| !piece.is_empty()).map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

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
    let file = SharedFile(Bytes::from_owner(Arc::clone(&file.bytes)));
    (about, Body::new(file)).into_response()
}
