//! The verdicts on one attempt, for the next question about it: earlier reports, the verdict in force, and whether a report adds anything.
//!
//! | caller | earlier reports that count |
//! |---|---|
//! | a trusted caller | those of trusted callers; from a job that reported on itself, how it ended and its log |
//! | a job, about itself | all of them |
//! | any caller without access to all projects, about an unmeasured attempt | those made for its project |
//!
//! The last verdict is in force, because it is based on everything known at its time.

use std::collections::HashMap;

use plimsoll_core::{
    domain::{AttemptId, RecordedCause, ReportedEvidence, Reporter, Verdict, VerdictCorrection},
    retry,
};
use plimsoll_store::{self as store, Store, StoreError, VERDICTS_ON_ATTEMPT};

use crate::access::privacy::ReadableWords;

/// Most verdicts stored on one attempt for one project: each is based on more evidence than the one before. All of them take 256 KiB to 1
/// MiB.
pub(crate) const MAX_VERDICTS_PER_PROJECT: usize = 64;

/// The caller that asks for a verdict, as far as it affects which earlier reports are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asker {
    /// Whether the caller is trusted, so that its report affects predictions.
    pub(crate) is_trusted: bool,
    /// Whether the caller sees the attempts of all projects.
    pub(crate) sees_all: bool,
    pub(crate) readable_words: ReadableWords,
    /// The reporter that is stored with the verdict.
    pub(crate) by: Reporter,
}

impl Asker {
    /// An asker that may use every report: the CI system, or the server itself.
    pub(crate) const TRUSTED: Self =
        Self { is_trusted: true, sees_all: true, readable_words: ReadableWords::ALL, by: Reporter::server() };
    /// An asker for which reports of other callers are not used.
    pub(crate) fn stranger() -> Self {
        Self {
            is_trusted: false,
            sees_all: false,
            readable_words: ReadableWords::NONE,
            by: Reporter::of("", Vec::new()),
        }
    }
}

/// The verdicts on one attempt that a caller may use, the newest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownVerdicts {
    given_verdicts: Vec<Verdict>,
    /// Whether the project of the caller has [`MAX_VERDICTS_PER_PROJECT`] on the attempt already.
    pub(crate) is_full: bool,
    /// Time of the verdict that is removed when another one is stored; `None` while the attempt has
    /// fewer than [`VERDICTS_ON_ATTEMPT`].
    pub(crate) gives_way: Option<u64>,
    /// Time of the newest verdict on the attempt, milliseconds since 1970.
    last_unix_ms: u64,
    is_trusted: bool,
}

impl KnownVerdicts {
    /// Reads the verdicts that a caller may use. `project`: the project of the attempt, or of the
    /// question if the attempt was not measured.
    pub(crate) async fn read(
        store: &Store,
        attempt: &AttemptId,
        asker: &Asker,
        (project, is_measured): (&str, bool),
    ) -> Result<Self, StoreError> {
        let mut given = store::read_verdicts(store, attempt).await?;
        let last_unix_ms = given.last().and_then(|last| last.given_unix_ms).unwrap_or(0);
        let gives_way = eviction_candidate(&given);
        let is_his = |verdict: &Verdict| {
            let is_for_all = is_measured || asker.sees_all;
            verdict.is_in_the_name_of(project) || (is_for_all && verdict.counts_for(project))
        };
        given.retain(is_his);
        let is_full = given.len() >= MAX_VERDICTS_PER_PROJECT;
        Ok(Self { given_verdicts: given, is_full, gives_way, last_unix_ms, is_trusted: asker.is_trusted })
    }

    pub(crate) fn in_force(&self) -> Option<&Verdict> {
        self.given_verdicts.last()
    }

    /// The correction in force, if there is one.
    pub(crate) fn correction(&self) -> Option<Box<VerdictCorrection>> {
        self.in_force().and_then(Verdict::correction).cloned().map(Box::new)
    }

    /// The cause from an imported history, which each verdict on the attempt repeats.
    pub(crate) fn recorded(&self) -> Option<RecordedCause> {
        self.given_verdicts.iter().find_map(|verdict| verdict.basis.recorded)
    }

    /// Whether the same question was asked before, so that it adds nothing. `question` is its fingerprint.
    pub(crate) fn was_asked(&self, question: u64) -> bool {
        let may_be_used = |verdict: &Verdict| !(self.is_trusted && verdict.basis.by_untrusted);
        self.given_verdicts
            .iter()
            .any(|verdict| verdict.basis.question == Some(question) && may_be_used(verdict))
    }

    /// All earlier reports, joined.
    pub(crate) fn reported(&self) -> ReportedEvidence {
        retry::join_reports(&self.given_verdicts, self.is_trusted)
    }

    /// The earlier reports of a caller. None for a caller without a name, because others have none either.
    pub(crate) fn reports_by(&self, by: &Reporter) -> impl Iterator<Item = &ReportedEvidence> {
        let is_own =
            move |verdict: &&Verdict| !by.name().is_empty() && verdict.basis.reported_by.name() == by.name();
        self.given_verdicts.iter().filter(is_own).map(|verdict| &verdict.basis.reported)
    }

    /// Time for a new verdict, milliseconds since 1970; later than the times of all earlier
    /// verdicts.
    pub(crate) fn next_time(&self, now: u64) -> u64 {
        now.max(self.last_unix_ms.saturating_add(1))
    }
}

