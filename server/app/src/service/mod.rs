//! Every rule of an answer, once: who may ask, what is looked up and worked out, what is counted, withheld and learnt. The ways in
//! (`transport`, `integrations`) convert, call, convert.
//!
//! | module | what it answers |
//! |---|---|
//! | [`sizing`] | what an attempt should ask for |
//! | [`verdicts`] | whether a failed attempt should be tried again |
//! | [`attempts`], [`statistics`] | what attempts were, one by one and in sums |
//! | [`redaction`] | what of it is private |
//! | [`tickets`] | places in pools with a limit |
//! | [`admission`] | the sizes of a pod that is about to be, and where it runs |
//! | [`demand`] | what each pool needs |
//! | [`reports`] | in whose name a CI system reports on a job |
//! | [`refusal`] | why there is no answer |

pub(crate) mod admission;
pub(crate) mod attempt_names;
pub(crate) mod attempts;
pub(crate) mod demand;
#[cfg(test)]
pub(crate) mod fixture;
mod redaction;
pub(crate) mod refusal;
pub(crate) mod reports;
pub(crate) mod sizing;
pub(crate) mod statistics;
pub(crate) mod tickets;
pub(crate) mod verdicts;

pub(crate) use admission::AdmissionService;
pub(crate) use attempts::AttemptService;
pub(crate) use demand::Demands;
pub(crate) use refusal::Refusal;
pub(crate) use sizing::SizingService;
pub(crate) use statistics::StatisticsService;
pub(crate) use tickets::TicketService;
pub(crate) use verdicts::VerdictService;

/// All of them, as the ways in share them. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    pub(crate) sizing: SizingService,
    pub(crate) verdicts: VerdictService,
    pub(crate) attempts: AttemptService,
    pub(crate) statistics: StatisticsService,
    pub(crate) tickets: TicketService,
    pub(crate) demands: Demands,
}
