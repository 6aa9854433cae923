//! What the next attempt should request, with the reason for each number.

use plimsoll_proto::{measured::IncompleteNeed, reasons::SizeBound, v1::TakenBackLowering, wire_enum};
use serde::{Deserialize, Serialize};

use super::{AttemptId, Bytes, Millis, stored_record::stored_record};

/// The sizes predicted for the next attempt. The unit of each value is in the field's comment.
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
    /// Number of parallel build jobs.
    pub build_jobs: Quantity,
    /// Wall time that half of the attempts need, milliseconds.
    pub wall_p50: Quantity,
    /// Wall time that 95 % of the attempts need, milliseconds.
    pub wall_p95: Quantity,
    /// Share of the next builds that are expected to stay within the memory limit, 0 to 1; 0 for a guess or a default.
    pub confidence: f64,
    /// Why the confidence is not higher, in a few words; empty if it is high. It is not stored, because it can be computed again.
    #[serde(skip)]
    pub unsure_because: String,
    /// Number of attempts that the prediction was computed from.
    pub attempts: u32,
    /// One sentence that sums up the prediction.
    pub reason: String,
    /// What parts of the key add to its need, the largest first; empty if nothing is known. It is not stored, because it can be computed
    /// again.
    #[serde(skip)]
    pub parts: Vec<PartEffect>,
    /// The lower bound proven by attempts that memory stopped. `None` if an attempt of exactly this key succeeded since, or if one of the
    /// package did and memory stopped none of exactly this key. If none of the package succeeded, the confidence is 0, because no
    /// sufficient size is known. The bound is not stored, because it can be computed again.
    #[serde(skip)]
    pub lower_bound: Option<LowerBound>,
    /// The lowering of this build's memory that failed, so that the sizes before it are a floor. It is not stored, because it can be
    /// computed again.
    #[serde(skip)]
    pub taken_back: Option<TakenBackLowering>,
    /// Whether all attempts behind it are of the key's package: then attempts of other packages change it only through
    /// [`History::mean_held`](super::History::mean_held). It is not stored, because it can be computed again.
    #[serde(skip)]
    pub is_of_package: bool,
    /// The pool that the build should run in.
    #[serde(default, skip_serializing_if = "PoolAssignment::is_empty")]
    pub placed: PoolAssignment,
}

impl Prediction {
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

    /// Confidence in one number of the prediction, 0 to 1: that in the prediction, unless the number follows from fewer attempts. It is 0 for a
    /// configured default, even if the other numbers are well known.
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
    /// Number of attempts that memory stopped at this size or below.
    pub attempts: u32,
    /// The rung of the attempt that memory stopped at the size `above`.
    pub rung: Rung,
    /// The least size to try next. It is the size that a verdict would propose after memory stopped an attempt at [`Self::above`]. No
    /// predicted size is smaller, unless a cap applies.
    pub least: Bytes,
}

/// Default for the least confidence of a number that is put in place of a size by hand: more builds stay within it than not. A limit that an
/// operator's cap cuts may have less.
pub const KNOWN_CONFIDENCE: f64 = 0.5;
/// Fewest attempts of other builds of a package that show a number for a build without attempts of its own.
const ENOUGH_OF_PACKAGE: u32 = 5;

impl Prediction {
    /// Whether a number of the prediction has a confidence of at least `floor`. A configured default never counts as known.
    pub fn is_known(&self, quantity: &Quantity, floor: f64) -> bool {
        !quantity.basis.is_default() && self.confidence_in(quantity) >= floor
    }

    /// Like [`Self::is_known`], for numbers that replace sizes by hand: they follow from an attempt of the same build, in any version, or from
    /// several others.
    pub fn is_known_for_build(&self, quantity: &Quantity, floor: f64) -> bool {
        let basis = &quantity.basis;
        let is_shown = basis.rung >= Rung::NoVersion || basis.attempts >= ENOUGH_OF_PACKAGE;
        is_shown && self.is_known(quantity, floor)
    }
}

/// The pool chosen for an attempt; empty if there are no pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolAssignment {
    /// Name of the pool; empty if there are no pools, or none fits.
    pub pool: String,
    /// Whether the prediction exceeds the pool's maximum and was lowered to it.
    pub clamped: bool,
    /// One sentence that says why this pool was chosen.
    pub reason: String,
}

