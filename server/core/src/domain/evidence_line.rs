//! Lines of evidence about an ended attempt, one observation each.

use plimsoll_base::named_enum;
use serde::{Deserialize, Serialize};

/// One observation that supports the cause or argues against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceLine {
    /// Where the observation comes from.
    pub source: EvidenceSource,
    /// What was observed.
    pub text: String,
    /// False for an observation that argued against the cause.
    pub supports: bool,
}

named_enum! {
    /// Where an observation comes from, strongest source first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum EvidenceSource {
        /// A counter of the kernel.
        Kernel => "kernel",
        /// The reason that Kubernetes gives for the end of the container.
        Container => "container",
        /// The reason that Kubernetes gives for the end of the pod.
        Pod => "pod",
        /// Sizes and times that the agent measured.
        Measured => "measured",
        /// Exit code or signal of the command.
        Exit => "exit",
        /// The CI system's failure reason.
        Ci => "ci",
        /// Lines of the build's log.
        Log => "log",
        /// A setting of the operator, for example the retry budget.
        Policy => "policy",
        /// A person who corrected the cause. A correction overrides all other sources, although it is last here: the order applies to what
        /// rules find.
        Person => "person",
    }
}
