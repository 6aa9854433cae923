//! `POST /v1/collect`: GitLab's job hook. Answered at once, worked on later: a hook that waits is a hook that GitLab turns off.
//! So is one that fails four times in a row. What comes from GitLab and is not understood is therefore answered with 200 as well,
//! and with what is wrong; an error is only for those who are not GitLab.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE, request::Parts as Head},
    response::Response,
};

use super::{
    Parts,
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
/// The header in which GitLab sends a hook's secret.
pub(super) const SECRET: &str = "X-Gitlab-Token";
/// GitLab gives up after as long.
const BODY_WITHIN: Duration = Duration::from_secs(10);

pub(super) async fn collect(State(parts): State<Parts>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let count = |kind| parts.metrics.hooks.get_or_create(&Kind::of(kind)).inc();
    match take(&parts, &head, body).await {
        Ok(Some(kind)) => {
            count(kind);
            accepted()
        }
        Err((StatusCode::OK, fault)) => {
            count("odd");
            refuse(head.uri.path(), StatusCode::OK, &fault)
        }
        // counted when it is worked on
        Ok(None) => accepted(),
        Err((status, fault)) => {
            count("refused");
            refuse(head.uri.path(), status, &fault)
        }
    }
}

fn accepted() -> Response {
    json(StatusCode::OK, "{}".to_owned())
}

/// What became of a hook that was not handed on.
async fn take(
    parts: &Parts,
    Head { headers, extensions, .. }: &Head,
    body: Body,
) -> Result<Option<&'static str>, (StatusCode, Fault)> {
    is_json(headers).map_err(|fault| (StatusCode::UNSUPPORTED_MEDIA_TYPE, fault))?;
    let said = headers.get(SECRET).map_or(&[][..], |said| said.as_bytes());
    if parts.token.as_ref().is_some_and(|token| !token.is(said)) {
        let fault = Fault::new(SECRET, "is not the token in collect_token_file");
        return Err((StatusCode::UNAUTHORIZED, fault));
    }
    let body = read(body).await?;
    if let Some(signing) = &parts.signing {
        let checked = signing.check(headers, &body, Clock.now_unix_ms());
        checked.map_err(|fault| (StatusCode::UNAUTHORIZED, fault))?;
    }
    // either secret proves that it comes from GitLab; without one the guard has looked
    let_in(extensions);
    let instance = headers.get("X-Gitlab-Instance").and_then(|instance| instance.to_str().ok());
    let read = gantry::read_hook(&body, instance);
    match read.map_err(|fault| {
        (if is_from_gitlab(&fault) { StatusCode::OK } else { StatusCode::BAD_REQUEST }, fault)
    })? {
        Hook::Other => Ok(Some("other")),
        Hook::Ended(ended) => {
            may_tell(parts, extensions.get::<Arc<Identity>>(), &ended).await?;
            let delivery = headers.get("Idempotency-Key").and_then(|key| key.to_str().ok());
            Ok(match parts.hooks.take(ended, delivery).await {
                Taken::Later => None,
                Taken::Repeated => Some("repeated"),
                Taken::Dropped => {
                    tracing::warn!("dropped a job hook: too many requests wait for the writer");
                    Some("dropped")
                }
            })
        }
    }
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
/// same for both: it does not say whose job it is.
async fn may_tell(
    parts: &Parts,
    caller: Option<&Arc<Identity>>,
    ended: &Ended,
) -> Result<(), (StatusCode, Fault)> {
    let Some(caller) = caller.filter(|caller| !caller.projects.is_all()) else { return Ok(()) };
    let forbidden = || {
        parts.guard.told_of_others(caller, "/v1/collect");
        let text = format!("is no job of a project that {} may tell of", caller.name);
        (StatusCode::FORBIDDEN, Fault::new("build_id", text))
    };
    if !caller.sees(&ended.job.key.project) {
        return Err(forbidden());
    }
    for attempt in &ended.told.attempts {
        let found = parts.ingest.find(attempt).await;
        let found = found.map_err(|refusal| {
            (StatusCode::SERVICE_UNAVAILABLE, Fault::new("build_id", refusal.to_string()))
        })?;
        if found.is_some_and(|(summary, _running)| !caller.sees(&summary.key.project)) {
            return Err(forbidden());
        }
    }
    Ok(())
}

/// Whether a hook that is not understood has at least the form of one.
fn is_from_gitlab(fault: &Fault) -> bool {
    !matches!(fault.field.as_str(), "body" | "object_kind")
}

async fn read(body: Body) -> Result<axum::body::Bytes, (StatusCode, Fault)> {
    let read = tokio::time::timeout(BODY_WITHIN, to_bytes(body, BODY_BYTES)).await;
    let late = |_late| {
        let description = format!("did not come whole within {} s", BODY_WITHIN.as_secs());
        (StatusCode::REQUEST_TIMEOUT, Fault::new("body", description))
    };
    read.map_err(late)?.map_err(|error| {
        let fault = Fault::new("body", format!("{error}; at most {BODY_BYTES} bytes are read"));
        (StatusCode::PAYLOAD_TOO_LARGE, fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_to_its_end_is_given_up() {
        let endless = Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let (status, fault) = read(endless).await.unwrap_err();
        assert_eq!((status, fault.field.as_str()), (StatusCode::REQUEST_TIMEOUT, "body"));
    }
}
