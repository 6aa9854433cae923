//! `POST /admit`: the API server asks about a pod that is about to be. Whatever goes wrong, the pod is admitted as it is.

use std::{sync::Arc, time::Duration};

use axum::{
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Pod;
use kube_core::{
    DynamicObject,
    admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation},
};
use serde_json::Value;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Parts,
    predicting::predicted,
    refusal::{json, refuse},
};
use crate::{
    admission::{self, Job, Known, Left, Mode, Plan},
    checked,
    domain::{Fault, Key, Prediction},
    metrics::Kind,
    placement::Needs,
};

/// The API server's own bound for a request is 3 MiB; the review has some words around it.
const BODY_BYTES: usize = 4 * 1024 * 1024;
/// Reviews that are held at once, each some times its bytes; others are refused, and their pods stay as they are.
const AT_ONCE: usize = 16;
/// The API server is near, and its time-out short.
const BODY_WITHIN: Duration = Duration::from_secs(2);
/// Of the time for an answer, what is kept to write it.
const MARGIN: Duration = Duration::from_millis(20);

/// One for each review that is held.
static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

pub(super) async fn admit(State(parts): State<Parts>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let Ok(_place) = PLACES.try_acquire() else {
        count(&parts, "too_many");
        let fault = Fault::new("request", format!("{AT_ONCE} reviews are looked at already; ask again"));
        return refuse(&path, StatusCode::TOO_MANY_REQUESTS, &fault);
    };
    match review(request).await {
        Ok(asked) => answer(&path, decide(&parts, asked).await),
        Err((status, fault)) => {
            count(&parts, "malformed");
            refuse(&path, status, &fault)
        }
    }
}

fn count(parts: &Parts, kind: &'static str) {
    parts.metrics.admissions.get_or_create(&Kind::of(kind)).inc();
}

fn answer(path: &str, response: AdmissionResponse) -> Response {
    let patch = response.patch.clone();
    match serde_json::to_value(response.into_review()) {
        Ok(mut review) => {
            // the type writes bytes as a list of numbers; the API's form for bytes is base64
            if let (Some(patch), Some(place)) = (patch, review.pointer_mut("/response/patch")) {
                *place = BASE64_STANDARD.encode(patch).into();
            }
            json(StatusCode::OK, review.to_string())
        }
        Err(error) => {
            refuse(path, StatusCode::INTERNAL_SERVER_ERROR, &Fault::new("response", error.to_string()))
        }
    }
}

/// What is asked. The object stays as it came until it is known to be a pod.
async fn review(request: Request) -> Result<AdmissionRequest<DynamicObject>, (StatusCode, Fault)> {
    let body = timeout(BODY_WITHIN, to_bytes(request.into_body(), BODY_BYTES)).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let fault = Fault::new("body", format!("{error}; at most {BODY_BYTES} bytes are read"));
            return Err((StatusCode::PAYLOAD_TOO_LARGE, fault));
        }
        Err(_slow) => {
            let fault = Fault::new("body", format!("did not come within {} s", BODY_WITHIN.as_secs()));
            return Err((StatusCode::REQUEST_TIMEOUT, fault));
        }
    };
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(&body).map_err(|error| {
        (StatusCode::BAD_REQUEST, Fault::new("body", format!("is not an AdmissionReview: {error}")))
    })?;
    let version = review.types.api_version.clone();
    if version != kube_core::admission::META_API_VERSION_V1 {
        let fault =
            Fault::new("apiVersion", format!("is {version:?}; this webhook speaks admission.k8s.io/v1"));
        return Err((StatusCode::BAD_REQUEST, fault));
    }
    review.try_into().map_err(|_missing| (StatusCode::BAD_REQUEST, Fault::new("request", "is missing")))
}

/// The answer: the pod is admitted, with a patch or without.
async fn decide(parts: &Parts, asked: AdmissionRequest<DynamicObject>) -> AdmissionResponse {
    let response = AdmissionResponse::from(&asked);
    let until = Instant::now() + parts.admission.answer_within;
    match timeout_at(until, plan(parts, asked, until)).await {
        Ok(Ok(plan)) => carry_out(parts, response, plan),
        Ok(Err(why)) => {
            count(parts, why);
            response
        }
        Err(_late) => {
            tracing::warn!("looking at a pod took too long: admitted it as it is");
            count(parts, "late");
            response
        }
    }
}

