//! Collects the pods of builds, one window of time after the other. A pod that is seen in several windows is
//! one build.
//!
//! The windows come in the order of time. A pod without any reading in a whole window has ended: it is
//! compressed, and leaves the table of running pods. If it is seen again after all, because Prometheus had no
//! readings for a while, it has several parts, which are joined at the end.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    io,
    sync::Arc,
};

use super::{
    PrometheusLabels, PrometheusQuestion, PrometheusSeries,
    pod::{BuildPod, PodName, TimeRange, project_number},
    spool::PodSpool,
};

/// Most pods of an import. If all have ended they take some 60 MB, 120 bytes each (compressed pod,
/// fingerprints, index).
const MAX_PODS: usize = 500_000;

/// There are more pods than an import can have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {} pods: ask for less with --since or --prometheus-selector", MAX_PODS)]
pub struct TooManyPods;

/// The pods of builds that an import has seen so far.
#[derive(Debug)]
pub struct BuildPods {
    pub(super) labels: PrometheusLabels,
    /// Names of the labels that are kept: those that identify the job of a pod.
    used_labels: BTreeSet<Arc<str>>,
    pub(super) running_pods: HashMap<PodName, BuildPod>,
    ended: PodSpool,
    /// Fingerprints of the pods in `ended`.
    known_ended: HashSet<u64>,
    /// Fingerprints of the pods in `known_ended` that have more than one part.
    parted_pods: HashSet<u64>,
    /// The pods of several parts, with their parts joined. Filled after the last window.
    joined: Vec<(PodName, BuildPod)>,
    /// Project numbers of the pods in `ended`.
    projects: BTreeSet<u64>,
    /// Windows of partial answers, in the order of time.
    partial_windows: Vec<TimeRange>,
    hasher: RandomState,
    unread_series: UnreadSeries,
}

/// The first unusable series of each kind. If an import finds no builds, these show the reason.
#[derive(Debug, Default)]
struct UnreadSeries {
    /// Why the first series about a build's memory was not used.
    memory: Option<String>,
    /// Labels of the first series with annotations of a job, if its pod has no memory series.
    annotations: Option<Vec<String>>,
}

impl BuildPods {
    /// Starts with no pods.
    pub fn new(labels: PrometheusLabels) -> Self {
        let used: BTreeSet<Arc<str>> = labels.used_labels().into_iter().map(Into::into).collect();
        Self {
            labels,
            ended: PodSpool::new(used.iter().cloned().collect()),
            used_labels: used,
            running_pods: HashMap::new(),
            known_ended: HashSet::new(),
            parted_pods: HashSet::new(),
            joined: Vec::new(),
            projects: BTreeSet::new(),
            partial_windows: Vec::new(),
            hasher: RandomState::new(),
            unread_series: UnreadSeries::default(),
        }
    }

    /// Numbers of the projects that have builds among the pods, taken from the pods' names.
    pub fn projects(&self) -> BTreeSet<u64> {
        let running = self.running_pods.iter().filter(|(_, pod)| pod.samples > 0);
        let running = running.filter_map(|((_, name), _)| project_number(name));
        self.projects.iter().copied().chain(running).collect()
    }

    /// Notes that an answer about `window` was partial: readings of the pods in it may be missing.
    pub fn note_partial(&mut self, window: TimeRange) {
        if self.partial_windows.last() != Some(&window) {
            self.partial_windows.push(window);
        }
    }

    /// Whether readings of the pod may be missing: it was seen in a window with a partial answer, or up to `silence_ms` before or after.
    pub(super) fn is_partial(&self, pod: &BuildPod, silence_ms: u64) -> bool {
        self.partial_windows.iter().any(|window| {
            pod.first_ms < window.end_ms.saturating_add(silence_ms)
                && window.start_ms < pod.last_ms.saturating_add(silence_ms)
        })
    }

    /// Why the first memory series was not used; `None` if it was used, or if there was none.
    pub fn unread_memory(&self) -> Option<&str> {
        self.unread_series.memory.as_deref()
    }

    /// Labels of a series with annotations of a job, but of a pod without memory readings. Then the clusters'
    /// names of labels differ, and [`PrometheusLabels::kube_pod`] is wrong. `None` if there is no such series.
    pub fn unread_annotations(&self) -> Option<&[String]> {
        self.unread_series.annotations.as_deref()
    }

