//! Sentences that explain a predicted number to people. The terminal, the page and the report at the end of a job all use them.
//!
//! A [`Basis`](crate::v1::Basis) is sent as numbers and a bound: [`SizeBound`].
//!
//! All sentences are listed in `reasons/sentences.txt` for reading; a test compares the list.

mod bound;
#[cfg(test)]
mod examples;

pub use bound::SizeBound;

use std::fmt::Write as _;

use crate::{
    figures, measured,
    v1::{LowerBound, Prediction, Quantity, Rung},
};
use plimsoll_base::{named_enum, quantity};

/// Confidence below which sizes are a guess, 0 to 1: they are not shown as advice, and not used for jobs. Attempts of other packages give no
/// confidence.
pub const MIN_CONFIDENCE: f64 = 0.1;

/// Number of build jobs for each requested core from which both numbers are explained.
const MANY_JOBS_PER_CORE: u64 = 3;

named_enum! {
    /// A number of a prediction.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SizeKind {
        /// Memory request: what the scheduler reserves, bytes.
        MemoryRequest => "memory request",
        /// Memory limit: where the kernel kills, bytes.
        MemoryLimit => "memory limit",
        /// CPU request: what the scheduler reserves, thousandths of a core.
        CpuRequest => "cpu request",
        /// CPU limit: where the kernel throttles, thousandths of a core.
        CpuLimit => "cpu limit",
        /// Number of parallel build jobs.
        BuildJobs => "build jobs",
        /// Wall time that half of the builds need, milliseconds.
        MedianTime => "median time",
        /// Wall time that 95 % of the builds need, milliseconds.
        LongTime => "time for 95 %",
    }
}

impl SizeKind {
    /// The number of this kind in a prediction, if the prediction has it.
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

