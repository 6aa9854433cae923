//! Writes the reason of a prediction as text.

use std::fmt::Write as _;

use plimsoll_proto::{
    figures,
    measured::{self, IncompleteNeed},
    reasons::{self, SizeBound, SizeKind},
    v1,
};

use super::{
    memory::{self, MemorySizes},
    similar::{SimilarAttempts, WeightedAttempt},
};
use crate::domain::{Bytes, Key, PartEffect, Quantity, Rung};

/// Confidence below which the answer says why it is low: what a limit has that follows from a few attempts of the same build.
const SURE_CONFIDENCE: f64 = 0.95;

/// The main reason for a low confidence: few attempts that memory did not stop (named even if the confidence is high), a limit that is cut,
/// or attempts of other builds. Empty otherwise, and if nothing is known.
pub(super) fn unsure_because(similar: &SimilarAttempts<'_>, confidence: f64, sizes: &MemorySizes) -> String {
    let fitted = similar.uncensored_count();
    if sizes.by_kills.is_some() || (fitted == 0 && !similar.attempts.is_empty()) {
        return "memory stopped every known attempt".to_owned();
    }
    let is_sure = confidence >= SURE_CONFIDENCE;
    match (&sizes.limit.basis.bound, fitted) {
        (_, 0) => String::new(),
        _ if !similar.knows_package() => format!("all attempts are of {}", rung_scope(similar.main_rung())),
        (SizeBound::Cap(cap), _) if !is_sure => format!("builds may need more than the highest size, {cap}"),
        (_, 1) => "only 1 attempt is known".to_owned(),
        (_, ..FEW_ATTEMPTS) => format!("only {fitted} attempts are known"),
        _ if is_sure => String::new(),
        _ => "few attempts have exactly this key".to_owned(),
    }
}

/// A limit above this multiple of the highest known need is explained in the reason.
const FAR_ABOVE_FACTOR: f64 = 2.0;
/// A limit is explained by the least room for file pages if it is at most that room above this multiple of the highest need.
const SMALL_NEED_FACTOR: f64 = 1.5;
/// With fewer attempts than this, the reason says that few are known: values not yet seen may be far above the observed ones.
const FEW_ATTEMPTS: usize = 5;

/// One sentence for a CI engineer. A default number of build jobs is not mentioned, because neither the caller nor an attempt has a number.
pub(super) fn reason(
    similar: &SimilarAttempts<'_>,
    key: &Key,
    sizes: &MemorySizes,
    jobs: &Quantity,
    memory_of_a_job: f64,
) -> String {
    if similar.uncensored_count() == 0 || sizes.by_kills.is_some() {
        return without_uncensored_words(similar, key, sizes);
    }
    let mut text = main_attempts(similar);
    if !jobs.basis.is_default() {
        let ran = attempts_at(similar, jobs.value);
        let at = if ran.is_some() && memory_of_a_job > 0.0 { ", adjusted to" } else { " at" };
        let _written = write!(text, "{at} -j{}", jobs.value);
        let counts =
            (memory_of_a_job > 0.0).then(|| format!("each job counts {}", Bytes::from_f64(memory_of_a_job)));
        let notes: Vec<String> = ran.into_iter().chain(counts).collect();
        if !notes.is_empty() {
            let _written = write!(text, " ({})", notes.join("; "));
        }
    }
    let basis = &sizes.limit.basis;
    let limit = reasons::reason_of_size(
        SizeKind::MemoryLimit,
        sizes.limit.value,
        basis.quantile,
        basis.margin,
        &basis.bound,
    );
    let limit = reasons::beside_request(&limit, sizes.limit.value, basis.margin, sizes.request.value);
    if !limit.is_empty() {
        let _written = write!(text, "; memory limit: {limit}");
    }
    if matches!(basis.bound, SizeBound::None | SizeBound::Request) {
        text.push_str(&why_limit_is_far_above(similar, sizes));
    }
    let stopped = similar.attempts.iter().filter(|used| used.observation.censored).count();
    if stopped > 0 {
        let counts = if stopped == 1 {
            "1 attempt that memory stopped counts as more than it had".to_owned()
        } else {
            format!("{stopped} attempts that memory stopped count as more than they had")
        };
        let _written = write!(text, "; {counts}");
    }
    text
}

