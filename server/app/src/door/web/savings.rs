//! The page of proposals: what each job or package should request, and what that saves.

use axum::{http::Uri, response::Html};
use plimsoll_core::domain::FieldViolation;
use plimsoll_pages::{savings::SavingsPage, view::ReaderChoice};
use plimsoll_proto::v1::RecommendRequest;

use super::{
    asking::RequestReader,
    query::{self, Query},
    trouble::PageResult,
};

pub(super) async fn show(RequestReader(parts): RequestReader, uri: Uri) -> PageResult<Html<String>> {
    let (query, view) = query::asked(&uri)?;
    let answer = parts.recommend(question(&query, &view)?).await?;
    Ok(Html(SavingsPage { view: &view, answer: &answer }.draw().into_string()))
}

/// The request `Recommend` for the query of an address. `from_unix_ms` and `to_unix_ms` replace its
/// time range.
pub(super) fn question(query: &Query, view: &ReaderChoice) -> Result<RecommendRequest, FieldViolation> {
    let (from, to) = (query.number("from_unix_ms")?, query.number("to_unix_ms")?);
    let page_size = query.number("page_size")?.unwrap_or(0);
    Ok(RecommendRequest {
        project: view.project.clone(),
        stack: view.stack.clone(),
        package: query.get("package").to_owned(),
        // without a start time the rpc would cover only the last month
        from_unix_ms: from.or_else(|| view.since_unix_ms()).or(Some(0)),
        to_unix_ms: to,
        page_size: u32::try_from(page_size).unwrap_or(u32::MAX),
        ..RecommendRequest::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_begins_with_the_first_attempt() {
        let asked = |address: &str| {
            let uri: Uri = address.parse().unwrap();
            let (query, view) = query::asked(&uri).unwrap();
            question(&query, &view).unwrap()
        };
        assert_eq!(asked("/savings?range=all").from_unix_ms, Some(0));
        assert!(asked("/savings").from_unix_ms > Some(0));
        let exact = asked("/savings?from_unix_ms=5&to_unix_ms=9&package=zlib&page_size=7");
        assert_eq!((exact.from_unix_ms, exact.to_unix_ms, exact.page_size), (Some(5), Some(9), 7));
        assert_eq!(exact.package, "zlib");
    }
}
