//! Proposes what a job or a package should request, compared with what it requests today, and computes the savings. Pure.
//!
//! ```text
//! stats::workloads -> Workload    the attempts of one package in a window of time
//! predict          -> propose     the largest prediction of its builds, or why there is none
//! summaries        -> with_today  what its newest attempts had: the limit in force, and what would not have fitted it
//! ```
//!
//! There is no proposal if too few attempts are known, or only untrusted ones, or only ones that memory stopped. Needs from Prometheus and
//! from sums over processes are lower bounds: they may propose a request, and never a limit below today's. A proposed limit is never below
//! the need of a trusted attempt in the window.

mod by_jobs;
mod risk;
#[cfg(test)]
mod tests;

pub use by_jobs::{BuildSizes, SizeAtJobs};
pub use risk::Risk;

use plimsoll_proto::{
    measured,
    v1::{NoProposal, TakenBackLowering},
};

use crate::{
    domain::{AttemptId, Bytes, Cores, Key, Millis, Prediction, Resources},
    predict,
};

/// Fewest trusted attempts with a known need for a proposal, and fewest with a completely measured need for a proposed limit. With fewer,
/// the next attempt would often change the proposal.
pub const MIN_ATTEMPTS_FOR_PROPOSAL: u64 = 5;
/// Most builds of one package for which sizes are predicted: the newest ones.
pub const MAX_BUILDS: usize = 8;
/// A month of 30 days, milliseconds.
pub const MONTH: Millis = Millis(30 * DAY.0);
/// The shortest window that is extrapolated to a month, in milliseconds: an hour of a busy morning would not be typical.
pub const DAY: Millis = Millis(24 * 3600 * 1000);

/// The attempts of one package of one project.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The project, as in a key.
    pub project: String,
    /// The package or the job, as in a key.
    pub package: String,
    /// The attempts in the time window, in any order.
    pub attempts: Vec<WorkloadAttempt>,
    /// Keys that trusted attempts built, with their build jobs; the newest first.
    pub builds: Vec<Key>,
    /// Ids of the newest trusted attempts that requested memory.
    pub newest: Vec<AttemptId>,
}

/// One attempt, with the values that a proposal uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkloadAttempt {
    /// Memory that the attempt requested, or its limit if it requested none.
    pub asked: Option<Bytes>,
    /// Wall time of the attempt.
    pub wall: Millis,
    /// Price of a GiB for an hour.
    pub price: f64,
    /// The need that the attempt proves.
    pub need: Option<Bytes>,
    /// How complete that need is.
    pub source: NeedSource,
    /// Whether the attempt is untrusted, so that it may not lower a size.
    pub untrusted: bool,
    /// Whether memory ended the attempt.
    pub failed_for_memory: bool,
}

/// How complete a known need is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedSource {
    /// The need was measured until the end.
    Measured,
    /// The need was scraped by Prometheus or summed over processes, so the true need may be higher.
    Incomplete,
    /// Memory stopped the attempt, so the true need is higher.
    Stopped,
}

/// The requests and limits of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sizes {
    /// Memory request; `None` if the job has none, or it is unknown.
    pub memory_request: Option<Bytes>,
    /// Memory limit; `None` if the job has none, or it is unknown.
    pub memory_limit: Option<Bytes>,
    /// CPU request; `None` if the job has none, or it is unknown.
    pub cpu_request: Option<Cores>,
}

impl Sizes {
    /// The sizes of an attempt. A value that is no real size, such as 0, becomes `None`.
    pub fn of(resources: &Resources) -> Self {
        let size = |size: Option<Bytes>| size.filter(|size| measured::is_valid_memory(size.0));
        Self {
            memory_request: size(resources.memory_request),
            memory_limit: size(resources.memory_limit),
            cpu_request: resources.cpu_request.filter(|cores| cores.0 > 0.0),
        }
    }
}

