//! What a client sends: within bounds of size, time and depth, without definitions of its own.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
};
use dxr::{Fault, MethodCall};
use plimsoll_core::domain::FieldViolation;
use tokio::time::timeout;

use super::NOT_WELL_FORMED;
use crate::runtime::xml;

/// Largest call, bytes. A usual call has some hundred bytes; a list of 10,000 tags must still be read, so
/// that its ticket can be refused for good.
const BODY_BYTES: usize = 1024 * 1024;
/// Time limit for the body: a program sends it at once.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Reads the text of a call.
/// Errors: it is of another type, too large, too slow or no text; the status for that.
pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<String, (StatusCode, FieldViolation)> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !["text/xml", "application/xml"].iter().any(|xml| kind.eq_ignore_ascii_case(xml)) {
        let fault = FieldViolation::new("Content-Type", "must be text/xml");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, fault));
    }
    let of_body = |status: StatusCode, text: String| (status, FieldViolation::new("body", text));
    let late = |_| {
        let text = format!("did not come whole within {} s", BODY_WITHIN.as_secs());
        of_body(StatusCode::REQUEST_TIMEOUT, text)
    };
    let read = timeout(BODY_WITHIN, to_bytes(body, BODY_BYTES)).await.map_err(late)?;
    let bytes = read.map_err(|_cut_short| {
        let text = format!("was cut short, or is larger than {BODY_BYTES} bytes");
        of_body(StatusCode::PAYLOAD_TOO_LARGE, text)
    })?;
    let text = String::from_utf8(bytes.into());
    text.map_err(|_error| of_body(StatusCode::BAD_REQUEST, "is not UTF-8".to_owned()))
}

/// Parses a call.
/// Errors: it is not well-formed, defines something of its own, is too deep, or is no call.
pub(super) fn parse(sent: &str) -> Result<MethodCall<'static>, Fault> {
    xml::check(sent).map_err(|why| Fault::new(NOT_WELL_FORMED, why))?;
    let MethodCall { name, params } = MethodCall::from_xml(sent)
        .map_err(|_error| Fault::new(NOT_WELL_FORMED, "is no methodCall of XML-RPC".to_owned()))?;
    Ok(MethodCall { name: name.into_owned().into(), params })
}
