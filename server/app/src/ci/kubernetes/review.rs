//! Handles an admission review. The sizes come from the prediction for the job, or from the verdict
//! on its last attempt; the placement comes from the pool.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_core::{
    DynamicObject,
    admission::{AdmissionRequest, AdmissionResponse, Operation},
};
use plimsoll_core::{
    domain::{FieldViolation, Key},
    placement::{OperatingSystem, ResourceNeeds},
    validated,
};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    AdmissionMode, Plan, PodJob, Settings, SkipReason, job_of_pod as job_of, job_pod,
    reviewed::{PodName, note_planned, note_skipped, note_withheld},
};
use crate::{
    ci::kubernetes::admission::{AdmissionService, AnswerTerms},
    runtime::metrics::Metrics,
};

/// Reviews new pods. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct PodReviewer {
    pub(crate) admission: AdmissionService,
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Arc<Metrics>,
}

impl PodReviewer {
    /// Reviews a pod. It is always admitted, with or without a patch.
    pub(crate) async fn review(&self, asked: AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        decide(self, asked).await
    }

    /// Counts a request that was not reviewed.
    pub(crate) fn not_reviewed(&self, why: SkipReason) {
        note_skipped(&self.metrics, &PodName::default(), why);
    }
}

/// Reviews a pod. It is always admitted, with or without a patch.
async fn decide(reviewer: &PodReviewer, asked: AdmissionRequest<DynamicObject>) -> AdmissionResponse {
    let response = AdmissionResponse::from(&asked);
    let until = Instant::now() + reviewer.settings.answer_within;
    let namespace = asked.namespace.clone().unwrap_or_default();
    let (mut name, is_trial) = (PodName::of(&asked), asked.dry_run);
    let pod = match pod(asked) {
        Ok(pod) => pod,
        Err(why) => {
            note_skipped(&reviewer.metrics, &name, why);
            return response;
        }
    };
    name = name.with_job(&pod);
    let planned = timeout_at(until, plan_changes(reviewer, (&pod, &namespace, &name), until)).await;
    let (response, pod) = match planned.unwrap_or(Err(SkipReason::Late)) {
        Ok(plan) => carry_out(reviewer, response, (plan, pod), &name),
        Err(why) => {
            note_skipped(&reviewer.metrics, &name, why);
            (response, pod)
        }
    };
    // sizes of a dry-run request are not stored, because it creates no pod; nor sizes beyond the
    // operator's maximum, because later sizes are derived from them
    let most = reviewer.settings.max_memory;
    if let Some(pod) =
        job_pod(&pod, &namespace, &reviewer.settings).filter(|pod| !is_trial && pod.is_within(most))
    {
        reviewer.admission.note_pod(pod);
    }
    response
}

/// The new pod, moved out of the request. It has no status before it is created.
fn pod(asked: AdmissionRequest<DynamicObject>) -> Result<Pod, SkipReason> {
    if asked.operation != Operation::Create || asked.kind.kind != "Pod" || !asked.kind.group.is_empty() {
        return Err(SkipReason::NoPod);
    }
    let DynamicObject { metadata, mut data, .. } = asked.object.ok_or(SkipReason::Unreadable)?;
    let spec = data.get_mut("spec").map(Value::take).map(serde_json::from_value).transpose();
    let spec = spec.map_err(|error| {
        tracing::info!(%error, "a pod is not understood");
        SkipReason::Unreadable
    })?;
    Ok(Pod { metadata, spec, status: None })
}

/// Plans the changes for the pod. The error is the reason why the pod is skipped.
async fn plan_changes(
    reviewer: &PodReviewer,
    (pod, namespace, name): (&Pod, &str, &PodName),
    deadline: Instant,
) -> Result<Plan, SkipReason> {
    let job = job_of(pod, namespace, &reviewer.settings)?;
    let key = key_of(&job).map_err(|fault| {
        tracing::info!(%fault, "the job of a pod is not understood");
        SkipReason::Unreadable
    })?;
    let withholds = reviewer.admission.is_shadowed(&key);
    let os = job.os.unwrap_or_else(|| OperatingSystem::of_arch(&key.arch));
    let key = Arc::new(key);
    let settings = &reviewer.settings;
    let terms = AnswerTerms { deadline, time_limit: settings.answer_within, confidence: settings.confidence };
    let sizes = match os {
        OperatingSystem::Linux => {
            Some(reviewer.admission.size_job(Arc::clone(&key), terms).await.ok_or(SkipReason::Failed)?)
        }
        // attempts are measured on Linux only
        _ => None,
    };
    let known = sizes.as_ref().map(|(prediction, from)| (&**prediction, *from));
    let vouched = job.trusted_key(&key, &reviewer.settings);
    // a predicted pool is not used if it may result from values that the job's author chose
    let predicted = known.filter(|_| vouched == *key).map(|(known, _)| known.placed.pool.as_str());
    let aim = |needs: &ResourceNeeds| {
        reviewer.admission.placement_target(&vouched, os, needs, predicted.unwrap_or_default())
    };
    let plan = |settings: &Settings, placed: bool| {
        let aim = |needs: &ResourceNeeds| placed.then(|| aim(needs)).flatten();
        super::plan(pod, &job, known, settings, aim).map_err(|fault| {
            tracing::warn!(%fault, "a patch cannot be written");
            SkipReason::Failed
        })
    };
    if withholds { plan_in_shadow(reviewer, name, plan) } else { plan(&reviewer.settings, true) }
}

/// Plans the changes in shadow mode: placement and sizes are not changed, except sizes in the pod's
/// own annotations. The agent is added as usual.
fn plan_in_shadow(
    reviewer: &PodReviewer,
    name: &PodName,
    plan: impl Fn(&Settings, bool) -> Result<Plan, SkipReason>,
) -> Result<Plan, SkipReason> {
    let would = plan(&reviewer.settings, true)?;
    if would.sized || would.placed {
        note_withheld(&reviewer.admission, name, &would);
    }
    let settings =
        Settings { sizes: Vec::new(), max_time: None, long_from: None, ..(*reviewer.settings).clone() };
    let plan = plan(&settings, false)?;
    let skip_reason = plan.skip_reason.map(|_stays| SkipReason::Shadow);
    if plan.patch.is_none() { Err(SkipReason::Shadow) } else { Ok(Plan { skip_reason, ..plan }) }
}

fn key_of(job: &PodJob) -> Result<Key, FieldViolation> {
    let mut key = plimsoll_proto::job::key(|name| job.variable(name));
    if key.arch.is_empty() {
        key.arch = job.arch.clone().unwrap_or_default();
    }
    validated::key(Some(key))
}

/// The response to the review, and the pod after the changes.
fn carry_out(
    reviewer: &PodReviewer,
    response: AdmissionResponse,
    (mut plan, pod): (Plan, Pod),
    name: &PodName,
) -> (AdmissionResponse, Pod) {
    let Some(patch) = plan.patch.take() else {
        note_skipped(&reviewer.metrics, name, plan.skip_reason.unwrap_or(SkipReason::Fits));
        return (response, pod);
    };
    note_planned(&reviewer.metrics, reviewer.settings.mode, name, &plan);
    if reviewer.settings.mode == AdmissionMode::DryRun {
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