/// Parameters that all proposals in an answer share.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposalTerms {
    /// Confidence below which nothing is proposed, 0 to 1.
    pub least_confidence: f64,
    /// Length of the window in which the attempts ran; sums are extrapolated from it to a month.
    pub window: Millis,
    /// Numbers of build jobs at which each build gets a size, too.
    pub build_jobs: Vec<u32>,
}

/// A proposal before today's sizes are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    workload: Workload,
    proposed: Result<Sizes, NoProposal>,
    builds: Vec<BuildSizes>,
    confidence: f64,
    taken_back: Option<TakenBackLowering>,
    /// The least limit to propose: the highest need of a trusted attempt, or the next size above a size that was too small.
    least_limit: Bytes,
    asked: f64,
    saved: f64,
    saved_money: f64,
}

/// What all packages reserve, and what their proposals save, in total.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Savings {
    /// Number of packages.
    pub packages: u64,
    /// Memory that the attempts requested, GiB x h a month.
    pub asked_gib_hours: f64,
    /// Memory that the proposed requests save, GiB x h a month; packages that need more count as negative.
    pub saved_gib_hours: f64,
    /// `saved_gib_hours` as money.
    pub saved_money: f64,
}

impl Savings {
    /// The sums over these packages.
    pub fn of(drafts: &[Draft]) -> Self {
        drafts.iter().fold(Self::default(), |sums, draft| Self {
            packages: sums.packages + 1,
            asked_gib_hours: sums.asked_gib_hours + draft.asked,
            saved_gib_hours: sums.saved_gib_hours + draft.saved,
            saved_money: sums.saved_money + draft.saved_money,
        })
    }
}

/// A proposal for one package, with the numbers behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The project, as in a key.
    pub project: String,
    /// The package or the job, as in a key.
    pub package: String,
    /// Number of attempts in the window.
    pub attempts: u64,
    /// Number of attempts in the window that failed for memory.
    pub failed_for_memory: u64,
    /// Median sizes of the newest attempts.
    pub today: Sizes,
    /// The proposed sizes, or why there are none. They have no limit if today's limit should stay.
    pub proposed: Result<Sizes, NoProposal>,
    /// Memory that the attempts requested, GiB x h a month.
    pub asked_gib_hours: f64,
    /// Memory that the proposed request saves, GiB x h a month; negative if it is larger than today's.
    pub saved_gib_hours: f64,
    /// `saved_gib_hours` as money.
    pub saved_money: f64,
    /// Lowest confidence over the package's builds, 0 to 1.
    pub confidence: f64,
    /// How many attempts would exceed the limit (the proposed one, else today's); `None` without a limit or a proposal.
    pub limit_risk: Option<Risk>,
    /// How many attempts would exceed the proposed request. Above its request, a build uses memory that its node may not have.
    pub request_risk: Option<Risk>,
    /// A lowering of one of the package's builds that failed and is taken back: that with the largest size before it.
    pub taken_back: Option<TakenBackLowering>,
    /// Highest need of a trusted attempt in the window, or the next size above one that was too small.
    pub highest_need: Option<Bytes>,
    /// Whether the package may have more builds than those that were looked at.
    pub has_more_builds: bool,
    /// The sizes of each build by build jobs; empty without a proposal.
    pub builds: Vec<BuildSizes>,
}

