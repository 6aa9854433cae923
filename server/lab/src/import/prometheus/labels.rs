//! Names of labels, which differ between clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plimsoll_proto::job_pod::{
    JOB_URL_ANNOTATION, PROJECT_PATH_PARTS, RUNNER_VARIABLES, VARIABLE_COPIES, host_and_project,
};
use serde::Deserialize;

/// Annotations and labels of a pod, sorted by name. The names are shared by all pods.
pub(super) type PodMetadata = Vec<(Arc<str>, Box<str>)>;

/// Key in `variables` for the address of the job's page, which is not a variable of the job.
const JOB_URL_VARIABLE: &str = "CI_JOB_URL";
/// Most labels that a file may name.
const MAX_VARIABLES: usize = 64;

/// Names of labels, which differ between clusters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrometheusLabels {
    /// Label of cAdvisor's metrics that holds the name of the pod; `pod_name` before Kubernetes 1.16. Default: `pod`.
    pub pod: String,
    /// Label of cAdvisor's metrics that holds the namespace of the pod. Default: `namespace`.
    pub namespace: String,
    /// Label of cAdvisor's metrics that holds the name of the container; `container_name` before Kubernetes 1.16. Default: `container`.
    pub container: String,
    /// The label of the pod in series of kube-state-metrics; `exported_pod` where Prometheus scrapes it without `honor_labels`. Default:
    /// `pod`.
    pub kube_pod: String,
    /// The label of the namespace in series of kube-state-metrics; `exported_namespace` without `honor_labels`. Default: `namespace`.
    pub kube_namespace: String,
    /// The label of the container in series of kube-state-metrics; `exported_container` without `honor_labels`. Default: `container`.
    pub kube_container: String,
    /// Name of the container that builds. Default: `build`.
    pub build: String,
    /// Label of `kube_pod_annotations` or `kube_pod_labels` that holds a variable of the job, by the name of the variable, such as
    /// `CI_JOB_ID`, `CI_JOB_NAME`, `CI_PROJECT_PATH` or `CI_SERVER_HOST`; `CI_JOB_URL` is the address of the job's page. These count
    /// before those of GitLab's runner and of Spack.
    pub variables: BTreeMap<String, String>,
}

impl Default for PrometheusLabels {
    fn default() -> Self {
        let [pod, namespace, container] = ["pod", "namespace", "container"].map(str::to_owned);
        Self {
            kube_pod: pod.clone(),
            kube_namespace: namespace.clone(),
            kube_container: container.clone(),
            pod,
            namespace,
            container,
            build: "build".to_owned(),
            variables: BTreeMap::new(),
        }
    }
}