/// Says what the two parts of the key add that matter most; empty if nothing is known.
pub(super) fn parts_note(parts: &[PartEffect]) -> String {
    parts.iter().take(2).fold(String::new(), |text, effect| text + "; " + &effect.describe())
}

/// Says that times follow the fleet's newest builds; empty if these take as long as before. `shift`: logarithm to base 2 of the ratio.
pub(super) fn time_note(is_known: bool, shift: f64) -> String {
    let change = figures::percent((shift.exp2() - 1.0).abs());
    match shift {
        _ if !is_known || shift.abs() <= 0.0 => String::new(),
        0.0.. => format!("; median time: {change} more, as the newest builds of the fleet took"),
        _ => format!("; median time: {change} less, as the newest builds of the fleet took"),
    }
}

/// Says how many attempts were left out; empty if none.
pub(super) fn odd_note(odd: usize) -> String {
    match odd {
        0 => String::new(),
        1 => "; 1 attempt that needed less than half of any other is left out".to_owned(),
        _ => format!("; {odd} attempts that needed less than half of any other are left out"),
    }
}

/// The highest need of the attempts, as bytes and as text ("more than" if memory stopped that attempt).
fn highest_need_words(similar: &SimilarAttempts<'_>) -> Option<(Bytes, String)> {
    let used = similar.attempts.iter().max_by(|a, b| a.need.total_cmp(&b.need))?;
    let need = Bytes::from_f64(used.need.exp2());
    let need_words = if used.observation.censored { format!("more than {need}") } else { need.to_string() };
    Some((need, need_words))
}

/// Says why a limit is far above all needs so far; empty if it is not.
fn why_limit_is_far_above(similar: &SimilarAttempts<'_>, sizes: &MemorySizes) -> String {
    let (limit, Some((highest, need_words))) = (Bytes(sizes.limit.value), highest_need_words(similar)) else {
        return String::new();
    };
    let times = limit.as_f64() / highest.as_f64().max(1.0);
    // for a small build, room for file pages explains the limit and is mentioned elsewhere in the reason; sizes are whole MiB
    let roomy = memory::with_pages(Bytes::from_f64(highest.as_f64() * SMALL_NEED_FACTOR)).ceil_mib();
    if times <= FAR_ABOVE_FACTOR || (limit <= roomy && sizes.limit.basis.bound == SizeBound::None) {
        return String::new();
    }
    let why = match (&sizes.limit.basis.bound, &sizes.request.basis.bound) {
        (SizeBound::Request, SizeBound::Floor(floor)) => format!("no size is below the floor of {floor}"),
        _ if limit <= roomy => format!("at least {} are for file pages", memory::MIN_PAGES_ROOM),
        _ if !similar.knows_package() => {
            "no attempt of this package fitted, so the configured default counts with them".to_owned()
        }
        _ => few_attempts_reason(similar),
    };
    format!("; the limit is {times:.1} times the highest need ({need_words}), because {why}")
}

/// Says why little is known, from the uncensored attempts: censored ones only show lower bounds.
fn few_attempts_reason(similar: &SimilarAttempts<'_>) -> String {
    let (fitted, all) = (similar.uncensored_count(), similar.attempts.len());
    let which = if fitted == all { "" } else { " that memory did not stop" };
    match fitted {
        1 => format!("only 1 attempt{which} is known"),
        few @ 2..FEW_ATTEMPTS => format!("only {few} attempts{which} are known"),
        _ => "the attempts differ so much".to_owned(),
    }
}

/// The reason if no attempt of the package was uncensored, or there is no attempt.
fn without_uncensored_words(similar: &SimilarAttempts<'_>, key: &Key, sizes: &MemorySizes) -> String {
    let by_preset = || {
        let highest = similar.of_package().max_by(|a, b| a.need.total_cmp(&b.need))?;
        let stopped = u32::try_from(similar.of_package().count()).unwrap_or(u32::MAX);
        Some((stopped, highest.rung, Bytes::from_f64(highest.need.exp2())))
    };
    let by_kills = sizes.by_kills.map(|bound| (bound.attempts, bound.rung, bound.above));
    let Some((stopped, rung, highest)) = by_kills.or_else(by_preset) else {
        let of_presets = sizes.of_presets.map(figures::percent);
        let of_presets = of_presets.map(|share| {
            format!("; its request is chosen by what other packages used of theirs, {share} at most")
        });
        return format!(
            "nothing is known about {} yet, so this is the configured default{}",
            key.describe(),
            of_presets.unwrap_or_default()
        );
    };
    let scope = rung_scope(rung);
    let known = if stopped == 1 {
        format!("memory stopped the only known attempt of {scope} at {highest}")
    } else {
        format!("memory stopped all {stopped} known attempts of {scope}, at up to {highest}")
    };
    let limit = &sizes.limit.basis;
    match &limit.bound {
        SizeBound::Stopped(_) => {
            format!("{known}, so the sizes are a step of {} above that", step_above_failed(sizes))
        }
        SizeBound::Default => format!("{known}; the configured default is above that"),
        bound => {
            let because = reasons::reason_of_size(SizeKind::MemoryLimit, sizes.limit.value, 0.0, 1.0, bound);
            format!("{known}; memory limit: {because}")
        }
    }
}

