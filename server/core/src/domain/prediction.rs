//! What the next attempt should ask for, with the reason of each number.

use std::sync::Arc;

use plimsoll_proto::{measured::IncompleteNeed, reasons::SizeBound};
use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Millis, NeedGroups};

/// What an attempt should ask for. Values are in the unit that the field names.
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
    /// Why the confidence is no higher, in a few words; empty where it is high. Not kept: it can be found again.
    #[serde(skip)]
    pub unsure_because: String,
    /// Attempts that it learnt from.
    pub attempts: u32,
    /// One sentence that sums the reasons up.
    pub reason: String,
    /// Several groups of need among those attempts; `None` if they are one, or where it was not looked for. Not kept: it can be found
    /// again.
    #[serde(skip)]
    pub need_groups: Option<Arc<NeedGroups>>,
    /// What attempts prove that memory stopped, while none of the package fitted, or none of exactly this key since; else `None`. In the
    /// first case the confidence is 0: what is too little is known, and what is enough is not. Not kept: it can be found again.
    #[serde(skip)]
    pub lower_bound: Option<LowerBound>,
    /// Where it should run.
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

    /// How far one of its numbers can be trusted, 0 to 1. What is only the default cannot be, however well the others are known.
    pub fn confidence_in(&self, quantity: &Quantity) -> f64 {
        let basis = &quantity.basis;
        if basis.is_default() { 0.0 } else { basis.confidence.unwrap_or(self.confidence) }
    }
}

/// Memory that is known to be too little, and no more is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerBound {
    /// The highest size at which memory stopped an attempt.
    pub above: Bytes,
    /// Attempts that memory stopped, at this size or below it.
    pub attempts: u32,
    /// The rung of the one that was stopped at the highest size.
    pub rung: Rung,
    /// The least size to try next: what the verdict on such an attempt names. No predicted size is below it, but for a cap.
    pub least: Bytes,
}

/// Confidence from which a number speaks for this very build, and no longer for the fleet or the default: where no setting says another.
pub const KNOWN_ENOUGH: f64 = 0.3;

impl Prediction {
    /// Whether enough is known of one of its numbers, by a confidence of at least `floor`. A default never is, however well the others are
    /// known.
    pub fn is_known(&self, quantity: &Quantity, floor: f64) -> bool {
        !quantity.basis.is_default() && self.confidence_in(quantity) >= floor
    }
}

/// Where an attempt should run; empty without pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolAssignment {
    /// Name of the pool; empty if there are no pools, or it can run in none of them.
    pub pool: String,
    /// It needs more than the pool has, and its sizes are lowered to that.
    pub clamped: bool,
    /// One sentence.
    pub reason: String,
}

impl PoolAssignment {
    /// Nothing is said: it takes no room.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A number with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The number; its unit is in the name of the field that holds it.
    pub value: u64,
    /// Why it is that.
    pub basis: Basis,
}

/// Why a number is what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    /// The rung that weighs most.
    pub rung: Rung,
    /// Attempts behind the number, on all rungs.
    pub attempts: u32,
    /// Share of the expected attempts that it covers before the margin; 0 if it is not a quantile.
    pub quantile: f64,
    /// Factor on top, 1 for none.
    pub margin: f64,
    /// What decided beside the attempts: a floor, a cap, the last attempt.
    #[serde(with = "bound_text")]
    pub bound: SizeBound,
    /// How far this number can be trusted, 0 to 1, where that differs from the whole prediction's confidence, which is that of its memory;
    /// `None` where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Every attempt behind the number is of the rung, and not only most of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_of_rung: bool,
    /// Attempts behind a memory size with a need that is a sum over processes. 0 for other numbers, and in records of earlier
    /// releases.
    #[serde(default, skip_serializing_if = "is_none")]
    pub by_processes: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

impl Basis {
    /// Nothing is known of the number: it is the configured default, or rests on that.
    pub fn is_default(&self) -> bool {
        self.rung == Rung::Default && self.confidence.is_none()
    }

    /// The same, and it is that default: an attempt that failed did not change it.
    pub fn is_unchanged_default(&self) -> bool {
        self.is_default() && self.bound == SizeBound::Default
    }
}

/// A bound is a text in JSON and on disk, as on the wire.
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

    /// Whether its attempts tell what this build is, and not only what builds are like.
    pub(crate) fn is_of_build(self) -> bool {
        self >= Self::Siblings
    }

    /// The word for the wire, metrics and JSON.
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

/// One attempt that a prediction learnt from.
#[derive(Debug, Clone, PartialEq)]
pub struct UsedAttempt {
    /// Its id.
    pub attempt: AttemptId,
    /// The most similar rung on which it stands.
    pub rung: Rung,
    /// Share of all weight, 0 to 1.
    pub weight: f64,
    /// Its need, adjusted to the build jobs and the input asked for.
    pub need: Bytes,
    /// Its need as it was measured.
    pub measured: Bytes,
    /// Its build jobs, if they are known.
    pub build_jobs: Option<u32>,
    /// How long it took.
    pub wall: Millis,
    /// It proves "more than this".
    pub censored: bool,
    /// See [`Summary::incomplete`](super::Summary::incomplete).
    pub incomplete: Option<IncompleteNeed>,
}
