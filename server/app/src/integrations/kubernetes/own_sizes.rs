//! The sizes of the container that builds, as the pod and its annotations have them: how they are read, written and compared.

use std::{cmp::Ordering, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::{Pod, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use plimsoll_core::{domain::FieldViolation, validated::Validated};
use plimsoll_proto::quantity;

use super::{Job, Size};

/// Characters of a size; what is longer is none. Kubernetes' own are of 20 and less.
const LONGEST: usize = 40;

/// Whether a size is of memory; else it is of CPU.
pub(super) fn is_memory(size: Size) -> bool {
    matches!(size, Size::MemoryRequest | Size::MemoryLimit)
}

/// The name of the annotation that sets a size, or keeps the pod's own.
pub(super) fn annotation_of(size: Size) -> String {
    format!("plimsoll/{}", size.as_str().replace('_', "-"))
}

/// A size that an annotation sets: bytes, or thousandths of a core.
///
/// # Errors
/// It is no size, or none that a container can have.
pub(super) fn by_annotation(size: Size, text: &str) -> Validated<u64> {
    let wrong = |why: String| FieldViolation::new(annotation_of(size), why);
    if text.chars().count() > LONGEST {
        return Err(wrong("is too long to be a size".to_owned()));
    }
    let value = if is_memory(size) {
        quantity::memory_or_zero(text).map_err(wrong)?
    } else {
        quantity::millicores(quantity::cores(text).map_err(wrong)?)
    };
    let none = || wrong(format!("{text:?} sets no size; \"off\" keeps the size that the pod has"));
    if value > 0 { Ok(value) } else { Err(none()) }
}

/// A size of the pod as Plimsoll writes it: always a quantity of Kubernetes.
pub(super) fn written(size: Size, value: u64) -> String {
    if is_memory(size) { quantity::written_bytes(value) } else { format!("{value}m") }
}

/// Whether the API server admits a container with this request and this limit: the request is not above the limit. What cannot be compared is
/// not admitted, to be on the safe side.
pub(super) fn is_valid(request: Option<&str>, limit: Option<&str>) -> bool {
    let (Some(request), Some(limit)) = (request, limit) else { return true };
    quantity::compare(request, limit).is_some_and(Ordering::is_le)
}

/// Where a size is: in the requests or in the limits, under which name.
fn place(size: Size) -> (bool, &'static str) {
    let request = matches!(size, Size::MemoryRequest | Size::CpuRequest);
    (request, if is_memory(size) { "memory" } else { "cpu" })
}

/// Where a size is in the container.
pub(super) fn path(size: Size) -> String {
    let (request, name) = place(size);
    format!("resources.{}.{name}", if request { "requests" } else { "limits" })
}

/// A size of the pod, as it has it.
pub(super) fn raw<'p>(pod: &'p Pod, job: &Job, size: Size) -> Option<&'p str> {
    let sizes = pod.spec.as_ref()?.containers.get(job.container)?.resources.as_ref()?;
    let (request, name) = place(size);
    let list = if request { &sizes.requests } else { &sizes.limits };
    Some(&list.as_ref()?.get(name)?.0)
}

/// A size of the pod: bytes, or thousandths of a core. One of 0 is none, and so is one that no machine has.
pub(super) fn has(pod: &Pod, job: &Job, size: Size) -> Option<u64> {
    let text = raw(pod, job, size)?;
    let value = if is_memory(size) {
        quantity::bytes(text).ok()?
    } else {
        quantity::millicores(quantity::cores(text).ok()?)
    };
    Some(value).filter(|value| *value > 0)
}

/// Sets a size; gives what was there.
pub(super) fn set(pod: &mut Pod, job: &Job, size: Size, text: &str) -> Option<String> {
    let container = pod.spec.as_mut()?.containers.get_mut(job.container)?;
    let sizes: &mut ResourceRequirements = container.resources.get_or_insert_default();
    let (request, name) = place(size);
    let list: &mut BTreeMap<String, Quantity> =
        if request { sizes.requests.get_or_insert_default() } else { sizes.limits.get_or_insert_default() };
    list.insert(name.to_owned(), Quantity(text.to_owned())).map(|was| was.0)
}
