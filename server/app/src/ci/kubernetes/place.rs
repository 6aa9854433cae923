//! Placement of a pod: node labels, tolerations, priority. Values that the pod sets itself are kept.

use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use plimsoll_base::quantity;
use plimsoll_core::{
    domain::{Bytes, Cores, Millis, Prediction},
    placement::{self, NodePlacement, PlacementTarget, ResourceNeeds},
};

use super::{
    PodJob,
    pod::{OPT_OUT, annotation},
};

/// Annotation that lists the changes and their reasons. A pod that has it is not placed again.
const PLACED_ANNOTATION: &str = "plimsoll/placed";
/// Annotation: `off` keeps the pod's placement. The annotations below keep one part of the
/// placement each.
const POOL_ANNOTATION: &str = "plimsoll/pool";
const NODE_SELECTOR_ANNOTATION: &str = "plimsoll/node-selector";
const TOLERATIONS_ANNOTATION: &str = "plimsoll/tolerations";
const PRIORITY_CLASS_ANNOTATION: &str = "plimsoll/priority-class";

/// Result of placing a pod.
#[derive(Debug, Default)]
pub(super) struct PlacedPod {
    /// Descriptions of the changes.
    pub(super) lines: Vec<String>,
    /// The pool that has the nodes on which the pod will run; empty if that is not certain.
    pub(super) pool: String,
}

/// What the build needs: its requests and its predicted duration. Limits do not count, because only
/// requests decide whether a node fits.
pub(super) fn placement_needs(pod: &Pod, job: &PodJob, prediction: Option<&Prediction>) -> ResourceNeeds {
    let build = || pod.spec.as_ref()?.containers.get(job.container)?.resources.as_ref()?.requests.as_ref();
    let of = |name: &str| build().and_then(|requests| requests.get(name)).map(|size| size.0.as_str());
    let bytes = |name: &str| Bytes(of(name).and_then(|text| quantity::bytes(text).ok()).unwrap_or_default());
    let wall = |value: fn(&Prediction) -> u64| Millis(prediction.map(value).unwrap_or_default());
    ResourceNeeds {
        memory_request: bytes("memory"),
        memory_limit: bytes("memory"),
        cpu_request: Cores(of("cpu").and_then(|text| quantity::parse_cores(text).ok()).unwrap_or_default()),
        disk: bytes("ephemeral-storage"),
        wall_p50: wall(|prediction| prediction.wall_p50.value),
        wall_p95: wall(|prediction| prediction.wall_p95.value),
    }
}

/// Places a pod, unless its own values contradict the placement, and records the changes in an
/// annotation.
pub(super) fn apply_placement(pod: &mut Pod, aim: &PlacementTarget) -> PlacedPod {
    let is_off = |name| annotation(pod, name) == Some(OPT_OUT);
    if is_off(POOL_ANNOTATION) || annotation(pod, PLACED_ANNOTATION).is_some() {
        return PlacedPod::default();
    }
    let [selects, tolerates, ranks] =
        [NODE_SELECTOR_ANNOTATION, TOLERATIONS_ANNOTATION, PRIORITY_CLASS_ANNOTATION]
            .map(|name| !is_off(name));
    let Some(spec) = pod.spec.as_mut().filter(|spec| spec.node_name.is_none()) else {
        return PlacedPod::default();
    };
    let mut lines = Vec::new();
    let elsewhere = contradicts(spec, &aim.place);
    if selects && !elsewhere {
        lines.extend(add_selector(spec, &aim.place));
    }
    if tolerates && !elsewhere {
        lines.extend(add_tolerations(spec, &aim.place));
    }
    if ranks {
        lines.extend(set_priority_class(spec, &aim.place.priority_class));
    }
    let is_there = selects && !elsewhere && !aim.place.node_selector.is_empty();
    if !lines.is_empty() {
        let done = format!("{}; {}", lines.join(", "), aim.reason);
        pod.metadata.annotations.get_or_insert_default().insert(PLACED_ANNOTATION.to_owned(), done);
    }
    PlacedPod { lines, pool: if is_there { aim.pool.clone() } else { String::new() } }
}

/// Whether the pod requires another value of a label, or has node affinity of its own: with more
/// labels there might be no node for it.
fn contradicts(spec: &PodSpec, place: &NodePlacement) -> bool {
    let by_node = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    if by_node.is_some_and(|nodes| nodes.required_during_scheduling_ignored_during_execution.is_some()) {
        return true;
    }
    let there = spec.node_selector.as_ref();
    let other = |(label, value): (&String, &String)| {
        there.and_then(|own| own.get(label)).is_some_and(|own| own != value)
    };
    place.node_selector.iter().any(other)
}

fn add_selector(spec: &mut PodSpec, place: &NodePlacement) -> Option<String> {
    let own = spec.node_selector.get_or_insert_default();
    let mut new = Vec::new();
    for (label, value) in &place.node_selector {
        if own.insert(label.clone(), value.clone()).is_none() {
            new.push(format!("{label}={value}"));
        }
    }
    if own.is_empty() {
        spec.node_selector = None;
    }
    (!new.is_empty()).then(|| format!("node_selector {}", new.join(" ")))
}

fn add_tolerations(spec: &mut PodSpec, place: &NodePlacement) -> Option<String> {
    let text_of = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut own = spec.tolerations.take().unwrap_or_default();
    let before = own.len();
    for new in &place.tolerations {
        let is_same = |own: &Toleration| {
            let operator = own.operator.as_deref().unwrap_or("Equal");
            let same = operator == new.operator && text_of(&own.key) == new.key;
            same && text_of(&own.value) == new.value && text_of(&own.effect) == new.effect
        };
        if !own.iter().any(is_same) {
            own.push(to_kubernetes(new));
        }
    }
    let added = own.len() - before;
    spec.tolerations = Some(own).filter(|own| !own.is_empty());
    (added > 0).then(|| format!("{added} tolerations"))
}

fn to_kubernetes(toleration: &placement::Toleration) -> Toleration {
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    Toleration {
        key: some(&toleration.key),
        operator: some(&toleration.operator),
        value: some(&toleration.value),
        effect: some(&toleration.effect),
        toleration_seconds: None,
    }
}

/// Sets the priority class of a pod that has none. Before the webhook, the API server fills in the
/// priority and the preemption policy of the default class, and later refuses a pod whose values
/// differ from its class. So both are removed, and the API server fills them in again.
fn set_priority_class(spec: &mut PodSpec, class: &str) -> Option<String> {
    let has_one = spec.priority_class_name.as_ref().is_some_and(|own| !own.is_empty());
    if class.is_empty() || has_one {
        return None;
    }
    spec.priority_class_name = Some(class.to_owned());
    (spec.priority, spec.preemption_policy) = (None, None);
    Some(format!("priority_class {class}"))
}
