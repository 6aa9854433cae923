//! Settings of the admission webhook.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use plimsoll_base::{named_enum, with_defaults};
use plimsoll_core::domain::{Bytes, Cores, KNOWN_CONFIDENCE};

named_enum! {
    /// What the webhook does with a pod.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AdmissionMode {
        /// Pods are not changed; the server logs and counts what it would do.
        DryRun => "dry-run",
        /// Pods are changed.
        On => "on",
    }
}

named_enum! {
    /// A size that the webhook may set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PodSize {
        /// Memory request.
        MemoryRequest => "memory_request",
        /// Memory limit.
        MemoryLimit => "memory_limit",
        /// CPU request.
        CpuRequest => "cpu_request",
        /// CPU limit.
        CpuLimit => "cpu_limit",
    }
}

with_defaults! {
    /// Settings of the admission webhook.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Settings {
        /// Address of the webhook's listener; `None`: there is no webhook.
        pub listen: Option<SocketAddr>,
        /// PEM file of the webhook's certificate with its chain. Reloaded after a change.
        pub certificate: Option<PathBuf>,
        /// PEM file of the certificate's private key. Reloaded after a change.
        pub key: Option<PathBuf>,
        /// PEM file of the CA that signed the API server's client certificate; `None`: clients need no
        /// certificate. Reloaded after a change.
        pub client_ca: Option<PathBuf>,
        /// File with a secret that the path must contain; requests for other paths are refused. `None`:
        /// the path contains no secret.
        pub secret_file: Option<PathBuf>,
        /// What the webhook does.
        // an operator should see the effect before pods are changed
        pub mode: AdmissionMode = AdmissionMode::DryRun,
        /// Namespaces with pods to review; empty means all.
        pub namespaces: Vec<String>,
        /// Sizes that are set.
        pub sizes: Vec<PodSize> = PodSize::ALL.to_vec(),
        /// Most memory of a build, for example that of the namespace's `LimitRange`. It also caps sizes
        /// in annotations, and sizes above it are not stored for later verdicts.
        pub max_memory: Option<Bytes>,
        /// Most CPU of a build.
        pub max_cpu: Option<Cores>,
        /// Least memory of a container that is sized or added; a `LimitRange` may raise it.
        pub min_memory: Option<Bytes>,
        /// Least CPU of a container that is sized or added; a `LimitRange` may raise it.
        pub min_cpu: Option<Cores>,
        /// Whether a pod of the class Guaranteed stays in it.
        // who asks for pinned CPUs, or to be evicted last, should not lose that for a better size
        pub keep_guaranteed: bool = true,
        /// Address of the API server, which is asked for the `LimitRange`s of namespaces.
        // its name in every cluster (Kubernetes, "Accessing the Kubernetes API from a Pod")
        pub api_server: String = "https://kubernetes.default.svc".to_owned(),
        /// Least confidence, 0 to 1, that a prediction must have to set a size.
        // what attempts of the package show has more, unless a cap cuts it
        pub confidence: f64 = KNOWN_CONFIDENCE,
        /// Whether a job's variables (project, owner, kind, security fix) affect pool and priority. Otherwise only the project from GitLab
        /// does, because a job's author chooses its variables.
        pub trust_variables: bool,
        /// Kueue ends a build after its p95 of wall time multiplied by this factor; `None`: no limit.
        // off by default: the operator decides whether Kueue ends builds, and after how long
        pub max_time: Option<f64>,
        /// Builds with a p95 of wall time above this are labelled as long, and prefer nodes with other
        /// long builds; `None`: no labels.
        // off by default: it costs capacity if the load is steady
        pub long_from: Option<Duration>,
        /// Time limit of a review; after it the pod is admitted unchanged.
        // the creation of the pod waits for the answer
        pub answer_within: Duration = Duration::from_millis(80),
        /// Image of the agent that is added to pods; `None`: no agent is added.
        pub agent_image: Option<String>,
        /// CPU request and limit of the agent.
        // ten times the measured use of the agent
        pub agent_cpu: Cores = Cores(0.02),
        /// Memory request and limit of the agent.
        pub agent_memory: Bytes = Bytes(32 << 20),
        /// Address at which the agent reaches this server.
        pub agent_server: String = "http://plimsoll:7410".to_owned(),
        /// PEM file of the CA certificates that the agent trusts at that address.
        pub agent_ca_file: Option<PathBuf>,
        /// Content of `agent_ca_file`, once it is read.
        pub agent_ca: Option<String>,
        /// Audience of the service account token that the agent sends to this server, as in `access_file`; `None`: no token.
        pub agent_audience: Option<String>,
    }
}

impl Settings {
    /// Whether pods of this namespace are reviewed.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|ours| ours == namespace)
    }
}
