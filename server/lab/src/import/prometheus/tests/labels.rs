//! Labels of series: what is asked by them, what is kept of them, and answers that are none.

use super::*;

#[test]
fn unused_pod_labels_are_not_kept() {
    let described = json!({
        "namespace": "ci",
        "pod": "p",
        "annotation_gitlab_ci_job_id": "12",
        "annotation_kubernetes_io_config_source": "api",
        "instance": "10.0.0.1:8080",
    });
    let pods = pods(&[(1, vec![single_series(PrometheusQuestion::Annotations, &described, "1")])]);
    let described = &pods.running_pods[&("ci".to_owned(), "p".to_owned())].described;
    let names: Vec<&str> = described.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["annotation_gitlab_ci_job_id"]);
}

#[test]
fn unmatched_annotations_reveal_their_label_names() {
    let job = |pod: &str| {
        let labels = json!({"namespace": "monitoring", "pod": pod, "exported_namespace": "ci", "exported_pod": "p", "annotation_job_runner_gitlab_com_id": "7"});
        single_series(PrometheusQuestion::Annotations, &labels, "1")
    };
    let scraped = pods(&[(1, vec![memory("p", &[(70, "1073741824")]), job("kube-state-metrics-0")])]);
    let names =
        ["annotation_job_runner_gitlab_com_id", "exported_namespace", "exported_pod", "namespace", "pod"];
    assert_eq!(scraped.unread_annotations().unwrap(), names);
    assert_eq!(finish(scraped).coverage.keyed, 0);
    let honored = pods(&[(1, vec![memory("p", &[(70, "1073741824")]), annotations("p", 7)])]);
    assert_eq!((honored.unread_annotations(), honored.unread_memory()), (None, None));
}

#[test]
fn queries_use_the_configured_label_names() {
    let mut labels = PrometheusLabels::default();
    let text = |labels: &PrometheusLabels, question: PrometheusQuestion| {
        question.text(labels, "cluster=\"a\"", 3600)
    };
    assert_eq!(
        text(&labels, PrometheusQuestion::Resident),
        "max by (namespace,pod) (max_over_time(container_memory_rss{container=\"build\",cluster=\"a\"}[3600s]))"
    );
    (labels.pod, labels.container) = ("pod_name".to_owned(), "container_name".to_owned());
    (labels.kube_pod, labels.build) = ("exported_pod".to_owned(), "work".to_owned());
    labels.variables.insert("CI_JOB_ID".to_owned(), "annotation_job".to_owned());
    labels.check().unwrap();
    let memory = text(&labels, PrometheusQuestion::Memory);
    assert_eq!(memory, "container_memory_working_set_bytes{container_name=\"work\",cluster=\"a\"}[3600s]");
    let limits = text(&labels, PrometheusQuestion::Limits);
    assert!(limits.starts_with("max by (namespace,exported_pod,resource) ("));
    let asked = text(&labels, PrometheusQuestion::Annotations);
    let expected = "last_over_time(kube_pod_annotations{annotation_job!=\"\",cluster=\"a\"}[3600s]) or ";
    assert!(asked.starts_with(expected));
    for wrong in ["", "a-b", "1a", "a\"}) or up #"] {
        let labels = PrometheusLabels { pod: wrong.to_owned(), ..PrometheusLabels::default() };
        assert!(labels.check().unwrap_err().starts_with("pod: "), "{wrong}");
    }
}

#[test]
fn spack_annotations_yield_the_agents_key() {
    let described = json!({
        "namespace": "ci",
        "pod": "p",
        "annotation_gitlab_ci_job_id": "12",
        "annotation_metrics_spack_job_spec_pkg_name": "curl",
        "annotation_metrics_spack_job_spec_pkg_version": "8.15.0",
        "annotation_metrics_spack_job_spec_arch": "linux-debian12-x86_64_v3",
        "annotation_metrics_spack_job_build_jobs": "4",
    });
    let labels = json!({
        "namespace": "ci",
        "pod": "p",
        "label_metrics_gitlab_ci_project_namespace": "spack",
        "label_metrics_gitlab_ci_project_name": "spack-packages",
        "label_metrics_gitlab_ci_pipeline_id": "777",
    });
    let pods = pods(&[(
        1,
        vec![
            memory("p", &[(70, "1073741824")]),
            single_series(PrometheusQuestion::Annotations, &described, "1"),
            single_series(PrometheusQuestion::Labels, &labels, "1"),
        ],
    )]);
    let jobs = ListedJobs::default();
    let found = finish_with(pods, "gitlab.spack.io", &jobs);
    let summary = &summaries(&found)[0];
    assert_eq!(summary.attempt.as_str(), "gitlab.spack.io:12");
    let key = &summary.key;
    assert_eq!(key.project.as_str(), "spack/spack-packages");
    assert_eq!(key.package.as_str(), "curl");
    assert_eq!(key.version.as_str(), "8.15.0");
    assert_eq!((key.hints.build_jobs, key.labels["pipeline"].as_str()), (Some(4), "777"));
    assert!(PrometheusLabels::allowlist().contains("job.runner.gitlab.com/id,job.runner.gitlab.com/name,"));
}

#[test]
fn non_prometheus_responses_are_clear_errors() {
    for (body, word) in [
        ("<html><title>Sign in</title>", "not one of Prometheus; it begins with \"<html>"),
        (r#"{"status":"success","data":{"result":[{"metric":{"#, "breaks off"),
        (r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#, "parse error"),
        ("{}", "not one of Prometheus"),
        ("[]", "not one of Prometheus"),
        (r#"{"status":"success"}"#, "has no data"),
        (r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#, "not one of Prometheus"),
    ] {
        let error = series(body.as_bytes()).unwrap_err();
        assert!(error.contains(word), "{body}: {error}");
    }
    let odd = r#"{"status":"success","warnings":["a store is away"],"data":{"resultType":"vector","result":[
        {"metric":{},"value":[1,"+Inf"]},{"value":[-5,"1"]},{"metric":{"a":"b"},"histogram":[1,{}]}]}}"#;
    let read = series(odd.as_bytes()).unwrap();
    assert_eq!((read.iter().filter_map(PrometheusSeries::last).count(), read.len()), (0, 3));
    let answer = read_answer(odd.as_bytes()).unwrap();
    assert_eq!(answer.warning.as_deref(), Some("a store is away"));
}
