//! Reports of the CI system about unknown attempts: kept in memory, within bounds, until the attempt opens.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use plimsoll_core::domain::{AttemptId, ReportedOutcome};

/// Most reports kept until their attempt opens: those of the jobs of a few hours, most of which no
/// agent ever measures. About 3 MB.
const MAX_EARLY_REPORTS: usize = 10_000;
/// Most reports on one attempt, each by another reporter. Few reporters know about the same job.
const REPORTS_PER_ATTEMPT: usize = 8;

/// Reports on unknown attempts. The project of such an attempt is unknown, so the report of each
/// reporter is kept; when the attempt opens, only reporters that may report on its project count.
#[derive(Debug, Default)]
pub(crate) struct EarlyReports {
    ends: HashMap<AttemptId, Vec<Arc<ReportedOutcome>>>,
    /// Reports by the name of their reporter, oldest first.
    order: HashMap<String, VecDeque<(AttemptId, Arc<ReportedOutcome>)>>,
    count: usize,
}

impl EarlyReports {
    /// Keeps the first report of each reporter on each attempt. If there are too many, the oldest
    /// report of the reporter with the most reports is dropped, so that no reporter displaces
    /// others. Returns false if the report is not kept, because the attempt has its most reports
    /// already.
    pub(crate) fn keep_first(&mut self, id: AttemptId, report: &Arc<ReportedOutcome>) -> bool {
        let words = self.ends.entry(id.clone()).or_default();
        if words.iter().any(|known| known.by == report.by) {
            return true;
        }
        if words.len() >= REPORTS_PER_ATTEMPT {
            // a report by a reporter for all projects replaces one by a reporter for some projects
            let limited = words.iter().position(|known| !known.by.reports_on_all());
            let Some(limited) = limited.filter(|_| report.by.reports_on_all()) else { return false };
            let gone = words.remove(limited);
            if let Some(order) = self.order.get_mut(gone.by.name()) {
                order.retain(|(of, word)| *of != id || !Arc::ptr_eq(word, &gone));
            }
            self.count = self.count.saturating_sub(1);
        }
        words.push(Arc::clone(report));
        self.order.entry(report.by.name().to_owned()).or_default().push_back((id, Arc::clone(report)));
        self.count += 1;
        while self.count > MAX_EARLY_REPORTS {
            self.forget_one();
        }
        true
    }

    /// The first report on this attempt by a reporter that may report on `project`.
    pub(crate) fn report_for(&self, id: &AttemptId, project: &str) -> Option<&Arc<ReportedOutcome>> {
        self.ends.get(id)?.iter().find(|report| report.by.may_report_on(project))
    }

    fn forget_one(&mut self) {
        self.count = self.count.saturating_sub(1);
        let Some((name, order)) = self.order.iter_mut().max_by_key(|(_, order)| order.len()) else { return };
        let (name, oldest) = (name.clone(), order.pop_front());
        if order.is_empty() {
            self.order.remove(&name);
        }
        let Some((id, word)) = oldest else { return };
        if let Some(words) = self.ends.get_mut(&id) {
            words.retain(|known| !Arc::ptr_eq(known, &word));
            if words.is_empty() {
                self.ends.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{JobStatus, Reporter, test_report};

    use super::*;

    fn reported_by(by: Reporter, end: JobStatus) -> Arc<ReportedOutcome> {
        ReportedOutcome { by, ..test_report("a", end) }.into()
    }

    fn id(n: usize) -> AttemptId {
        AttemptId::parse(&n.to_string()).unwrap()
    }

    #[test]
    fn early_reports_are_bounded_and_the_first_counts() {
        let mut early_reports = EarlyReports::default();
        for n in 0..MAX_EARLY_REPORTS + 5 {
            early_reports.keep_first(id(n), &test_report("a", JobStatus::Failed).into());
            early_reports.keep_first(id(n), &test_report("a", JobStatus::Succeeded).into());
        }
        let order: usize = early_reports.order.values().map(VecDeque::len).sum();
        assert_eq!(early_reports.ends.len(), MAX_EARLY_REPORTS);
        assert_eq!(order, MAX_EARLY_REPORTS);
        assert_eq!(early_reports.count, MAX_EARLY_REPORTS);
        assert!(early_reports.report_for(&id(4), "").is_none());
        assert_eq!(early_reports.report_for(&id(5), "").map(|report| report.end), Some(JobStatus::Failed));
    }

    #[test]
    fn the_first_permitted_early_report_counts() {
        let limited = |name: &str| Reporter::of(name, vec![format!("{name}/*")]);
        let mut early_reports = EarlyReports::default();
        early_reports.keep_first(id(7), &reported_by(limited("a"), JobStatus::Succeeded));
        assert_eq!(early_reports.report_for(&id(7), "b/x"), None);
        early_reports.keep_first(id(7), &reported_by(limited("b"), JobStatus::Failed));
        early_reports.keep_first(id(7), &reported_by(limited("a"), JobStatus::Canceled));
        let end = |project: &str| early_reports.report_for(&id(7), project).map(|report| report.end);
        assert_eq!(end("b/x"), Some(JobStatus::Failed));
        assert_eq!(end("a/x"), Some(JobStatus::Succeeded));
        assert_eq!(end(""), None);
    }

    #[test]
    fn early_reports_of_others_are_not_evicted() {
        let limited = |name: &str| Reporter::of(name, vec![format!("{name}/*")]);
        let mut early_reports = EarlyReports::default();
        for n in 0..100 {
            early_reports.keep_first(id(n), &reported_by(limited("b"), JobStatus::Failed));
        }
        for n in 0..3 * MAX_EARLY_REPORTS {
            early_reports.keep_first(id(n), &reported_by(limited("a"), JobStatus::Succeeded));
        }
        let by = |other: u32| reported_by(limited(&other.to_string()), JobStatus::Succeeded);
        let kept = (0..100).filter(|other| early_reports.keep_first(id(7), &by(*other))).count();
        assert!(
            (1..REPORTS_PER_ATTEMPT).contains(&kept),
            "one too many is reported, and not dropped in silence: {kept}"
        );
        assert!(early_reports.keep_first(id(7), &reported_by(Reporter::server(), JobStatus::Canceled)));
        assert!((0..100).all(|n| early_reports.report_for(&id(n), "b/x").is_some()));
        let end = early_reports.report_for(&id(7), "").map(|report| report.end);
        assert_eq!(end, Some(JobStatus::Canceled), "who speaks of all");
        let words: usize = early_reports.ends.values().map(Vec::len).sum();
        assert_eq!((words, early_reports.count), (MAX_EARLY_REPORTS, MAX_EARLY_REPORTS));
        assert!(early_reports.ends[&id(7)].len() <= REPORTS_PER_ATTEMPT);
    }
}
