//! `GET /v1/allocation?spec=`: sizes for a job of stock Spack. Returns an earlier answer to the
//! same request if there is one, else asks the sizing service.

use axum::{
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use plimsoll_core::{
    domain::{FieldViolation, Key},
    gantry,
};
use plimsoll_proto::limits;

use super::refusal::{json, refuse};
use crate::{door::http_state::HttpState, sizing::Allocation};

/// Header that names the project of a spec.
const PROJECT_HEADER: &str = "Plimsoll-Project";

/// Header with the stack of a spec, for shadow mode and the ephemeral storage.
const STACK_HEADER: &str = "Plimsoll-Stack";

pub(super) async fn allocation(State(parts): State<HttpState>, request: Request) -> Response {
    let (sizing, path) = (&parts.services.sizing, request.uri().path());
    let (query, headers) = (request.uri().query().unwrap_or_default(), request.headers());
    let text = request_text(query, headers);
    if let Some(body) = text.as_deref().and_then(|text| sizing.repeated_answer(text)) {
        return json(StatusCode::OK, body);
    }
    // read before the key, because its project may be that of the newest attempt
    let changes = sizing.history_version();
    let key = match key_of(&parts, query, headers) {
        Ok(key) => key,
        Err(fault) => {
            sizing.count_allocation("refused");
            return refuse(path, StatusCode::BAD_REQUEST, &fault);
        }
    };
    let stack = key.stack.clone();
    let (prediction, again) = match sizing.allocate(key, &parts.gantry, changes).await {
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

/// Everything that the answer depends on, as one text: query and headers. `None` if a header is not
/// text; such a request is refused later.
fn request_text(query: &str, headers: &HeaderMap) -> Option<String> {
    let mut text = query.to_owned();
    for name in [PROJECT_HEADER, STACK_HEADER] {
        // a separator that no query and no header contains; `=` tells an empty header from a
        // missing one
        text.push('\n');
        if let Some(header_text) = headers.get(name) {
            text.push('=');
            text.push_str(header_text.to_str().ok()?);
        }
    }
    Some(text)
}

fn key_of(parts: &HttpState, query: &str, headers: &HeaderMap) -> Result<Key, FieldViolation> {
    let key = gantry::parse_spec(&gantry::parameter(query, "spec")?)?;
    let project = match header_text(headers, PROJECT_HEADER)? {
        Some(project) => project,
        None => parts.gantry.project.clone().unwrap_or_else(|| parts.services.sizing.usual_project()),
    };
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
    fn requests_have_the_same_text_only_if_they_have_the_same_answer() {
        let text = |query: &str, project: Option<&'static str>, stack: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(PROJECT_HEADER, project), (STACK_HEADER, stack)] {
                value.map(|value| headers.insert(name, value.parse().unwrap()));
            }
            request_text(query, &headers).unwrap()
        };
        let different = [
            text("spec=a", None, None),
            text("spec=b", None, None),
            text("spec=a", Some(""), None),
            text("spec=a", Some("a"), None),
            text("spec=a", None, Some("a")),
            text("spec=a", Some("a"), Some("a")),
            text("spec=a", Some("a="), None),
        ];
        let distinct: std::collections::BTreeSet<_> = different.iter().collect();
        assert_eq!(distinct.len(), different.len(), "{different:?}");
        assert_eq!(text("spec=a", Some("a"), None), text("spec=a", Some("a"), None));
        let mut headers = HeaderMap::new();
        headers.insert(STACK_HEADER, axum::http::HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(request_text("spec=a", &headers), None);
    }
}
