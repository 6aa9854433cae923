//! The page of failures, by cause and by signature.

use axum::{http::Uri, response::Html};
use plimsoll_pages::failures::FailuresPage;
use plimsoll_proto::v1::{GetStatsRequest, GroupBy};

use super::{asking::RequestReader, query, trouble::PageResult};

pub(super) async fn show(RequestReader(parts): RequestReader, uri: Uri) -> PageResult<Html<String>> {
    let (_query, view) = query::asked(&uri)?;
    let group_by = GroupBy::Cause.into();
    let asked = GetStatsRequest { filter: Some(view.filter()), group_by, ..GetStatsRequest::default() };
    let stats = parts.get_stats(asked).await?;
    Ok(Html(FailuresPage { view: &view, stats: &stats }.draw().into_string()))
}
