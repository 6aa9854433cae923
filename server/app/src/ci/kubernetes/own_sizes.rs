//! Sizes of the build's container in the pod and its annotations: parsing, formatting, comparison.

use std::{cmp::Ordering, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::{Pod, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use plimsoll_base::quantity;
use plimsoll_core::{
    domain::{Bytes, FieldViolation},
    validated::Validated,
};

use super::{PodJob, PodSize};
use crate::sizing::MemoryPreset;

/// Longest text of a size, in bytes; longer texts are invalid. Kubernetes' own have at most 20.
const LONGEST_SIZE_TEXT: usize = 40;

/// Whether a size is of memory; otherwise of CPU.
pub(super) fn is_memory(size: PodSize) -> bool {
    matches!(size, PodSize::MemoryRequest | PodSize::MemoryLimit)
}

/// Name of the annotation that sets a size, or with `off` keeps the pod's own size.
pub(super) fn annotation_of(size: PodSize) -> String {
    format!("plimsoll/{}", size.as_str().replace('_', "-"))
}

/// Parses a size from an annotation: bytes, or thousandths of a core.
/// Errors: the text is not a size, or is a size that a container cannot have.
pub(super) fn parse_annotation(size: PodSize, text: &str) -> Validated<u64> {
    let wrong = |why: String| FieldViolation::new(annotation_of(size), why);
    if text.chars().count() > LONGEST_SIZE_TEXT {
        return Err(wrong("is too long to be a size".to_owned()));
    }
    let value = if is_memory(size) {
        quantity::memory_or_zero(text).map_err(wrong)?
    } else {
        quantity::rounded_millicores(quantity::parse_cores(text).map_err(wrong)?)
    };
    let none = || wrong(format!("{text:?} sets no size; \"off\" keeps the size that the pod has"));
    if value > 0 { Ok(value) } else { Err(none()) }
}

/// A size as a Kubernetes quantity.
pub(super) fn quantity_text(size: PodSize, value: u64) -> String {
    if is_memory(size) { quantity::written_bytes(value) } else { format!("{value}m") }
}

/// Whether the API server accepts this request and limit: the request must not exceed the limit.
/// False if they cannot be compared.
pub(super) fn is_valid(request: Option<&str>, limit: Option<&str>) -> bool {
    let (Some(request), Some(limit)) = (request, limit) else { return true };
    quantity::compare(request, limit).is_some_and(Ordering::is_le)
}

/// Where a size is in the container's resources: whether among the limits, and its name there.
fn spec_place(size: PodSize) -> (bool, &'static str) {
    let request = matches!(size, PodSize::MemoryRequest | PodSize::CpuRequest);
    (request, if is_memory(size) { "memory" } else { "cpu" })
}

/// JSON path of a size in the container.
pub(super) fn path(size: PodSize) -> String {
    let (request, name) = spec_place(size);
    format!("resources.{}.{name}", if request { "requests" } else { "limits" })
}

/// A size of the build's container, as it is written in the pod.
pub(super) fn size_text<'p>(pod: &'p Pod, job: &PodJob, size: PodSize) -> Option<&'p str> {
    let sizes = pod.spec.as_ref()?.containers.get(job.container)?.resources.as_ref()?;
    let (request, name) = spec_place(size);
    let list = if request { &sizes.requests } else { &sizes.limits };
    Some(&list.as_ref()?.get(name)?.0)
}

/// A size of the build's container: bytes, or thousandths of a core. `None` for 0, and for sizes
/// that no machine has.
pub(super) fn size_of(pod: &Pod, job: &PodJob, size: PodSize) -> Option<u64> {
    let text = size_text(pod, job, size)?;
    let value = if is_memory(size) {
        quantity::bytes(text).ok()?
    } else {
        quantity::rounded_millicores(quantity::parse_cores(text).ok()?)
    };
    Some(value).filter(|value| *value > 0)
}

/// The memory that the build's container asks for; `None` without a request. Without a limit, the request counts as one.
pub(super) fn memory_of(pod: &Pod, job: &PodJob) -> Option<MemoryPreset> {
    let [request, limit] = [PodSize::MemoryRequest, PodSize::MemoryLimit].map(|size| size_of(pod, job, size));
    let request = Bytes(request?);
    Some(MemoryPreset { request, limit: limit.map_or(request, Bytes).max(request) })
}

/// Sets a size of the build's container; returns the earlier text.
pub(super) fn set_size(pod: &mut Pod, job: &PodJob, size: PodSize, text: &str) -> Option<String> {
    let container = pod.spec.as_mut()?.containers.get_mut(job.container)?;
    let sizes: &mut ResourceRequirements = container.resources.get_or_insert_default();
    let (request, name) = spec_place(size);
    let list: &mut BTreeMap<String, Quantity> =
        if request { sizes.requests.get_or_insert_default() } else { sizes.limits.get_or_insert_default() };
    list.insert(name.to_owned(), Quantity(text.to_owned())).map(|was| was.0)
}
