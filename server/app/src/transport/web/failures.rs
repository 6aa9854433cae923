//! The page of failures, by cause and by signature.

use axum::{http::Uri, response::Html};
use plimsoll_pages::failures::FailuresPage;
use plimsoll_proto::v1::{GetStatsRequest, GroupBy};

use super::{asking::Asking, query, trouble::Trouble};

pub(super) async fn show(Asking(parts): Asking, uri: Uri) -> Result<Html<String>, Trouble> {
    let (_query, view) = query::asked(&uri)?;
    let group_by = GroupBy::Cause.into();
    let asked = GetStatsRequest { filter: Some(view.filter()), group_by, ..GetStatsRequest::default() };
    let stats = parts.get_stats(asked).await?;
    Ok(Html(FailuresPage { view: &view, stats: &stats }.draw().into_string()))
}
