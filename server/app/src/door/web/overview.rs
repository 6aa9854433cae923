//! The overview page: waste, failures, savings, the worst packages, running attempts.

use axum::{http::Uri, response::Html};
use plimsoll_pages::{overview::OverviewPage, view::ReaderChoice};
use plimsoll_proto::v1::{self as pb, GroupBy};

use super::{asking::Reader, query, trouble::PageResult};

pub(super) async fn show(parts: &Reader, uri: &Uri) -> PageResult<Html<String>> {
    let (_query, view) = query::asked(uri)?;
    let (stats, step_ms) = parts.stats_over_time(&view, view.filter(), GroupBy::Package).await?;
    let (_running, running) = parts.running(0).await?;
    let projects = by(parts, &view, &view.project, GroupBy::Project).await?;
    let stacks = by(parts, &view, &view.stack, GroupBy::Stack).await?;
    let page =
        OverviewPage { view: &view, stats: &stats, step_ms, running, projects: &projects, stacks: &stacks };
    Ok(Html(page.draw().into_string()))
}

/// The projects or stacks that the reader can choose on the page; empty if one is chosen already.
async fn by(
    parts: &Reader,
    view: &ReaderChoice,
    chosen: &str,
    group_by: GroupBy,
) -> PageResult<Vec<pb::Group>> {
    if !chosen.is_empty() {
        return Ok(Vec::new());
    }
    let asked = pb::GetStatsRequest {
        filter: Some(view.filter()),
        group_by: group_by.into(),
        ..pb::GetStatsRequest::default()
    };
    Ok(parts.get_stats(asked).await?.groups)
}
