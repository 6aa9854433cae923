//! Observations of an ended attempt, one per line of evidence.

use serde::{Deserialize, Serialize};

/// One observation, for or against the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceLine {
    /// The source of the line.
    pub source: EvidenceSource,
    /// What was seen.
    pub text: String,
    /// False for an observation that argued against the cause.
    pub supports: bool,
}

/// Where an observation comes from, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    /// A counter of the kernel.
    Kernel,
    /// The container's reason.
    Container,
    /// The pod's reason.
    Pod,
    /// Sizes and times that the agent measured.
    Measured,
    /// Exit code or signal.
    Exit,
    /// The CI system's failure reason.
    Ci,
    /// The log.
    Log,
    /// A setting of the operator, for example the retry budget.
    Policy,
    /// A person who corrected the cause. A correction overrides all other sources; this order is only for what rules find.
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