impl PrometheusLabels {
    /// Checks the names, because they become part of queries to Prometheus.
    /// Errors: the text says which key is wrong.
    pub fn check(&self) -> Result<(), String> {
        let names = [
            ("pod", &self.pod),
            ("namespace", &self.namespace),
            ("container", &self.container),
            ("kube_pod", &self.kube_pod),
            ("kube_namespace", &self.kube_namespace),
            ("kube_container", &self.kube_container),
        ];
        let variables = self.variables.iter().map(|(variable, label)| (variable.as_str(), label));
        for (key, label) in names.into_iter().chain(variables) {
            let mut letters = label.bytes();
            let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
            if !begins || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_') {
                return Err(format!("{key}: {label:?} is not the name of a label"));
            }
        }
        let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
        if self.build.is_empty() || !self.build.bytes().all(is_plain) {
            return Err(format!("build: {:?} is not the name of a container", self.build));
        }
        if self.variables.len() > MAX_VARIABLES {
            return Err(format!("variables: more than {MAX_VARIABLES}"));
        }
        Ok(())
    }

    /// Labels that only pods of CI jobs have. With them the annotations of these pods are selected.
    pub(super) fn job_labels(&self) -> Vec<String> {
        let own = self.variables.get("CI_JOB_ID").filter(|label| !is_pod_label(label)).cloned();
        let known =
            RUNNER_VARIABLES.iter().chain(&VARIABLE_COPIES).filter(|(variable, _)| *variable == "CI_JOB_ID");
        own.into_iter().chain(known.map(|(_, name)| annotation_label(name))).collect()
    }

    /// Labels of `kube_pod_labels` by which job pods are selected.
    pub(super) fn requested_pod_labels(&self) -> Vec<String> {
        let own = self.variables.values().filter(|label| is_pod_label(label)).cloned();
        let known = [PROJECT_PATH_PARTS[0][1], PROJECT_PATH_PARTS[1][1], "metrics/gitlab_ci_pipeline_id"];
        own.chain(known.map(pod_label)).collect()
    }

    /// The value of a variable of the job, from any of the pod's labels that contain it.
    pub(super) fn variable(&self, labels: &PodMetadata, name: &str) -> Option<String> {
        let text = |label: &str| {
            let place = labels.binary_search_by(|(known, _)| (**known).cmp(label)).ok()?;
            labels.get(place).map(|(_, text)| &**text)
        };
        if let Some(value) = self.variables.get(name).and_then(|label| text(label)) {
            return Some(value.to_owned());
        }
        let exported = |name: &str| text(&annotation_label(name)).or_else(|| text(&pod_label(name)));
        let from_table = |table: &[(&str, &str)]| {
            let mut named = table.iter().filter(|(variable, _)| *variable == name);
            named.find_map(|(_, place)| exported(place)).map(str::to_owned)
        };
        let page = || {
            self.variables
                .get(JOB_URL_VARIABLE)
                .and_then(|label| text(label))
                .or_else(|| exported(JOB_URL_ANNOTATION))
        };
        let by_page = || {
            let (host, project) = host_and_project(page()?)?;
            match name {
                "CI_SERVER_HOST" => Some(host.to_owned()),
                "CI_PROJECT_PATH" => Some(project.to_owned()),
                _ => None,
            }
        };
        let of_project = || {
            let both = |[group, name]: [&str; 2]| Some(format!("{}/{}", exported(group)?, exported(name)?));
            PROJECT_PATH_PARTS.into_iter().find_map(both).filter(|_| name == "CI_PROJECT_PATH")
        };
        from_table(&RUNNER_VARIABLES)
            .or_else(by_page)
            .or_else(of_project)
            .or_else(|| from_table(&VARIABLE_COPIES))
    }

    /// All labels that [`Self::variable`] reads.
    pub(super) fn used_labels(&self) -> BTreeSet<String> {
        let places = RUNNER_VARIABLES.iter().chain(&VARIABLE_COPIES).map(|(_, place)| *place);
        let exported = places.chain(PROJECT_PATH_PARTS.into_iter().flatten()).chain([JOB_URL_ANNOTATION]);
        let known = exported.flat_map(|name| [annotation_label(name), pod_label(name)]);
        known.chain(self.variables.values().cloned()).collect()
    }

    /// The option for kube-state-metrics with which it exports the annotations that an import reads.
    pub fn allowlist() -> String {
        let all = RUNNER_VARIABLES.iter().map(|(_, name)| *name).chain([JOB_URL_ANNOTATION]);
        let copies = VARIABLE_COPIES.iter().map(|(_, name)| *name).filter(|name| name.contains("spack"));
        let names: Vec<&str> = all.chain(copies).collect();
        format!("--metric-annotations-allowlist=pods=[{}]", names.join(","))
    }
}

fn is_pod_label(label: &str) -> bool {
    label.starts_with("label_")
}

/// The Prometheus label that kube-state-metrics makes of an annotation.
fn annotation_label(name: &str) -> String {
    format!("annotation_{}", sanitized_name(name))
}

/// The Prometheus label that kube-state-metrics makes of a Kubernetes label.
fn pod_label(name: &str) -> String {
    format!("label_{}", sanitized_name(name))
}

/// A name with the characters that Prometheus does not allow in labels replaced, as kube-state-metrics does it
/// (`sanitizeLabelName`).
fn sanitized_name(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}