    /// Adds a series of the answer to `question` about `window`. Returns whether the series has memory readings
    /// of a build.
    /// Errors: there are too many pods.
    pub fn add(
        &mut self,
        window: TimeRange,
        question: PrometheusQuestion,
        series: &PrometheusSeries,
    ) -> Result<bool, TooManyPods> {
        let PrometheusLabels { pod, namespace, kube_pod, kube_namespace, .. } = &self.labels;
        let is_kube = !matches!(
            question,
            PrometheusQuestion::Memory
                | PrometheusQuestion::Resident
                | PrometheusQuestion::HighWater
                | PrometheusQuestion::Cpu
                | PrometheusQuestion::OomEvents
        );
        let (namespace, name) = if is_kube { (kube_namespace, kube_pod) } else { (namespace, pod) };
        let label = |name: &str| series.labels.get(name).filter(|text| !text.is_empty()).cloned();
        let named = label(namespace).zip(label(name));
        let is_known = named.as_ref().is_some_and(|pod| self.is_known(pod));
        self.unread_series.note_unread(question, series, (namespace.as_str(), name.as_str()), is_known);
        let Some(name) = named else { return Ok(false) };
        if self.known_ended.len() + self.running_pods.len() >= MAX_PODS
            && !self.running_pods.contains_key(&name)
        {
            return Err(TooManyPods);
        }
        let pod = self.running_pods.entry(name).or_default();
        pod.seen_ms = pod.seen_ms.max(window.end_ms);
        if question == PrometheusQuestion::Memory {
            return Ok(pod.add_memory(window, series));
        }
        if matches!(question, PrometheusQuestion::Annotations | PrometheusQuestion::Labels) {
            pod.describe(&self.used_labels, series);
        } else {
            pod.add_other(question, series);
        }
        Ok(false)
    }

    /// Call this when all answers about a window were added: compresses the pods that ended before the window,
    /// and removes those that had no build.
    /// Errors: A pod cannot be packed.
    pub fn end_window(&mut self, window: TimeRange) -> io::Result<()> {
        self.pack_ended(|pod| if pod.samples > 0 { pod.last_ms } else { pod.seen_ms } <= window.start_ms)
    }

    fn pack_ended(&mut self, is_over: impl Fn(&BuildPod) -> bool) -> io::Result<()> {
        let mut over: Vec<(PodName, BuildPod)> = self
            .running_pods
            .extract_if(|_name, pod| is_over(pod))
            .filter(|(_, pod)| pod.samples > 0)
            .collect();
        over.sort_by(|(name, pod), (other, than)| (pod.first_ms, name).cmp(&(than.first_ms, other)));
        for (name, pod) in over {
            let print = self.hasher.hash_one(&name);
            if !self.known_ended.insert(print) {
                self.parted_pods.insert(print);
            }
            self.projects.extend(project_number(&name.1));
            self.ended.push(name, &pod)?;
        }
        Ok(())
    }

    /// Call this after the last window: compresses the remaining pods, and joins pods of several parts.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.pack_ended(|_pod| true)?;
        if self.parted_pods.is_empty() {
            return Ok(());
        }
        let mut joined: BTreeMap<PodName, BuildPod> = BTreeMap::new();
        for pod in self.ended.iter() {
            let (name, pod) = pod?;
            if self.is_parted(&name) {
                joined.entry(name).or_default().merge(pod);
            }
        }
        self.joined = joined.into_iter().collect();
        Ok(())
    }

    /// All pods with a build, each once, in the same order at each call. Call this after [`Self::end`].
    pub(super) fn build_pods(&self) -> impl Iterator<Item = io::Result<(PodName, BuildPod)>> {
        let is_whole = |pod: &io::Result<(PodName, BuildPod)>| match pod {
            Ok((name, _)) => !self.is_parted(name),
            Err(_) => true,
        };
        self.ended.iter().filter(is_whole).chain(self.joined.iter().cloned().map(Ok))
    }

    fn is_known(&self, name: &PodName) -> bool {
        self.running_pods.contains_key(name) || self.known_ended.contains(&self.hasher.hash_one(name))
    }

    fn is_parted(&self, name: &PodName) -> bool {
        !self.parted_pods.is_empty() && self.parted_pods.contains(&self.hasher.hash_one(name))
    }
}

impl UnreadSeries {
    /// Records a series that cannot be used. `pod` are the names of the labels for namespace and pod.
    fn note_unread(
        &mut self,
        question: PrometheusQuestion,
        series: &PrometheusSeries,
        pod: (&str, &str),
        is_known: bool,
    ) {
        let lacks = |label: &str| series.labels.get(label).is_none_or(String::is_empty);
        match question {
            PrometheusQuestion::Memory if self.memory.is_none() => {
                let missing = [pod.0, pod.1].into_iter().find(|label| lacks(label));
                self.memory = match missing {
                    Some(label) => Some(format!("its series have no label {label}")),
                    None if series.samples().next().is_none() => {
                        Some("its readings are all 0 or no number (NaN)".to_owned())
                    }
                    None => None,
                };
            }
            PrometheusQuestion::Annotations if self.annotations.is_none() && !is_known => {
                self.annotations = Some(series.names().map(str::to_owned).collect());
            }
            _ => {}
        }
    }
}
