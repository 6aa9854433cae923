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
    ingest::IngestParts,
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

/// The verdict on a question, before what the caller may not read is removed.
#[derive(Debug)]
pub(super) struct WeighedVerdict {
    pub(super) verdict: Verdict,
    /// The evidence of a new verdict, with its fingerprint; `None` if the verdict in force is based
    /// on the same evidence.
    pub(super) new: Option<(Evidence, u64)>,
    /// The log lines that the caller itself sent, if it may read only those; `None` if it may read
    /// all lines.
    readable: Option<OwnLog>,
    /// Whether the caller may read the author and explanation of a correction.
    reads_corrections: bool,
}

impl WeighedVerdict {
    /// The verdict without what the caller may not read.
    pub(super) fn answer(self) -> Verdict {
        let Self { mut verdict, readable, reads_corrections, .. } = self;
        if !reads_corrections {
            hide_correction(&mut verdict);
        }
        if let Some(own) = readable {
            own.hide_others(&mut verdict);
        }
        verdict
    }
}

impl VerdictCase {
    /// The verdict in force, without what the caller may not read.
    pub(super) fn verdict_in_force(&self) -> Option<Verdict> {
        let (verdict, words) = (self.known_verdicts.in_force()?.clone(), self.asker.readable_words);
        let readable = (!words.logs).then(|| OwnLog::of(self.own_earlier_reports()));
        let reads_corrections = words.corrections;
        Some(WeighedVerdict { verdict, new: None, readable, reads_corrections }.answer())
    }

    /// Computes the verdict from all reports and the measurements. The key is taken from the
    /// measurements; how the attempt ended, from the reports. Matches the log, so call it only on a
    /// thread that may be busy for long.
    pub(super) fn weigh(self, parts: &IngestParts) -> WeighedVerdict {
        let before = self.known_verdicts.reported();
        let was_asked = self.correcting.is_none() && self.known_verdicts.was_asked(self.question);
        let own =
            if was_asked && self.asker.readable_words.logs { None } else { Some(self.all_reports(parts)) };
        let readable = (!self.asker.readable_words.logs)
            .then(|| OwnLog::of(own.iter().chain(self.own_earlier_reports())));
        let reads_corrections = self.asker.readable_words.corrections;
        let own = own.filter(|_| !was_asked).unwrap_or_default();
        let mut reported = before.clone();
        retry::join(&mut reported, &own);
        let measured = self.measured.as_deref().map(|summary| (summary, self.is_running));
        let number = evidence_number(&reported, measured, self.has_retry_passed(&reported, parts));
        let adds = ReportedEvidence { project: before.project.clone(), ..reported.clone() } != before;
        if let Some(verdict) =
            self.known_verdicts.unchanged_verdict(number).filter(|_| !adds && self.correcting.is_none())
        {
            return WeighedVerdict { verdict: verdict.clone(), new: None, readable, reads_corrections };
        }
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
        WeighedVerdict { verdict, new: Some((evidence, number)), readable, reads_corrections }
    }

    /// What the caller itself reported on the attempt before.
    fn own_earlier_reports(&self) -> impl Iterator<Item = &ReportedEvidence> {
        self.known_verdicts.reports_by(&self.asker.by)
    }

    /// Whether a later retry of the attempt succeeded. False if measurements or a person explain
    /// the failure: then that is no sign of a flaky failure.
    fn has_retry_passed(&self, reported: &ReportedEvidence, parts: &IngestParts) -> bool {
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

    fn all_reports(&self, parts: &IngestParts) -> ReportedEvidence {
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
pub(super) fn with_pool(evidence: &Evidence, parts: &IngestParts) -> Verdict {
    let IngestParts { classifier, job_pods, predict, pools, .. } = parts;
    let evidence = &*job_pods.join(evidence);
    let memory = |verdict: &Verdict| verdict.next.as_ref().map(|next| next.memory_limit.value);
    let judge = |settings: &predict::Settings| {
        let mut verdict = classifier.with_finding(evidence, |finding, history, seen, policy| {
            retry::judge(evidence, finding, &VerdictInputs { history, seen, settings, policy })
        });
        let wanted = memory(&verdict);
        verdict.next = verdict.next.map(|next| pools.put(&evidence.key, next));
        (verdict, wanted)
    };
    let (verdict, wanted) = judge(predict);
    match memory(&verdict).filter(|taken| wanted.is_some_and(|wanted| *taken < wanted)) {
        Some(most) => judge(&predict::Settings { memory_cap: Some(Bytes(most)), ..(**predict).clone() }).0,
        None => verdict,
    }
}
