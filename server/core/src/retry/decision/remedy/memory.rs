//! A retry with more memory.

use plimsoll_proto::reasons::SizeBound;

use super::{
    Draft, Remedy, RemedyCase, fewer_jobs,
    sizes::{is_size, keep_memory, make_consistent, set_kept, sizes_had},
};
use crate::{
    domain::{Action, Bytes, Evidence, Millis, Outcome, Prediction, Quantity, Rung, Summary},
    predict::{MemoryEnd, NextSize, Settings, next_size, predict_need, with_pages},
};

/// A size within this share of the cap counts as at the cap, because so small a step does not help.
const NO_STEP_SHARE: f64 = 0.05;

/// Added to the reason if the cap lowered the size.
const AT_CAP_NOTE: &str = ", the most there is, which may not be enough";

/// Explanation if memory was refused while the build had no memory limit of its cgroup.
const UNDER_ULIMIT: &str = "the kernel killed nothing and the build has no memory limit, so a retry with the same size would fail in the same \
                            way; raise its `ulimit -v`, or run it on a machine with more free memory";

impl RemedyCase<'_> {
    /// The share of builds like this one that a memory limit of `size` covers.
    fn covered(&self, size: Bytes) -> f64 {
        self.capped_limit(Some(size)).basis.quantile
    }

    fn capped_limit(&self, memory_cap: Option<Bytes>) -> Quantity {
        let settings = Settings { memory_cap, ..self.known.settings.clone() };
        // a size that it had before a lowering says nothing of what it needs
        predict_need(self.known.history, self.key(), &settings).memory_limit
    }

    /// Whether an untrusted attempt of the package succeeded. Then the package is known, although no trusted attempt determines its size.
    pub(super) fn untrusted_succeeded(&self) -> bool {
        let mut untrusted = self.known.history.untrusted_on_rung(Rung::Package, self.key());
        untrusted.any(|observed| observed.brief.outcome == Outcome::Succeeded)
    }
}

/// The size at which memory stopped an attempt; it can be less than the attempt had requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoppedAt {
    /// The size that proved too small.
    size: Bytes,
    /// Whether nothing was measured, so that the size is the limit predicted for a build of this key.
    is_assumed: bool,
}

impl StoppedAt {
    /// The limit in force, or the measured need if that is higher; if neither is known, the predicted limit.
    fn of(case: RemedyCase<'_>) -> Self {
        let measured = case.measured();
        let limit = |summary: &Summary| sizes_had(&summary.resources).limit;
        let stopped = measured.map(Summary::stopped_at).filter(|size| is_size(*size));
        let predicted = &case.predicted.memory_limit;
        // if the sizes of the attempt's pod are known, `predicted` has them in place of predicted sizes, with this bound
        let is_assumed = predicted.basis.bound != SizeBound::LastAttempt;
        let known = stopped.or_else(|| measured.and_then(limit)).map(|size| Self { size, is_assumed: false });
        known.unwrap_or(Self { size: Bytes(predicted.value), is_assumed })
    }

    /// Whether the cap leaves no useful step above the size.
    fn is_near_cap(self, cap: Bytes) -> bool {
        self.size.as_f64() * (1.0 + NO_STEP_SHARE) > cap.as_f64()
    }
}

/// The remedy for an attempt that ran out of memory: the same size if only the log says so.
pub(super) fn remedy(case: RemedyCase<'_>, draft: Draft) -> Remedy {
    if case.finding.confidence >= case.known.policy.grow_from && case.finding.is_proven() {
        return more_memory(case, draft);
    }
    let measured = case.measured();
    if case.finding.memory_refused && measured.is_some_and(is_under_ulimit) {
        return draft.no(UNDER_ULIMIT);
    }
    let agent = if measured.is_none() { "run it with the agent to be sure, or " } else { "or run it " };
    let advice = format!(
        "no kernel or container evidence proves it, so retry {}; {agent}with fewer build jobs",
        draft.how
    );
    draft.retry(Action::AsIs, advice)
}

