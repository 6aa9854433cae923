//! The policies by name, and how each is created.

use plimsoll_base::named_enum;
use plimsoll_core::predict::Settings;

use super::{
    ours::{PlimsollPolicy, SizesInForce},
    peers,
    policy::{FinishedBuild, PolicyQuestion, SizingPolicy},
};

named_enum! {
    /// A policy by name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PolicyKind {
        /// The request of this server's Predict.
        Plimsoll => "plimsoll",
        /// The limit of this server's Predict.
        PlimsollLimit => "plimsoll-limit",
        /// Request and limit of this server's Predict together, as in a pod: the request is reserved, and a build
        /// is killed at the limit.
        PlimsollPod => "plimsoll-pod",
        /// The memory request that the file has for the build.
        Preset => "preset",
        /// spack-gantry: mean of the last five.
        Gantry => "gantry",
        /// Kubernetes VPA: p90 of a decaying histogram, and 15 %.
        Vpa => "vpa",
        /// `OpenShift` pod-scaler: p80, and 20 %.
        PodScaler => "pod-scaler",
        /// Robusta krr: maximum, and 15 %.
        Krr => "krr",
        /// `TaskVine`: least expected waste, then the maximum.
        MinWaste => "min-waste",
        /// The maximum ever seen.
        MaxSeen => "max-seen",
        /// Exactly the need.
        Oracle => "oracle",
    }
}

impl PolicyKind {
    /// Whether the policy knows the need before the build starts.
    pub(super) fn foresees(self) -> bool {
        self == Self::Oracle
    }

    /// Range of the policy's one setting (its knob): the price of a failure for our predictor, a factor on the
    /// size for others. `None` if the policy has no setting.
    pub(super) fn knob(self) -> Option<(f64, f64)> {
        match self {
            Self::Plimsoll => Some((1e-7, 1e5)),
            Self::PlimsollLimit | Self::PlimsollPod | Self::Preset | Self::Oracle => None,
            _ => Some((0.2, 50.0)),
        }
    }

    /// Creates the policy with this value of its setting; with `None`, as its authors define it.
    pub(super) fn make(self, knob: Option<f64>, settings: &Settings) -> Box<dyn SizingPolicy> {
        let default = settings.memory_request.as_f64();
        let ours = |in_force| {
            // without a value for the knob, use the price of a failure in the settings
            let failure_price = knob.or(settings.failure_price);
            let settings = Settings { failure_price, ..settings.clone() };
            Box::new(PlimsollPolicy::new(settings, in_force))
        };
        let peer = |policy: Box<dyn SizingPolicy>| match knob {
            Some(factor) => Box::new(ScaledPolicy { policy, factor }),
            None => policy,
        };
        match self {
            Self::Plimsoll => ours(SizesInForce::Request),
            Self::PlimsollLimit => ours(SizesInForce::Limit),
            Self::PlimsollPod => ours(SizesInForce::Both),
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

/// A policy with its first size multiplied by a factor.
struct ScaledPolicy {
    policy: Box<dyn SizingPolicy>,
    factor: f64,
}

impl SizingPolicy for ScaledPolicy {
    fn size(&mut self, ask: &PolicyQuestion) -> f64 {
        self.policy.size(ask) * self.factor
    }

    fn size_after_failure(&mut self, ask: &PolicyQuestion, failed: f64) -> f64 {
        self.policy.size_after_failure(ask, failed)
    }

    fn learn(&mut self, ask: &PolicyQuestion, done: &FinishedBuild) {
        self.policy.learn(ask, done);
    }
}