impl PoolAssignment {
    /// Whether no pool was considered. An empty assignment is left out of the stored record.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One number of a prediction, and what determined it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The number; its unit is that of the field in [`Prediction`].
    pub value: u64,
    /// What determined the number.
    pub basis: Basis,
}

stored_record! {
    /// What determined a number of a prediction.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Basis {
        /// The rung with most weight.
        pub rung: Rung,
        /// Number of attempts that the number was computed from, on all rungs.
        pub attempts: u32,
        /// Share of the expected attempts that the number covers before the margin; 0 if it is not a quantile.
        pub quantile: f64,
        /// Factor above what the attempts need; 1 for none.
        pub margin: f64,
        /// What else determined the number, such as a floor, a cap, or the last attempt.
        #[serde(with = "bound_text")]
        pub bound: SizeBound,
        /// Confidence in this number, 0 to 1. `None` if it is the prediction's confidence, which is that in the memory sizes.
        pub confidence: Option<f64> = default,
        /// Whether all attempts behind the number are on `rung`, not only most of them.
        pub all_of_rung: bool = default,
        /// Number of attempts behind a memory size with a need that is a sum over processes. 0 for other numbers and in records without this
        /// field.
        pub by_processes: u32 = default,
    }
}

impl Basis {
    /// The basis of a number that is no quantile, has no margin, and has the confidence of the whole prediction.
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

    /// Whether the number is the configured default or derived from it.
    pub fn is_default(&self) -> bool {
        self.rung == Rung::Default && self.confidence.is_none()
    }

    /// Whether the number is the configured default, and no failed attempt raised it.
    pub fn is_unchanged_default(&self) -> bool {
        self.is_default() && self.bound == SizeBound::Default
    }
}

/// Serializes a bound as a text: the same in JSON, on disk and on the wire.
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

wire_enum! {
    /// A rung of the ladder of similarity, least similar first: what attempts on it have in common with a key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Rung {
        /// No attempts: the configured default.
        Default => "default",
        /// Every attempt of the fleet.
        Fleet => "fleet",
        /// Attempts with the same build system.
        BuildSystem => "build_system",
        /// Other parts of the same parallel job of the same project: `test 1/4` for `test 2/4`.
        Siblings => "siblings",
        /// Attempts of the same package in the same project.
        Package => "package",
        /// Attempts with the same package, build options and architecture: all fields but version and compiler are equal.
        NoCompiler => "no_compiler",
        /// Attempts with equal keys except for the version.
        NoVersion => "no_version",
        /// Attempts with exactly this key.
        Exact => "exact",
    }
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

    /// Whether attempts on this rung are of the same build, and not only of other builds.
    pub(crate) fn is_of_build(self) -> bool {
        self >= Self::Siblings
    }
}

/// What one part of a key adds to the need, compared with other values of the part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartEffect {
    /// The part: a variant (`+cuda`), or a field with its value (`version 1.2`).
    pub part: String,
    /// Whether it adds to the need.
    pub needs_more: bool,
    /// By how much.
    pub change: Bytes,
}

impl PartEffect {
    /// `+cuda needs 24.00 GiB more`.
    pub fn describe(&self) -> String {
        format!("{} needs {} {}", self.part, self.change, if self.needs_more { "more" } else { "less" })
    }
}

/// One attempt that a prediction used.
#[derive(Debug, Clone, PartialEq)]
pub struct UsedAttempt {
    /// ID of the attempt.
    pub attempt: AttemptId,
    /// The most similar rung that the attempt is on.
    pub rung: Rung,
    /// The attempt's share of the total weight, 0 to 1.
    pub weight: f64,
    /// The attempt's need, adjusted to the requested build jobs and input.
    pub need: Bytes,
    /// The attempt's need as it was measured.
    pub measured: Bytes,
    /// The attempt's build jobs, if they are known.
    pub build_jobs: Option<u32>,
    /// Wall time of the attempt.
    pub wall: Millis,
    /// Whether the need is a lower bound: memory stopped the attempt.
    pub censored: bool,
    /// The source of the need, if that source gives only a lower bound of it.
    pub incomplete: Option<IncompleteNeed>,
}
