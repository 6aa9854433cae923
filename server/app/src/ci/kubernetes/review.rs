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
    AdmissionMode, KnownLimitRanges, Plan, PodJob, Settings, SkipReason, job_of_pod as job_of, job_pod,
    own_sizes,
    reviewed::{PodName, note_planned, note_skipped, note_withheld},
};
use crate::{
    ingest::Ingest,
    runtime::metrics::Metrics,
    sizing::{SizingService, WithheldAnswer},
    verdicts::Verdicts,
};

/// Reviews new pods. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct PodReviewer {
    pub(crate) ingest: Ingest,
    pub(crate) sizing: SizingService,
    pub(crate) verdicts: Verdicts,
    pub(crate) settings: Arc<Settings>,
    pub(crate) limit_ranges: KnownLimitRanges,
    pub(crate) metrics: Arc<Metrics>,
}

impl PodReviewer {
    /// Reviews a pod. It is always admitted, with or without a patch.
    pub(crate) async fn review(&self, asked: AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        let response = AdmissionResponse::from(&asked);
        let until = Instant::now() + self.settings.answer_within;
        let namespace = asked.namespace.clone().unwrap_or_default();
        let (mut name, is_trial) = (PodName::of(&asked), asked.dry_run);
        let pod = match pod(asked) {
            Ok(pod) => pod,
            Err(why) => {
                note_skipped(&self.metrics, &name, why);
                return response;
            }
        };
        name = name.with_job(&pod);
        let planned = timeout_at(until, self.plan_changes((&pod, &namespace, &name), until)).await;
        let (response, pod) = match planned.unwrap_or(Err(SkipReason::Late)) {
            Ok(plan) => self.carry_out(response, (plan, pod), &name),
            Err(why) => {
                note_skipped(&self.metrics, &name, why);
                (response, pod)
            }
        };
        // sizes of a dry-run request are not stored, because it creates no pod; nor sizes beyond the
        // operator's maximum, because later sizes are derived from them
        let most = self.settings.max_memory;
        if let Some(pod) =
            job_pod(&pod, &namespace, &self.settings).filter(|pod| !is_trial && pod.is_within(most))
        {
            self.ingest.note_pod(pod);
        }
        response
    }

    /// Counts a request that was not reviewed.
    pub(crate) fn not_reviewed(&self, why: SkipReason) {
        note_skipped(&self.metrics, &PodName::default(), why);
    }

    /// Plans the changes for the pod. The error is the reason why the pod is skipped.
    async fn plan_changes(
        &self,
        (pod, namespace, name): (&Pod, &str, &PodName),
        deadline: Instant,
    ) -> Result<Plan, SkipReason> {
        let job = job_of(pod, namespace, &self.settings)?;
        let key = key_of(&job).map_err(|fault| {
            tracing::info!(%fault, "the job of a pod is not understood");
            SkipReason::Unreadable
        })?;
        let withholds = self.sizing.is_shadowed(&key);
        let os = job.os.unwrap_or_else(|| OperatingSystem::of_arch(&key.arch));
        let key = Arc::new(key);
        let sizes = match os {
            OperatingSystem::Linux => {
                let own = own_sizes::memory_of(pod, &job);
                Some(self.size_job(Arc::clone(&key), own, deadline).await.ok_or(SkipReason::Failed)?)
            }
            // attempts are measured on Linux only
            _ => None,
        };
        let known = sizes.as_ref().map(|(prediction, from)| (&**prediction, *from));
        let vouched = job.trusted_key(&key, &self.settings);
        // a predicted pool is not used if it may result from values that the job's author chose
        let predicted = known.filter(|_| vouched == *key).map(|(known, _)| known.placed.pool.as_str());
        let aim =
            |needs: &ResourceNeeds| self.sizing.pools.aim(&vouched, os, needs, predicted.unwrap_or_default());
        let ranges = self.limit_ranges.of(namespace);
        let plan = |settings: &Settings, placed: bool| {
            let aim = |needs: &ResourceNeeds| placed.then(|| aim(needs)).flatten();
            super::plan(pod, &job, known, (settings, &ranges), aim).map_err(|fault| {
                tracing::warn!(%fault, "a patch cannot be written");
                SkipReason::Failed
            })
        };
        if withholds { self.plan_in_shadow(name, plan) } else { plan(&self.settings, true) }
    }

    /// Plans the changes in shadow mode: placement and sizes are not changed, except sizes in the pod's
    /// own annotations. The agent is added as usual.
    fn plan_in_shadow(
        &self,
        name: &PodName,
        plan: impl Fn(&Settings, bool) -> Result<Plan, SkipReason>,
    ) -> Result<Plan, SkipReason> {
        let would = plan(&self.settings, true)?;
        if would.sized || would.placed {
            self.sizing.withheld(WithheldAnswer::Pod);
            note_withheld(name, &would);
        }
        let settings =
            Settings { sizes: Vec::new(), max_time: None, long_from: None, ..(*self.settings).clone() };
        let plan = plan(&settings, false)?;
        let skip_reason = plan.skip_reason.map(|_stays| SkipReason::Shadow);
        if plan.patch.is_none() { Err(SkipReason::Shadow) } else { Ok(Plan { skip_reason, ..plan }) }
    }

    /// The response to the review, and the pod after the changes.
    fn carry_out(
        &self,
        response: AdmissionResponse,
        (mut plan, pod): (Plan, Pod),
        name: &PodName,
    ) -> (AdmissionResponse, Pod) {
        let Some(patch) = plan.patch.take() else {
            note_skipped(&self.metrics, name, plan.skip_reason.unwrap_or(SkipReason::Fits));
            return (response, pod);
        };
        note_planned(&self.metrics, self.settings.mode, name, &plan);
        if self.settings.mode == AdmissionMode::DryRun {
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

fn key_of(job: &PodJob) -> Result<Key, FieldViolation> {
    let mut key = plimsoll_proto::job::key(|name| job.variable(name));
    if key.arch.is_empty() {
        key.arch = job.arch.clone().unwrap_or_default();
    }
    validated::key(Some(key))
}
