//! Settings of Gantry's two endpoints.

use std::{path::PathBuf, time::Duration};

use plimsoll_base::{named_enum, with_defaults};
use plimsoll_proto::reasons::MIN_CONFIDENCE;

use crate::{
    domain::{Bytes, Cores},
    shadow::ANY_STACK,
};

named_enum! {
    /// A variable that can be sent in addition to the two requests (memory and CPU).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ExtraVariable {
        /// `KUBERNETES_MEMORY_LIMIT`.
        MemoryLimit => "memory_limit",
        /// `KUBERNETES_CPU_LIMIT`.
        CpuLimit => "cpu_limit",
        /// `SPACK_BUILD_JOBS`.
        BuildJobs => "build_jobs",
        /// `KUBERNETES_EPHEMERAL_STORAGE_REQUEST`, for stacks with a size that the operator set.
        EphemeralStorage => "ephemeral_storage",
    }
}

with_defaults! {
    /// Settings of Gantry's two endpoints.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Settings {
        /// Project of the requested specs, as GitLab writes it in `CI_PROJECT_PATH`; a request may name another. `None`: the project of the
        /// newest attempt is used.
        pub project: Option<String>,
        /// Variables sent in addition to the requests for memory and CPU.
        // by default the same variables as Gantry sends, and none that a runner may not accept
        pub extras: Vec<ExtraVariable>,
        /// The runner's `memory_request_overwrite_max_allowed`: a larger request fails the job.
        pub max_memory_request: Option<Bytes>,
        /// The runner's `memory_limit_overwrite_max_allowed`.
        pub max_memory_limit: Option<Bytes>,
        /// The runner's `cpu_request_overwrite_max_allowed`.
        pub max_cpu_request: Option<Cores>,
        /// The runner's `cpu_limit_overwrite_max_allowed`.
        pub max_cpu_limit: Option<Cores>,
        /// Ephemeral storage to request for each stack; `*` is for every stack that is not listed. Storage is not measured, so the operator
        /// sets it.
        pub ephemeral_storage: Vec<(String, Bytes)>,
        /// The runner's `ephemeral_storage_request_overwrite_max_allowed`.
        pub max_ephemeral_storage: Option<Bytes>,
        /// Exit codes at which GitLab retries a job; if empty, no retry rule is sent.
        pub retry_exit_codes: Vec<u8>,
        /// Confidence below which the defaults are sent, 0 to 1.
        // a guess from other packages' builds has none; one build of the package itself gives more
        pub confidence: f64 = MIN_CONFIDENCE,
        /// Time after which the defaults are sent, if there is no answer yet.
        // a client asks for one spec after another: at this limit 1,000 specs take less than a minute
        pub answer_within: Duration = Duration::from_millis(50),
        /// File with the token of the job hook; without it every hook is accepted.
        pub token_file: Option<PathBuf>,
        /// File with the signing token of the job hook; with it every hook must be signed.
        pub signing_file: Option<PathBuf>,
    }
}

impl Settings {
    /// Ephemeral storage to request for a job of this stack; `None` if none is set.
    pub(super) fn disk(&self, stack: &str) -> Option<Bytes> {
        let named = |name: &str| self.ephemeral_storage.iter().find(|(known, _)| known == name);
        let (_, bytes) = named(stack).or_else(|| named(ANY_STACK))?;
        Some(self.max_ephemeral_storage.map_or(*bytes, |most| most.min(*bytes)))
    }
}
