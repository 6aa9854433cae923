//! Pods of builds, from the windows of time in which they were seen. A pod that is seen in several windows is one build.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use plimsoll_core::domain::{Bytes, Cores, Resources};

use super::{PrometheusLabels, PrometheusQuestion, PrometheusSeries, labels::Described};

/// Most pods that are held: some 1 GB.
const MOST_PODS: usize = 500_000;

/// A range of time, milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// Its begin.
    pub start_ms: u64,
    /// Its end.
    pub end_ms: u64,
}

/// More pods than are held.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {} pods: ask for less with --since or --prometheus-selector", MOST_PODS)]
pub struct TooManyPods;

/// What was seen of a pod. What was not is 0 or empty.
#[derive(Debug, Default)]
pub(super) struct BuildPod {
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
    pub(super) peak: f64,
    pub(super) sum: f64,
    pub(super) samples: u32,
    pub(super) resident: f64,
    pub(super) high_water: f64,
    pub(super) cpu_seconds: f64,
    pub(super) resources: Resources,
    pub(super) oom_events: f64,
    pub(super) oom_killed: bool,
    /// Its annotations and labels, by the labels that kube-state-metrics makes of them.
    pub(super) described: Described,
}

/// The pods of builds.
#[derive(Debug)]
pub struct BuildPods {
    pub(super) labels: PrometheusLabels,
    /// Labels by which jobs are known: of all that a pod says, these are kept.
    used: BTreeSet<Arc<str>>,
    /// By namespace and name.
    pub(super) pods: HashMap<(String, String), BuildPod>,
    unread: UnreadSeries,
}

/// Series that were found and name no build, so that an import which finds none can say why. The first of each sort.
#[derive(Debug, Default)]
struct UnreadSeries {
    /// Why the first series of a build's memory was not used.
    memory: Option<String>,
    /// Labels of the first series with a job's annotations whose pod no series of memory names.
    annotations: Option<Vec<String>>,
}

impl BuildPods {
    /// None yet.
    pub fn new(labels: PrometheusLabels) -> Self {
        let used = labels.used().into_iter().map(Into::into).collect();
        Self { labels, used, pods: HashMap::new(), unread: UnreadSeries::default() }
    }

    /// Why none of the series of a build's memory was used; `None` if there were none.
    pub fn unread_memory(&self) -> Option<&str> {
        self.unread.memory.as_deref()
    }

    /// Labels of a series with a job's annotations that is of no pod which builds: the names of labels differ, and
    /// [`PrometheusLabels::kube_pod`] is wrong. `None` if there is no such series.
    pub fn unread_annotations(&self) -> Option<&[String]> {
        self.unread.annotations.as_deref()
    }

    /// Adds a series of the answer to a question about a window. Whether it is the memory of a build.
    ///
    /// # Errors
    /// There are too many pods.
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
        let is_known = named.as_ref().is_some_and(|pod| self.pods.contains_key(pod));
        self.unread.note(question, series, (namespace.as_str(), name.as_str()), is_known);
        let Some(known) = named else { return Ok(false) };
        if self.pods.len() >= MOST_PODS && !is_known {
            return Err(TooManyPods);
        }
        let pod = self.pods.entry(known).or_default();
        if question == PrometheusQuestion::Memory {
            return Ok(pod.add_memory(window, series));
        }
        if matches!(question, PrometheusQuestion::Annotations | PrometheusQuestion::Labels) {
            pod.describe(&self.used, series);
        } else {
            pod.add_other(question, series);
        }
        Ok(false)
    }
}

impl UnreadSeries {
    /// Notes a series that says nothing of a build. `pod` are the labels by which a pod is known.
    fn note(
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

impl BuildPod {
    fn add_memory(&mut self, window: TimeRange, series: &PrometheusSeries) -> bool {
        let before = self.samples;
        // the first moment of a window is the last one of the window before
        for (at, bytes) in series.samples().filter(|(at, _)| *at > window.start_ms && *at <= window.end_ms) {
            self.first_ms = if self.samples == 0 { at } else { self.first_ms.min(at) };
            self.last_ms = self.last_ms.max(at);
            self.peak = self.peak.max(bytes);
            self.sum += bytes;
            self.samples = self.samples.saturating_add(1);
        }
        self.samples > before
    }

    /// Keeps what is used of its annotations and labels. A later answer counts.
    fn describe(&mut self, used: &BTreeSet<Arc<str>>, series: &PrometheusSeries) {
        for (name, text) in series.labels.iter().filter(|(_, text)| !text.is_empty()) {
            let Some(name) = used.get(name.as_str()) else { continue };
            let label = (Arc::clone(name), text.as_str().into());
            match self.described.binary_search_by(|(known, _)| known.cmp(name)) {
                Ok(place) => self.described.splice(place..=place, [label]).for_each(drop),
                Err(place) => self.described.insert(place, label),
            }
        }
    }

    fn add_other(&mut self, question: PrometheusQuestion, series: &PrometheusSeries) {
        let Some(value) = series.last() else { return };
        let is = |label: &str, word: &str| series.labels.get(label).is_some_and(|text| text == word);
        let Resources { memory_request, memory_limit, cpu_request, cpu_limit } = &mut self.resources;
        match question {
            PrometheusQuestion::Resident => self.resident = self.resident.max(value),
            PrometheusQuestion::HighWater => self.high_water = self.high_water.max(value),
            PrometheusQuestion::Cpu => self.cpu_seconds += value,
            PrometheusQuestion::OomEvents => self.oom_events = self.oom_events.max(value),
            PrometheusQuestion::OomKilled => self.oom_killed |= is("reason", "OOMKilled"),
            PrometheusQuestion::Requests if is("resource", "memory") => {
                *memory_request = Some(Bytes::from_f64(value));
            }
            PrometheusQuestion::Limits if is("resource", "memory") => {
                *memory_limit = Some(Bytes::from_f64(value));
            }
            PrometheusQuestion::Requests if is("resource", "cpu") => *cpu_request = Some(Cores(value)),
            PrometheusQuestion::Limits if is("resource", "cpu") => *cpu_limit = Some(Cores(value)),
            _ => {}
        }
    }
}
