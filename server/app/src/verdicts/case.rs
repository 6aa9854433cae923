//! A question about an attempt with everything known about the attempt, and the verdict on it.

use std::sync::Arc;

use plimsoll_core::{
    domain::{
        Bytes, Evidence, EvidenceSource, MemoryGrowth, NamedSizes, RecordedCause, ReportedEvidence, Summary,
        Verdict, VerdictBasis, VerdictCorrection,
    },
    predict,
    retry::{self, VerdictInputs},
};

use super::{Asker, known::KnownVerdicts, numbers::evidence_number};
use crate::{
    access::{own_log::OwnLog, privacy::hide_correction},
    verdicts::VerdictParts,
};

/// A question with everything known about its attempt.
#[derive(Debug)]
pub(super) struct VerdictCase {
    pub(super) asked_evidence: Evidence,
    /// Fingerprint of the question.
    pub(super) question: u64,
    pub(super) asker: Asker,
    pub(super) known_verdicts: KnownVerdicts,
    /// The summary of the attempt.
    pub(super) measured: Option<Arc<Summary>>,
    pub(super) is_running: bool,
    pub(super) growth: Option<MemoryGrowth>,
    /// The sizes that the verdict on the previous attempt advised for this attempt.
    pub(super) named_before: Option<NamedSizes>,
    /// The correction that a person makes or undoes; `None` for a question.
    pub(super) correcting: Option<Box<VerdictCorrection>>,
}

/// The evidence on an attempt, together with the report of a question.
#[derive(Debug)]
struct JoinedEvidence {
    /// The report of the question; empty if it was asked before.
    own: ReportedEvidence,
    /// All reports.
    reported: ReportedEvidence,
    /// Fingerprint of the reports and the measurements.
    number: u64,
    /// Whether the question adds to the reports.
    adds: bool,
}

/// The verdict on a question, before what the caller may not read is removed.
#[derive(Debug)]
pub(super) struct WeighedVerdict {
    pub(super) verdict: Verdict,
    /// The evidence of a new verdict, with its fingerprint; `None` if the verdict in force is based
    /// on the same evidence.
    pub(super) new: Option<(Evidence, u64)>,
    /// Whether the report says something that no earlier one did.
    pub(super) adds: bool,
    readable: ReadableParts,
}

/// The parts of a verdict that a caller may read.
#[derive(Debug)]
struct ReadableParts {
    /// The log lines that the caller itself sent, if it may read only those; `None` if it may read
    /// all lines.
    own_log: Option<OwnLog>,
    /// Whether the caller may read the author and explanation of a correction.
    corrections: bool,
}

impl ReadableParts {
    fn of(&self, mut verdict: Verdict) -> Verdict {
        if !self.corrections {
            hide_correction(&mut verdict);
        }
        if let Some(own) = &self.own_log {
            own.hide_others(&mut verdict);
        }
        verdict
    }
}

impl WeighedVerdict {
    /// The verdict without what the caller may not read.
    pub(super) fn answer(self) -> Verdict {
        self.readable.of(self.verdict)
    }
}

impl VerdictCase {
    /// The verdict in force, without what the caller may not read.
    pub(super) fn verdict_in_force(&self) -> Option<Verdict> {
        Some(self.readable(None).of(self.known_verdicts.in_force()?.clone()))
    }

    /// The verdict in force if the question adds nothing, else a new one. Matches the log, so call it only on a
    /// thread that may be busy for long.
    pub(super) fn weigh(self, parts: &VerdictParts) -> WeighedVerdict {
        let is_new = self.correcting.is_some() || !self.known_verdicts.was_asked(self.question);
        // the log of a known question is matched only for the lines that the caller may read
        let own = (is_new || !self.asker.readable_words.logs).then(|| self.own_report(parts));
        let readable = self.readable(own.as_ref());
        let joined = self.joined(own.filter(|_| is_new).unwrap_or_default(), parts);
        let adds = self.correcting.is_some() || joined.adds;
        let (verdict, new) = match self.unchanged_verdict(&joined) {
            Some(verdict) => (verdict.clone(), None),
            None => self.new_verdict(joined, parts),
        };
        WeighedVerdict { verdict, new, adds, readable }
    }

    /// Adds the report of this question to the earlier ones.
    fn joined(&self, own: ReportedEvidence, parts: &VerdictParts) -> JoinedEvidence {
        let before = self.known_verdicts.reported();
        let mut reported = before.clone();
        retry::join(&mut reported, &own);
        let measured = self.measured.as_deref().map(|summary| (summary, self.is_running));
        let number = evidence_number(&reported, measured, self.has_retry_passed(&reported, parts));
        let adds = ReportedEvidence { project: before.project.clone(), ..reported.clone() } != before;
        JoinedEvidence { own, reported, number, adds }
    }

    /// The verdict in force, if the question adds nothing to it: no report, no measurement and no correction. Where lines of the log were
    /// removed for their age, only a new report adds something: without its lines a failure would be taken for another one.
    fn unchanged_verdict(&self, joined: &JoinedEvidence) -> Option<&Verdict> {
        let adds = self.correcting.is_some() || joined.adds;
        let is_aged = joined.reported.log.iter().any(|matched| matched.line.is_empty());
        let is_same = |last: &&Verdict| last.basis.evidence == Some(joined.number) || is_aged;
        self.known_verdicts.in_force().filter(|_| !adds).filter(is_same)
    }

