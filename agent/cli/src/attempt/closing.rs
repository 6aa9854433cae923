//! The last steps of an attempt: delivery, advice, reports.

use plimsoll_client::delivery::{Delivery, DeliveryReport};
use plimsoll_proto::v1::Finish;
use tokio::time::{Instant, timeout_at};

use super::{Settings, write_line};
use crate::{
    job_summary::{self, Advice, AdviceRequest, BuildFacts},
    standard_error,
};

/// Ends the attempt on the server, and requests advice in the remaining time. If the samples were not
/// delivered, no advice is requested: the server may have another attempt with the same id.
pub(super) async fn deliver(
    settings: &Settings,
    delivery: Delivery,
    finish: Finish,
    mut wanted: AdviceRequest,
    interruption: &mut impl AsyncFnMut() -> String,
) -> (DeliveryReport, Advice) {
    let now = Instant::now();
    let deadline = now.checked_add(settings.patience).unwrap_or(now);
    let report = tokio::select! {
        report = delivery.finish_with(finish, settings.patience) => report,
        signal = interruption() => interrupted_report(&signal),
    };
    let mut advice = Advice::default();
    if let Some(id) = &report.runs_as {
        wanted.attempt.clone_from(id);
    }
    if settings.delivery.server.is_none() || !report.delivered || wanted.is_empty() {
        return (report, advice);
    }
    let problem = tokio::select! {
        answered = timeout_at(deadline, job_summary::ask(&settings.delivery, wanted, &mut advice)) => {
            answered.err().map(|_late| format!("the server took longer than {:?}", settings.patience))
        }
        _signal = interruption() => Some("interrupted".to_owned()),
    };
    advice.problem = problem.or(advice.problem);
    (report, advice)
}

pub(super) fn interrupted_report(signal: &str) -> DeliveryReport {
    DeliveryReport { problem: Some(format!("interrupted by {signal}")), ..DeliveryReport::default() }
}

/// Writes the reports. A failed write is only logged. A slow reader gets as much time as the server; after an
/// interruption it gets none.
pub(super) async fn publish(
    facts: &BuildFacts,
    settings: &Settings,
    mut interruption: impl AsyncFnMut() -> String,
) {
    let report = &settings.report;
    if let Some(path) = &report.file
        && let Err(error) = job_summary::write_file(facts, path)
    {
        write_line(&format!("plimsoll: cannot write the report to {}: {error}", path.display()));
    }
    if let Some(text) = job_summary::render(facts, report) {
        let patience = settings.patience.max(standard_error::LINE_PATIENCE);
        standard_error::write_last(&text, patience, interruption()).await;
    }
}
