//! What the pages show, as JSON. Each endpoint takes the query of its page; that of packages gives all of them, in no order
//! and without a search.

use axum::{extract::Path, http::Uri, response::Response};
use plimsoll_proto::{
    limits,
    v1::{GetAttemptRequest, GetStatsRequest, GroupBy, ListAttemptsRequest},
};
use serde_json::json;

use super::{
    asking::Asking, attempts::question, flow, json, package, running::SHOWN, trouble::Trouble, view::Query,
    words,
};
use crate::domain::Fault;

/// Attempts of one answer.
const PAGE: u32 = 100;

/// An answer, or why there is none, both as JSON.
fn told(answer: Result<Response, Trouble>) -> Response {
    answer.unwrap_or_else(|trouble| trouble.json())
}

/// `GetStats`, by `group_by` and in steps of `step_ms`; without them a total alone.
pub(super) async fn stats(Asking(parts): Asking, uri: Uri) -> Response {
    let answer = async {
        let query = Query::of(&uri)?;
        let mut asked = GetStatsRequest { filter: Some(filter(&query, &uri)?), ..GetStatsRequest::default() };
        asked.step_ms = query.number("step_ms")?.unwrap_or(0);
        asked.group_label = query.get("group_label").to_owned();
        asked.group_by = group_by(query.get("group_by"))?.into();
        Ok(json::answer("GetStatsResponse", &parts.inside.get_stats(asked).await?))
    };
    told(answer.await)
}

/// `GetStats` by package.
pub(super) async fn packages(Asking(parts): Asking, uri: Uri) -> Response {
    let answer = async {
        let query = Query::of(&uri)?;
        let group_by = GroupBy::Package.into();
        let asked =
            GetStatsRequest { filter: Some(filter(&query, &uri)?), group_by, ..GetStatsRequest::default() };
        Ok(json::answer("GetStatsResponse", &parts.inside.get_stats(asked).await?))
    };
    told(answer.await)
}

/// `Explain` for the newest build of a package.
pub(super) async fn package(Asking(parts): Asking, Path(name): Path<String>, uri: Uri) -> Response {
    let answer = async {
        let (_query, view) = flow::asked(&uri)?;
        let filter = plimsoll_proto::v1::Filter { package: name.clone(), ..view.filter() };
        let asked =
            ListAttemptsRequest { filter: Some(filter), page_size: 1, ..ListAttemptsRequest::default() };
        let newest = parts.inside.list_attempts(asked).await?.attempts;
        Ok(json::answer("ExplainResponse", &package::explained(&parts, &name, &newest).await?))
    };
    told(answer.await)
}

/// `ListAttempts`.
pub(super) async fn attempts(Asking(parts): Asking, uri: Uri) -> Response {
    let answer = async {
        let (query, view) = flow::asked(&uri)?;
        let size = match query.number("page_size")? {
            None => PAGE,
            Some(size) => u32::try_from(size).unwrap_or(u32::MAX),
        };
        let asked =
            ListAttemptsRequest { filter: Some(filter(&query, &uri)?), ..question(&query, &view, size)? };
        Ok(json::answer("ListAttemptsResponse", &parts.inside.list_attempts(asked).await?))
    };
    told(answer.await)
}

/// `GetAttempt` with its series.
pub(super) async fn attempt(Asking(parts): Asking, Path(id): Path<String>, uri: Uri) -> Response {
    let answer = async {
        let max_samples = match Query::of(&uri)?.number("max_samples")? {
            None => limits::SHOWN_SAMPLES_DEFAULT,
            Some(most) => u32::try_from(most).unwrap_or(u32::MAX),
        };
        let asked = GetAttemptRequest { attempt: id, with_series: true, max_samples };
        Ok(json::answer("GetAttemptResponse", &parts.inside.get_attempt(asked).await?))
    };
    told(answer.await)
}

/// What runs now.
pub(super) async fn running(Asking(parts): Asking) -> Response {
    let answer = async {
        let (watched, _count) = parts.inside.running(SHOWN).await?;
        Ok(json::answer("WatchResponse", &watched))
    };
    told(answer.await)
}

/// Settings in force.
pub(super) async fn settings(Asking(parts): Asking) -> Response {
    if let Err(trouble) = super::settings::allowed(&parts.inside) {
        return trouble.json();
    }
    let row = |row: &crate::config::InForce| json!({ "name": row.name, "value": row.value, "place": row.place, "meaning": row.meaning });
    json::sent(&json!({ "settings": parts.shown.iter().map(row).collect::<Vec<_>>() }))
}

/// The filter of a page; `from_unix_ms` and `to_unix_ms` win over its range.
fn filter(query: &Query, uri: &Uri) -> Result<plimsoll_proto::v1::Filter, Fault> {
    let (_, view) = flow::asked(uri)?;
    let mut filter = super::attempts::filter(query, &view)?;
    let (from, to) = (query.number("from_unix_ms")?, query.number("to_unix_ms")?);
    if from.is_some() || to.is_some() {
        (filter.from_unix_ms, filter.to_unix_ms) = (from, to);
    }
    Ok(filter)
}

fn group_by(text: &str) -> Result<GroupBy, Fault> {
    if text.is_empty() || text == "none" {
        return Ok(GroupBy::Unspecified);
    }
    GroupBy::from_str_name(&words::wire_name("GROUP_BY_", text)).ok_or_else(|| {
        Fault::new(
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
}
