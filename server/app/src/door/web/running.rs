//! The page of running attempts.

use axum::{http::Uri, response::Html};
use plimsoll_pages::running::{RunningPage, SHOWN_ATTEMPTS};

use super::{asking::RequestReader, query, trouble::PageResult};

pub(super) async fn show(RequestReader(parts): RequestReader, uri: Uri) -> PageResult<Html<String>> {
    let (_query, view) = query::asked(&uri)?;
    let (watched, running) = parts.running(SHOWN_ATTEMPTS).await?;
    let page = RunningPage { view: &view, attempts: &watched.running, running };
    Ok(Html(page.draw().into_string()))
}
