//! `POST /v1/collect`: GitLab's job hook. Answered at once, worked on later: a hook that waits is a hook that GitLab turns off.
//! So is one that fails four times in a row. What comes from GitLab is therefore answered with 200 whatever it is; an error is only
//! for those who are not GitLab, or have not its secret.
//!
//! | the hook | answer | counted |
//! |---|---|---|
//! | a job has ended | `{}` | when it is worked on |
//! | another event, or a job that goes on, of up to 32 MiB | `{}` | other, and by its event |
//! | a job hook that is not understood, or has more than 1 MiB | what is wrong, with 200 | odd |
//! | without GitLab's header, and no JSON, no hook or too large | 400, 413 | refused |

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE, request::Parts as Head},
    response::Response,
};
use http_body_util::BodyExt as _;

use super::{
    Parts,
    event::HookEvent,
    guarded::let_in,
    refusal::{json, refuse},
};
use crate::{
    clock::Clock,
    domain::Fault,
    gantry::{self, Ended, Hook},
    gitlab::Taken,
    identity::Identity,
    metrics::Kind,
};

/// A job hook has some kilobytes; its commit message may be long.
const BODY_BYTES: usize = 1024 * 1024;
/// Of larger ones so much is read and thrown away. GitLab's largest have 25 MB: pipelines of thousands of jobs.
const READ_BYTES: usize = 32 * 1024 * 1024;
/// The header in which GitLab sends a hook's secret.
pub(super) const SECRET: &str = "X-Gitlab-Token";
/// GitLab gives up after as long.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// What became of a hook that was taken.
enum Counted {
    /// Counted when it is worked on.
    Later,
    Now(&'static str),
    /// It tells of no ended job; its event.
    Other(&'static str),
}

pub(super) async fn collect(State(parts): State<Parts>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let count = |kind| {
        parts.metrics.hooks.get_or_create(&Kind::of(kind)).inc();
    };
    match take(&parts, &head, body).await {
        Ok(counted) => {
            match counted {
                Counted::Later => {}
                Counted::Now(kind) => count(kind),
                Counted::Other(event) => {
                    count("other");
                    parts.metrics.hooks_ignored.get_or_create(&Kind::of(event)).inc();
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

/// What became of a hook.
async fn take(parts: &Parts, head: &Head, body: Body) -> Result<Counted, (StatusCode, Fault)> {
    let headers = &head.headers;
    is_json(headers).map_err(|fault| (StatusCode::UNSUPPORTED_MEDIA_TYPE, fault))?;
    let said = headers.get(SECRET).map_or(&[][..], |said| said.as_bytes());
    if parts.token.as_ref().is_some_and(|token| !token.is(said)) {
        let fault = Fault::new(SECRET, "is not the token in collect_token_file");
        return Err((StatusCode::UNAUTHORIZED, fault));
    }
    let event = HookEvent::of(headers);
    let body = match (read(body, event).await?, event) {
        (Some(body), _) => body,
        // too large to look whether it is signed: that it came is all that is made of it
        (None, HookEvent::Other(event)) => return Ok(Counted::Other(event)),
        (None, _) => {
            let fault = Fault::new("body", format!("has more than the {BODY_BYTES} bytes of a job hook"));
            return Err((StatusCode::OK, fault));
        }
    };
    if let Some(signing) = &parts.signing {
        let checked = signing.check(headers, &body, Clock.now_unix_ms());
        checked.map_err(|fault| (StatusCode::UNAUTHORIZED, fault))?;
    }
    // either secret proves that it comes from GitLab; without one the guard has looked
    let_in(&head.extensions);
    match understood(event, headers, &body)? {
        Hook::Other => Ok(Counted::Other(event.counted_as(&body))),
        Hook::Ended(ended) => take_end(parts, head, ended).await,
    }
}

/// What the body says. What GitLab sends and is not understood is its own fault only if nothing says that it comes from there.
fn understood(event: HookEvent, headers: &HeaderMap, body: &[u8]) -> Result<Hook, (StatusCode, Fault)> {
    if matches!(event, HookEvent::Other(_)) {
        return Ok(Hook::Other);
    }
    let instance = headers.get("X-Gitlab-Instance").and_then(|instance| instance.to_str().ok());
    gantry::read_hook(body, instance).or_else(|fault| match (event, fault.field.as_str()) {
        (HookEvent::System, "object_kind") => Ok(Hook::Other),
        (HookEvent::NotGitLab, "body" | "object_kind") => Err((StatusCode::BAD_REQUEST, fault)),
        _ => Err((StatusCode::OK, fault)),
    })
}

/// Takes the end of a job, if the caller may tell of it.
async fn take_end(
    parts: &Parts,
    Head { headers, extensions, .. }: &Head,
    ended: Box<Ended>,
) -> Result<Counted, (StatusCode, Fault)> {
    if !may_tell(parts, extensions.get::<Arc<Identity>>(), &ended).await? {
        tracing::warn!(job = ended.job.id, "dropped a job hook: its attempt cannot be looked up");
        return Ok(Counted::Now("dropped"));
    }
    let delivery = headers.get("Idempotency-Key").and_then(|key| key.to_str().ok());
    Ok(match parts.hooks.take(ended, delivery).await {
        Taken::Later => Counted::Later,
        Taken::Repeated => Counted::Now("repeated"),
        Taken::Dropped => {
            tracing::warn!("dropped a job hook: too many requests wait for the writer");
            Counted::Now("dropped")
        }
    })
}

/// Whether the body says to be what GitLab sends. A page that somebody is made to open can have his browser post other types only.
fn is_json(headers: &HeaderMap) -> Result<(), Fault> {
    let Some(said) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let kind = said.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Fault::new("Content-Type", "must be application/json"))
}

/// Whether the caller may tell of this job: of one of his projects, by its own word and by what was measured of it. The answer is the
/// same for both: it does not say whose job it is. False if nothing can be looked up now.
async fn may_tell(
    parts: &Parts,
    caller: Option<&Arc<Identity>>,
    ended: &Ended,
) -> Result<bool, (StatusCode, Fault)> {
    let Some(caller) = caller.filter(|caller| !caller.projects.is_all()) else { return Ok(true) };
    let forbidden = || {
        parts.guard.told_of_others(caller, "/v1/collect");
        let text = format!("is no job of a project that {} may tell of", caller.name);
        (StatusCode::FORBIDDEN, Fault::new("build_id", text))
    };
    if !caller.sees(&ended.job.key.project) {
        return Err(forbidden());
    }
    for attempt in &ended.told.attempts {
        let Ok(found) = parts.ingest.find(attempt).await else { return Ok(false) };
        if found.is_some_and(|(summary, _running)| !caller.sees(&summary.key.project)) {
            return Err(forbidden());
        }
    }
    Ok(true)
}

/// The body; `None` if it has more than a job hook may have.
async fn read(body: Body, event: HookEvent) -> Result<Option<Bytes>, (StatusCode, Fault)> {
    let most = if event.is_gitlabs() { READ_BYTES } else { BODY_BYTES };
    let read = tokio::time::timeout(BODY_WITHIN, read_to_its_end(body, most)).await;
    read.unwrap_or_else(|_late| {
        let description = format!("did not come whole within {} s", BODY_WITHIN.as_secs());
        Err((StatusCode::REQUEST_TIMEOUT, Fault::new("body", description)))
    })
}

async fn read_to_its_end(mut body: Body, most: usize) -> Result<Option<Bytes>, (StatusCode, Fault)> {
    let (mut kept, mut bytes) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            (StatusCode::BAD_REQUEST, Fault::new("body", format!("did not come whole: {error}")))
        })?;
        let Some(data) = frame.data_ref() else { continue };
        bytes = bytes.saturating_add(data.len());
        if bytes > most {
            let fault = Fault::new("body", format!("is too large; at most {most} bytes are read"));
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
    async fn a_body_that_does_not_come_to_its_end_is_given_up() {
        let endless = Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let (status, fault) = read(endless, HookEvent::Job).await.unwrap_err();
        assert_eq!((status, fault.field.as_str()), (StatusCode::REQUEST_TIMEOUT, "body"));
    }
}