    /// Formats the number for people: `552 MiB`, `1.5 cores`, `4`, `1 min 5 s`.
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

/// A prediction as rows for people, each a name, a value and the reason for it; the reason may be empty. A row without a name is a note. The
/// terminal, the page and the report at the end of a job show these rows. They may contain names of pools and texts of other releases, so callers clean them before they
/// show them on a terminal.
pub fn rows(prediction: &Prediction) -> Vec<(&'static str, String, String)> {
    let numbers = SizeKind::ALL.into_iter().filter_map(|kind| Some((kind, kind.of(prediction)?)));
    let numbers: Vec<_> =
        numbers.map(|(kind, quantity)| (kind, quantity, reason_in(prediction, kind, quantity))).collect();
    let based_on = based_on(&numbers);
    let size = |(kind, quantity, reason): (SizeKind, &Quantity, Reason)| {
        let is_shared = based_on.as_deref() == Some(reason.why.as_str()) && reason.source.is_empty();
        let why = match based_on.as_deref() {
            Some(source) if reason.source == source => reason.why,
            _ if is_shared => String::new(),
            _ => reason.sentence(),
        };
        (kind.as_str(), kind.shown(quantity.value), why)
    };
    let attempts = || figures::counted(prediction.attempts.into(), "attempt");
    let pool = if prediction.pool.is_empty() { "none" } else { &prediction.pool };
    let clamped = if prediction.clamped { "lowered to what it takes: " } else { "" };
    let pool = ("pool", pool.to_owned(), format!("{clamped}{}", prediction.pool_reason));
    let shadow = "shadow mode: these sizes are not put into force; the build keeps what it has";
    let notes = [
        Some(other_reasons(&prediction.reason)),
        more_jobs_than_cores_note(prediction),
        prediction.shadow.then(|| shadow.to_owned()),
    ];
    let notes = notes.into_iter().flatten().filter(|note| !note.is_empty());
    // a size may rest on the failure before it alone: what is known of other builds says nothing about it
    let mut bounds = numbers.iter().filter_map(|(_, number, _)| Some(SizeBound::of(number.basis.as_ref()?)));
    let rests_on_failure =
        prediction.confidence < MIN_CONFIDENCE && bounds.any(|bound| bound.is_after_attempt());
    let sizes: Vec<_> = numbers.into_iter().map(size).collect();
    let basis = [
        ("based on", based_on.unwrap_or_else(attempts), String::new()),
        ("confidence", confidence(prediction), String::new()),
    ];
    let basis = basis.into_iter().filter(|_| !rests_on_failure);
    let pool = (!prediction.pool_reason.is_empty()).then_some(pool);
    let rows = sizes.into_iter().chain(pool).chain(basis);
    rows.chain(notes.map(|note| ("", note, String::new()))).collect()
}

/// The attempts that most numbers are based on, or the one reason of all numbers; `None` if no two are based on the same attempts.
fn based_on(numbers: &[(SizeKind, &Quantity, Reason)]) -> Option<String> {
    // if nothing is known about the key, all numbers are the default, for the same reason
    if let [(_, _, first), others @ ..] = numbers
        && !others.is_empty()
        && first.source.is_empty()
        && !first.why.is_empty()
        && others.iter().all(|(_, _, reason)| reason.source.is_empty() && reason.why == first.why)
    {
        return Some(first.why.clone());
    }
    let shared = |source: &str| numbers.iter().filter(|(_, _, reason)| reason.source == source).count();
    let all = numbers.iter().map(|(_, _, reason)| reason.source.as_str()).filter(|source| !source.is_empty());
    all.max_by_key(|source| shared(source)).filter(|source| shared(source) > 1).map(str::to_owned)
}

/// The confidence, and why it is not higher: `96 %: only 1 attempt is known`.
fn confidence(prediction: &Prediction) -> String {
    let sure = figures::percent(prediction.confidence);
    match prediction.unsure_because.as_str() {
        "" => sure,
        why => format!("{sure}: {why}"),
    }
}

/// The part of an explanation that the rows of sizes do not show.
fn other_reasons(reason: &str) -> String {
    let is_named = |clause: &&str| SizeKind::ALL.iter().any(|kind| clause.starts_with(kind.as_str()));
    reason.split("; ").filter(|clause| !is_named(clause)).collect::<Vec<_>>().join("; ")
}

/// Words for what a lower bound proves: `more than 250 MiB: 1 attempt was killed there; try at least 375 MiB`.
pub fn lower_bound(bound: &LowerBound) -> String {
    let killed = match bound.attempts {
        1 => "1 attempt was killed there".to_owned(),
        many => format!("{many} attempts were killed there or below"),
    };
    let [above, least] = [bound.above_bytes, bound.least_bytes].map(figures::bytes);
    format!("more than {above}: {killed}; try at least {least}")
}

/// A sentence, without its full stop, that says why there are far more build jobs than requested cores. `None` if there are not, or if
/// something other than earlier builds decided one of the two numbers.
fn more_jobs_than_cores_note(prediction: &Prediction) -> Option<String> {
    let of = |kind: SizeKind| {
        let quantity = kind.of(prediction).filter(|quantity| quantity.value > 0)?;
        Some((quantity.value, quantity.basis.as_ref()?))
    };
    let ((jobs, ran), (millicores, used)) = (of(SizeKind::BuildJobs)?, of(SizeKind::CpuRequest)?);
    let is_usual = SizeBound::of(ran) == SizeBound::None && ran.attempts > 0;
    if !is_usual || jobs.saturating_mul(1000) < millicores.saturating_mul(MANY_JOBS_PER_CORE) {
        return None;
    }
    let request = match used.rung() {
        Rung::Default => "the cpu request is the default",
        _ if SizeBound::of(used) == SizeBound::None => "the cpu request is what builds used on average",
        _ => return None,
    };
    Some(format!("-j{jobs} is how many jobs the builds ran with, not how many ran at once; {request}"))
}

/// The reason of a memory size that is the default although attempts were killed: those attempts prove a lower bound.
fn lower_bound_reason(kind: SizeKind, quantity: &Quantity, prediction: &Prediction) -> Option<Reason> {
    let is_memory = matches!(kind, SizeKind::MemoryRequest | SizeKind::MemoryLimit);
    let basis = quantity.basis.as_ref().filter(|_| is_memory)?;
    let bound = prediction.lower_bound.as_ref().filter(|_| SizeBound::of(basis) == SizeBound::Default)?;
    Some(Reason { why: format!("the default; {}", lower_bound(bound)), source: String::new() })
}

fn reason_in(prediction: &Prediction, kind: SizeKind, quantity: &Quantity) -> Reason {
    if let Some(reason) = lower_bound_reason(kind, quantity, prediction) {
        return reason;
    }
    let mut reason = reason_of_quantity(kind, quantity);
    let parts = quantity.basis.as_ref().zip(prediction.memory_request_bytes.as_ref());
    if let Some((basis, request)) = parts.filter(|_| kind == SizeKind::MemoryLimit) {
        reason.why = beside_request(&reason.why, quantity.value, basis.margin, request.value);
    }
    reason
}

/// The reason of a limit beside its request, so that its room is the difference of both: where the limit covers more builds than the
/// request, only a part of that is for file pages.
pub fn beside_request(why: &str, limit: u64, margin: f64, request: u64) -> String {
    let (Some(room), Some(above)) = (margin_amount(limit, margin), limit.checked_sub(request)) else {
        return why.to_owned();
    };
    let beside = if above < room.saturating_add(1 << 20) {
        file_pages_clause(above)
    } else {
        let [above, room] = [above, room].map(figures::bytes);
        format!("with {above} more than the request, {room} of it for file pages")
    };
    why.replace(&file_pages_clause(room), &beside)
}

/// Why a number is as it is, and which attempts show it; either may be empty.
struct Reason {
    why: String,
    source: String,
}

impl Reason {
    fn sentence(self) -> String {
        match (self.why, self.source) {
            (why, source) if source.is_empty() => why,
            (why, source) if why.is_empty() => source,
            (why, source) => format!("{why} ({source})"),
        }
    }
}

fn reason_of_quantity(kind: SizeKind, quantity: &Quantity) -> Reason {
    let alone = |why: String| Reason { why, source: String::new() };
    let Some(basis) = &quantity.basis else { return alone(String::new()) };
    let bound = SizeBound::of(basis);
    if bound == SizeBound::Default && basis.attempts > 0 {
        let (attempts, say) = (
            figures::counted(basis.attempts.into(), "attempt"),
            if basis.attempts == 1 { "says" } else { "say" },
        );
        return alone(format!("the default: {attempts} {say} too little about it"));
    }
    let why = reason_of_size(kind, quantity.value, basis.quantile, basis.margin, &bound);
    let mut source = match (basis.rung(), basis.attempts) {
        (Rung::Default | Rung::Unspecified, _) | (_, 0) => return alone(why),
        (rung, 1) => format!("1 attempt of {}", rung_scope(rung)),
        (rung, attempts) => {
            let share = if basis.all_of_rung { "all" } else { "mostly" };
            format!("{attempts} attempts, {share} of {}", rung_scope(rung))
        }
    };
    if let Some(note) = measured::attempts_note(basis.by_processes, basis.attempts) {
        let _written = write!(source, ", {note}");
    }
    match bound {
        _ if bound.needs_no_source() => alone(why),
        SizeBound::None if why.is_empty() && kind == SizeKind::BuildJobs => {
            Reason { why: "used most often".to_owned(), source }
        }
        _ => Reason { why, source },
    }
}

/// Why a number is as it is, without the attempts that show it. `quantile`: the share of similar builds that the value covers before the
/// factor `margin`; 0 if it is not known.
pub fn reason_of_size(kind: SizeKind, value: u64, quantile: f64, margin: f64, bound: &SizeBound) -> String {
    let covers = if bound.hides_coverage() { String::new() } else { coverage(kind, quantile, bound) };
    let pages = match bound {
        SizeBound::None if kind == SizeKind::MemoryLimit && !covers.is_empty() => {
            margin_amount(value, margin).map(file_pages_clause)
        }
        _ => None,
    };
    let memory = matches!(kind, SizeKind::MemoryRequest | SizeKind::MemoryLimit);
    let doubt = (bound.is_cut() && memory && covers.is_empty()).then(|| "so it may not be enough".to_owned());
    let clause = match step_above_failed(kind, value, margin, bound) {
        Some(step) => bound.clause_with_step(&kind.shown(step)),
        None => bound.clause(),
    };
    let parts = [Some(covers), pages, Some(clause), doubt];
    let clauses: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    clauses.join(", ")
}

/// A clause that says which share of similar builds a number covers; empty if that is not known or says nothing.
fn coverage(kind: SizeKind, quantile: f64, bound: &SizeBound) -> String {
    if quantile.is_nan() || quantile <= 0.0 {
        return String::new();
    }
    // the share comes from a model that allows larger values, so it is never written as 100 %
    let share = if quantile >= 0.9995 { "over 99.9 %".to_owned() } else { figures::percent(quantile) };
    match kind {
        SizeKind::MemoryRequest if *bound == SizeBound::None => {
            format!("the cheapest size: covers {share} of similar builds")
        }
        // a lowered limit may have no room for file pages, so only the need is mentioned
        SizeKind::MemoryLimit if bound.is_cut() => {
            format!("covers the need of {share} of similar builds")
        }
        SizeKind::MemoryRequest | SizeKind::MemoryLimit => format!("covers {share} of similar builds"),
        SizeKind::CpuRequest => format!("{share} of similar builds use no more on average"),
        SizeKind::CpuLimit => format!("{share} of similar builds never use more"),
        // the name of these numbers says already what they cover
        SizeKind::BuildJobs | SizeKind::MedianTime | SizeKind::LongTime => String::new(),
    }
}

/// A clause about the room above the need, for file pages that the build reads again and again.
fn file_pages_clause(room: u64) -> String {
    format!("with {} more for file pages", figures::bytes(room))
}

/// The part of a value that the factor `margin` added; `None` if there is no margin.
fn margin_amount(value: u64, margin: f64) -> Option<u64> {
    if margin.is_nan() || margin <= 1.0 || margin.is_infinite() {
        return None;
    }
    let room = figures::float(value) * (1.0 - 1.0 / margin);
    Some(figures::to_whole(room)).filter(|room| *room > 0)
}

/// How far a number is above the size that was too small; `None` if that is not known.
fn step_above_failed(kind: SizeKind, value: u64, margin: f64, bound: &SizeBound) -> Option<u64> {
    match bound {
        SizeBound::HeldBack(cores) => {
            let held = quantity::rounded_millicores(cores.parse().ok()?);
            value.checked_sub(held).filter(|step| *step > 0)
        }
        _ if matches!(kind, SizeKind::MemoryRequest | SizeKind::MemoryLimit) => margin_amount(value, margin),
        _ => None,
    }
}

/// The log line that describes a failure to people: the first line that shows what went wrong, else the line that its signature was
/// computed from, which has no numbers and directories.
pub fn failure_line<'l>(first: &'l str, fingerprint: &'l str) -> &'l str {
    if first.is_empty() { fingerprint } else { first }
}

/// Words for a position in a log, counted from 1; `None` for 0.
pub fn line_place(number: u32, from_end: bool) -> Option<String> {
    let shown = figures::count(number.into());
    match (number, from_end) {
        (0, _) => None,
        (1, true) => Some("the last line of the log".to_owned()),
        (_, true) => Some(format!("line {shown} from the end of the log")),
        (_, false) => Some(format!("line {shown} of the log")),
    }
}

/// Words for what attempts on a rung have in common with the key.
pub fn rung_scope(rung: Rung) -> &'static str {
    match rung {
        Rung::Exact => "this key",
        Rung::NoVersion => "this key in other versions",
        Rung::NoCompiler => "this key with other compilers",
        Rung::Package => "this package",
        Rung::Siblings => "other parts of this job",
        Rung::BuildSystem => "this build system",
        // a package of the same name in another project counts as another build
        Rung::Fleet | Rung::Default | Rung::Unspecified => "other packages or projects",
    }
}

#[cfg(test)]
mod tests;
