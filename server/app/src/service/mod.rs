//! The logic of every answer: permission, lookup, computation, metrics, redaction. The callers
//! (`transport`, `integrations`) only convert requests and answers.
//!
//! | module | content |
//! |---|---|
//! | [`sizing`] | sizes for an attempt |
//! | [`attempts`], [`statistics`] | single attempts, and totals over attempts |
//! | [`tickets`] | slots in pools with a limit |
//! | [`admission`] | sizes and placement of new pods |
//! | [`demand`] | demand of each pool |
//! | [`reports`] | who may report on a CI job |

pub(crate) mod admission;
pub(crate) mod attempts;
pub(crate) mod demand;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod reports;
pub(crate) mod sizing;
pub(crate) mod statistics;
pub(crate) mod tickets;

pub(crate) use admission::AdmissionService;
pub(crate) use attempts::AttemptService;
pub(crate) use demand::Demands;
pub(crate) use sizing::SizingService;
pub(crate) use statistics::StatisticsService;
pub(crate) use tickets::TicketService;

pub(crate) use crate::access::Refusal;
use crate::verdicts::Verdicts;

/// All services. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    pub(crate) sizing: SizingService,
    pub(crate) verdicts: Verdicts,
    pub(crate) attempts: AttemptService,
    pub(crate) statistics: StatisticsService,
    pub(crate) tickets: TicketService,
    pub(crate) demands: Demands,
}
