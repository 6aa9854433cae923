//! What the operator decides about pods.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use plimsoll_core::domain::{Bytes, Cores, KNOWN_ENOUGH};

/// What becomes of a pod that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is left as it is; what would be done is logged and counted.
    DryRun,
    /// It is changed.
    On,
}

impl Mode {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::DryRun, Self::On];

    /// The word in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DryRun => "dry-run",
            Self::On => "on",
        }
    }
}

/// A size that may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// Memory request.
    MemoryRequest,
    /// Memory limit.
    MemoryLimit,
    /// CPU request.
    CpuRequest,
    /// CPU limit.
    CpuLimit,
}

impl Size {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::MemoryRequest, Self::MemoryLimit, Self::CpuRequest, Self::CpuLimit];

    /// The word in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MemoryRequest => "memory_request",
            Self::MemoryLimit => "memory_limit",
            Self::CpuRequest => "cpu_request",
            Self::CpuLimit => "cpu_limit",
        }
    }
}

/// What the operator decides about pods.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Address of the webhook; without it there is none.
    pub listen: Option<SocketAddr>,
    /// PEM file of the webhook's certificate, and those that sign it. Read again when it changes.
    pub certificate: Option<PathBuf>,
    /// PEM file of its private key. Read again when it changes.
    pub key: Option<PathBuf>,
    /// PEM file of the CA that signs the certificate of the API server; without it clients need no certificate. Read again when it
    /// changes.
    pub client_ca: Option<PathBuf>,
    /// File that holds the secret in the path that the API server asks; with it no other path is answered.
    pub secret_file: Option<PathBuf>,
    /// What becomes of a pod that is known.
    pub mode: Mode,
    /// Namespaces whose pods are looked at; empty for all that the cluster asks about.
    pub namespaces: Vec<String>,
    /// Sizes that are set.
    pub sizes: Vec<Size>,
    /// Largest memory, for example that of the namespace's `LimitRange`. No annotation goes beyond it, and a pod that had more is not
    /// remembered.
    pub max_memory: Option<Bytes>,
    /// Most CPU.
    pub max_cpu: Option<Cores>,
    /// A prediction with less confidence sets nothing, 0 to 1.
    pub confidence: f64,
    /// What a job's variables say of its project, its owner, its kind and whether it mends a hole decides where its pod runs, and
    /// with which priority. Else only the project counts, as the runner has it from GitLab: a job's author chooses its variables.
    pub trust_variables: bool,
    /// Kueue ends a build after its p95 of wall time times this; `None`: it gets no time limit.
    pub max_time: Option<f64>,
    /// A build with a longer p95 of wall time is long, and kept with others of that sort; `None`: no pod says how long it is.
    pub long_from: Option<Duration>,
    /// After this time the pod is admitted as it is.
    pub answer_within: Duration,
    /// Image of the agent; without it no agent is put beside a build.
    pub agent_image: Option<String>,
    /// CPU that the agent has, request and limit.
    pub agent_cpu: Cores,
    /// Memory that the agent has, request and limit.
    pub agent_memory: Bytes,
    /// Address at which that agent finds this server.
    pub agent_server: String,
    /// PEM file of the CA certificates that the agent trusts at that address.
    pub agent_ca_file: Option<PathBuf>,
    /// What stands in that file, once it is read.
    pub agent_ca: Option<String>,
    /// Audience of the service account's token that the agent shows to this server, as `access_file` names it; without it the agent
    /// shows none.
    pub agent_audience: Option<String>,
}

impl Settings {
    /// Whether pods of this namespace are looked at.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|ours| ours == namespace)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: None,
            certificate: None,
            key: None,
            client_ca: None,
            secret_file: None,
            // no pod is changed before the operator has seen the effect
            mode: Mode::DryRun,
            namespaces: Vec::new(),
            sizes: Size::ALL.to_vec(),
            max_memory: None,
            max_cpu: None,
            // a few attempts of nearly the same key
            confidence: KNOWN_ENOUGH,
            trust_variables: false,
            // an operator who wants Kueue to end builds sets this, and after how long
            max_time: None,
            // it costs where load is steady
            long_from: None,
            // the API server waits with a pod in its hands
            answer_within: Duration::from_millis(80),
            agent_image: None,
            // ten times what it was measured to use
            agent_cpu: Cores(0.02),
            agent_memory: Bytes(32 << 20),
            agent_server: "http://plimsoll:7410".to_owned(),
            agent_ca_file: None,
            agent_ca: None,
            agent_audience: None,
        }
    }
}
