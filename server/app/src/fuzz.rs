//! Fuzz targets for all parsers of untrusted bytes: functions that `tests/fuzz/` calls.
//!
//! A target does what a handler does with the bytes before it answers or stores anything. It must not panic, hang, or use more than a
//! small multiple of its input; further properties are asserted.

use k8s_openapi::api::core::v1::Pod;
use kube_core::{DynamicObject, admission::AdmissionReview};
use plimsoll_core::{
    fuzz::{self, target, text},
    mask,
};
use plimsoll_lab::import;
use plimsoll_store::{self as store, archive::Unpacker};

use crate::{
    access::{guard, identity},
    ci::{gitlab, kubernetes as admission},
    door::grpc,
    runtime::settings as config,
};

pub use plimsoll_core::fuzz::Target;

/// All fuzz targets, also those of other crates.
pub fn targets() -> impl Iterator<Item = Target> {
    let below = fuzz::TARGETS.into_iter().chain(store::foreign::TARGETS).chain(import::foreign::TARGETS);
    TARGETS.into_iter().chain(below)
}

/// The fuzz targets of this crate.
const TARGETS: [Target; 14] = [
    target("wire_deliver", grpc::foreign::delivered),
    target("wire_ask", |bytes| drop(grpc::foreign::asked(bytes))),
    target("wire_judge", |bytes| drop(grpc::foreign::question(bytes).map(mask::evidence))),
    target("wire_count", grpc::foreign::counted),
    target("wire_ticket", grpc::foreign::ticket),
    target("wire_scaler", grpc::foreign::scaled),
    target("hook", |bytes| drop(gitlab::read_hook(bytes, Some("https://gitlab.example")))),
    target("gitlab", gitlab::foreign::read),
    target("kept_hook", gitlab::foreign::kept),
    target("review", review),
    target("token", |bytes| identity::foreign::read(&text(bytes))),
    target("issuer", |bytes| guard::foreign::read(&text(bytes))),
    target("archive", archive),
    target("settings", |bytes| config::foreign::read(&text(bytes))),
];

/// Parses a request of Kubernetes: a review, or only the pod in it.
fn review(bytes: &[u8]) {
    let _review = serde_json::from_slice::<AdmissionReview<DynamicObject>>(bytes).is_ok();
    let Ok(pod) = serde_json::from_slice::<Pod>(bytes) else { return };
    let settings = admission::Settings::default();
    let Ok(job) = admission::job_of_pod(&pod, "ci", &settings) else { return };
    let ranges = admission::LimitRanges::default();
    let plan = admission::plan(&pod, &job, None, (&settings, &ranges), |_needs| None);
    assert!(plan.is_ok(), "a pod that was read can be written");
}

