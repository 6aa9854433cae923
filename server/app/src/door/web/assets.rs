//! Stylesheet, script and logo. They are compiled into the program, so that a page loads nothing
//! from elsewhere.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use plimsoll_pages::assets;

use super::trouble::PageError;

/// One static file. Its address changes with its content, so browsers may cache it forever.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match assets::find(&name) {
        Some((kind, text)) => {
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, text).into_response()
        }
        None => PageError::new(StatusCode::NOT_FOUND, "There is no file of this name.").into_response(),
    }
}