/// Computes the proposal for a package. `predict` returns the predicted sizes of one of its builds.
pub fn propose(workload: Workload, predict: impl Fn(&Key) -> Prediction, terms: &ProposalTerms) -> Draft {
    let predictions: Vec<Prediction> = match refusal(&workload.attempts) {
        None => workload.builds.iter().map(&predict).collect(),
        Some(_) => Vec::new(),
    };
    let confidence = |of: &Prediction| of.confidence_in(&of.memory_request);
    let confidence = predictions.iter().map(confidence).reduce(f64::min).unwrap_or(0.0);
    let taken_back =
        predictions.iter().filter_map(|of| of.taken_back).max_by_key(|lowering| lowering.from_bytes);
    let least_limit = least_limit(&workload.attempts);
    let proposed = match refusal(&workload.attempts) {
        Some(why) => Err(why),
        None => sizes(&predictions, &workload.attempts, terms).ok_or(NoProposal::Unsure),
    };
    let proposed = proposed.map(|sizes| above(sizes, least_limit));
    let builds = match &proposed {
        Ok(_) => by_jobs::sizes_by_jobs(&workload.builds, predict, terms),
        Err(_) => Vec::new(),
    };
    let request = proposed.as_ref().ok().and_then(|sizes| sizes.memory_request);
    let to_month = MONTH.as_f64() / terms.window.max(DAY).as_f64();
    let [mut asked, mut saved, mut saved_money] = [0.0; 3];
    for attempt in &workload.attempts {
        let Some(held) = attempt.asked else { continue };
        let held = held.gib_hours(attempt.wall) * to_month;
        let less = request.map_or(0.0, |request| held - request.gib_hours(attempt.wall) * to_month);
        asked += held;
        saved += less;
        saved_money += less * attempt.price;
    }
    Draft { workload, proposed, builds, confidence, taken_back, least_limit, asked, saved, saved_money }
}

impl Draft {
    /// Ids of the newest attempts of the package that requested memory.
    pub fn newest(&self) -> &[AttemptId] {
        &self.workload.newest
    }

    /// Sorts proposals: savings first, the largest at the top; then packages without a proposal, by what they reserve; then packages that
    /// need more.
    pub fn sort(drafts: &mut [Self]) {
        let rank = |draft: &Self| match (draft.proposed.is_ok(), draft.saved >= 0.0) {
            (true, true) => 0_u8,
            (false, _) => 1,
            (true, false) => 2,
        };
        let name = |draft: &Self| (draft.workload.project.clone(), draft.workload.package.clone());
        drafts.sort_by(|a, b| {
            let by_saved = b.saved.total_cmp(&a.saved).then_with(|| b.asked.total_cmp(&a.asked));
            rank(a).cmp(&rank(b)).then(by_saved).then_with(|| name(a).cmp(&name(b)))
        });
    }

    /// Completes a proposal with today's sizes, which are those of the newest attempts.
    pub fn with_today(self, newest: &[Sizes]) -> Recommendation {
        let today = median(newest);
        let Self {
            workload,
            proposed,
            builds,
            confidence,
            taken_back,
            least_limit,
            asked,
            saved,
            saved_money,
        } = self;
        let proposed = proposed.map(|sizes| Sizes {
            memory_limit: sizes.memory_limit.or_else(|| {
                // today's limit stays, unless it is too low for the needs that are known
                let before = taken_back.map_or(Bytes(0), |lowering| Bytes(lowering.from_bytes));
                let least = least_limit.max(before).max(sizes.memory_request.unwrap_or_default());
                today.memory_limit.is_some_and(|limit| limit < least).then_some(least)
            }),
            ..sizes
        });
        let judged = |size: Option<Bytes>| size.map(|size| Risk::of(&workload.attempts, size));
        let of_proposal = proposed.as_ref().ok();
        Recommendation {
            attempts: count(workload.attempts.iter()),
            failed_for_memory: count(workload.attempts.iter().filter(|attempt| attempt.failed_for_memory)),
            today,
            asked_gib_hours: asked,
            saved_gib_hours: saved,
            saved_money,
            confidence,
            taken_back,
            limit_risk: of_proposal.and_then(|sizes| judged(sizes.memory_limit.or(today.memory_limit))),
            request_risk: of_proposal.and_then(|sizes| judged(sizes.memory_request)),
            proposed,
            highest_need: Some(least_limit).filter(|need| need.0 > 0),
            has_more_builds: workload.builds.len() >= MAX_BUILDS,
            builds,
            project: workload.project,
            package: workload.package,
        }
    }
}