/// Time of the verdict to remove before another is stored: the oldest of the reporter with the most
/// verdicts, so that no reporter displaces the verdicts of others. `None` while there is space.
fn eviction_candidate(given: &[Verdict]) -> Option<u64> {
    let speaker = |verdict: &Verdict| verdict.basis.reported_by.name().to_owned();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for verdict in given.iter().filter(|_verdict| given.len() >= VERDICTS_ON_ATTEMPT) {
        *counts.entry(speaker(verdict)).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    let oldest = given.iter().find(|verdict| counts.get(&speaker(verdict)) == Some(&most));
    Some(oldest?.given_unix_ms.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::fixture;
    use plimsoll_core::domain::{Exit, VerdictBasis};

    fn id() -> AttemptId {
        AttemptId::parse("a").unwrap()
    }

    /// A verdict on a report for a project, at this time.
    fn verdict_of(project: &str, reason: &str, at: u64, by_untrusted: bool) -> Verdict {
        let reported = ReportedEvidence {
            project: project.into(),
            exit: Some(Exit::Code(1)),
            container_reasons: vec![reason.into()],
            last_words: Some("error: no".into()),
            number: 2,
            ..ReportedEvidence::default()
        };
        let basis = VerdictBasis {
            evidence: Some(at),
            question: Some(at),
            by_untrusted,
            reported,
            reported_by: Reporter::server(),
            ..VerdictBasis::default()
        };
        Verdict { given_unix_ms: Some(at), basis, ..fixture::verdict(&id()) }
    }

    async fn stored(verdicts: &[Verdict]) -> Store {
        let store = Store::memory();
        fixture::put(&store, &[], verdicts).await;
        store
    }

    const TRUSTED_OF_ONE: Asker = Asker {
        is_trusted: true,
        sees_all: false,
        readable_words: ReadableWords::ALL,
        by: Reporter::server(),
    };
    const JOB_ITSELF: Asker = Asker {
        is_trusted: false,
        sees_all: false,
        readable_words: ReadableWords::ALL,
        by: Reporter::server(),
    };

    #[tokio::test]
    async fn a_jobs_own_reasons_count_only_for_itself() {
        let store =
            stored(&[verdict_of("x", "OOMKilled", 1, true), verdict_of("x", "Error", 2, false)]).await;
        let known = KnownVerdicts::read(&store, &id(), &Asker::TRUSTED, ("x", true)).await.unwrap();
        let all = known.reported();
        assert_eq!((&all.container_reasons[..], all.exit), (&["Error".to_owned()][..], Some(Exit::Code(1))));
        assert_eq!(all.last_words.as_deref(), Some("error: no"));
        assert!(!known.was_asked(1) && known.was_asked(2), "what did not count whole was not asked");
        let known = KnownVerdicts::read(&store, &id(), &JOB_ITSELF, ("x", true)).await.unwrap();
        assert_eq!(known.reported().container_reasons, ["OOMKilled", "Error"]);
        assert!(known.was_asked(1) && known.was_asked(2));
    }

    #[tokio::test]
    async fn the_busiest_reporter_makes_room_for_the_next() {
        let by = |speaker: usize, at: u64| {
            let mut verdict = verdict_of(&format!("p{speaker}"), "Error", at, false);
            verdict.basis.reported_by =
                Reporter::of(&format!("token {speaker}"), vec![format!("p{speaker}")]);
            verdict
        };
        // the job's own project reported first, all others up to their limit
        let mut given = vec![by(99, 1)];
        given.extend((0..VERDICTS_ON_ATTEMPT - 1).map(|n| by(n / MAX_VERDICTS_PER_PROJECT, n as u64 + 2)));
        let store = stored(&given).await;
        let known = KnownVerdicts::read(&store, &id(), &TRUSTED_OF_ONE, ("p99", false)).await.unwrap();
        assert_eq!((known.is_full, known.gives_way), (false, Some(2)), "the oldest of the first of them");
        let id = id();
        let gone = store::forget_verdicts_if(&store, &id, |verdict| verdict.given_unix_ms == Some(2)).await;
        assert_eq!(gone.unwrap(), 1);
        let known = KnownVerdicts::read(&store, &id, &TRUSTED_OF_ONE, ("p1", false)).await.unwrap();
        assert_eq!((known.is_full, known.gives_way), (true, None), "the caller has as many as it may");
    }

    #[tokio::test]
    async fn unmeasured_attempts_count_only_the_projects_own_reports() {
        let store = stored(&[
            verdict_of("x", "OOMKilled", 1, false),
            verdict_of("", "StartError", 2, false),
            verdict_of("y", "Error", 3, false),
        ])
        .await;
        let reasons = async |asker: &Asker, project, is_measured| {
            let known = KnownVerdicts::read(&store, &id(), asker, (project, is_measured)).await.unwrap();
            assert_eq!((known.is_full, known.next_time(0)), (false, 4), "a new one comes behind all");
            known.reported().container_reasons
        };
        for asker in &[TRUSTED_OF_ONE, JOB_ITSELF] {
            assert_eq!(reasons(asker, "x", false).await, ["OOMKilled"]);
            assert_eq!(reasons(asker, "z", false).await, [""; 0]);
            let found = reasons(asker, "x", true).await;
            assert_eq!(found, ["OOMKilled", "StartError"], "measured in that project");
        }
        assert_eq!(reasons(&Asker::TRUSTED, "x", false).await, ["OOMKilled", "StartError"]);
        assert_eq!(reasons(&Asker::TRUSTED, "", false).await, ["OOMKilled", "StartError", "Error"]);
    }
}
