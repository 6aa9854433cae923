//! Why a number is what it is, as people read it: the terminal, the page and the report at the end of a job all say it with
//! these sentences.
//!
//! A [`Basis`](crate::v1::Basis) travels as numbers and one text, its bound. That text is one of a closed list, which [`SizeBound`]
//! writes and reads back: the server names the bound as a value, and each view makes a sentence of the value. What other releases
//! wrote, or will write, is shown as it is.
//!
//! All sentences stand in `reasons/sentences.txt`, to be read by people; a test compares them.

mod bound;
mod examples;

pub use bound::SizeBound;
pub use examples::{examples, prediction_of};

use crate::{
    figures,
    v1::{Prediction, Quantity, Rung},
};

/// Which number of a prediction is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeKind {
    /// Memory to ask the scheduler for, bytes.
    MemoryRequest,
    /// Memory at which the kernel kills, bytes.
    MemoryLimit,
    /// CPU to ask the scheduler for, thousandths of a core.
    CpuRequest,
    /// CPU beyond which the kernel throttles, thousandths of a core.
    CpuLimit,
    /// Parallel jobs.
    BuildJobs,
    /// Wall time that half of the builds need, milliseconds.
    MedianTime,
    /// Wall time that 95 % of the builds need, milliseconds.
    LongTime,
}

impl SizeKind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::MemoryRequest,
        Self::MemoryLimit,
        Self::CpuRequest,
        Self::CpuLimit,
        Self::BuildJobs,
        Self::MedianTime,
        Self::LongTime,
    ];

    /// Its name, as it stands before the number.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryRequest => "memory request",
            Self::MemoryLimit => "memory limit",
            Self::CpuRequest => "cpu request",
            Self::CpuLimit => "cpu limit",
            Self::BuildJobs => "build jobs",
            Self::MedianTime => "median time",
            Self::LongTime => "time for 95 %",
        }
    }

    /// The number of a prediction, if it has it.
    pub fn of(self, prediction: &Prediction) -> Option<&Quantity> {
        match self {
            Self::MemoryRequest => prediction.memory_request_bytes.as_ref(),
            Self::MemoryLimit => prediction.memory_limit_bytes.as_ref(),
            Self::CpuRequest => prediction.cpu_request_millicores.as_ref(),
            Self::CpuLimit => prediction.cpu_limit_millicores.as_ref(),
            Self::BuildJobs => prediction.build_jobs.as_ref(),
            Self::MedianTime => prediction.wall_p50_ms.as_ref(),
            Self::LongTime => prediction.wall_p95_ms.as_ref(),
        }
    }

    /// The number as people read it: `552 MiB`, `1.5 cores`, `4`, `1 min 5 s`.
    pub fn shown(self, value: u64) -> String {
        match self {
            Self::MemoryRequest | Self::MemoryLimit => figures::bytes(value),
            Self::CpuRequest | Self::CpuLimit => {
                let unit = if value == 1000 { "core" } else { "cores" };
                format!("{} {unit}", figures::millicores(value))
            }
            Self::BuildJobs => value.to_string(),
            Self::MedianTime | Self::LongTime => figures::millis(value),
        }
    }
}

/// Why a number is what it is, and whose attempts say so: one sentence without its full stop; empty if nothing is said. Names of
/// pools and texts of other releases are in it: clean it before it is shown on a terminal.
pub fn sentence(kind: SizeKind, quantity: &Quantity) -> String {
    let Some(basis) = &quantity.basis else { return String::new() };
    let bound = SizeBound::parse(&basis.bound);
    let why = because(kind, quantity.value, (basis.quantile, basis.margin), &bound);
    let whose = match (basis.rung(), basis.attempts) {
        (Rung::Default | Rung::Unspecified, _) | (_, 0) => return why,
        (rung, 1) => format!("1 attempt of {}", scope(rung)),
        (rung, attempts) => format!("{attempts} attempts, mostly of {}", scope(rung)),
    };
    match bound {
        _ if bound.stands_alone() => why,
        SizeBound::None if why.is_empty() && kind == SizeKind::BuildJobs => {
            format!("used most often ({whose})")
        }
        _ if why.is_empty() => whose,
        _ => format!("{why} ({whose})"),
    }
}

/// The same without whose attempts say so. `quantile` is the share of similar builds that the value covers before `margin`, the
/// factor on top; 0 if it is not known.
pub fn because(kind: SizeKind, value: u64, (quantile, margin): (f64, f64), bound: &SizeBound) -> String {
    let covers = if bound.replaces_share() { String::new() } else { coverage(kind, quantile, bound) };
    let pages = match bound {
        SizeBound::None if kind == SizeKind::MemoryLimit && !covers.is_empty() => file_pages(value, margin),
        _ => None,
    };
    let parts = [Some(covers), pages, Some(bound.clause())];
    let said: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    said.join(", ")
}

/// What it means that a number covers a share of similar builds; empty where that says nothing.
fn coverage(kind: SizeKind, quantile: f64, bound: &SizeBound) -> String {
    if quantile.is_nan() || quantile <= 0.0 {
        return String::new();
    }
    // of a model with tails: it never covers all that can happen
    let share = if quantile >= 0.9995 { "over 99.9 %".to_owned() } else { figures::percent(quantile) };
    match kind {
        SizeKind::MemoryRequest if *bound == SizeBound::None => {
            format!("the cheapest size: covers {share} of similar builds")
        }
        // no room for the pages of files is left
        SizeKind::MemoryLimit if bound.is_cut() => {
            format!("covers the need of {share} of similar builds")
        }
        SizeKind::MemoryRequest | SizeKind::MemoryLimit => format!("covers {share} of similar builds"),
        SizeKind::CpuRequest => format!("{share} of similar builds use less on average"),
        SizeKind::CpuLimit => format!("{share} of similar builds never use more"),
        // the name of the number says it already
        SizeKind::BuildJobs | SizeKind::MedianTime | SizeKind::LongTime => String::new(),
    }
}

/// The room above the need: pages of files that the build reads again and again.
fn file_pages(value: u64, margin: f64) -> Option<String> {
    if margin.is_nan() || margin <= 1.0 || margin.is_infinite() {
        return None;
    }
    let room = figures::float(value) * (1.0 - 1.0 / margin);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the value")]
    let room = room.round() as u64;
    Some(format!("with {} more for file pages", figures::bytes(room)))
}

/// The line that a failure is known by, for people: the first one of the log that says what went wrong. Servers of earlier releases
/// tell only the fingerprint, without numbers and directories.
pub fn failure_line<'l>(first: &'l str, fingerprint: &'l str) -> &'l str {
    if first.is_empty() { fingerprint } else { first }
}

/// What attempts on a rung are attempts of.
pub fn scope(rung: Rung) -> &'static str {
    match rung {
        Rung::Exact => "this key",
        Rung::NoVersion => "this key in other versions",
        Rung::NoCompiler => "this key with other compilers",
        Rung::Package => "this package",
        Rung::BuildSystem => "this build system",
        Rung::Fleet | Rung::Default | Rung::Unspecified => "other packages",
    }
}

#[cfg(test)]
mod tests;
