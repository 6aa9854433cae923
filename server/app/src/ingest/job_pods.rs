//! Requests and limits of jobs' pods, as the admission webhook saw them at creation.
//!
//! If a job without an agent runs out of memory, its sizes are otherwise unknown, and GitLab
//! retries it with the same variables. Without the pod's sizes, the verdict on the second try would
//! again raise the size of the first. The newest pods are kept for some days, in memory and on
//! disk. A pod is admitted before its sizes are on disk, so a crash at that moment loses them; the
//! verdict on its job then uses the prediction.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use plimsoll_core::domain::{AttemptId, Evidence, JobPod, Resources};
use plimsoll_proto::job::JobExecution;
use plimsoll_store::{self as store, Batch, Store, StoreError};

/// Most pods with stored sizes: those of some days. About 4 MB, and as much on disk.
const MAX_PODS: usize = 10_000;
/// How long pods are kept, milliseconds: longer than a job runs before it is retried.
const REMEMBERED_MS: u64 = 7 * 24 * 3_600_000;
/// Most pods removed from disk at once.
const REMOVED_AT_ONCE: usize = 64;

/// The newest pods, by the ids that the attempts of their jobs have. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobPods(Arc<Mutex<NewestPods>>);

#[derive(Debug, Default)]
struct NewestPods {
    pods: HashMap<AttemptId, JobPod>,
    /// The ids of the attempts in `pods`, oldest first.
    order: VecDeque<AttemptId>,
    /// The hosts that have a job with this number; used for attempts and pods that do not name
    /// their host.
    hosts: HashMap<String, Vec<String>>,
}

impl NewestPods {
    /// Adds a pod; replaces an earlier one of the same job.
    fn put(&mut self, id: AttemptId, pod: JobPod) {
        let (host, job) = (pod.host.clone(), pod.job.clone());
        if self.pods.insert(id.clone(), pod).is_none() {
            self.hosts.entry(job).or_default().push(host);
            self.order.push_back(id);
        }
    }

    /// Removes the oldest pods: those above the capacity, and those kept long enough. Returns their
    /// ids.
    fn forget(&mut self, now_unix_ms: u64) -> Vec<AttemptId> {
        let mut forgotten = Vec::new();
        while let Some(oldest) = self.order.front() {
            let is_old = |pod: &JobPod| pod.seen_unix_ms.saturating_add(REMEMBERED_MS) < now_unix_ms;
            if self.order.len() <= MAX_PODS && !self.pods.get(oldest).is_some_and(is_old) {
                break;
            }
            let Some(oldest) = self.order.pop_front() else { break };
            self.remove(&oldest);
            forgotten.push(oldest);
        }
        forgotten
    }

    fn remove(&mut self, id: &AttemptId) {
        let Some(JobPod { host, job, .. }) = self.pods.remove(id) else { return };
        if let Some(hosts) = self.hosts.get_mut(&job) {
            hosts.retain(|other| *other != host);
            if hosts.is_empty() {
                self.hosts.remove(&job);
            }
        }
    }

    /// The pod of a job on this host. If one of the two does not name its host, the only pod of a
    /// job with this number.
    fn find(&self, host: &str, job: &str, project: &str) -> Option<&JobPod> {
        let is_of = |pod: &&JobPod| project.is_empty() || pod.project.is_empty() || pod.project == project;
        let of = |host: &str| self.pods.get(&JobPod::id_of(host, job)?).filter(is_of);
        if let Some(pod) = Some(host).filter(|host| !host.is_empty()).and_then(of) {
            return Some(pod);
        }
        let hosts = self.hosts.get(job).into_iter().flatten();
        let mut others =
            hosts.filter(|other| host.is_empty() || other.is_empty()).filter_map(|host| of(host));
        let only = others.next();
        // of two candidates, either could be the wrong one
        only.filter(|_| others.next().is_none())
    }
}

impl JobPods {
    /// Adds a pod. Only the first pod of a job is kept, because its build runs in it; later reviews
    /// of other pods that claim the same job change nothing. Returns the ids of pods removed for
    /// it; `None` if it was not added.
    pub(crate) fn note(&self, id: AttemptId, pod: JobPod) -> Option<Vec<AttemptId>> {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.pods.contains_key(&id) {
            return None;
        }
        let now = pod.seen_unix_ms;
        newest.put(id, pod);
        Some(newest.forget(now))
    }

    /// Sizes of the pod of an attempt's job. `None` if no such pod is known; a pod of a job with
    /// the same number in another GitLab or project does not count.
    pub(crate) fn of(&self, attempt: &AttemptId, project: &str) -> Option<Resources> {
        let JobExecution { host, job, .. } = JobExecution::read(attempt.as_str());
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.find(host, job, project).map(|pod| pod.sizes)
    }

    /// Adds the pod's sizes to the evidence, if the attempt was not measured and its pod is known.
    pub(crate) fn join<'e>(&self, evidence: &'e Evidence) -> Cow<'e, Evidence> {
        let seen = || self.of(&evidence.attempt, &evidence.key.project);
        match evidence.measured {
            Some(_) => Cow::Borrowed(evidence),
            None => seen().map_or(Cow::Borrowed(evidence), |sizes| {
                Cow::Owned(Evidence { pod_sizes: Some(sizes), ..evidence.clone() })
            }),
        }
    }
}

impl JobPods {
    /// Loads the stored pods. Those kept long enough are removed from disk.
    pub(crate) async fn load(&self, store: &Store, now: u64) -> Result<(), StoreError> {
        let mut pods: Vec<JobPod> = Vec::new();
        store::load(store, |pod| pods.push(pod)).await?;
        pods.sort_by_key(|pod| pod.seen_unix_ms);
        let mut gone = Vec::new();
        {
            let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for pod in pods {
                // a pod from the future was stored while the clock was wrong: it counts as new
                let pod = JobPod { seen_unix_ms: pod.seen_unix_ms.min(now), ..pod };
                pod.id().into_iter().for_each(|id| newest.put(id, pod.clone()));
            }
            gone.extend(newest.forget(now));
        }
        for ids in gone.chunks(REMOVED_AT_ONCE) {
            let mut batch = Batch::default();
            for id in ids {
                store::delete_pod(&mut batch, id);
            }
            if let Err(error) = store.commit(batch).await {
                tracing::warn!(%error, "could not remove old pods; tried again at the next start");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
