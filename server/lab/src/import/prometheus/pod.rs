//! The readings that Prometheus has of one pod.

use std::{collections::BTreeSet, sync::Arc};

use plimsoll_core::domain::{Bytes, Cores, Millis, Resources};

use super::{PrometheusQuestion, PrometheusSeries, labels::PodMetadata};

/// A range of time, milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// Start of the range.
    pub start_ms: u64,
    /// End of the range.
    pub end_ms: u64,
}

/// Namespace and name of a pod.
pub(super) type PodName = (String, String);

/// The readings of a pod. A value without a reading is 0 or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct BuildPod {
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
    /// End of the last window with any reading of the pod.
    pub(super) seen_ms: u64,
    pub(super) memory_peak: f64,
    pub(super) memory_sum: f64,
    pub(super) samples: u32,
    pub(super) resident_peak: f64,
    pub(super) high_water: f64,
    pub(super) cpu_seconds: f64,
    pub(super) resources: Resources,
    pub(super) oom_events: f64,
    pub(super) oom_killed: bool,
    /// Annotations and labels of the pod, by the names of kube-state-metrics' labels for them.
    pub(super) described: PodMetadata,
}

impl BuildPod {
    /// Adds the readings of a later part of the same pod.
    pub(super) fn merge(&mut self, later: Self) {
        let before = std::mem::replace(self, later);
        if before.samples == 0 {
            return;
        }
        self.first_ms = self.first_ms.min(before.first_ms);
        self.last_ms = self.last_ms.max(before.last_ms);
        self.memory_peak = self.memory_peak.max(before.memory_peak);
        self.memory_sum += before.memory_sum;
        self.samples = self.samples.saturating_add(before.samples);
        self.resident_peak = self.resident_peak.max(before.resident_peak);
        self.high_water = self.high_water.max(before.high_water);
        self.cpu_seconds += before.cpu_seconds;
        self.oom_events = self.oom_events.max(before.oom_events);
        self.oom_killed |= before.oom_killed;
        let Resources { memory_request, memory_limit, cpu_request, cpu_limit } = before.resources;
        self.resources = Resources {
            memory_request: self.resources.memory_request.or(memory_request),
            memory_limit: self.resources.memory_limit.or(memory_limit),
            cpu_request: self.resources.cpu_request.or(cpu_request),
            cpu_limit: self.resources.cpu_limit.or(cpu_limit),
        };
        for (name, text) in before.described {
            if let Err(place) = self.described.binary_search_by(|(known, _)| known.cmp(&name)) {
                self.described.insert(place, (name, text));
            }
        }
    }

    pub(super) fn add_memory(&mut self, window: TimeRange, series: &PrometheusSeries) -> bool {
        let before = self.samples;
        // the first moment of this window is the last moment of the window before, so it is left out here
        for (at, bytes) in series.samples().filter(|(at, _)| *at > window.start_ms && *at <= window.end_ms) {
            self.first_ms = if self.samples == 0 { at } else { self.first_ms.min(at) };
            self.last_ms = self.last_ms.max(at);
            self.memory_peak = self.memory_peak.max(bytes);
            self.memory_sum += bytes;
            self.samples = self.samples.saturating_add(1);
        }
        self.samples > before
    }

    /// Stores the annotations and labels that are used. Later values replace earlier ones.
    pub(super) fn describe(&mut self, used: &BTreeSet<Arc<str>>, series: &PrometheusSeries) {
        for (name, text) in series.labels.iter().filter(|(_, text)| !text.is_empty()) {
            let Some(name) = used.get(name.as_str()) else { continue };
            let label = (Arc::clone(name), text.as_str().into());
            match self.described.binary_search_by(|(known, _)| known.cmp(name)) {
                Ok(place) => self.described.splice(place..=place, [label]).for_each(drop),
                Err(place) => self.described.insert(place, label),
            }
        }
    }

    pub(super) fn add_other(&mut self, question: PrometheusQuestion, series: &PrometheusSeries) {
        let Some(value) = series.last() else { return };
        let is = |label: &str, word: &str| series.labels.get(label).is_some_and(|text| text == word);
        let Resources { memory_request, memory_limit, cpu_request, cpu_limit } = &mut self.resources;
        match question {
            PrometheusQuestion::Resident => self.resident_peak = self.resident_peak.max(value),
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

    pub(super) fn wall(&self) -> Millis {
        Millis(self.last_ms.saturating_sub(self.first_ms))
    }

    pub(super) fn mean_memory(&self) -> Bytes {
        Bytes::from_f64(self.memory_sum / f64::from(self.samples.max(1)))
    }
}

/// The project's number in the name of a runner's pod: 23 in `runner-TOKEN-project-23-concurrent-0-...`.
pub(super) fn project_number(pod: &str) -> Option<u64> {
    let (_, rest) = pod.strip_prefix("runner-")?.split_once("project-")?;
    rest.split_once("-concurrent-")?.0.parse().ok()
}
