//! Single attempts, and totals over attempts, as a caller may see them.

pub(crate) mod attempts;
pub(crate) mod statistics;

pub(crate) use attempts::AttemptService;
pub(crate) use statistics::StatisticsService;
