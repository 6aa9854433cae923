//! The product's terms as types: what is built ([`Key`]), one execution of it ([`Attempt`]), what was measured ([`Sample`],
//! [`SampleAccumulator`], [`Summary`]), what may be learnt from ([`History`]), and the two answers ([`Prediction`], [`Verdict`]). No I/O,
//! no clock, no async: everything here can be replayed.

mod attempt;
mod brief;
mod correction;
mod evidence_line;
mod field_violation;
mod fixtures;
mod fnv;
mod history;
mod job_hook;
mod job_pod;
mod jobs_curve;
mod key;
mod ladder;
mod lineage;
mod outcome;
mod parallel_part;
mod phase;
mod prediction;
mod progress;
mod project_rename;
mod reported;
mod reported_outcome;
mod reporter;
mod request_usage;
mod rescue;
mod retention;
mod sample;
mod starvation;
mod stats_fields;
mod stored_record;
mod summary;
mod ticket;
mod units;
mod upstream;
mod verdict;
mod verdict_basis;
mod weight;

pub use attempt::PoolSlot;
pub use attempt::{Attempt, AttemptId, OpeningRecord, PredictionSnapshot, Resources, SessionId, TicketId};
pub use brief::{AttemptBrief, CommitMark, JobMark, RefMark, RetryStatus, RungObservation};
pub use correction::{CorrectionRule, VerdictCorrection};
pub use evidence_line::{EvidenceLine, EvidenceSource};
pub use field_violation::FieldViolation;
pub use fixtures::{test_attempt, test_history, test_report, test_summary, test_verdict};
pub use fnv::Fnv;
pub use history::bytes_of;
pub use history::{AnswerVersion, History, HistoryLimits};
pub(crate) use history::{LATE_FROM, deviation_of_times};
pub use job_hook::{AppliedHook, JobHook};
pub use job_pod::JobPod;
pub use jobs_curve::{JobsCurve, JobsPoint};
pub use key::{COMMIT_LABELS, PIPELINE_LABEL};
pub use key::{Hints, Key};
pub(crate) use lineage::RetryOf;
pub use outcome::{Exit, OomOrigin, Outcome};
pub(crate) use parallel_part::job_of_part;
pub use phase::Phase;
pub use plimsoll_proto::{
    cause::Cause,
    v1::{CurveKnown, Source as MeasurementSource},
};
pub use prediction::{
    Basis, KNOWN_CONFIDENCE, LowerBound, PartEffect, PoolAssignment, Prediction, Quantity, Rung, UsedAttempt,
};
pub use progress::SampleAccumulator;
pub use project_rename::ProjectRename;
pub use reported::{LogOrder, LogPlace, MatchedLine, ReportedEvidence, RootLine};
pub use reported_outcome::{JobStatus, ReportedOutcome};
pub use reporter::Reporter;
pub use reporter::matches_pattern;
pub use request_usage::RequestUsage;
pub use rescue::{LargestProcess, Rescue, RescueTotals};
pub use retention::RetentionPolicy;
pub use sample::Sample;
pub use starvation::Starvation;
pub use stats_fields::StatsFields;
pub use summary::{DeliveryOrigin, FinalTotals, Summary};
pub use ticket::{Ticket, TicketClaim, TicketNumbers, UpstreamMachine};
pub(crate) use units::float;
pub use units::{Bytes, Cores, CpuMicros, Micros, Millis, median};
pub use upstream::{UpstreamServer, UpstreamTicket};
pub(crate) use verdict::REMOVED_LINE;
pub use verdict::{
    Action, Evidence, JobName, ListedRun, MemoryGrowth, NamedSizes, ReservationCost, RetryOutlook, Signature,
    Verdict,
};
pub use verdict_basis::{MatchedRule, RecordedCause, VerdictBasis};
