//! The words of the product as types: what is built ([`Key`]), one execution of it ([`Attempt`]), what was measured
//! ([`Sample`], [`Progress`], [`Summary`]), what may be learnt from ([`History`]), and the two answers ([`Prediction`],
//! [`Verdict`]). No I/O, no clock, no async: everything here can be replayed.

mod ask_use;
mod attempt;
mod beside;
mod brief;
mod fault;
mod fnv;
mod history;
mod jobs_curve;
mod key;
mod ladder;
mod lineage;
mod need_groups;
mod outcome;
mod phase;
mod prediction;
mod progress;
mod reported;
mod sample;
mod starvation;
mod summary;
mod ticket;
mod told;
mod units;
mod verdict;
mod weight;

pub use ask_use::AskUse;
pub(crate) use attempt::Seat;
pub use attempt::{Attempt, AttemptId, Opening, Predicted, Resources, SessionId, Source, TicketId};
pub use beside::Beside;
pub use brief::{Brief, Fact, JobMark};
pub use fault::Fault;
pub use fnv::Fnv;
pub(crate) use history::bytes_of;
#[cfg(test)]
pub(crate) use history::tests::summary as test_summary;
pub use history::{History, Room};
pub use jobs_curve::{CurveKnown, JobsCurve, JobsPoint};
pub use key::{Hints, Key};
pub(crate) use lineage::{RetryAfter, RetryOf};
pub use need_groups::{Distinction, NeedGroup, NeedGroups};
pub use outcome::{Cause, Exit, OomOrigin, Outcome};
pub use phase::Phase;
pub use prediction::{Basis, Placed, Prediction, Quantity, Rung, UsedAttempt};
pub use progress::Progress;
pub use reported::{MatchedLine, ReportedEvidence};
pub use sample::Sample;
pub use starvation::Starvation;
pub use summary::{Origin, Summary, Totals};
pub use ticket::{Claim, Ticket};
pub use told::{End, Told};
pub use units::{Bytes, Cores, CpuMicros, Micros, Millis};
pub(crate) use verdict::LINE_GONE;
pub use verdict::{
    Action, Cost, Evidence, EvidenceLine, EvidenceSource, Growth, JobName, ListedRun, Outlook, Signature,
    Verdict, VerdictBasis,
};
