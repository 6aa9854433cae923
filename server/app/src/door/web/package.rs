//! The page of one package: need against request over time, other numbers of build jobs, versions,
//! and reasons of the next size.

use axum::{
    extract::Path,
    http::{StatusCode, Uri},
    response::Html,
};
use plimsoll_pages::{
    package::{DRAWN_ATTEMPTS, PackagePage},
    view::ReaderChoice,
};
use plimsoll_proto::v1::{
    self as pb, ExplainResponse, Filter, GroupBy, ListAttemptsRequest, PredictRequest, RecommendRequest,
    Recommendation, Summary,
};

use super::{
    asking::{Reader, RequestReader},
    query::{self, Query},
    savings,
    trouble::PageResult,
};

pub(super) async fn show(
    RequestReader(parts): RequestReader,
    Path(name): Path<String>,
    uri: Uri,
) -> PageResult<Html<String>> {
    let (query, view) = query::asked(&uri)?;
    let filter = Filter { package: name.clone(), ..view.filter() };
    let (stats, step_ms) = parts.stats_over_time(&view, filter.clone(), GroupBy::Unspecified).await?;
    let versions = parts.stats_over_time(&view, filter.clone(), GroupBy::Version).await;
    let newest = newest_attempts(&parts, filter).await?;
    let explained = match explained(&parts, &name, &newest) {
        // the role reader may see past attempts, but not predictions
        Err(error) if error.status == StatusCode::FORBIDDEN => None,
        answer => Some(answer?),
    };
    let proposal = proposal(&parts, (&query, &view), &name, newest.first()).await;
    let page = PackagePage {
        name: &name,
        view: &view,
        stats: &stats,
        step_ms,
        versions: versions.as_ref().ok().map(|(versions, _)| versions),
        newest: &newest,
        explained: explained.as_ref(),
        proposal: proposal.as_ref(),
    };
    Ok(Html(page.draw().into_string()))
}

async fn newest_attempts(parts: &Reader, filter: Filter) -> PageResult<Vec<Summary>> {
    let asked = ListAttemptsRequest {
        filter: Some(filter),
        page_size: DRAWN_ATTEMPTS,
        ..ListAttemptsRequest::default()
    };
    Ok(parts.list_attempts(asked).await?.attempts)
}

/// Explains the prediction for the key of the newest attempt; without an attempt, for the name of
/// the package alone.
pub(super) fn explained(parts: &Reader, name: &str, newest: &[Summary]) -> PageResult<ExplainResponse> {
    let key = newest.first().and_then(|summary| summary.key.clone());
    let key = key.unwrap_or_else(|| pb::Key { package: name.to_owned(), ..pb::Key::default() });
    parts.explain(PredictRequest { key: Some(key), memory_limit_bytes: None })
}

/// The proposal for the package from the savings page, in the project of its newest attempt. `None`
/// if there is none; the page then omits it.
async fn proposal(
    parts: &Reader,
    (query, view): (&Query, &ReaderChoice),
    name: &str,
    newest: Option<&Summary>,
) -> Option<Recommendation> {
    let asked = savings::question(query, view).ok()?;
    let answer = parts.recommend(RecommendRequest { package: name.to_owned(), ..asked }).await.ok()?;
    let project = newest?.key.as_ref().map_or("", |key| key.project.as_str());
    answer.recommendations.into_iter().find(|row| row.project == project)
}
