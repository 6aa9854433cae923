//! `GET /v1/allocation?spec=`: sizes for a job of stock Spack. Returns an earlier answer to the
//! same request if there is one, else asks the sizing service.

use axum::{
    Extension,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode},
    response::Response,
};
use plimsoll_core::{
    domain::{FieldViolation, Key},
    gantry,
};
use plimsoll_proto::limits;

use super::refusal::{json, refuse};
use crate::{access::guard::Caller, door::http_state::HttpState, sizing::Allocation};

/// Header that names the project of a spec.
const PROJECT_HEADER: &str = "Plimsoll-Project";

/// Header with the stack of a spec, for shadow mode and the ephemeral storage.
const STACK_HEADER: &str = "Plimsoll-Stack";

pub(super) async fn allocation(
    State(parts): State<HttpState>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let (sizing, path) = (&parts.services.sizing, request.uri().path());
    let (query, headers) = (request.uri().query().unwrap_or_default(), request.headers());
    let project = match project_of(&parts, headers, &caller) {
        Ok(project) => project,
        Err((status, fault)) => {
            sizing.count_allocation("refused");
            return refuse(path, status, &fault);
        }
    };
    let usual = || parts.gantry.project.clone().unwrap_or_else(|| sizing.usual_project());
    let project = project.unwrap_or_else(usual);
    let text = request_text(query, headers, &project);
    if let Some(body) = text.as_deref().and_then(|text| sizing.repeated_answer(text)) {
        return json(StatusCode::OK, body);
    }
    let key = match key_of(query, headers, project) {
        Ok(key) => key,
        Err(fault) => {
            sizing.count_allocation("refused");
            return refuse(path, StatusCode::BAD_REQUEST, &fault);
        }
    };
    let stack = key.stack.clone();
    let (prediction, again) = match sizing.allocate(key, &parts.gantry).await {
        Allocation::Withheld => return json(StatusCode::OK, gantry::EMPTY_ANSWER),
        Allocation::Sizes(prediction, again) => (prediction, again),
    };
    match serde_json::to_vec(&gantry::allocation_answer(&prediction, &stack, &parts.gantry)) {
        Ok(body) => {
            let body = Bytes::from(body);
            if let Some((text, again)) = text.zip(again) {
                sizing.keep_answer(&text, body.clone(), again);
            }
            json(StatusCode::OK, body)
        }
        Err(error) => {
            let fault = FieldViolation::new("answer", error.to_string());
            refuse(path, StatusCode::INTERNAL_SERVER_ERROR, &fault)
        }
    }
}

/// Everything that the answer depends on, as one text: query, project and stack. `None` if a header is not
/// text; such a request is refused later.
fn request_text(query: &str, headers: &HeaderMap, project: &str) -> Option<String> {
    let mut text = query.to_owned();
    for value in [Ok(Some(project)), headers.get(STACK_HEADER).map(HeaderValue::to_str).transpose()] {
        // a separator that no query and no header contains; `=` tells an empty text from a
        // missing one
        text.push('\n');
        if let Some(value) = value.ok()? {
            text.push('=');
            text.push_str(value);
        }
    }
    Some(text)
}

/// The project that the request names: with its header, or as that of a caller who has one alone. `None`: the usual one.
/// Errors: the header cannot be read, or the caller may not see the project.
fn project_of(
    parts: &HttpState,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<Option<String>, (StatusCode, FieldViolation)> {
    let named = header_text(headers, PROJECT_HEADER).map_err(|fault| (StatusCode::BAD_REQUEST, fault))?;
    if caller.projects.is_all() {
        return Ok(named);
    }
    let mut project = named.unwrap_or_default();
    if project.is_empty() && caller.only_project().is_empty() {
        // the usual project may be one that the caller must not learn of
        project = parts.gantry.project.clone().filter(|usual| caller.sees(usual)).unwrap_or_default();
    }
    caller.filters(&mut project).map_err(|fault| (StatusCode::FORBIDDEN, fault))?;
    Ok(Some(project))
}

fn key_of(query: &str, headers: &HeaderMap, project: String) -> Result<Key, FieldViolation> {
    let key = gantry::parse_spec(&gantry::parameter(query, "spec")?)?;
    Ok(Key { project, stack: header_text(headers, STACK_HEADER)?.unwrap_or_default(), ..key })
}

/// The value of a header, as a field of the key.
fn header_text(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, FieldViolation> {
    let Some(header_text) = headers.get(name) else { return Ok(None) };
    let header_text =
        header_text.to_str().ok().filter(|header_text| header_text.len() <= limits::KEY_FIELD_BYTES);
    let rule = format!("must be at most {} printable characters", limits::KEY_FIELD_BYTES);
    header_text.ok_or_else(|| FieldViolation::new(name, rule)).map(|header_text| Some(header_text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_texts_match_only_for_equal_answers() {
        let text = |query: &str, project: &'static str, stack: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            stack.map(|value| headers.insert(STACK_HEADER, value.parse().unwrap()));
            request_text(query, &headers, project).unwrap()
        };
        let different = [
            text("spec=a", "", None),
            text("spec=b", "", None),
            text("spec=a", "a", None),
            text("spec=a", "", Some("a")),
            text("spec=a", "a", Some("a")),
            text("spec=a", "a=", None),
        ];
        let distinct: std::collections::BTreeSet<_> = different.iter().collect();
        assert_eq!(distinct.len(), different.len(), "{different:?}");
        assert_eq!(text("spec=a", "a", None), text("spec=a", "a", None));
        let mut headers = HeaderMap::new();
        headers.insert(STACK_HEADER, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(request_text("spec=a", &headers, ""), None);
    }
}
