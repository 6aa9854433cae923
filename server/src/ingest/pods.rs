//! What the pods of jobs ask for, as the admission webhook saw them when they came to be.
//!
//! A job that no agent measures says nothing of its memory when that ends it, and GitLab tries it again with the variables that it had. Without
//! this, the verdict on a second try would again grow the size of the first. The newest pods are remembered, in memory alone: the
//! verdict on a job keeps what followed from its pod. So a restart between a pod and the verdict on its job loses that pod's sizes, and
//! the verdict rests on what is predicted.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use plimsoll_proto::job::Named;

use super::Ingest;
use crate::domain::{AttemptId, Evidence, Resources};

/// Pods that are remembered: those of some days. About 3 MB.
const REMEMBERED: usize = 10_000;

/// The pod of a job, as far as it tells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobPod {
    /// Number of the job.
    pub(crate) job: String,
    /// Host of its GitLab; empty if the pod does not say.
    pub(crate) host: String,
    /// Path of its project; empty if the pod does not say.
    pub(crate) project: String,
    /// What its build asks for and may have.
    pub(crate) sizes: Resources,
}

/// The newest pods, by the number of their job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobPods(Arc<Mutex<Newest>>);

#[derive(Debug, Default)]
struct Newest {
    pods: HashMap<String, JobPod>,
    /// Numbers of jobs, oldest first.
    order: VecDeque<String>,
}

impl JobPods {
    /// Remembers a pod; the newest counts, if a job has several. The oldest is forgotten for it.
    fn note(&self, pod: JobPod) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let job = pod.job.clone();
        if newest.pods.insert(job.clone(), pod).is_none() {
            newest.order.push_back(job);
        }
        while newest.order.len() > REMEMBERED {
            let Some(oldest) = newest.order.pop_front() else { break };
            newest.pods.remove(&oldest);
        }
    }

    /// What the pod of an attempt's job had. `None` if it was not seen, or if it is of a job of another GitLab or project with the same
    /// number.
    pub(super) fn of(&self, attempt: &AttemptId, project: &str) -> Option<Resources> {
        let Named { host, job, .. } = Named::read(attempt.as_str());
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pod = newest.pods.get(job)?;
        let may_be = |one: &str, other: &str| one.is_empty() || other.is_empty() || one == other;
        (may_be(host, &pod.host) && may_be(project, &pod.project)).then_some(pod.sizes)
    }

    /// The evidence with what the attempt's pod had, where nothing was measured and the pod was seen.
    pub(super) fn join<'e>(&self, evidence: &'e Evidence) -> Cow<'e, Evidence> {
        let seen = || self.of(&evidence.attempt, &evidence.key.project);
        match evidence.measured {
            Some(_) => Cow::Borrowed(evidence),
            None => seen().map_or(Cow::Borrowed(evidence), |sizes| {
                Cow::Owned(Evidence { pod_sizes: Some(sizes), ..evidence.clone() })
            }),
        }
    }
}

impl Ingest {
    /// Remembers what the pod of a job has.
    pub(crate) fn note_pod(&self, pod: JobPod) {
        self.parts.pods.note(pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Bytes;

    fn pod(job: &str, mib: u64) -> JobPod {
        let sizes = Resources { memory_limit: Some(Bytes(mib << 20)), ..Resources::default() };
        JobPod { job: job.into(), host: "gitlab.example".into(), project: "a/b".into(), sizes }
    }

    #[test]
    fn the_newest_pods_are_remembered_and_the_newest_of_a_job_counts() {
        let pods = JobPods::default();
        for job in 0..REMEMBERED + 3 {
            pods.note(pod(&job.to_string(), 1));
            pods.note(pod(&job.to_string(), 2));
        }
        let newest = pods.0.lock().unwrap();
        assert_eq!((newest.pods.len(), newest.order.len()), (REMEMBERED, REMEMBERED));
        drop(newest);
        let of = |attempt: &str| pods.of(&AttemptId::parse(attempt).unwrap(), "a/b");
        assert_eq!(of("2"), None);
        assert_eq!(of("3").unwrap().memory_limit, Some(Bytes(2 << 20)));
    }

    #[test]
    fn a_pod_is_that_of_its_own_gitlab_and_project_alone() {
        let pods = JobPods::default();
        pods.note(pod("7", 1));
        let knows =
            |attempt: &str, project: &str| pods.of(&AttemptId::parse(attempt).unwrap(), project).is_some();
        assert!(knows("7", "") && knows("gitlab.example:7", "a/b") && knows("gitlab.example:7.2/3", "a/b"));
        assert!(!knows("other.example:7", "a/b") && !knows("7", "c/d") && !knows("8", "a/b"));
    }
}
