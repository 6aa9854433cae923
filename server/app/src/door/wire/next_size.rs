//! The size of the next attempt in a verdict, without numbers that are only defaults: for these the
//! attempt keeps the job's own values. Otherwise a build with twelve cores would be retried with
//! one, the default.

use plimsoll_core::domain::{Prediction, Quantity};
use plimsoll_proto::v1 as pb;

use super::sizing;

/// The sizes that are known for the next attempt; `None` if none is. A memory size that was raised
/// is always included.
pub(crate) fn next_size(next: &Prediction) -> Option<pb::Prediction> {
    let unknown = |quantity: &Quantity| quantity.basis.is_default();
    let unchanged = |quantity: &Quantity| quantity.basis.is_unchanged_default();
    let left_out = [
        unchanged(&next.memory_request),
        unchanged(&next.memory_limit),
        unknown(&next.cpu_request),
        unknown(&next.cpu_limit),
        unchanged(&next.build_jobs),
        unchanged(&next.wall_p50),
        unchanged(&next.wall_p95),
    ];
    let mut size = sizing::prediction(next);
    let all = [
        &mut size.memory_request_bytes,
        &mut size.memory_limit_bytes,
        &mut size.cpu_request_millicores,
        &mut size.cpu_limit_millicores,
        &mut size.build_jobs,
        &mut size.wall_p50_ms,
        &mut size.wall_p95_ms,
    ];
    let mut known = false;
    for (quantity, left_out) in all.into_iter().zip(left_out) {
        if left_out {
            *quantity = None;
        }
        known |= quantity.is_some();
    }
    known.then_some(size)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{
        domain::{AttemptId, Bytes, Cores, Evidence, Exit, History, Resources},
        predict,
        retry::{KnownFailures, LogRules, RetryPolicy, VerdictInputs, classify, judge},
    };

    use super::*;

    /// The next size after a container was killed for its memory, by what its pod had.
    fn after(pod_sizes: Option<Resources>, reason: &str) -> pb::Prediction {
        let evidence = Evidence {
            exit: Some(Exit::Code(137)),
            container_reason: reason.to_owned(),
            pod_sizes,
            ..Evidence::about(AttemptId::parse("7").unwrap())
        };
        let (history, seen) = (History::new(1), KnownFailures::new(1));
        let (settings, policy) = (predict::Settings::default(), RetryPolicy::default());
        let finding = classify(&evidence, &LogRules::built_in());
        let known = VerdictInputs { history: &history, seen: &seen, settings: &settings, policy: &policy };
        next_size(&judge(&evidence, finding, &known).next.unwrap()).unwrap()
    }

    #[test]
    fn sizes_known_only_by_default_are_omitted() {
        let value = |quantity: &Option<pb::Quantity>| quantity.as_ref().map(|quantity| quantity.value);
        let blind = after(None, "OOMKilled");
        assert!(value(&blind.memory_limit_bytes).is_some(), "it is the answer: {blind:?}");
        let others = [
            &blind.cpu_request_millicores,
            &blind.cpu_limit_millicores,
            &blind.build_jobs,
            &blind.wall_p95_ms,
        ];
        assert_eq!(others.map(value), [None; 4], "{blind:?}");
        let had = Resources {
            memory_limit: Some(Bytes(4 << 30)),
            cpu_request: Some(Cores(12.0)),
            ..Resources::default()
        };
        let known = after(Some(had), "OOMKilled");
        assert_eq!(value(&known.memory_limit_bytes), Some(6 << 30), "half as much again as its pod had");
        assert_eq!(value(&known.cpu_request_millicores), Some(12_000));
        assert_eq!(value(&known.cpu_limit_millicores), None, "its pod had none");
    }
}
