//! `POST /v1/collect`: GitLab's job hook. Answered at once and processed later, because GitLab disables hooks that respond slowly or fail
//! four times in a row. So everything from GitLab is answered with 200; errors are only for other senders, or those without the secret.
//!
//! Only a hook that is not in the store is answered with 503: what was answered with 200 survives this server.
//!
//! | the hook | answer | counted as |
//! |---|---|---|
//! | a job has ended | `{}` | by its result, when it is processed |
//! | a job has ended, and the store does not take the hook | 503 | dropped |
//! | a system hook with another path of a project or a group | `{}`; a line of the log has the command that renames it here | other, renamed |
//! | another event, or a job that has not ended, of up to 32 MiB | `{}` | other, with its event |
//! | a job hook that cannot be parsed, or has more than 1 MiB | the error, with 200 | odd |
//! | a job of a project that the caller may not report on: a group's hook with the token of some of its projects | `{"ignored": ..}`, with 200 | foreign |
//! | without GitLab's header, and not JSON, not a hook, or too large | 400, 413 | refused |
//! | a `Content-Type` other than `application/json`, or none | 415 | refused |
//! | from a page of another origin ([`super::hosts`]) | 403 | |

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE, request::Parts as Head},
    response::Response,
};
use http_body_util::BodyExt as _;
use plimsoll_core::domain::{FieldViolation, ProjectRename};

use super::refusal::{json, refuse};
use crate::{
    access::{guard::Caller, identity::UsageSlot, reports},
    ci::gitlab::{
        DELIVERY_HEADER, EVENT_HEADER, EndedJob, HookEvent, HookFault, HookResult, INSTANCE_HEADER,
        ParsedHook, SECRET_HEADER,
    },
    door::{http_state::HttpState, net::Peer, permissions::COLLECT_PATH},
    runtime::{clock::Clock, metrics::KindLabel},
};

