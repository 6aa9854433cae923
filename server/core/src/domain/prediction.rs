//! What the next attempt should request, with the reason for each number.

use std::sync::Arc;

use plimsoll_proto::{measured::IncompleteNeed, reasons::SizeBound};
use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Millis, NeedGroups};

/// A prediction. The unit of each value is in the field's comment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Memory to request, bytes.
    pub memory_request: Quantity,
    /// Memory limit, bytes.
    pub memory_limit: Quantity,
    /// CPU to request, thousandths of a core.
    pub cpu_request: Quantity,
    /// CPU limit, thousandths of a core.
    pub cpu_limit: Quantity,
    /// Parallel jobs.
    pub build_jobs: Quantity,
    /// Wall time that half of the attempts need, milliseconds.
    pub wall_p50: Quantity,
    /// Wall time that 95 % of the attempts need, milliseconds.
    pub wall_p95: Quantity,
    /// 0 (a guess) to 1 (many attempts of exactly this key that agree).
    pub confidence: f64,
    /// Why the confidence is not higher, in a few words; empty if it is high. Not stored: it can be computed again.
    #[serde(skip)]
    pub unsure_because: String,
    /// Number of attempts behind it.
    pub attempts: u32,
    /// One sentence that sums it up.
    pub reason: String,
    /// Groups of need among those attempts; `None` if there is one group, or if groups were not searched for. Not stored: it can be
    /// computed again.
    #[serde(skip)]
    pub need_groups: Option<Arc<NeedGroups>>,
    /// The lower bound that attempts stopped by memory prove, while no attempt of the package succeeded, or none of exactly this key
    /// since; else `None`. Without any success of the package the confidence is 0, because no sufficient size is known. Not stored: it can
    /// be computed again.
    #[serde(skip)]
    pub lower_bound: Option<LowerBound>,
    /// The pool that it should run in.
    #[serde(default, skip_serializing_if = "PoolAssignment::is_empty")]
    pub placed: PoolAssignment,
}

impl Prediction {
    /// All of its numbers.
    pub(crate) fn quantities_mut(&mut self) -> [&mut Quantity; 7] {
        [
            &mut self.memory_request,
            &mut self.memory_limit,
            &mut self.cpu_request,
            &mut self.cpu_limit,
            &mut self.build_jobs,
            &mut self.wall_p50,
            &mut self.wall_p95,
        ]
    }

    /// Confidence in one of its numbers, 0 to 1. It is 0 for a configured default, even if the other numbers are well known.
    pub fn confidence_in(&self, quantity: &Quantity) -> f64 {
        let basis = &quantity.basis;
        if basis.is_default() { 0.0 } else { basis.confidence.unwrap_or(self.confidence) }
    }
}

/// Memory that is known to be too little, while no sufficient size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerBound {
    /// The highest size at which memory stopped an attempt.
    pub above: Bytes,
    /// Attempts that memory stopped, at this size or below it.
    pub attempts: u32,
    /// Number of attempts that memory stopped at this size or below.
    pub rung: Rung,
    /// The least size to try next, as the verdict on such an attempt names it. No predicted size is below it, unless a cap applies.
    pub least: Bytes,
}

/// Default confidence threshold from which a number counts as known for this build, and not only for the fleet.
pub const KNOWN_ENOUGH: f64 = 0.3;

impl Prediction {
    /// Whether one of its numbers has a confidence of at least `floor`. A configured default never counts as known.
    pub fn is_known(&self, quantity: &Quantity, floor: f64) -> bool {
        !quantity.basis.is_default() && self.confidence_in(quantity) >= floor
    }
}

/// The pool chosen for an attempt; empty without pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolAssignment {
    /// Name of the pool; empty if there are no pools, or none fits.
    pub pool: String,
    /// Whether the prediction exceeds the pool's maximum and was lowered to it.
    pub clamped: bool,
    /// One sentence.
    pub reason: String,
}

impl PoolAssignment {
    /// Whether it is empty; then it is left out of the stored record.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A number with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The number, in the unit of the field that holds it.
    pub value: u64,
    /// How it came about.
    pub basis: Basis,
}

