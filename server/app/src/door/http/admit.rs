//! `POST /admit`: the API server of Kubernetes asks for a review of a new pod. On any error the pod
//! is admitted unchanged.

use std::time::Duration;

use axum::{
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use kube_core::{
    DynamicObject,
    admission::{AdmissionRequest, AdmissionResponse, AdmissionReview},
};
use plimsoll_core::domain::FieldViolation;
use tokio::{sync::Semaphore, time::timeout};

use super::refusal::{json, refuse};
use crate::{
    ci::kubernetes::SkipReason,
    door::{gate::ADMIT_PATH, http_state::HttpState},
};

/// Largest body: the API server's own limit for a request is 3 MiB, and the review adds some text.
const BODY_BYTES: usize = 4 * 1024 * 1024;
/// Most reviews at once; each takes several times its bytes in memory. Further ones are refused,
/// and their pods stay unchanged.
const REVIEWS_AT_ONCE: usize = 16;
/// Time limit for the body: the API server is near, and its own time-out is short.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// One permit for each review that runs.
static REVIEW_SLOTS: Semaphore = Semaphore::const_new(REVIEWS_AT_ONCE);

pub(super) async fn admit(State(parts): State<HttpState>, request: Request) -> Response {
    if !has_secret(&parts, request.uri().path()) {
        parts.pods.not_reviewed(SkipReason::NotProven);
        let fault =
            FieldViolation::new("path", "does not end in the secret of admit_secret_file, as /admit/SECRET");
        return refuse(ADMIT_PATH, StatusCode::UNAUTHORIZED, &fault);
    }
    let Ok(_place) = REVIEW_SLOTS.try_acquire() else {
        parts.pods.not_reviewed(SkipReason::TooMany);
        let fault = FieldViolation::new(
            "request",
            format!("{REVIEWS_AT_ONCE} reviews are looked at already; ask again"),
        );
        return refuse(ADMIT_PATH, StatusCode::TOO_MANY_REQUESTS, &fault);
    };
    match review(request).await {
        Ok(asked) => answer(Box::pin(parts.pods.review(asked)).await),
        Err((status, fault)) => {
            parts.pods.not_reviewed(SkipReason::Malformed);
            refuse(ADMIT_PATH, status, &fault)
        }
    }
}

/// Whether the path ends in the secret, if one is configured. The TLS listener checks client
/// certificates.
fn has_secret(parts: &HttpState, path: &str) -> bool {
    let given = path.strip_prefix(ADMIT_PATH).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
    parts.admission_secret.as_ref().is_none_or(|secret| secret.matches(given.as_bytes()))
}

fn answer(response: AdmissionResponse) -> Response {
    let patch = response.patch.clone();
    match serde_json::to_value(response.into_review()) {
        Ok(mut review) => {
            // the type serializes bytes as a list of numbers, but the API server expects base64
            if let (Some(patch), Some(place)) = (patch, review.pointer_mut("/response/patch")) {
                *place = BASE64_STANDARD.encode(patch).into();
            }
            json(StatusCode::OK, review.to_string())
        }
        Err(error) => refuse(
            ADMIT_PATH,
            StatusCode::INTERNAL_SERVER_ERROR,
            &FieldViolation::new("response", error.to_string()),
        ),
    }
}

/// Parses the request. The object in it stays JSON until it is known to be a pod.
async fn review(request: Request) -> Result<AdmissionRequest<DynamicObject>, (StatusCode, FieldViolation)> {
    let body = timeout(BODY_TIMEOUT, to_bytes(request.into_body(), BODY_BYTES)).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let fault = FieldViolation::new("body", format!("{error}; at most {BODY_BYTES} bytes are read"));
            return Err((StatusCode::PAYLOAD_TOO_LARGE, fault));
        }
        Err(_slow) => {
            let fault =
                FieldViolation::new("body", format!("did not come within {} s", BODY_TIMEOUT.as_secs()));
            return Err((StatusCode::REQUEST_TIMEOUT, fault));
        }
    };
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(&body).map_err(|error| {
        (StatusCode::BAD_REQUEST, FieldViolation::new("body", format!("is not an AdmissionReview: {error}")))
    })?;
    let version = review.types.api_version.clone();
    if version != kube_core::admission::META_API_VERSION_V1 {
        let fault = FieldViolation::new(
            "apiVersion",
            format!("is {version:?}; this webhook speaks admission.k8s.io/v1"),
        );
        return Err((StatusCode::BAD_REQUEST, fault));
    }
    review
        .try_into()
        .map_err(|_missing| (StatusCode::BAD_REQUEST, FieldViolation::new("request", "is missing")))
}