/// Parses a backup.
fn archive(bytes: &[u8]) {
    let Ok(mut archive) = Unpacker::begin(bytes) else { return };
    while let Ok(Some(_entries)) = archive.next_entries() {}
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::{
        externalscaler as keda,
        v1::{self as pb, agent_message::Message},
    };
    use prost::Message as _;

    use super::*;

    #[test]
    fn targets_have_unique_names_and_accept_noise() {
        let noise: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut names = Vec::new();
        for target in targets() {
            (target.run)(b"");
            (target.run)(&noise);
            names.push(target.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), targets().count());
    }

    fn put(target: &str, name: &str, bytes: &[u8]) {
        let dir =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus").join(target);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(name), bytes).unwrap();
    }

    fn key() -> pb::Key {
        let labels = [("pipeline", "777"), ("job", "build")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        pb::Key {
            project: "spack/packages".into(),
            package: "zlib".into(),
            version: "1.3".into(),
            variants: "+pic~shared".into(),
            labels: labels.into(),
            hints: Some(pb::Hints { build_jobs: Some(8), input_bytes: Some(1 << 20) }),
            ..pb::Key::default()
        }
    }

    fn deliveries() {
        let resources = pb::Resources { memory_limit_bytes: Some(1 << 30), ..pb::Resources::default() };
        let hello = pb::Hello {
            attempt: "gitlab.example:7".into(),
            session: "one".into(),
            key: Some(key()),
            number: 1,
            resources: Some(resources),
            started_unix_ms: 1_700_000_000_000,
            runner_tags: vec!["medium".into()],
            ..pb::Hello::default()
        };
        let sample = |n: u64| pb::Sample {
            elapsed_ms: n * 1000,
            memory_bytes: n << 20,
            need_bytes: n << 19,
            cpu_usec: n * 900_000,
            ..pb::Sample::default()
        };
        let batch = pb::Batch {
            attempt: "gitlab.example:7".into(),
            first_sequence: 1,
            samples: (1..9).map(sample).collect(),
            ..pb::Batch::default()
        };
        let phase = pb::Phase { name: "build".into(), wall_ms: 5000, ..pb::Phase::default() };
        let finish = pb::Finish {
            attempt: "gitlab.example:7".into(),
            last_sequence: 8,
            wall_ms: 9000,
            exit: Some(pb::Exit { code: Some(1), signal: None }),
            phases: vec![phase],
            ..pb::Finish::default()
        };
        for (name, message) in [
            ("hello", Message::Hello(hello)),
            ("batch", Message::Batch(batch)),
            ("finish", Message::Finish(finish)),
        ] {
            put("wire_deliver", name, &pb::AgentMessage { message: Some(message) }.encode_to_vec());
        }
    }

    fn questions() {
        let ask = pb::PredictRequest { key: Some(key()), memory_limit_bytes: Some(1 << 30) };
        put("wire_ask", "ask", &ask.encode_to_vec());
        let run = pb::RetriedJob { id: "7".into(), name: "build".into(), ..pb::RetriedJob::default() };
        let judge = pb::ShouldRetryRequest {
            attempt: "gitlab.example:7".into(),
            key: Some(key()),
            exit: Some(pb::Exit { code: None, signal: Some(9) }),
            log_tail: b"export TOKEN=glpat-aB3dE6gH9jK2mN5pQ8sT\nKilled\n".to_vec(),
            failure_reason: "script_failure".into(),
            include_retried: vec![run],
            ..pb::ShouldRetryRequest::default()
        };
        put("wire_judge", "judge", &judge.encode_to_vec());
        let filter = pb::Filter {
            project: "spack/packages".into(),
            labels: [("job".to_owned(), "build".to_owned())].into(),
            from_unix_ms: Some(1),
            ..pb::Filter::default()
        };
        let count = pb::GetStatsRequest {
            filter: Some(filter.clone()),
            group_by: pb::GroupBy::Label.into(),
            group_label: "job".into(),
            step_ms: 3_600_000,
        };
        put("wire_count", "count", &count.encode_to_vec());
        let list = pb::ListAttemptsRequest {
            filter: Some(filter),
            page_size: 10,
            page_token: "a7.8.9.gitlab.example:7".into(),
            ..pb::ListAttemptsRequest::default()
        };
        put("wire_count", "list", &list.encode_to_vec());
    }

    fn tickets_and_triggers() {
        let open = pb::OpenTicketRequest {
            ticket: "gitlab.example:7".into(),
            key: Some(key()),
            kind: "explicit".into(),
            owner: "team".into(),
            pool: "big".into(),
            tags: vec!["gpu".into()],
        };
        put("wire_ticket", "open", &open.encode_to_vec());
        let close = pb::CloseTicketRequest {
            ticket: "gitlab.example:7".into(),
            owner: "team".into(),
            session: "s".into(),
        };
        put("wire_ticket", "close", &close.encode_to_vec());
        let watch = pb::WatchTicketRequest { ticket: "gitlab.example:7".into(), hold: true };
        put("wire_ticket", "watch", &watch.encode_to_vec());
        let metadata =
            [("pool", "big"), ("measure", "cores"), ("target", "14.5"), ("scalerAddress", "plimsoll:7410")];
        let scaled = keda::ScaledObjectRef {
            name: "builders".into(),
            namespace: "ci".into(),
            scaler_metadata: metadata.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
        };
        put("wire_scaler", "scaled", &scaled.encode_to_vec());
        let metrics =
            keda::GetMetricsRequest { scaled_object_ref: Some(scaled), metric_name: "cores".into() };
        put("wire_scaler", "metrics", &metrics.encode_to_vec());
    }

    #[test]
    #[ignore = "writes what is in no text: messages and records"]
    fn write_the_binary_corpora() {
        tickets_and_triggers();
        deliveries();
        questions();
        for (name, bytes) in store::foreign::examples() {
            put("record", name, &bytes);
        }
        let identity = store::StoreIdentity { format: 3, id: ulid::Ulid::nil(), sequence: 9 };
        let (mut packer, mut bytes) = store::archive::Packer::begin(identity);
        let value = store::VersionedValue { version: 1, value: b"value".to_vec() };
        bytes.extend(packer.add_entries(vec![store::KeyValue { key: b"sone\xff".to_vec(), value }]).unwrap());
        bytes.extend(packer.end().unwrap());
        put("archive", "one", &bytes);
    }
}