/// Why the attempts allow no proposal; `None` if they do.
fn refusal(attempts: &[WorkloadAttempt]) -> Option<NoProposal> {
    let known = || attempts.iter().filter(|attempt| attempt.need.is_some());
    let trusted = || known().filter(|attempt| !attempt.untrusted);
    let is_stopped = |attempt: &&WorkloadAttempt| attempt.source == NeedSource::Stopped;
    let ended = count(trusted().filter(|attempt| !is_stopped(attempt)));
    match ended {
        0 if trusted().any(|attempt| is_stopped(&attempt)) => Some(NoProposal::Stopped),
        0 if known().next().is_some() => Some(NoProposal::Untrusted),
        0..MIN_ATTEMPTS_FOR_PROPOSAL => Some(NoProposal::TooFew),
        _ => None,
    }
}

/// The largest sizes over the builds with a known prediction; `None` if a request is unknown.
fn sizes(predictions: &[Prediction], attempts: &[WorkloadAttempt], terms: &ProposalTerms) -> Option<Sizes> {
    let least = terms.least_confidence;
    let memory_request = predictions.iter().map(|of| known(of, &of.memory_request, least));
    let memory_limit = predictions.iter().map(|of| known(of, &of.memory_limit, least));
    let cpu_request = predictions.iter().map(|of| known(of, &of.cpu_request, least));
    let measured =
        |attempt: &&WorkloadAttempt| attempt.source == NeedSource::Measured && attempt.need.is_some();
    let measured = count(attempts.iter().filter(|attempt| !attempt.untrusted).filter(measured));
    Some(Sizes {
        memory_request: Some(Bytes(largest(memory_request)?).ceil_mib()),
        // a limit needs enough measured attempts, because builds are killed at it
        memory_limit: largest(memory_limit).map(Bytes).filter(|_| measured >= MIN_ATTEMPTS_FOR_PROPOSAL),
        cpu_request: largest(cpu_request).map(|milli| Cores(Bytes(milli).as_f64() / 1000.0)),
    })
}

fn known(prediction: &Prediction, quantity: &crate::domain::Quantity, least: f64) -> Option<u64> {
    prediction.is_known(quantity, least).then_some(quantity.value)
}

/// The largest value; `None` if one of them is unknown, or there are none.
fn largest(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// The sizes, with the limit raised to `least` and to the request.
fn above(sizes: Sizes, least: Bytes) -> Sizes {
    let request = sizes.memory_request.unwrap_or_default();
    let raised = |limit: Bytes| limit.max(least).max(request).ceil_mib();
    Sizes { memory_limit: sizes.memory_limit.map(raised), ..sizes }
}

/// The least limit that fits the known need of every trusted attempt, in whole MiB.
fn least_limit(attempts: &[WorkloadAttempt]) -> Bytes {
    let trusted = attempts.iter().filter(|attempt| !attempt.untrusted);
    let least = trusted.filter_map(|attempt| {
        let need = attempt.need?;
        Some(if attempt.source == NeedSource::Stopped { predict::step_above(need) } else { need })
    });
    least.max().unwrap_or_default().ceil_mib()
}

/// The median of each size, over the attempts that have it; of an even number of attempts, the higher middle value.
fn median(sizes: &[Sizes]) -> Sizes {
    let mut requests: Vec<Bytes> = sizes.iter().filter_map(|sizes| sizes.memory_request).collect();
    let mut limits: Vec<Bytes> = sizes.iter().filter_map(|sizes| sizes.memory_limit).collect();
    let mut cores: Vec<Cores> = sizes.iter().filter_map(|sizes| sizes.cpu_request).collect();
    requests.sort_unstable();
    limits.sort_unstable();
    cores.sort_by(|a, b| a.0.total_cmp(&b.0));
    Sizes {
        memory_request: requests.get(requests.len() / 2).copied(),
        memory_limit: limits.get(limits.len() / 2).copied(),
        cpu_request: cores.get(cores.len() / 2).copied(),
    }
}

fn count<T>(attempts: impl Iterator<Item = T>) -> u64 {
    u64::try_from(attempts.count()).unwrap_or(u64::MAX)
}