/// Whether no cgroup limit was short: memory was refused by a limit of the process, or because the machine was full.
fn is_under_ulimit(summary: &Summary) -> bool {
    summary.oom_kill == Some(0) && summary.exit.is_some() && summary.resources.memory_limit.is_none()
}

fn more_memory(case: RemedyCase<'_>, mut draft: Draft) -> Remedy {
    let memory_cap = case.known.settings.memory_cap;
    let stopped = StoppedAt::of(case);
    let needed = memory_cap.and_then(|cap| needed_above(cap, stopped, case));
    let at_cap = |why: &str, cap: Bytes| format!("{why}, and there is no more memory than {cap}");
    if let Some(cap) = memory_cap.filter(|cap| stopped.is_near_cap(*cap)) {
        draft.why = at_cap(&draft.why, cap);
        return fewer_jobs::at_cap(case, draft, cap, needed);
    }
    grow_memory(&mut draft.next, stopped, case);
    let next = &draft.next.memory_limit;
    let with = format!("retry with more memory ({})", limit_change_words(stopped, Bytes(next.value)));
    let note = if next.basis.bound.is_cut() { AT_CAP_NOTE } else { "" };
    let stopped_at = (!stopped.is_assumed && stopped.size.0 > 0).then_some(stopped.size);
    let retry = |draft: Draft, advice: String| Remedy { stopped_at, ..draft.retry(Action::Bigger, advice) };
    if let Some((jobs, had)) = fewer_jobs::that_fit(case, &mut draft.next, needed) {
        return retry(draft, format!("{with}, the most there is, and with -j{jobs} instead of -j{had}"));
    }
    if let Some(cap) = memory_cap.filter(|_| needed.is_some()) {
        draft.why = at_cap(&draft.why, cap);
        return draft.no(format!(
            "most builds like it that need more than {} need more than that too, so a retry would fail in the same way{}",
            stopped.size,
            needed_words(needed)
        ));
    }
    retry(draft, with + note)
}

/// Text with the old memory limit, if known, and the new one.
fn limit_change_words(stopped: StoppedAt, limit: Bytes) -> String {
    match stopped.size {
        had if had.0 == 0 || had >= limit => format!("limit {limit}"),
        had if stopped.is_assumed => format!("limit {limit}; the last attempt may have had {had}"),
        had => format!("limit {had} -> {limit}"),
    }
}

/// Text with the needed memory limit; empty if it is unknown.
pub(super) fn needed_words(needed: Option<Bytes>) -> String {
    needed.map_or(String::new(), |needed| format!("; it would take a memory limit of {needed}"))
}

/// The size that builds like this one need, if it is above the cap and a retry at the cap is not worth it: most builds that need more than
/// the stopped size also need more than the cap.
fn needed_above(cap: Bytes, stopped: StoppedAt, case: RemedyCase<'_>) -> Option<Bytes> {
    if !is_known(case.first) {
        return None;
    }
    let needed = Bytes(case.capped_limit(None).value);
    let [below, fit] = [stopped.size, cap].map(|size| case.covered(size));
    let chance = ((fit - below) / (1.0 - below).max(f64::EPSILON)).clamp(0.0, 1.0);
    (needed > cap && chance <= case.known.policy.least_chance).then_some(needed)
}

/// Whether the predicted limit follows from attempts of this build, not only from other builds or the default.
fn is_known(predicted: &Prediction) -> bool {
    is_from_package(&predicted.memory_limit) && predicted.confidence_in(&predicted.memory_limit) > 0.0
}

