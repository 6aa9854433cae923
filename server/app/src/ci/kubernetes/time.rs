//! Labels for the predicted duration of a pod's build, used by queues and schedulers.
//!
//! Kueue ends a workload that runs longer than its label. So the label is the predicted p95 times a
//! factor that the operator sets; without the factor no label is added. With the spread hint a pod
//! is labelled as long or short, and prefers nodes with pods of the same label, so that no long
//! build keeps a node open after the short ones have ended.

use k8s_openapi::{
    api::core::v1::{Affinity, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use plimsoll_core::domain::{Millis, Prediction};

use super::{
    Settings,
    pod::{OPT_OUT, annotation},
};

/// Kueue's label for a job's longest time, seconds (kueue.sigs.k8s.io, concepts, Workload: "Maximum execution time").
const KUEUE_LABEL: &str = "kueue.x-k8s.io/max-exec-time-seconds";
/// Annotation: `off` adds no label with the longest time.
const MAX_TIME_ANNOTATION: &str = "plimsoll/max-time";
/// Label with the value `long` or `short`. As an annotation with the value `off`, it prevents the
/// label.
const LENGTH_LABEL: &str = "plimsoll/length";
/// Kueue stores the seconds as an int32.
const MAX_SECONDS: u64 = i32::MAX as u64;
/// The highest weight that Kubernetes allows for a preference.
const PREFERENCE_WEIGHT: i32 = 100;
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// Adds the configured labels, unless the pod sets them itself; returns a line for each change.
pub(super) fn add_time_labels(pod: &mut Pod, prediction: &Prediction, settings: &Settings) -> Vec<String> {
    let wall = &prediction.wall_p95;
    // Kueue ends a build after this time, so a default must not be used
    if !prediction.is_known_for_build(wall, settings.confidence) {
        return Vec::new();
    }
    let p95 = Millis(prediction.wall_p95.value);
    let mut lines = Vec::new();
    if let Some(factor) = settings.max_time.filter(|_| annotation(pod, MAX_TIME_ANNOTATION) != Some(OPT_OUT))
    {
        let seconds = Millis::from_f64((p95.as_f64() * factor / 1000.0).ceil()).0.clamp(1, MAX_SECONDS);
        lines.extend(add_label(pod, KUEUE_LABEL, seconds.to_string()));
    }
    if let Some(from) = settings.long_from.filter(|_| annotation(pod, LENGTH_LABEL) != Some(OPT_OUT)) {
        let length = if u128::from(p95.0) > from.as_millis() { "long" } else { "short" };
        let line = add_label(pod, LENGTH_LABEL, length.to_owned());
        if line.is_some() {
            prefer_same_length(pod, length);
        }
        lines.extend(line);
    }
    lines
}

/// Adds a label, unless the pod has it. Returns a line that describes the change.
fn add_label(pod: &mut Pod, name: &str, value: String) -> Option<String> {
    let labels = pod.metadata.labels.get_or_insert_default();
    if labels.contains_key(name) {
        return None;
    }
    let line = format!("label {name}={value}");
    labels.insert(name.to_owned(), value);
    Some(line)
}

/// Adds a preference for nodes with pods of the same length, unless the pod has pod affinity of its
/// own.
fn prefer_same_length(pod: &mut Pod, length: &str) {
    let Some(spec) = pod.spec.as_mut() else { return };
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    if affinity.pod_affinity.is_some() {
        return;
    }
    let same = LabelSelector {
        match_labels: Some([(LENGTH_LABEL.to_owned(), length.to_owned())].into()),
        ..LabelSelector::default()
    };
    let term = PodAffinityTerm {
        label_selector: Some(same),
        topology_key: HOSTNAME_LABEL.to_owned(),
        ..PodAffinityTerm::default()
    };
    affinity.pod_affinity = Some(PodAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
            pod_affinity_term: term,
            weight: PREFERENCE_WEIGHT,
        }]),
        ..PodAffinity::default()
    });
}
