//! A retry with a larger memory request, for a pod that its node evicted for memory.
//!
//! A node that is short of memory first evicts pods that use more than they requested
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#pod-selection-for-kubelet-eviction>). So an attempt
//! that used more than its request would be evicted first again, and one that used less was not at fault.

use plimsoll_proto::reasons::SizeBound;

use super::{
    Draft, Remedy, RemedyCase,
    sizes::{set_kept, sizes_had},
};
use crate::{
    domain::{Action, Bytes, Cause, Evidence, Prediction},
    predict::{Settings, request_after_eviction},
};

/// Text that the kubelet writes before the resource that the node ran short of (pkg/kubelet/eviction/helpers.go).
const LOW_RESOURCE_TEXT: &str = "low on resource: ";

/// A retry with a larger memory request if the attempt used more than its request, else one without a change.
pub(super) fn remedy(case: RemedyCase<'_>, mut draft: Draft) -> Remedy {
    match grow_request(&mut draft.next, case.evidence, case.known.settings) {
        Some(advice) => draft.retry(Action::Bigger, advice),
        None => draft.unchanged(Cause::EvictedByNode),
    }
}

/// Raises the memory request of an attempt that used more than its request to its use plus room for file pages, which the kubelet counts
/// too. Returns a sentence about the new size; `None` if the attempt stayed within its request, if its use is unknown, or if another
/// resource was short.
fn grow_request(next: &mut Prediction, evidence: &Evidence, settings: &Settings) -> Option<String> {
    let measured = evidence.measured.as_deref()?;
    let used = measured.need_peak;
    let had = sizes_had(&measured.resources).request?;
    if used <= had || !is_for_memory(evidence) {
        return None;
    }
    // a request cannot exceed the limit
    let limit = sizes_had(&measured.resources).limit.unwrap_or(Bytes(u64::MAX));
    let (wanted, _) = settings.bound_memory(request_after_eviction(used, limit));
    if wanted <= had {
        return None;
    }
    let (request, limit) = (&mut next.memory_request, &mut next.memory_limit);
    set_kept(request, wanted.0, SizeBound::AboveRequest(had.to_string()));
    if limit.value < wanted.0 {
        limit.value = wanted.0;
        limit.basis.bound = SizeBound::Request;
    }
    Some(format!(
        "it used {used} with a memory request of {had}, and what is above its request is evicted first, so retry with a larger memory request \
         ({had} -> {wanted})"
    ))
}

/// Whether the node may have run short of memory: true unless the kubelet's messages name only other resources.
fn is_for_memory(evidence: &Evidence) -> bool {
    let reasons = evidence.reported.pod_reasons.iter().chain([&evidence.pod_reason]);
    let mut named = reasons.filter_map(|reason| reason.split_once(LOW_RESOURCE_TEXT)).peekable();
    named.peek().is_none() || named.any(|(_, resource)| resource.starts_with("memory"))
}
