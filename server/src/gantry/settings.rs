//! What the operator decides about the two endpoints.

use std::{path::PathBuf, time::Duration};

use crate::domain::{Bytes, Cores};

/// A variable that is sent beside the two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// `KUBERNETES_MEMORY_LIMIT`.
    MemoryLimit,
    /// `KUBERNETES_CPU_LIMIT`.
    CpuLimit,
    /// `SPACK_BUILD_JOBS`.
    BuildJobs,
}

impl Extra {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::MemoryLimit, Self::CpuLimit, Self::BuildJobs];

    /// The word in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MemoryLimit => "memory_limit",
            Self::CpuLimit => "cpu_limit",
            Self::BuildJobs => "build_jobs",
        }
    }
}

/// What the operator decides about the two endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Project of the specs that are asked for, as GitLab writes it in `CI_PROJECT_PATH`; a request may name another one.
    /// Without it, that of the newest attempt.
    pub project: Option<String>,
    /// What is sent beside the two requests.
    pub extras: Vec<Extra>,
    /// The runner's `memory_request_overwrite_max_allowed`: one byte more fails the job.
    pub max_memory_request: Option<Bytes>,
    /// The runner's `memory_limit_overwrite_max_allowed`.
    pub max_memory_limit: Option<Bytes>,
    /// The runner's `cpu_request_overwrite_max_allowed`.
    pub max_cpu_request: Option<Cores>,
    /// The runner's `cpu_limit_overwrite_max_allowed`.
    pub max_cpu_limit: Option<Cores>,
    /// Exit codes at which GitLab shall try a job again; none: nothing is said of retries.
    pub retry_exit_codes: Vec<u8>,
    /// After this time the defaults are sent.
    pub answer_within: Duration,
    /// File that holds the token of the job hook; without it every hook is taken.
    pub token_file: Option<PathBuf>,
    /// File that holds the signing token of the job hook; with it every hook must be signed.
    pub signing_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            project: None,
            // what the service that the clients know sends, and nothing that a runner may not expect
            extras: Vec::new(),
            max_memory_request: None,
            max_memory_limit: None,
            max_cpu_request: None,
            max_cpu_limit: None,
            retry_exit_codes: Vec::new(),
            // a client asks for one spec after another: 1000 of them are under a minute even then
            answer_within: Duration::from_millis(50),
            token_file: None,
            signing_file: None,
        }
    }
}
