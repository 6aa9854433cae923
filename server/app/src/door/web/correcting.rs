//! Handles the form on an attempt's page that corrects its cause. Nothing else is changed by a
//! page.
//!
//! The form requires the role operator. The browser must send the page's origin, and it must be
//! this server's: [`crate::door::http`] refuses other origins, and this module refuses
//! requests without one. Programs call `CorrectVerdict` instead. After a change the browser is
//! redirected to the attempt's page.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use plimsoll_core::domain::FieldViolation;
use plimsoll_pages::view::ReaderChoice;
use plimsoll_proto::{
    WireEnum as _,
    v1::{self as pb, Cause},
};
use tokio::time::timeout;

use super::{
    asking::RequestReader,
    trouble::{PageError, PageResult},
};
use crate::door::{http_state::HttpState, wire};

/// Largest form: it has some hundred bytes, but its reason may have 500, each encoded as three.
const FORM_BYTES: usize = 8 * 1024;
/// Time limit for the form: a browser sends it at once.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);
/// Header in which browsers describe the requesting page.
const SITE_HEADER: &str = "Sec-Fetch-Site";

pub(super) async fn correct(
    State(parts): State<HttpState>,
    RequestReader(reader): RequestReader,
    Path(id): Path<String>,
    request: Request,
) -> PageResult<Response> {
    let (head, body) = request.into_parts();
    if !has_origin_header(&head.headers) {
        let text =
            "This form is for browsers, which name the page that sends it. Programs call CorrectVerdict.";
        return Err(PageError::new(StatusCode::FORBIDDEN, text));
    }
    let asked = wire::verdicts::correction_request(question(&id, &read(body).await?)?)?;
    reader.correct(&parts.services.verdicts, asked).await?;
    let back = ReaderChoice::default().attempt(&id);
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, back)]).into_response())
}

fn has_origin_header(headers: &HeaderMap) -> bool {
    headers.contains_key(SITE_HEADER) || headers.contains_key(header::ORIGIN)
}

async fn read(body: Body) -> PageResult<Vec<u8>> {
    let read = timeout(FORM_TIMEOUT, to_bytes(body, FORM_BYTES)).await;
    let wrong = |text: &str| PageError::new(StatusCode::BAD_REQUEST, text);
    let bytes = read.map_err(|_late| wrong("the form did not come within 10 s; send it again"))?;
    let bytes = bytes.map_err(|_error| wrong("the form was cut short, or is longer than 8 KiB"))?;
    Ok(bytes.to_vec())
}

fn question(id: &str, form: &[u8]) -> Result<pb::CorrectVerdictRequest, FieldViolation> {
    let mut question = pb::CorrectVerdictRequest { attempt: id.to_owned(), ..Default::default() };
    for (name, value) in form_urlencoded::parse(form) {
        match &*name {
            "undo" => question.undo = true,
            "why" => value.trim().clone_into(&mut question.why),
            "cause" => {
                question.cause = Cause::parse(&value).unwrap_or_default().into();
            }
            "signature_for_ms" if !value.is_empty() => {
                let time = value.parse().map_err(|_no_number| {
                    FieldViolation::new("signature_for_ms", "is no whole number of milliseconds")
                })?;
                question.signature_for_ms = Some(time);
            }
            _ => {}
        }
    }
    if question.undo {
        // the button "undo" sends all fields, but the others do not apply to it
        (question.cause, question.signature_for_ms) = (0, None);
    }
    Ok(question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_question_of_the_rpc() {
        let form = b"cause=DISK_FULL&why=%20it+was%20&signature_for_ms=86400000&other=x";
        let expected = pb::CorrectVerdictRequest {
            attempt: "a:7".into(),
            cause: Cause::DiskFull.into(),
            why: "it was".into(),
            signature_for_ms: Some(86_400_000),
            undo: false,
        };
        assert_eq!(question("a:7", form), Ok(expected));
        let undone = question("7", b"cause=INFRA&signature_for_ms=86400000&undo=1").unwrap();
        assert_eq!((undone.cause, undone.signature_for_ms, undone.undo), (0, None, true));
        let unknown = wire::verdicts::correction_request(question("7", b"cause=LUCK&why=x").unwrap());
        assert_eq!(unknown.unwrap_err().field, "cause");
        assert_eq!(question("7", b"signature_for_ms=x").unwrap_err().field, "signature_for_ms");
    }
}
