//! Operating system of the nodes that a pod requires.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, PodSpec};
use plimsoll_core::placement::OperatingSystem;

/// Node labels with the operating system: the present one, and the one of clusters before
/// Kubernetes 1.14.
const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
/// A label that only nodes with Windows have.
const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// The system, from the pod's `os` field, from node labels that it selects or requires, or from options that only Windows has. `None` if
/// unknown.
pub(super) fn system_of(spec: &PodSpec) -> Option<OperatingSystem> {
    let own = spec.os.as_ref().and_then(|os| OperatingSystem::parse(&os.name));
    own.or_else(|| selected_system(spec)).or_else(|| required_system(spec)).or_else(|| {
        let of_windows =
            spec.security_context.as_ref().is_some_and(|context| context.windows_options.is_some());
        of_windows.then_some(OperatingSystem::Windows)
    })
}

fn selected_system(spec: &PodSpec) -> Option<OperatingSystem> {
    let labels = spec.node_selector.as_ref()?;
    let named = OS_LABELS.into_iter().find_map(|label| OperatingSystem::parse(labels.get(label)?));
    named.or_else(|| labels.contains_key(WINDOWS_BUILD).then_some(OperatingSystem::Windows))
}

/// The system that required node affinity names. A node needs to match only one of several terms,
/// so all terms must name the same system.
fn required_system(spec: &PodSpec) -> Option<OperatingSystem> {
    let nodes = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let NodeSelector { node_selector_terms } =
        nodes.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut systems = node_selector_terms
        .iter()
        .map(|term| term.match_expressions.iter().flatten().find_map(by_expression));
    let first = systems.next()??;
    systems.all(|other| other == Some(first)).then_some(first)
}

fn by_expression(expression: &NodeSelectorRequirement) -> Option<OperatingSystem> {
    if expression.key == WINDOWS_BUILD && ["In", "Exists"].contains(&expression.operator.as_str()) {
        return Some(OperatingSystem::Windows);
    }
    let names_it = OS_LABELS.contains(&expression.key.as_str()) && expression.operator == "In";
    let values = expression.values.as_deref().filter(|_| names_it)?;
    let [only] = values else { return None };
    OperatingSystem::parse(only)
}
