//! Lines of evidence about an ended attempt, one observation each.

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

/// Where an observation comes from, strongest source first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    /// A counter of the kernel.
    Kernel,
    /// The reason that Kubernetes gives for the end of the container.
    Container,
    /// The reason that Kubernetes gives for the end of the pod.
    Pod,
    /// Sizes and times that the agent measured.
    Measured,
    /// Exit code or signal of the command.
    Exit,
    /// The CI system's failure reason.
    Ci,
    /// Lines of the build's log.
    Log,
    /// A setting of the operator, for example the retry budget.
    Policy,
    /// A person who corrected the cause. A correction overrides all other sources, although it is last here: the order applies to what
    /// rules find.
    Person,
}

impl EvidenceSource {
    /// The name on the wire and in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Measured => "measured",
            Self::Exit => "exit",
            Self::Ci => "ci",
            Self::Log => "log",
            Self::Policy => "policy",
            Self::Person => "person",
        }
    }
}
