//! The queries to Prometheus about one window of time.

use super::PrometheusLabels;

/// A query to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrometheusQuestion {
    /// All readings of each build's working set. They give its start, end, peak and mean.
    Memory,
    /// The highest resident memory of each build. The need is at least this.
    Resident,
    /// The kernel's memory peak of each build, page cache included. The need is at most this.
    HighWater,
    /// CPU seconds that each build used.
    Cpu,
    /// Requests of the build's container.
    Requests,
    /// Limits of the build's container.
    Limits,
    /// Processes killed for lack of memory, as cAdvisor counted them.
    OomEvents,
    /// Containers that Kubernetes reports as `OOMKilled`.
    OomKilled,
    /// Annotations of pods.
    Annotations,
    /// Labels of pods.
    Labels,
}

impl PrometheusQuestion {
    /// All queries, in the order in which they are sent.
    pub const ALL: [Self; 10] = [
        Self::Memory,
        Self::Resident,
        Self::HighWater,
        Self::Cpu,
        Self::Requests,
        Self::Limits,
        Self::OomEvents,
        Self::OomKilled,
        Self::Annotations,
        Self::Labels,
    ];

    /// The query in `PromQL`, about the `seconds` before its evaluation time. `selector` is `name="value",...`,
    /// or empty.
    pub fn text(self, labels: &PrometheusLabels, selector: &str, seconds: u64) -> String {
        let PrometheusLabels {
            pod,
            namespace,
            container,
            kube_pod,
            kube_namespace,
            kube_container,
            build,
            ..
        } = labels;
        let more = if selector.is_empty() { String::new() } else { format!(",{selector}") };
        let of_build = |metric: &str| format!("{metric}{{{container}=\"{build}\"{more}}}[{seconds}s]");
        let highest =
            |metric: &str| format!("max by ({namespace},{pod}) (max_over_time({}))", of_build(metric));
        let of_kube = |metric: &str, by: &str| {
            format!(
                "max by ({kube_namespace},{kube_pod},{by}) (max_over_time({metric}{{{kube_container}=\"{build}\",{by}!=\"\"{more}}}[{seconds}s]))"
            )
        };
        let described = |metric: &str, by: &[String]| {
            let one = |label: &String| format!("last_over_time({metric}{{{label}!=\"\"{more}}}[{seconds}s])");
            by.iter().map(one).collect::<Vec<_>>().join(" or ")
        };
        match self {
            Self::Memory => of_build("container_memory_working_set_bytes"),
            Self::Resident => highest("container_memory_rss"),
            Self::HighWater => highest("container_memory_max_usage_bytes"),
            Self::Cpu => {
                let used = of_build("container_cpu_usage_seconds_total");
                format!("max by ({namespace},{pod}) (increase({used}))")
            }
            Self::Requests => of_kube("kube_pod_container_resource_requests", "resource"),
            Self::Limits => of_kube("kube_pod_container_resource_limits", "resource"),
            Self::OomEvents => highest("container_oom_events_total"),
            Self::OomKilled => of_kube("kube_pod_container_status_terminated_reason", "reason"),
            Self::Annotations => described("kube_pod_annotations", &labels.job_labels()),
            Self::Labels => described("kube_pod_labels", &labels.requested_pod_labels()),
        }
    }
}