/// What to do to the pod; as an error, the word for why it is left alone.
async fn plan(
    parts: &Parts,
    asked: AdmissionRequest<DynamicObject>,
    until: Instant,
) -> Result<Plan, &'static str> {
    if asked.operation != Operation::Create || asked.kind.kind != "Pod" || !asked.kind.group.is_empty() {
        return Err("no_pod");
    }
    let pod = pod(asked.object.ok_or("unreadable")?).map_err(|error| {
        tracing::info!(%error, "a pod is not understood: admitted it as it is");
        "unreadable"
    })?;
    let namespace = asked.namespace.unwrap_or_default();
    let job = admission::job(&pod, &namespace, &parts.admission).map_err(Left::as_str)?;
    let key = key_of(&job).map_err(|fault| {
        tracing::info!(%fault, "the job of a pod is not understood: admitted it as it is");
        "unreadable"
    })?;
    let withheld = parts.shadow.withholds(&key);
    let key = Arc::new(key);
    let (prediction, from) = size(parts, Arc::clone(&key), until).await.ok_or("failed")?;
    let vouched = job.vouched(&key, &parts.admission);
    // a pool that was found by what the job says of itself does not count
    let predicted = if vouched == *key { prediction.placed.pool.as_str() } else { "" };
    let aim = |needs: &Needs| parts.placing.aim(&vouched, needs, predicted);
    let plan = |settings: &admission::Settings, placed: bool| {
        let aim = |needs: &Needs| placed.then(|| aim(needs)).flatten();
        admission::plan(&pod, &job, Some((&prediction, from)), settings, aim).map_err(|fault| {
            tracing::warn!(%fault, "a patch cannot be written: admitted the pod as it is");
            "failed"
        })
    };
    if withheld { in_shadow(parts, plan) } else { plan(&parts.admission, true) }
}

/// The object as a pod, without writing it down and reading it once more. Its status says nothing before there is one.
fn pod(object: DynamicObject) -> Result<Pod, serde_json::Error> {
    let DynamicObject { metadata, mut data, .. } = object;
    let spec = data.get_mut("spec").map(Value::take).map(serde_json::from_value).transpose()?;
    Ok(Pod { metadata, spec, status: None })
}

/// In shadow mode no place and no size is set but those that the pod's own annotations name; the agent is put beside the build as ever.
fn in_shadow(
    parts: &Parts,
    plan: impl Fn(&admission::Settings, bool) -> Result<Plan, &'static str>,
) -> Result<Plan, &'static str> {
    let would = plan(&parts.admission, true)?;
    if would.sized || would.placed {
        parts.metrics.withheld.get_or_create(&Kind::of("pod")).inc();
        tracing::info!(would = would.lines.join("; "), "would change a pod; shadow mode is on");
    }
    let settings = admission::Settings {
        sizes: Vec::new(),
        max_time: None,
        long_from: None,
        ..(*parts.admission).clone()
    };
    let plan = plan(&settings, false)?;
    if plan.patch.is_none() { Err("shadow") } else { Ok(plan) }
}

fn key_of(job: &Job) -> Result<Key, Fault> {
    let mut key = plimsoll_proto::job::key(|name| job.variable(name));
    if key.arch.is_empty() {
        key.arch = job.arch.clone().unwrap_or_default();
    }
    checked::key(Some(key))
}

/// What the job needs: after a last attempt that memory ended, at least what the verdict on it says. The verdict may have to be
/// read from disk; the prediction is there in any case.
async fn size(parts: &Parts, key: Arc<Key>, until: Instant) -> Option<(Prediction, Known)> {
    let known = predicted(parts, Arc::clone(&key)).await?;
    // time to answer with the prediction alone
    let again = timeout_at(until - MARGIN.min(parts.admission.answer_within / 4), parts.ingest.again(&key));
    let next = match again.await {
        Ok(Ok(next)) => next,
        Ok(Err(refusal)) => {
            tracing::warn!(%refusal, "no verdict on the last attempt of a pod's job");
            None
        }
        Err(_late) => {
            tracing::warn!("the verdict on the last attempt of a pod's job took too long");
            None
        }
    };
    Some(match next {
        Some(next) if next.memory_limit.value >= known.memory_limit.value => (next, Known::ByVerdict),
        Some(_smaller) => (known, Known::ByVerdict),
        None => (known, Known::ByHistory),
    })
}

fn carry_out(parts: &Parts, response: AdmissionResponse, plan: Plan) -> AdmissionResponse {
    let Plan { patch, lines, sized, placed } = plan;
    let Some(patch) = patch else {
        count(parts, "unsure");
        return response;
    };
    let done = lines.join("; ");
    if parts.admission.mode == Mode::DryRun {
        tracing::info!(pod = response.uid, done, "would change a pod; admit_mode is dry-run");
        count(parts, "dry_run");
        return response;
    }
    tracing::info!(pod = response.uid, done, "changed a pod");
    let kind = match (sized, placed) {
        (true, _) => "sized",
        (false, true) => "placed",
        (false, false) => "agent",
    };
    count(parts, kind);
    let unchanged = response.clone();
    response.with_patch(patch).unwrap_or_else(|error| {
        tracing::warn!(%error, "a patch cannot be written: admitted the pod as it is");
        unchanged
    })
}
