//! What the doors call.

use crate::{
    fleet::{AttemptService, StatisticsService},
    sizing::SizingService,
    tickets::{Demands, TicketService},
    verdicts::Verdicts,
};

/// What gRPC, HTTP and the web page call. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    pub(crate) sizing: SizingService,
    pub(crate) verdicts: Verdicts,
    pub(crate) attempts: AttemptService,
    pub(crate) statistics: StatisticsService,
    pub(crate) tickets: TicketService,
    pub(crate) demands: Demands,
}
