//! What the `LimitRange`s of a namespace allow. A pod that they allow before a patch is allowed after it.
//!
//! The checks are those of Kubernetes (plugin/pkg/admission/limitranger/admission.go, `PodValidateLimitFunc`): smallest and largest
//! sizes, and the largest ratio of limit to request, of each container and of the sums of a pod. Only memory and CPU are checked, because a
//! patch changes no other resource.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::{Container, LimitRangeItem, Pod, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use plimsoll_base::quantity;
use plimsoll_core::domain::{Bytes, Cores};

use super::Settings;

/// Types of a limit: for each container, or for the sums of a pod.
const CONTAINER: &str = "Container";
const POD: &str = "Pod";
/// What is 1 in billionths.
const ONE: u128 = 1_000_000_000;

/// The limits of all `LimitRange`s of a namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LimitRanges(pub(super) Vec<LimitRangeItem>);

/// Sizes as Kubernetes writes them, by resource.
type Quantities = Option<BTreeMap<String, Quantity>>;
/// Request and limit, in billionths.
type Sizes = [Option<u128>; 2];

impl LimitRanges {
    /// The settings with the smallest and largest sizes that a container may have here.
    pub(super) fn narrow<'s>(&self, settings: &'s Settings) -> Cow<'s, Settings> {
        let mut narrowed = Cow::Borrowed(settings);
        let memory = |list: &Quantities| quantity::bytes(&list.as_ref()?.get("memory")?.0).ok().map(Bytes);
        let cpu = |list: &Quantities| quantity::parse_cores(&list.as_ref()?.get("cpu")?.0).ok().map(Cores);
        let order = |one: &Cores, other: &Cores| one.0.total_cmp(&other.0);
        for item in self.0.iter().filter(|item| item.type_ == CONTAINER) {
            let now = narrowed.to_mut();
            now.min_memory = now.min_memory.max(memory(&item.min));
            now.max_memory = [now.max_memory, memory(&item.max)].into_iter().flatten().min();
            now.min_cpu = [now.min_cpu, cpu(&item.min)].into_iter().flatten().max_by(order);
            now.max_cpu = [now.max_cpu, cpu(&item.max)].into_iter().flatten().min_by(order);
        }
        narrowed
    }

    /// The smallest request of `memory` or `cpu` that a container with this limit may have, in the unit of the limit.
    pub(super) fn least_request(&self, resource: &str, limit: u64) -> u64 {
        let items = self.0.iter().filter(|item| item.type_ == CONTAINER);
        let ratios = items.filter_map(|item| item.max_limit_request_ratio.as_ref()?.get(resource));
        let smallest = ratios.filter_map(|ratio| quantity::nano(&ratio.0)).filter(|ratio| *ratio > 0).min();
        let request = smallest.map_or(0, |ratio| (u128::from(limit) * ONE).div_ceil(ratio));
        u64::try_from(request).unwrap_or(u64::MAX)
    }

    /// A rule that the pod breaks after a change and did not break before it, as a sentence.
    pub(super) fn newly_broken(&self, before: &Pod, after: &Pod) -> Option<String> {
        let broken = |pod: &Pod| pod.spec.as_ref().map(|spec| self.broken(spec)).unwrap_or_default();
        let earlier = broken(before);
        let rule = broken(after).into_iter().find(|rule| !earlier.contains(rule))?;
        Some(format!("would break {rule} in a LimitRange of the namespace"))
    }

    fn broken(&self, spec: &PodSpec) -> Vec<String> {
        let mut found = Vec::new();
        for (item, resource) in self.0.iter().flat_map(|item| [(item, "memory"), (item, "cpu")]) {
            let sizes = containers(spec).map(|one| (format!("container {}", one.name), sizes(one, resource)));
            let places = match item.type_.as_str() {
                CONTAINER => sizes.collect(),
                POD => vec![("the pod".to_owned(), sums(spec, resource))],
                _ => Vec::new(),
            };
            for (place, sizes) in places {
                let rules = broken_rules(item, resource, sizes);
                found.extend(rules.map(|rule| format!("{rule} of {resource} for {place}")));
            }
        }
        found
    }
}

/// Whether a pod has the class Guaranteed: all containers have limits of CPU and memory, and each request is its limit (Kubernetes, "Configure
/// Quality of Service for Pods").
pub(super) fn is_guaranteed(spec: &PodSpec) -> bool {
    let is_equal = |[request, limit]: Sizes| limit.is_some_and(|limit| limit > 0) && request == limit;
    containers(spec).all(|container| ["cpu", "memory"].iter().all(|name| is_equal(sizes(container, name))))
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers.iter().chain(spec.init_containers.iter().flatten())
}

/// Sizes of a container. The API server takes a limit for the request if there is none.
fn sizes(container: &Container, resource: &str) -> Sizes {
    let read = |list: &Quantities| quantity::nano(&list.as_ref()?.get(resource)?.0);
    let own = container.resources.as_ref();
    let limit = own.and_then(|own| read(&own.limits));
    [own.and_then(|own| read(&own.requests)).or(limit), limit]
}

/// Sizes of a pod: of all containers that run beside the build, or of a larger one that runs before it.
fn sums(spec: &PodSpec, resource: &str) -> Sizes {
    let stays = |one: &&Container| one.restart_policy.as_deref() == Some("Always");
    let starting = spec.init_containers.iter().flatten();
    let beside = spec.containers.iter().chain(starting.clone().filter(stays));
    [0, 1].map(|which| {
        let size = |one: &Container| sizes(one, resource).get(which).copied().flatten();
        let sum = beside.clone().filter_map(size).reduce(u128::saturating_add);
        sum.max(starting.clone().filter_map(size).max())
    })
}

/// The rules that sizes break, by name.
fn broken_rules(
    item: &LimitRangeItem,
    resource: &str,
    [request, limit]: Sizes,
) -> impl Iterator<Item = &'static str> {
    let bound = |list: &Quantities| quantity::nano(&list.as_ref()?.get(resource)?.0);
    let min = bound(&item.min)
        .is_some_and(|min| request.is_none_or(|size| size < min) || limit.is_some_and(|size| size < min));
    let max = bound(&item.max)
        .is_some_and(|max| limit.is_none_or(|size| size > max) || request.is_some_and(|size| size > max));
    let ratio = bound(&item.max_limit_request_ratio).is_some_and(|ratio| match (request, limit) {
        (Some(request @ 1..), Some(limit @ 1..)) => limit.saturating_mul(ONE) > request.saturating_mul(ratio),
        _ => true,
    });
    let rules = [("min", min), ("max", max), ("maxLimitRequestRatio", ratio)];
    rules.into_iter().filter(|(_, is_broken)| *is_broken).map(|(rule, _)| rule)
}
