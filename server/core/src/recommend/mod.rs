//! What a job or a package should request, against what it requests today, and what that saves. Pure.
//!
//! ```text
//! stats::workloads -> Workload    the attempts of one package in a window of time
//! predict          -> propose     the largest prediction of its builds, or why there is none
//! summaries        -> with_today  what its newest attempts had: the limit in force, and what would not have fitted it
//! ```
//!
//! A proposal never claims more than is known. There is none where too few attempts, only untrusted ones, or only attempts that memory
//! stopped are known. Needs from Prometheus and from sums over processes are "at least": they propose a request, and no limit below the one of today. A proposed
//! limit is never below the need of a trusted attempt of the window.

mod risk;
#[cfg(test)]
mod tests;

pub use risk::Risk;

use plimsoll_proto::measured;

use crate::{
    domain::{AttemptId, Bytes, Cores, Key, Millis, Prediction, Resources},
    predict,
};

/// Trusted attempts whose need is known that a proposal takes, and measured ones that a limit takes: the verdict of fewer changes with
/// the next one.
pub const FEWEST: u64 = 5;
/// A month of 30 days, milliseconds.
pub const MONTH: Millis = Millis(30 * DAY.0);
/// The shortest time that is counted up to a month: an hour of a busy morning says nothing of a month.
pub const DAY: Millis = Millis(24 * 3600 * 1000);

/// The attempts of one package of one project.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// As in a key.
    pub project: String,
    /// As in a key: package or job.
    pub package: String,
    /// Those of the window, in any order.
    pub attempts: Vec<WorkloadAttempt>,
    /// What trusted ones of them built, newest first, with their build jobs.
    pub builds: Vec<Key>,
    /// The newest trusted attempts that requested memory.
    pub newest: Vec<AttemptId>,
}

/// One attempt as far as a proposal looks at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkloadAttempt {
    /// Memory that it requested, or its limit if it requested none.
    pub asked: Option<Bytes>,
    /// How long it held that.
    pub wall: Millis,
    /// Of a GiB for an hour.
    pub price: f64,
    /// What it proves of the need.
    pub need: Option<Bytes>,
    /// Where that need comes from.
    pub source: NeedSource,
    /// Nothing is learnt from it that lowers a size.
    pub untrusted: bool,
    /// Memory ended it.
    pub failed_for_memory: bool,
}

/// How a need is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedSource {
    /// It was measured to the end.
    Measured,
    /// Prometheus read it now and then, or it is a sum over processes: it is at least this.
    Incomplete,
    /// Memory stopped the attempt: it is more than this.
    Stopped,
}

/// What a job requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sizes {
    /// `None` if it requests none, or that is not known.
    pub memory_request: Option<Bytes>,
    /// `None` without a limit, or if that is not known.
    pub memory_limit: Option<Bytes>,
    /// `None` if it requests none, or that is not known.
    pub cpu_request: Option<Cores>,
}

impl Sizes {
    /// What an attempt had. What is no size, as 0, is none.
    pub fn of(resources: &Resources) -> Self {
        let size = |size: Option<Bytes>| size.filter(|size| measured::is_size(size.0));
        Self {
            memory_request: size(resources.memory_request),
            memory_limit: size(resources.memory_limit),
            cpu_request: resources.cpu_request.filter(|cores| cores.0 > 0.0),
        }
    }
}

/// Why nothing is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoProposal {
    /// The need of fewer than [`FEWEST`] trusted attempts is known.
    TooFew,
    /// Only untrusted attempts are known.
    Untrusted,
    /// Memory stopped every attempt: only what is too little is known.
    Stopped,
    /// The prediction is less sure than was asked for.
    Unsure,
}

/// What holds for all proposals of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProposalTerms {
    /// Confidence below which nothing is proposed, 0 to 1.
    pub least_confidence: f64,
    /// The time that the attempts were collected in: what they held is counted up to a month from it.
    pub window: Millis,
}

/// A proposal before it is known what the job has today.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    workload: Workload,
    proposed: Result<Sizes, NoProposal>,
    confidence: f64,
    /// The highest need of a trusted attempt, or the least size above it.
    least_limit: Bytes,
    asked: f64,
    saved: f64,
    saved_money: f64,
}

/// What packages hold and what their proposals save, together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Savings {
    /// How many packages these are.
    pub packages: u64,
    /// Memory that the attempts requested, GiB x h a month.
    pub asked_gib_hours: f64,
    /// What of that the proposed requests save, GiB x h a month: packages that need more count below 0.
    pub saved_gib_hours: f64,
    /// The same in money.
    pub saved_money: f64,
}

impl Savings {
    /// The sums of these packages.
    pub fn of(drafts: &[Draft]) -> Self {
        drafts.iter().fold(Self::default(), |sums, draft| Self {
            packages: sums.packages + 1,
            asked_gib_hours: sums.asked_gib_hours + draft.asked,
            saved_gib_hours: sums.saved_gib_hours + draft.saved,
            saved_money: sums.saved_money + draft.saved_money,
        })
    }
}

