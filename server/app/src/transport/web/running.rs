//! The page of running attempts.

use axum::{http::Uri, response::Html};
use plimsoll_pages::running::{RunningPage, SHOWN};

use super::{asking::Asking, query, trouble::Trouble};

pub(super) async fn show(Asking(parts): Asking, uri: Uri) -> Result<Html<String>, Trouble> {
    let (_query, view) = query::asked(&uri)?;
    let (watched, running) = parts.running(SHOWN).await?;
    let page = RunningPage { view: &view, attempts: &watched.running, running };
    Ok(Html(page.draw().into_string()))
}