/// Largest body of a job hook. It has some kilobytes, but its commit message may be long.
const BODY_BYTES: usize = 1024 * 1024;
/// Larger bodies are read up to this many bytes and dropped. GitLab's largest hooks have 25 MB:
/// pipelines of thousands of jobs.
const READ_BYTES: usize = 32 * 1024 * 1024;
/// Time limit for the body: GitLab itself gives up after this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How an accepted hook is counted.
enum HookCount {
    /// The hook is counted later: the [`Follower`](crate::ci::gitlab::Follower) counts it
    /// when it processes it.
    Later,
    /// The hook is not in the store, and was counted.
    Dropped,
    /// The hook is ignored, because the caller may not report on the job's project; with the
    /// answer.
    Foreign(String),
    /// The hook reports no ended job; with the name of its event.
    Other(&'static str),
}

pub(super) async fn collect(State(parts): State<HttpState>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let count = |kind| {
        parts.metrics.hooks.get_or_create(&KindLabel::of(kind)).inc();
    };
    match handle_hook(&parts, &head, body).await {
        Ok(counted) => {
            match counted {
                HookCount::Later => {}
                HookCount::Dropped => {
                    let fault = FieldViolation::new("store", "does not take the hook now; send it again");
                    return refuse(head.uri.path(), StatusCode::SERVICE_UNAVAILABLE, &fault);
                }
                HookCount::Foreign(text) => {
                    count("foreign");
                    return json(StatusCode::OK, serde_json::json!({ "ignored": text }).to_string());
                }
                HookCount::Other(event) => {
                    count("other");
                    parts.metrics.hooks_ignored.get_or_create(&KindLabel::of(event)).inc();
                }
            }
            json(StatusCode::OK, "{}".to_owned())
        }
        Err((status, fault)) => {
            count(if status == StatusCode::OK { "odd" } else { "refused" });
            refuse(head.uri.path(), status, &fault)
        }
    }
}

/// Checks and accepts a hook.
async fn handle_hook(
    parts: &HttpState,
    head: &Head,
    body: Body,
) -> Result<HookCount, (StatusCode, FieldViolation)> {
    let headers = &head.headers;
    check_content_type(headers).map_err(|fault| (StatusCode::UNSUPPORTED_MEDIA_TYPE, fault))?;
    let value = headers.get(SECRET_HEADER).map_or(&[][..], |value| value.as_bytes());
    if parts.token.as_ref().is_some_and(|token| !token.matches(value)) {
        let fault = FieldViolation::new(SECRET_HEADER, "is not the token in collect_token_file");
        return Err((StatusCode::UNAUTHORIZED, fault));
    }
    let event = HookEvent::of(headers.get(EVENT_HEADER).map(|value| value.to_str().unwrap_or_default()));
    let body = match (read(body, event).await?, event) {
        (Some(body), _) => body,
        // the body is too large to check its signature; the hook is only counted
        (None, HookEvent::Other(event)) => return Ok(HookCount::Other(event)),
        (None, _) => {
            let fault =
                FieldViolation::new("body", format!("has more than the {BODY_BYTES} bytes of a job hook"));
            return Err((StatusCode::OK, fault));
        }
    };
    if let Some(signing) = &parts.signing {
        let checked = signing.check(headers, &body, Clock.now_unix_ms());
        checked.map_err(|fault| (StatusCode::UNAUTHORIZED, fault))?;
    }
    // the secret or the signature proved that the hook comes from GitLab; if neither is configured,
    // the guard has checked the caller
    if let Some(peer) = head.extensions.get::<Peer>() {
        peer.requests.mark_admitted(|| Some(UsageSlot::default()));
    }
    // a hook from GitLab gets status 200 even if it cannot be parsed
    let odd = |HookFault { fault, is_from_gitlab }| {
        (if is_from_gitlab { StatusCode::OK } else { StatusCode::BAD_REQUEST }, fault)
    };
    match event.read(&body, text(headers, INSTANCE_HEADER)).map_err(odd)? {
        ParsedHook::Renamed(ProjectRename { from, to }) => {
            // not done here: a caller that may report on one project could take the history of others
            tracing::warn!(
                from,
                to,
                "a project has another path; to take its history along, stop the server and run: plimsoll-server projects rename {from} {to}"
            );
            Ok(HookCount::Other("renamed"))
        }
        ParsedHook::Other => Ok(HookCount::Other(event.metric_label(&body))),
        ParsedHook::Ended(ended) => Ok(accept_end(parts, head, ended).await),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Accepts the end of a job, if the caller may report on the project in it.
async fn accept_end(
    parts: &HttpState,
    Head { headers, extensions, .. }: &Head,
    mut ended: Box<EndedJob>,
) -> HookCount {
    let caller = extensions.get::<Caller>().map(|caller| &***caller);
    match reports::reporter(&parts.guard, caller, &ended.job.key.project, COLLECT_PATH) {
        Ok(by) => ended.reported.by = by,
        // answered without an error: after four errors GitLab would disable a group's hook, and
        // with it the reports on projects that the caller may report on
        Err(foreign) => return HookCount::Foreign(foreign.to_string()),
    }
    match parts.hooks.accept(ended, text(headers, DELIVERY_HEADER)).await {
        HookResult::Later | HookResult::Repeated => HookCount::Later,
        HookResult::Dropped => HookCount::Dropped,
    }
}

/// Checks that the content type is GitLab's. A page of another origin can make a browser send other
/// types without a preflight request.
fn check_content_type(headers: &HeaderMap) -> Result<(), FieldViolation> {
    let value = text(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(FieldViolation::new("Content-Type", "must be application/json"))
}

/// Reads the body; `None` if it is larger than a job hook may be.
async fn read(body: Body, event: HookEvent) -> Result<Option<Bytes>, (StatusCode, FieldViolation)> {
    let most = if event.is_from_gitlab() { READ_BYTES } else { BODY_BYTES };
    let read = tokio::time::timeout(BODY_TIMEOUT, read_body(body, most)).await;
    read.unwrap_or_else(|_late| {
        let description = format!("did not come whole within {} s", BODY_TIMEOUT.as_secs());
        Err((StatusCode::REQUEST_TIMEOUT, FieldViolation::new("body", description)))
    })
}

async fn read_body(mut body: Body, most: usize) -> Result<Option<Bytes>, (StatusCode, FieldViolation)> {
    let (mut kept, mut bytes) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            (StatusCode::BAD_REQUEST, FieldViolation::new("body", format!("did not come whole: {error}")))
        })?;
        let Some(data) = frame.data_ref() else { continue };
        bytes = bytes.saturating_add(data.len());
        if bytes > most {
            let fault = FieldViolation::new("body", format!("is too large; at most {most} bytes are read"));
            return Err((StatusCode::PAYLOAD_TOO_LARGE, fault));
        }
        if bytes > BODY_BYTES {
            kept = Vec::new();
        } else {
            kept.extend_from_slice(data);
        }
    }
    Ok((bytes <= BODY_BYTES).then(|| kept.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unfinished_body_times_out() {
        let endless = Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let (status, fault) = read(endless, HookEvent::Job).await.unwrap_err();
        assert_eq!((status, fault.field.as_str()), (StatusCode::REQUEST_TIMEOUT, "body"));
    }
}