    /// Computes a verdict from all reports and the measurements, with its evidence. The key is taken from the
    /// measurements; how the attempt ended, from the reports.
    fn new_verdict(self, joined: JoinedEvidence, parts: &VerdictParts) -> (Verdict, Option<(Evidence, u64)>) {
        let JoinedEvidence { own, reported, number, .. } = joined;
        let evidence = self.evidence(reported);
        let unchanged = || evidence.measured.as_deref().and_then(RecordedCause::of);
        let recorded = evidence.recorded.or_else(unchanged);
        let mut verdict = with_pool(&evidence, parts);
        verdict.basis = VerdictBasis {
            // a correction is not a question
            question: self.correcting.is_none().then_some(self.question),
            evidence: Some(number),
            by_untrusted: !self.asker.is_trusted,
            reported: own,
            reported_by: self.asker.by,
            recorded,
            ..verdict.basis
        };
        (verdict, Some((evidence, number)))
    }

    /// What the caller may read. `own`: its report with this question.
    fn readable(&self, own: Option<&ReportedEvidence>) -> ReadableParts {
        let words = self.asker.readable_words;
        let own_log = (!words.logs).then(|| OwnLog::of(own.into_iter().chain(self.own_earlier_reports())));
        ReadableParts { own_log, corrections: words.corrections }
    }

    /// What the caller itself reported on the attempt before.
    fn own_earlier_reports(&self) -> impl Iterator<Item = &ReportedEvidence> {
        self.known_verdicts.reports_by(&self.asker.by)
    }

    /// Whether a later retry of the attempt succeeded. False if measurements or a person explain
    /// the failure: then that is no sign of a flaky failure.
    fn has_retry_passed(&self, reported: &ReportedEvidence, parts: &VerdictParts) -> bool {
        let measured = self.measured.as_deref();
        let is_measured =
            |source: EvidenceSource| source < EvidenceSource::Exit || source == EvidenceSource::Person;
        if measured.and_then(|summary| summary.cause_source).is_some_and(is_measured) {
            return false;
        }
        let key = measured.map(|summary| &summary.key).or(reported.key.as_deref());
        key.is_some_and(|key| {
            parts.history.read(|history| history.has_retry_passed(&self.asked_evidence.attempt, key))
        })
    }

    /// The report of this question, for the project of the attempt.
    fn own_report(&self, parts: &VerdictParts) -> ReportedEvidence {
        let asked = Evidence { measured: self.measured.clone(), ..self.asked_evidence.clone() };
        let mut asked = parts.classifier.reported(&asked);
        if let Some(summary) = self.measured.as_ref().filter(|_| asked.project.is_empty()) {
            asked.project.clone_from(&summary.key.project);
        }
        asked
    }

    /// All evidence: what was reported, what was measured of the attempt, and earlier verdicts and corrections of it.
    fn evidence(&self, reported: ReportedEvidence) -> Evidence {
        let measured = self.measured.clone();
        let about = Evidence::about(self.asked_evidence.attempt.clone());
        let (key, number, ended) = match measured.as_deref() {
            Some(summary) => (summary.key.clone(), summary.number, summary.exit),
            None => (reported.key.as_deref().cloned().unwrap_or_default(), reported.number.max(1), None),
        };
        let exit = reported.exit.or(ended);
        let failure_reason = measured.as_deref().map(|summary| summary.ci_reason.clone()).unwrap_or_default();
        let (time_limit, growth, named_before) = (reported.time_limit, self.growth, self.named_before);
        let correction = self.correcting.clone().or_else(|| self.known_verdicts.correction());
        let recorded = self.known_verdicts.recorded();
        let about = Evidence { time_limit, growth, reported, named_before, recorded, correction, ..about };
        Evidence { key, number, measured, exit, failure_reason, ..about }
    }
}

/// Computes the verdict, and chooses a pool for its next size. If no pool offers that size, the
/// verdict is computed again with the largest pool's memory as the cap: otherwise it would advise a
/// bigger size although the pool lowers it.
pub(super) fn with_pool(evidence: &Evidence, parts: &VerdictParts) -> Verdict {
    let VerdictParts { classifier, job_pods, predict, pools, .. } = parts;
    let evidence = &*job_pods.join(evidence);
    let memory = |verdict: &Verdict| verdict.next.as_ref().map(|next| next.memory_limit.value);
    let judge = |settings: &predict::Settings| {
        let mut verdict = classifier.with_finding(evidence, |finding, history, seen, policy| {
            retry::judge(evidence, finding, &VerdictInputs { history, seen, settings, policy })
        });
        let wanted = memory(&verdict);
        verdict.next = verdict.next.map(|next| pools.assign(&evidence.key, next));
        (verdict, wanted)
    };
    let (verdict, wanted) = judge(predict);
    match memory(&verdict).filter(|taken| wanted.is_some_and(|wanted| *taken < wanted)) {
        Some(most) => judge(&predict::Settings { memory_cap: Some(Bytes(most)), ..(**predict).clone() }).0,
        None => verdict,
    }
}
