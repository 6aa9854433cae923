//! The pages' data as JSON. Each endpoint accepts the query of its page. The list of packages is
//! always complete, unsorted and unfiltered.

use axum::{
    extract::Path,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use plimsoll_core::domain::FieldViolation;
use plimsoll_pages::running::SHOWN_ATTEMPTS;
use plimsoll_proto::{
    WireEnum as _, limits, shown,
    v1::{GetAttemptRequest, GetStatsRequest, GroupBy, ListAttemptsRequest},
};
use serde::Serialize;
use serde_json::json;

use super::{
    asking::RequestReader,
    attempts::question,
    package,
    query::{self, Query},
    savings,
    trouble::PageError,
};

/// Most attempts in one answer.
const MAX_ATTEMPTS: u32 = 100;

/// An answer or an error, both as JSON.
type JsonResult = Result<Response, JsonError>;

/// An error that is answered as JSON, not as a page.
pub(super) struct JsonError(PageError);

impl<E: Into<PageError>> From<E> for JsonError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for JsonError {
    fn into_response(self) -> Response {
        self.0.json()
    }
}

/// A message or other JSON as an answer; fields are sorted by name.
fn json_answer(message: &impl Serialize) -> JsonResult {
    let json = serde_json::to_value(message)
        .map_err(|error| PageError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let text = shown::escaped_json(&format!("{json:#}\n")).into_owned();
    Ok(([(header::CONTENT_TYPE, "application/json; charset=utf-8")], text).into_response())
}

/// `GET /api/stats`: `GetStats`, by `group_by` and in steps of `step_ms`; without them only the
/// total.
pub(super) async fn stats(RequestReader(parts): RequestReader, uri: Uri) -> JsonResult {
    let query = Query::of(&uri)?;
    let mut asked = GetStatsRequest { filter: Some(filter(&query, &uri)?), ..GetStatsRequest::default() };
    asked.step_ms = query.number("step_ms")?.unwrap_or(0);
    asked.group_label = query.get("group_label").to_owned();
    asked.group_by = group_by(query.get("group_by"))?.into();
    json_answer(&parts.get_stats(asked).await?)
}

/// `GET /api/packages`: `GetStats` by package.
pub(super) async fn packages(RequestReader(parts): RequestReader, uri: Uri) -> JsonResult {
    let query = Query::of(&uri)?;
    let group_by = GroupBy::Package.into();
    let asked =
        GetStatsRequest { filter: Some(filter(&query, &uri)?), group_by, ..GetStatsRequest::default() };
    json_answer(&parts.get_stats(asked).await?)
}

/// `GET /api/packages/NAME`: `Explain` for the newest build of a package.
pub(super) async fn package(
    RequestReader(parts): RequestReader,
    Path(name): Path<String>,
    uri: Uri,
) -> JsonResult {
    let (_query, view) = query::asked(&uri)?;
    let filter = plimsoll_proto::v1::Filter { package: name.clone(), ..view.filter() };
    let asked = ListAttemptsRequest { filter: Some(filter), page_size: 1, ..ListAttemptsRequest::default() };
    let newest = parts.list_attempts(asked).await?.attempts;
    json_answer(&package::explained(&parts, &name, &newest)?)
}

/// `GET /api/recommendations`: `Recommend`.
pub(super) async fn recommendations(RequestReader(parts): RequestReader, uri: Uri) -> JsonResult {
    let (query, view) = query::asked(&uri)?;
    json_answer(&parts.recommend(savings::question(&query, &view)?).await?)
}

/// `GET /api/attempts`: `ListAttempts`.
pub(super) async fn attempts(RequestReader(parts): RequestReader, uri: Uri) -> JsonResult {
    let (query, view) = query::asked(&uri)?;
    let size = match query.number("page_size")? {
        None => MAX_ATTEMPTS,
        Some(size) => u32::try_from(size).unwrap_or(u32::MAX),
    };
    let asked = ListAttemptsRequest { filter: Some(filter(&query, &uri)?), ..question(&query, &view, size)? };
    json_answer(&parts.list_attempts(asked).await?)
}

/// `GET /api/attempts/ID`: `GetAttempt` with its series.
pub(super) async fn attempt(
    RequestReader(parts): RequestReader,
    Path(id): Path<String>,
    uri: Uri,
) -> JsonResult {
    let max_samples = match Query::of(&uri)?.number("max_samples")? {
        None => limits::SHOWN_SAMPLES_DEFAULT,
        Some(most) => u32::try_from(most).unwrap_or(u32::MAX),
    };
    let asked = GetAttemptRequest { attempt: id, with_series: true, max_samples };
    json_answer(&parts.get_attempt(asked).await?)
}

/// `GET /api/running`: the running attempts.
pub(super) async fn running(RequestReader(parts): RequestReader) -> JsonResult {
    let (watched, _count) = parts.running(SHOWN_ATTEMPTS).await?;
    json_answer(&watched)
}

/// `GET /api/settings`: the settings in force.
pub(super) async fn settings(RequestReader(parts): RequestReader) -> JsonResult {
    super::settings::allowed(&parts)?;
    json_answer(&json!({ "settings": *parts.settings_in_force }))
}

/// The filter of a page. `from_unix_ms` and `to_unix_ms` replace its time range.
fn filter(query: &Query, uri: &Uri) -> Result<plimsoll_proto::v1::Filter, FieldViolation> {
    let (_, view) = query::asked(uri)?;
    let mut filter = super::attempts::filter(query, &view)?;
    let (from, to) = (query.number("from_unix_ms")?, query.number("to_unix_ms")?);
    if from.is_some() || to.is_some() {
        (filter.from_unix_ms, filter.to_unix_ms) = (from, to);
    }
    Ok(filter)
}

fn group_by(text: &str) -> Result<GroupBy, FieldViolation> {
    if text.is_empty() || text == "none" {
        return Ok(GroupBy::Unspecified);
    }
    GroupBy::parse(text).ok_or_else(|| {
        FieldViolation::new(
            "group_by",
            format!(
                "is {text:?}; it may be none, package, stack, project, cause, version, \
            compiler, arch, pool, ref_class, owner, label or outcome"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::{
        fixtures::{Fill, assert_pinned, message},
        v1::{
            ExplainResponse, GetAttemptResponse, GetStatsResponse, ListAttemptsResponse, RecommendResponse,
            WatchResponse,
        },
    };

    use super::*;

    #[test]
    fn groups_have_the_names_of_the_wire() {
        assert_eq!(group_by("ref_class").unwrap(), GroupBy::RefClass);
        assert_eq!(group_by("<b>").unwrap_err().field, "group_by");
    }

    #[test]
    fn exact_times_win_over_the_range() {
        let uri: Uri = "/api/stats?range=7d&from_unix_ms=99999999999999".parse().unwrap();
        let filter = filter(&Query::of(&uri).unwrap(), &uri).unwrap();
        assert_eq!((filter.from_unix_ms, filter.to_unix_ms), (Some(99_999_999_999_999), None));
    }

    /// Messages with every field set, with zeros and words of a newer version, and with nothing. A field that is added to the wire adds
    /// lines; no line that is there may change.
    #[tokio::test]
    async fn programs_read_the_same_bytes_as_ever() {
        let mut answers = Vec::new();
        for fill in [Fill::Rich, Fill::Zero, Fill::Empty] {
            let of_fill = [
                ("GetStatsResponse", json_answer(&message::<GetStatsResponse>("GetStatsResponse", fill))),
                ("ExplainResponse", json_answer(&message::<ExplainResponse>("ExplainResponse", fill))),
                (
                    "ListAttemptsResponse",
                    json_answer(&message::<ListAttemptsResponse>("ListAttemptsResponse", fill)),
                ),
                (
                    "GetAttemptResponse",
                    json_answer(&message::<GetAttemptResponse>("GetAttemptResponse", fill)),
                ),
                ("WatchResponse", json_answer(&message::<WatchResponse>("WatchResponse", fill))),
                ("RecommendResponse", json_answer(&message::<RecommendResponse>("RecommendResponse", fill))),
            ];
            answers.extend(of_fill.map(|(name, answer)| (format!("## {name} {fill:?}\n"), answer)));
        }
        let mut all = String::new();
        for (head, answer) in answers {
            let body = axum::body::to_bytes(answer.into_response().into_body(), 1 << 20).await.unwrap();
            all.extend([head.as_str(), std::str::from_utf8(&body).unwrap()]);
        }
        assert_pinned(&all, include_str!("golden/api.txt"), "server_api");
    }
}
