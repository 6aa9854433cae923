//! Every parser that meets foreign bytes, as a plain function over bytes: what a fuzzer calls, in `tests/fuzz/`.
//!
//! A function does what a handler does with the bytes before it answers or keeps anything. It must not panic, hang, or hold more than a
//! small multiple of its input; what else it promises it asserts.

use std::{fmt, sync::LazyLock};

use k8s_openapi::api::core::v1::Pod;
use kube_core::{DynamicObject, admission::AdmissionReview};

use crate::{
    admin::archive::Unpacker, admission, gantry, gitlab, grpc, identity, mask, placement::Placement, retry,
    store,
};

/// One parser.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of the folder with its corpus.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All of them.
pub const TARGETS: [Target; 15] = [
    target("wire_deliver", grpc::foreign::delivered),
    target("wire_ask", |bytes| drop(grpc::foreign::asked(bytes))),
    target("wire_judge", |bytes| drop(grpc::foreign::question(bytes).map(mask::evidence))),
    target("wire_count", grpc::foreign::counted),
    target("spec", |bytes| drop(gantry::parse_spec(&text(bytes)))),
    target("query", |bytes| drop(gantry::parameter(&text(bytes), "spec"))),
    target("hook", |bytes| drop(gantry::read_hook(bytes, Some("https://gitlab.example")))),
    target("gitlab", gitlab::foreign::read),
    target("review", review),
    target("pools", |bytes| drop(Placement::parse(&text(bytes)))),
    target("rules", rules),
    target("log", log),
    target("token", |bytes| identity::foreign::read(&text(bytes))),
    target("record", store::foreign::read),
    target("archive", archive),
];

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What Kubernetes asks: a review, or the pod in it alone.
fn review(bytes: &[u8]) {
    let _review = serde_json::from_slice::<AdmissionReview<DynamicObject>>(bytes).is_ok();
    let Ok(pod) = serde_json::from_slice::<Pod>(bytes) else { return };
    let settings = admission::Settings::default();
    let Ok(job) = admission::job(&pod, "ci", &settings) else { return };
    let plan = admission::plan(&pod, &job, None, &settings, |_needs| None);
    debug_assert!(plan.is_ok(), "a pod that was read can be written");
}

/// A file of rules, or Spack's.
fn rules(bytes: &[u8]) {
    for name in ["rules.toml", "error_taxonomy.yaml"] {
        let _rules = retry::Rules::extended(&[(name.to_owned(), text(bytes))]).is_ok();
    }
}

/// The end of a log: masked, read by all rules, judged. Masking it again changes nothing that matters to them.
fn log(bytes: &[u8]) {
    static RULES: LazyLock<std::sync::Arc<retry::Rules>> = LazyLock::new(retry::Rules::built_in);
    let log = text(bytes);
    let masked = mask::log_tail(&log);
    debug_assert!(masked.len() <= log.len().saturating_mul(4).saturating_add(64), "masking makes a log long");
    let mut evidence = crate::domain::Evidence::about(crate::domain::AttemptId::unnamed());
    evidence.exit = Some(crate::domain::Exit::Code(1));
    evidence.log_tail = masked;
    let finding = retry::classify(&evidence, &RULES);
    debug_assert!((0.0..=1.0).contains(&finding.confidence), "{}", finding.confidence);
}

/// A backup.
fn archive(bytes: &[u8]) {
    let Ok(mut archive) = Unpacker::begin(bytes) else { return };
    while let Ok(Some(_entries)) = archive.next() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_a_name_of_its_own_and_takes_nothing_and_noise() {
        let noise: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut names = Vec::new();
        for target in TARGETS {
            (target.run)(b"");
            (target.run)(&noise);
            names.push(target.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TARGETS.len());
    }
}
