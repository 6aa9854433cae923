//! The one interface of all policies.

use super::{ours::Ours, peers};
use crate::{
    domain::{Key, Millis},
    predict::Settings,
};

/// What is known before an attempt starts.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// What is built.
    pub(crate) key: Key,
    /// The same number for keys that differ in the version and the hints alone: what others take for one workload.
    pub(crate) workload: u64,
    /// What was asked for when it was recorded, bytes.
    pub(crate) preset: Option<f64>,
    /// Thousandths of a core that were asked for then, or parallel jobs; 0 if neither is known.
    pub(crate) milli_asked: u64,
    /// Start, milliseconds since 1970, 0 if no time is known.
    pub(crate) start_ms: f64,
    /// The need, for a policy that foresees; NaN for all others.
    pub(crate) need: f64,
}

/// What is known when an attempt has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// Its number in the file.
    pub(crate) number: u64,
    /// Highest need, bytes; if it was stopped, what it had.
    pub(crate) peak: f64,
    /// Mean need, bytes; 0 if it is not known.
    pub(crate) mean: f64,
    /// Wall time, milliseconds.
    pub(crate) wall_ms: f64,
    /// CPU time, microseconds.
    pub(crate) cpu_usec: u64,
    /// Memory stopped it: the need is more than its peak.
    pub(crate) stopped: bool,
    /// It may lower nobody's size.
    pub(crate) untrusted: bool,
}

/// What a policy says of a build before its first try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    /// Its size, bytes.
    pub(crate) memory: f64,
    /// Thousandths of a core to ask for; `None` if the policy knows nothing of CPU.
    pub(crate) milli: Option<u64>,
    /// Wall time that 95 % of the attempts need; `None` if it knows nothing of time.
    pub(crate) wall_p95: Option<Millis>,
}

/// A rule that chooses sizes, in bytes.
pub(crate) trait Policy {
    /// The size for the first try.
    fn size(&mut self, ask: &Ask) -> f64;

    /// Everything for the first try.
    fn plan(&mut self, ask: &Ask) -> Plan {
        Plan { memory: self.size(ask), milli: None, wall_p95: None }
    }

    /// The size for the next try, after `failed` was too little. What is not above `failed` is doubled by the caller.
    fn again(&mut self, ask: &Ask, failed: f64) -> f64;

    /// An attempt has ended.
    fn learn(&mut self, ask: &Ask, done: &Done);
}

/// A policy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// The request of this server's Predict.
    Plimsoll,
    /// The limit of this server's Predict.
    PlimsollLimit,
    /// What the file says was asked for.
    Preset,
    /// spack-gantry: mean of the last five.
    Gantry,
    /// Kubernetes VPA: p90 of a decaying histogram, and 15 %.
    Vpa,
    /// `OpenShift` pod-scaler: p80, and 20 %.
    PodScaler,
    /// Robusta krr: maximum, and 15 %.
    Krr,
    /// `TaskVine`: least expected waste, then the maximum.
    MinWaste,
    /// The maximum ever seen.
    MaxSeen,
    /// Exactly the need.
    Oracle,
}

impl Kind {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 10] = [
        Self::Plimsoll,
        Self::PlimsollLimit,
        Self::Preset,
        Self::Gantry,
        Self::Vpa,
        Self::PodScaler,
        Self::Krr,
        Self::MinWaste,
        Self::MaxSeen,
        Self::Oracle,
    ];

    /// Its name in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plimsoll => "plimsoll",
            Self::PlimsollLimit => "plimsoll-limit",
            Self::Preset => "preset",
            Self::Gantry => "gantry",
            Self::Vpa => "vpa",
            Self::PodScaler => "pod-scaler",
            Self::Krr => "krr",
            Self::MinWaste => "min-waste",
            Self::MaxSeen => "max-seen",
            Self::Oracle => "oracle",
        }
    }

    /// Whether it is told the need.
    pub(crate) fn foresees(self) -> bool {
        self == Self::Oracle
    }

    /// Whether it says how long a build takes.
    pub(crate) fn predicts_time(self) -> bool {
        matches!(self, Self::Plimsoll | Self::PlimsollLimit)
    }

    /// Bounds of its one knob: a price of failure for ours, a factor on the size for others. `None` if it has none.
    pub(super) fn knob(self) -> Option<(f64, f64)> {
        match self {
            Self::Plimsoll => Some((1e-7, 1e5)),
            Self::PlimsollLimit | Self::Preset | Self::Oracle => None,
            _ => Some((0.2, 50.0)),
        }
    }

    /// The policy at a setting of its knob; as its authors define it without one.
    pub(crate) fn make(self, knob: Option<f64>, settings: &Settings) -> Box<dyn Policy> {
        let default = settings.memory_request.as_f64();
        let peer = |policy: Box<dyn Policy>| match knob {
            Some(factor) => Box::new(Scaled { policy, factor }),
            None => policy,
        };
        match self {
            Self::Plimsoll => {
                let price = knob.or(settings.failure_price);
                Box::new(Ours::new(Settings { failure_price: price, ..settings.clone() }, false))
            }
            Self::PlimsollLimit => Box::new(Ours::new(settings.clone(), true)),
            Self::Preset => Box::new(peers::Preset { default }),
            Self::Gantry => peer(Box::<peers::Gantry>::default()),
            Self::Vpa => peer(Box::new(peers::Vpa::new(default))),
            Self::PodScaler => peer(Box::new(peers::PodScaler::new(default))),
            Self::Krr => peer(Box::new(peers::Krr::new(default))),
            Self::MinWaste => peer(Box::new(peers::MinWaste::new(default))),
            Self::MaxSeen => peer(Box::new(peers::MaxSeen::new(default))),
            Self::Oracle => Box::new(peers::Oracle),
        }
    }
}

/// A policy with a factor on its first size.
struct Scaled {
    policy: Box<dyn Policy>,
    factor: f64,
}

impl Policy for Scaled {
    fn size(&mut self, ask: &Ask) -> f64 {
        self.policy.size(ask) * self.factor
    }

    fn again(&mut self, ask: &Ask, failed: f64) -> f64 {
        self.policy.again(ask, failed)
    }

    fn learn(&mut self, ask: &Ask, done: &Done) {
        self.policy.learn(ask, done);
    }
}