/// How a number came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    /// The rung with the most weight.
    pub rung: Rung,
    /// Attempts behind the number, on all rungs.
    pub attempts: u32,
    /// Share of the expected attempts that it covers before the margin; 0 if it is not a quantile.
    pub quantile: f64,
    /// Safety factor; 1 for none.
    pub margin: f64,
    /// What else determined it: a floor, a cap, the last attempt.
    #[serde(with = "bound_text")]
    pub bound: SizeBound,
    /// Confidence in this number, 0 to 1, where it differs from the prediction's, which is that of its memory; else `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Whether all attempts behind the number are of the rung, not only most.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_of_rung: bool,
    /// Attempts behind a memory size whose need is a sum over processes. 0 for other numbers and in records without this field.
    #[serde(default, skip_serializing_if = "is_none")]
    pub by_processes: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

impl Basis {
    /// Of a number that is no quantile, has no margin, and is as sure as the whole prediction.
    pub fn of(rung: Rung, attempts: u32, bound: SizeBound) -> Self {
        Self {
            rung,
            attempts,
            quantile: 0.0,
            margin: 1.0,
            bound,
            confidence: None,
            all_of_rung: false,
            by_processes: 0,
        }
    }

    /// The number is the configured default or derived from it.
    pub fn is_default(&self) -> bool {
        self.rung == Rung::Default && self.confidence.is_none()
    }

    /// The number is the configured default, unchanged by any failed attempt.
    pub fn is_unchanged_default(&self) -> bool {
        self.is_default() && self.bound == SizeBound::Default
    }
}

/// Serializes a bound as a text, in JSON and on disk as on the wire.
mod bound_text {
    use plimsoll_proto::reasons::SizeBound;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bound: &SizeBound, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(bound)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SizeBound, D::Error> {
        String::deserialize(from).map(|text| SizeBound::parse(&text))
    }
}

/// A rung of the ladder of similarity, least similar first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Nothing is known: the configured default.
    Default,
    /// Every attempt of the fleet.
    Fleet,
    /// The same build system.
    BuildSystem,
    /// Other parts of the same parallel job of the same project: `test 1/4` for `test 2/4`.
    Siblings,
    /// The same package of the same project.
    Package,
    /// All but the version and the compiler.
    NoCompiler,
    /// All but the version.
    NoVersion,
    /// Exactly this key.
    Exact,
}

impl Rung {
    /// The rungs that hold attempts, most similar first.
    pub const LADDER: [Self; 7] = [
        Self::Exact,
        Self::NoVersion,
        Self::NoCompiler,
        Self::Package,
        Self::Siblings,
        Self::BuildSystem,
        Self::Fleet,
    ];

    /// Whether attempts on this rung describe this build, and not only builds in general.
    pub(crate) fn is_of_build(self) -> bool {
        self >= Self::Siblings
    }

    /// The name on the wire, in metrics and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Fleet => "fleet",
            Self::BuildSystem => "build_system",
            Self::Siblings => "siblings",
            Self::Package => "package",
            Self::NoCompiler => "no_compiler",
            Self::NoVersion => "no_version",
            Self::Exact => "exact",
        }
    }
}

/// One attempt that a prediction used.
#[derive(Debug, Clone, PartialEq)]
pub struct UsedAttempt {
    /// ID of the attempt.
    pub attempt: AttemptId,
    /// The most similar rung that it is on.
    pub rung: Rung,
    /// The attempt's share of the total weight, 0 to 1.
    pub weight: f64,
    /// The attempt's need, adjusted to the requested build jobs and input.
    pub need: Bytes,
    /// The attempt's need as it was measured.
    pub measured: Bytes,
    /// The attempt's build jobs, if they are known.
    pub build_jobs: Option<u32>,
    /// How long it took.
    pub wall: Millis,
    /// Whether the need is a lower bound: memory stopped the attempt.
    pub censored: bool,
    /// See [`Summary::incomplete`](super::Summary::incomplete).
    pub incomplete: Option<IncompleteNeed>,
}
