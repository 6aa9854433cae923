//! The page of one attempt, running or finished.

use axum::{extract::Path, http::Uri, response::Html};
use plimsoll_pages::attempt::{AttemptPage, POINTS};
use plimsoll_proto::v1::GetAttemptRequest;

use super::{asking::RequestReader, query, trouble::PageResult};

pub(super) async fn show(
    RequestReader(parts): RequestReader,
    Path(id): Path<String>,
    uri: Uri,
) -> PageResult<Html<String>> {
    let (_query, view) = query::asked(&uri)?;
    let max_samples = u32::try_from(POINTS).unwrap_or(u32::MAX);
    let asked = GetAttemptRequest { attempt: id, with_series: true, max_samples };
    let shown = parts.get_attempt(asked).await?;
    Ok(Html(
        AttemptPage { view: &view, shown: &shown, may_correct: parts.may_correct() }.draw().into_string(),
    ))
}
