//! What becomes of a pod: the prediction for its job, or the verdict on the job's last attempt, and the pool.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube_core::{
    DynamicObject,
    admission::{AdmissionRequest, AdmissionResponse, Operation},
};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::counted::{PodName, left, planned, withheld};
use crate::{
    admission::{self, Job, Known, Left, Mode, Plan},
    checked,
    domain::{Fault, Key, Prediction},
    http::{Parts, predicting::predicted},
    ingest::AfterMemoryEnd,
    placement::{Needs, OperatingSystem},
};

/// Of the time for an answer, what is kept to write it.
const MARGIN: Duration = Duration::from_millis(20);

/// The answer: the pod is admitted, with a patch or without.
pub(super) async fn decide(parts: &Parts, asked: AdmissionRequest<DynamicObject>) -> AdmissionResponse {
    let response = AdmissionResponse::from(&asked);
    let until = Instant::now() + parts.admission.answer_within;
    let namespace = asked.namespace.clone().unwrap_or_default();
    let (mut name, is_trial) = (PodName::of(&asked), asked.dry_run);
    let pod = match pod(asked) {
        Ok(pod) => pod,
        Err(why) => {
            left(parts, &name, why);
            return response;
        }
    };
    name = name.with_job(&pod);
    let planned = timeout_at(until, plan(parts, (&pod, &namespace, &name), until)).await;
    let (response, pod) = match planned.unwrap_or(Err(Left::Late)) {
        Ok(plan) => carry_out(parts, response, (plan, pod), &name),
        Err(why) => {
            left(parts, &name, why);
            (response, pod)
        }
    };
    // a question for trial makes no pod
    if let Some(pod) = admission::of_job(&pod).filter(|_| !is_trial) {
        parts.ingest.note_pod(pod);
    }
    response
}

/// The new pod that is asked about, without writing it down and reading it once more. Its status says nothing before there is one.
fn pod(asked: AdmissionRequest<DynamicObject>) -> Result<Pod, Left> {
    if asked.operation != Operation::Create || asked.kind.kind != "Pod" || !asked.kind.group.is_empty() {
        return Err(Left::NoPod);
    }
    let DynamicObject { metadata, mut data, .. } = asked.object.ok_or(Left::Unreadable)?;
    let spec = data.get_mut("spec").map(Value::take).map(serde_json::from_value).transpose();
    let spec = spec.map_err(|error| {
        tracing::info!(%error, "a pod is not understood");
        Left::Unreadable
    })?;
    Ok(Pod { metadata, spec, status: None })
}

/// What to do to the pod; as an error, why it is left alone.
async fn plan(
    parts: &Parts,
    (pod, namespace, name): (&Pod, &str, &PodName),
    until: Instant,
) -> Result<Plan, Left> {
    let job = admission::job(pod, namespace, &parts.admission)?;
    let key = key_of(&job).map_err(|fault| {
        tracing::info!(%fault, "the job of a pod is not understood");
        Left::Unreadable
    })?;
    let withholds = parts.shadow.withholds(&key);
    let os = job.os.unwrap_or_else(|| OperatingSystem::of_arch(&key.arch));
    let key = Arc::new(key);
    let sizes = match os {
        OperatingSystem::Linux => Some(size(parts, Arc::clone(&key), until).await.ok_or(Left::Failed)?),
        // what is known was measured on Linux
        _ => None,
    };
    let known = sizes.as_ref().map(|(prediction, from)| (prediction, *from));
    let vouched = job.vouched(&key, &parts.admission);
    // a pool that was found by what the job says of itself does not count
    let predicted = known.filter(|_| vouched == *key).map(|(known, _)| known.placed.pool.as_str());
    let aim = |needs: &Needs| parts.placing.aim(&vouched, os, needs, predicted.unwrap_or_default());
    let plan = |settings: &admission::Settings, placed: bool| {
        let aim = |needs: &Needs| placed.then(|| aim(needs)).flatten();
        admission::plan(pod, &job, known, settings, aim).map_err(|fault| {
            tracing::warn!(%fault, "a patch cannot be written");
            Left::Failed
        })
    };
    if withholds { in_shadow(parts, name, plan) } else { plan(&parts.admission, true) }
}

/// In shadow mode no place and no size is set but those that the pod's own annotations name; the agent is put beside the build as ever.
fn in_shadow(
    parts: &Parts,
    name: &PodName,
    plan: impl Fn(&admission::Settings, bool) -> Result<Plan, Left>,
) -> Result<Plan, Left> {
    let would = plan(&parts.admission, true)?;
    if would.sized || would.placed {
        withheld(parts, name, &would);
    }
    let settings = admission::Settings {
        sizes: Vec::new(),
        max_time: None,
        long_from: None,
        ..(*parts.admission).clone()
    };
    let plan = plan(&settings, false)?;
    let left = plan.left.map(|_stays| Left::Shadow);
    if plan.patch.is_none() { Err(Left::Shadow) } else { Ok(Plan { left, ..plan }) }
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
    let Some(AfterMemoryEnd { next, had }) = next else { return Some((known, Known::ByHistory)) };
    // what is only the default says nothing against the verdict
    let is_sure = known.confidence_in(&known.memory_limit) >= parts.admission.confidence;
    let is_more = is_sure && known.memory_limit.value > next.memory_limit.value;
    Some((if is_more { known } else { next }, Known::ByVerdict { had }))
}

/// The answer, and the pod as it will be.
fn carry_out(
    parts: &Parts,
    response: AdmissionResponse,
    (mut plan, pod): (Plan, Pod),
    name: &PodName,
) -> (AdmissionResponse, Pod) {
    let Some(patch) = plan.patch.take() else {
        left(parts, name, plan.left.unwrap_or(Left::Fits));
        return (response, pod);
    };
    planned(parts, name, &plan);
    if parts.admission.mode == Mode::DryRun {
        return (response, pod);
    }
    let unchanged = response.clone();
    match response.with_patch(patch) {
        Ok(changed) => (changed, plan.pod),
        Err(error) => {
            tracing::warn!(%error, "a patch cannot be written: admitted the pod as it is");
            (unchanged, pod)
        }
    }
}
