//! `GET /v1/allocation?spec=`: convert, call, convert.

use axum::{
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
use crate::{service::sizing::Allocation, transport::state::HttpState};

/// Header that names the project of a spec.
const PROJECT: &str = "Plimsoll-Project";

/// Header with the stack of a spec, for shadow mode and the ephemeral storage.
const STACK: &str = "Plimsoll-Stack";

pub(super) async fn allocation(State(parts): State<HttpState>, request: Request) -> Response {
    let (sizing, path) = (&parts.services.sizing, request.uri().path());
    let key = match key_of(&parts, request.uri().query().unwrap_or_default(), request.headers()) {
        Ok(key) => key,
        Err(fault) => {
            sizing.count_allocation("refused");
            return refuse(path, StatusCode::BAD_REQUEST, &fault);
        }
    };
    let stack = key.stack.clone();
    let prediction = match sizing.allocate(key, &parts.gantry).await {
        Allocation::Withheld => return json(StatusCode::OK, gantry::NOTHING.to_owned()),
        Allocation::Sizes(prediction) => prediction,
    };
    match serde_json::to_string(&gantry::answer(&prediction, &stack, &parts.gantry)) {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => {
            let fault = FieldViolation::new("answer", error.to_string());
            refuse(path, StatusCode::INTERNAL_SERVER_ERROR, &fault)
        }
    }
}

fn key_of(parts: &HttpState, query: &str, headers: &HeaderMap) -> Result<Key, FieldViolation> {
    let key = gantry::parse_spec(&gantry::parameter(query, "spec")?)?;
    let project = match header_text(headers, PROJECT)? {
        Some(project) => project,
        None => parts.gantry.project.clone().unwrap_or_else(|| parts.services.sizing.usual_project()),
    };
    Ok(Key { project, stack: header_text(headers, STACK)?.unwrap_or_default(), ..key })
}

/// A field of the key from a header.
fn header_text(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, FieldViolation> {
    let Some(header_text) = headers.get(name) else { return Ok(None) };
    let header_text =
        header_text.to_str().ok().filter(|header_text| header_text.len() <= limits::KEY_FIELD_BYTES);
    let rule = format!("must be at most {} printable characters", limits::KEY_FIELD_BYTES);
    header_text.ok_or_else(|| FieldViolation::new(name, rule)).map(|header_text| Some(header_text.to_owned()))
}