/// A proposal for one package, with what it stands on.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// As in a key.
    pub project: String,
    /// As in a key: package or job.
    pub package: String,
    /// Attempts of the window.
    pub attempts: u64,
    /// Of them those that failed for memory.
    pub failed_for_memory: u64,
    /// What the newest attempts had: the median of each size.
    pub today: Sizes,
    /// What it should have; without a limit if the one of today stays.
    pub proposed: Result<Sizes, NoProposal>,
    /// Memory that the attempts requested, GiB x h a month.
    pub asked_gib_hours: f64,
    /// What of that the proposed request saves, GiB x h a month; below 0 if it is larger.
    pub saved_gib_hours: f64,
    /// The same in money.
    pub saved_money: f64,
    /// 0 to 1: the lowest of its builds.
    pub confidence: f64,
    /// How many attempts would not have fitted the limit, proposed or of today; `None` if there is none, or no proposal.
    pub limit_risk: Option<Risk>,
    /// The same of the proposed request, above which a build takes memory that its node may not have.
    pub request_risk: Option<Risk>,
}

/// The proposal for a package, with sizes of `predict` for each of its builds.
pub fn propose(workload: Workload, predict: impl Fn(&Key) -> Prediction, terms: &ProposalTerms) -> Draft {
    let predictions: Vec<Prediction> = match refusal(&workload.attempts) {
        None => workload.builds.iter().map(predict).collect(),
        Some(_) => Vec::new(),
    };
    let confidence = |of: &Prediction| of.confidence_in(&of.memory_request);
    let confidence = predictions.iter().map(confidence).reduce(f64::min).unwrap_or(0.0);
    let least_limit = least_limit(&workload.attempts);
    let proposed = match refusal(&workload.attempts) {
        Some(why) => Err(why),
        None => sizes(&predictions, &workload.attempts, terms).ok_or(NoProposal::Unsure),
    };
    let proposed = proposed.map(|sizes| above(sizes, least_limit));
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
    Draft { workload, proposed, confidence, least_limit, asked, saved, saved_money }
}

impl Draft {
    /// The newest attempts of it that requested memory.
    pub fn newest(&self) -> &[AttemptId] {
        &self.workload.newest
    }

    /// Puts the proposals that save most first, then packages without one by what they hold, then those that need more than today.
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

    /// The whole proposal, now that it is known what the newest attempts had.
    pub fn with_today(self, newest: &[Sizes]) -> Recommendation {
        let today = median(newest);
        let Self { workload, proposed, confidence, least_limit, asked, saved, saved_money } = self;
        let proposed = proposed.map(|sizes| Sizes {
            memory_limit: sizes.memory_limit.or_else(|| {
                // the limit of today stays, unless it is too low for what is known
                let least = least_limit.max(sizes.memory_request.unwrap_or_default());
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
            limit_risk: of_proposal.and_then(|sizes| judged(sizes.memory_limit.or(today.memory_limit))),
            request_risk: of_proposal.and_then(|sizes| judged(sizes.memory_request)),
            proposed,
            project: workload.project,
            package: workload.package,
        }
    }
}

/// Why nothing can be said of a package, by its attempts alone.
fn refusal(attempts: &[WorkloadAttempt]) -> Option<NoProposal> {
    let known = || attempts.iter().filter(|attempt| attempt.need.is_some());
    let trusted = || known().filter(|attempt| !attempt.untrusted);
    let is_stopped = |attempt: &&WorkloadAttempt| attempt.source == NeedSource::Stopped;
    let ended = count(trusted().filter(|attempt| !is_stopped(attempt)));
    match ended {
        0 if trusted().any(|attempt| is_stopped(&attempt)) => Some(NoProposal::Stopped),
        0 if known().next().is_some() => Some(NoProposal::Untrusted),
        0..FEWEST => Some(NoProposal::TooFew),
        _ => None,
    }
}

/// The largest sizes of the builds, as far as they are known; `None` if a request is not.
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
        // a limit kills: it takes attempts that were measured
        memory_limit: largest(memory_limit).map(Bytes).filter(|_| measured >= FEWEST),
        cpu_request: largest(cpu_request).map(|milli| Cores(Bytes(milli).as_f64() / 1000.0)),
    })
}

fn known(prediction: &Prediction, quantity: &crate::domain::Quantity, least: f64) -> Option<u64> {
    prediction.is_known(quantity, least).then_some(quantity.value)
}

/// The largest of them; `None` if one is not known, or there are none.
fn largest(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// The sizes with a limit that is at least `least` and at least the request.
fn above(sizes: Sizes, least: Bytes) -> Sizes {
    let request = sizes.memory_request.unwrap_or_default();
    let raised = |limit: Bytes| limit.max(least).max(request).ceil_mib();
    Sizes { memory_limit: sizes.memory_limit.map(raised), ..sizes }
}

/// The least limit that holds what every trusted attempt is known to need, in whole MiB.
fn least_limit(attempts: &[WorkloadAttempt]) -> Bytes {
    let trusted = attempts.iter().filter(|attempt| !attempt.untrusted);
    let least = trusted.filter_map(|attempt| {
        let need = attempt.need?;
        Some(if attempt.source == NeedSource::Stopped { predict::step_above(need) } else { need })
    });
    least.max().unwrap_or_default().ceil_mib()
}

/// The median of each size, of those that have it; of an even number the larger one in the middle.
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
