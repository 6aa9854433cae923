//! A container beside the build's ran out of its own memory: that is said, with what to raise, and the build's size stays.

use super::*;

fn runners(container: &str) -> Evidence {
    let log = format!(
        "done\nERROR: Job failed (system failure): Error in container {container}: exit code: 137, reason: 'OOMKilled'"
    );
    Evidence { failure_reason: "runner_system_failure".into(), exit: None, ..code(1, &log) }
}

fn container_reason(reason: &str) -> Evidence {
    Evidence { container_reason: reason.into(), exit: None, ..code(1, "") }
}

#[test]
fn another_containers_memory_end_grows_no_build_size() {
    for (container, raised) in [
        ("helper", "KUBERNETES_HELPER_MEMORY_LIMIT"),
        ("init-permissions", "KUBERNETES_HELPER_MEMORY_LIMIT"),
        ("svc-0", "KUBERNETES_SERVICE_MEMORY_LIMIT"),
        ("istio-proxy", "the memory limit of the container `istio-proxy`"),
    ] {
        let reason = reason_in_container("OOMKilled", container);
        let measured = Evidence { measured: Some(Arc::new(failed(Some(0)))), ..runners(container) };
        for evidence in [runners(container), measured, container_reason(&reason)] {
            let verdict = judged(&evidence);
            assert_eq!((verdict.cause, verdict.action), (Cause::Configuration, Action::No), "{container}");
            assert!(verdict.reason.contains(raised), "{}", verdict.reason);
            assert!(verdict.reason.contains(container), "{}", verdict.reason);
            let source = verdict.basis.cause_source;
            let summary = Summary { cause: Some(verdict.cause), cause_source: source, ..failed(Some(0)) };
            assert!(!is_censored(&summary, summary.cause), "it says nothing of the build's need");
        }
    }
}

#[test]
fn memory_of_the_builds_container_is_the_builds() {
    assert_eq!(reason_in_container("OOMKilled", "build"), "OOMKilled");
    for evidence in
        [runners("build"), container_reason("OOMKilled"), container_reason("OOMKilled in container build")]
    {
        let verdict = judged(&evidence);
        assert_eq!((verdict.cause, verdict.action), (Cause::Oom, Action::Bigger));
    }
    let killed = Evidence { measured: Some(Arc::new(failed(Some(1)))), ..runners("helper") };
    assert_eq!(judged(&killed).cause, Cause::Oom, "a counter of the build's own group comes first");
}

#[test]
fn a_printed_runner_line_changes_no_size() {
    let printed = runners("helper").log_tail + "\nmake: *** [all] Error 2\nERROR: Job failed: exit code 2\n";
    let verdict = judged(&Evidence { failure_reason: "script_failure".into(), ..code(2, &printed) });
    assert!(!matches!(verdict.action, Action::Bigger) && verdict.cause != Cause::Oom, "{verdict:?}");
}

#[test]
fn a_scheduler_counts_memory_apart_from_the_kernel() {
    let measured = |exit: Exit, log: &str| evidence(Some(failed(Some(0))), exit, log);
    let named = |reason: &str| Evidence { failure_reason: reason.into(), ..measured(Exit::Code(1), "") };
    let lsf = "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.";
    let slurm = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.";
    let pod = "step-1   0/1   OOMKilled   0   3m";
    let table = [
        ("a line alone", measured(Exit::Code(1), lsf), Cause::Oom, Action::AsIs),
        ("a pod of the build", measured(Exit::Code(1), pod), Cause::Oom, Action::AsIs),
        ("a pod, and killed", measured(Exit::Code(137), pod), Cause::Oom, Action::AsIs),
        ("-9 alone", measured(Exit::Code(247), ""), Cause::Oom, Action::AsIs),
        ("a line, and killed", measured(Exit::Signal(9), lsf), Cause::Oom, Action::AsIs),
        ("a line, and interrupted", measured(Exit::Code(130), slurm), Cause::Oom, Action::AsIs),
        ("a line, and -9", measured(Exit::Code(247), slurm), Cause::Oom, Action::AsIs),
        ("the scheduler's reason", named("OUT_OF_MEMORY"), Cause::Oom, Action::Bigger),
        ("the kernel's words", measured(Exit::Code(137), "cc1: oom-killed"), Cause::Infra, Action::AsIs),
    ];
    for (what, evidence, cause, action) in table {
        let verdict = judged(&evidence);
        assert_eq!((verdict.cause, verdict.action), (cause, action), "{what}: {}", verdict.reason);
        let source = verdict.basis.cause_source;
        let summary = Summary { cause: Some(cause), cause_source: source, ..failed(Some(0)) };
        assert_eq!(is_censored(&summary, summary.cause), action == Action::Bigger, "{what}");
        assert_eq!(verdict.outlook.proven, action == Action::Bigger, "{what}");
    }
}