/// Raises the memory of an attempt that had too little: the highest of [`grown_size`], the prediction for a first attempt, and the size
/// that the previous attempt's verdict named; never above the cap. Defaults and needs of other packages are ignored, because they do not
/// measure this build.
///
/// A request above the size at which memory stopped the attempt was never available, so it is ignored. If another limit than the attempt's
/// own stopped it, the own limit is kept unless the history shows that more is needed.
fn grow_memory(next: &mut Prediction, stopped: StoppedAt, case: RemedyCase<'_>) {
    let grown = grown_size(stopped, case);
    let own = case.measured().and_then(|summary| sizes_had(&summary.resources).limit);
    let first = case.first;
    let more_is_known = |own: Bytes| is_from_package(&first.memory_limit) && first.memory_limit.value > own.0;
    let limit_grows =
        is_known(case.predicted) || own.is_none_or(|own| own <= grown.size || more_is_known(own));
    grow_to(&mut next.memory_request, &first.memory_request, &grown, stopped);
    if limit_grows {
        grow_to(&mut next.memory_limit, &first.memory_limit, &grown, stopped);
    }
    if let Some(named) = case.evidence.named_before {
        let sizes = [(&mut next.memory_request, named.request), (&mut next.memory_limit, named.limit)];
        for (quantity, named) in sizes {
            if quantity.value < case.known.settings.bound_memory(named).0.0 {
                keep_memory(quantity, Some(named), SizeBound::VerdictBefore, case.known.settings);
            }
        }
    }
    make_consistent(next);
}

/// The next size above the one at which memory stopped this attempt.
fn grown_size(stopped: StoppedAt, case: RemedyCase<'_>) -> NextSize {
    let together = case.measured().map(Summary::need_without_rescue).unwrap_or_default();
    let together = if together.0 > 0 { with_pages(together) } else { together };
    let grown_to = forecast(case.evidence, case.predicted, stopped.size).max(together);
    let end = MemoryEnd { stopped: stopped.size, grown_to };
    let mut grown = next_size(case.known.history, case.key(), case.known.settings, end);
    if let (true, SizeBound::Stopped(size)) = (stopped.is_assumed, &grown.bound) {
        grown.bound = SizeBound::MayHaveHad(size.clone());
    }
    grown
}

/// The need that the attempt would have reached: its growth just before the end, extrapolated to the median time of the package. At most
/// twice the size at which memory stopped it, because growth does not stay linear. 0 if unknown.
fn forecast(evidence: &Evidence, predicted: &Prediction, stopped: Bytes) -> Bytes {
    let (Some(growth), Some(measured)) = (evidence.growth, evidence.measured.as_deref()) else {
        return Bytes(0);
    };
    if predicted.wall_p50.basis.rung < Rung::Package {
        return Bytes(0);
    }
    let left = Millis(predicted.wall_p50.value).saturating_sub(measured.wall).as_f64() / 1000.0;
    let most = Bytes(stopped.0.saturating_mul(2));
    Bytes::from_f64(growth.need.as_f64() + growth.per_second * left).min(most)
}

/// Whether attempts of the same package determine the quantity.
fn is_from_package(first: &Quantity) -> bool {
    first.basis.rung >= Rung::Package
}

fn grow_to(quantity: &mut Quantity, first: &Quantity, grown: &NextSize, stopped: StoppedAt) {
    let times = |size: u64| Bytes(size).as_f64() / stopped.size.as_f64().max(1.0);
    // the prediction may follow from the kill of this very attempt; its reason is then replaced
    let is_by_kill =
        matches!(first.basis.bound, SizeBound::Stopped(_) | SizeBound::NeededAbove(_) | SizeBound::Grown(_));
    if is_from_package(first) && first.value >= grown.size.0 + u64::from(is_by_kill) {
        *quantity = first.clone();
        let basis = &mut quantity.basis;
        if is_by_kill {
            (basis.bound, basis.margin) =
                (SizeBound::NeededAbove(stopped.size.to_string()), times(first.value));
        }
        if basis.bound.is_cut() {
            // the capped size may not suffice, so no share of covered builds is named
            (basis.quantile, basis.margin) = (0.0, 1.0);
        }
        return;
    }
    set_kept(quantity, grown.size.0, grown.bound.clone());
    quantity.basis.margin = times(grown.size.0);
    quantity.basis.attempts = grown.attempts;
}