/// Mentions the untrusted attempts of a package that has no trusted ones.
pub(super) fn untrusted_note(untrusted: usize) -> String {
    let attempts = match untrusted {
        1 => "1 measured attempt is".to_owned(),
        many => format!("{many} measured attempts are"),
    };
    format!("; {attempts} not used: who delivered them is not `trusted` in the access file")
}

/// Bytes between the size that proved too small and the limit.
fn step_above_failed(sizes: &MemorySizes) -> Bytes {
    let limit = Bytes(sizes.limit.value);
    limit.saturating_sub(Bytes::from_f64(limit.as_f64() / sizes.limit.basis.margin.max(1.0)))
}

/// Describes the attempts that decided: those of the rung with most weight.
fn main_attempts(similar: &SimilarAttempts<'_>) -> String {
    let rung = similar.main_rung();
    let here = || similar.attempts.iter().filter(|used| used.rung == rung);
    let fitted = || here().filter(|used| !used.observation.censored);
    let mut needs: Vec<u64> = fitted().map(|used| Bytes::from_f64(used.need.exp2()).0).collect();
    needs.sort_unstable();
    // the need of attempts that memory stopped is unknown, so only the others are counted here
    let count = if needs.is_empty() { here().count() } else { needs.len() };
    let attempts = if count == 1 { "attempt" } else { "attempts" };
    let first = format!("{count} {attempts} of {}", rung_scope(rung));
    let (Some(least), Some(most), Some(median)) = (needs.first(), needs.last(), needs.get(needs.len() / 2))
    else {
        return format!("{first} did not fit");
    };
    let (least, most, median) = (Bytes(*least).to_string(), Bytes(*most).to_string(), Bytes(*median));
    let is_by_processes =
        |used: &&WeightedAttempt<'_>| used.observation.incomplete == Some(IncompleteNeed::Processes);
    let [by_processes, count] =
        [fitted().filter(is_by_processes).count(), count].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let note =
        measured::attempts_note(by_processes, count).map(|note| format!(", {note}")).unwrap_or_default();
    if least == most {
        return format!("{first} needed {least}{note}");
    }
    format!("{first} needed {least} to {most} (median {median}){note}")
}

/// How many of the main attempts ran with this number of jobs. `None` if all did, or do not say.
fn attempts_at(similar: &SimilarAttempts<'_>, jobs: u64) -> Option<String> {
    let rung = similar.main_rung();
    let main = similar.attempts.iter().filter(|used| used.rung == rung && !used.observation.censored);
    let (so, others): (Vec<u64>, Vec<u64>) = main
        .map(|used| u64::from(used.observation.jobs))
        .filter(|had| *had > 0)
        .partition(|had| *had == jobs);
    match (so.len(), others.is_empty()) {
        (_, true) => None,
        (0, false) => Some(format!("none ran at -j{jobs}")),
        (count, false) => Some(format!("{count} of them ran at -j{jobs}")),
    }
}

/// What the attempts of a rung have in common, in the words that other output uses.
pub(super) fn rung_scope(rung: Rung) -> &'static str {
    reasons::rung_scope(match rung {
        Rung::Exact => v1::Rung::Exact,
        Rung::NoVersion => v1::Rung::NoVersion,
        Rung::NoCompiler => v1::Rung::NoCompiler,
        Rung::Package => v1::Rung::Package,
        Rung::Siblings => v1::Rung::Siblings,
        Rung::BuildSystem => v1::Rung::BuildSystem,
        Rung::Fleet => v1::Rung::Fleet,
        Rung::Default => v1::Rung::Default,
    })
}
