//! Finds which attempts are executions of one job, and which of them is a retry of which other. Verdicts, statistics and pages all use this
//! rule.
//!
//! | source | meaning |
//! |---|---|
//! | the agent names the attempt that it retries | that attempt, even if it is unknown here |
//! | attempts with the same key, pipeline and job of one CI system | the attempt before it: a job that GitLab retries does not name the earlier one |
//!
//! A job may run several commands (`HOST:JOB`, `HOST:JOB.2`), which are not retries of each other. CI job numbers order the attempts,
//! because they grow and need no clock; attempts without a number are ordered by their start. If two attempts claim to retry each other,
//! the claim that agrees with their starts is used.
//!
//! If the job's own token opened an attempt, its labels come from the token (see `identity` in the server). An untrusted attempt without
//! this proof is never an earlier run of a trusted attempt, or of an attempt with this proof.

use std::sync::Arc;

use plimsoll_proto::job::JobExecution;

use super::{
    AttemptBrief, AttemptId, Evidence, History, JobMark, Key, Outcome, RetryStatus, Rung, Summary,
    history::LINEAGE_STEPS,
};

/// One execution of a job, with the values that decide its position among the job's other executions.
#[derive(Debug, Clone, Copy)]
pub struct JobRun<'a> {
    attempt: &'a AttemptId,
    key: &'a Key,
    job: Option<JobMark>,
    /// The attempt that this run retries, if it names one.
    retries: Option<&'a AttemptId>,
    /// Start, milliseconds since 1970; `None` if the attempt was not measured: such a run sorts last.
    started_unix_ms: Option<u64>,
    untrusted: bool,
    /// Whether the job's own token opened the attempt.
    own_job: bool,
}

impl<'a> From<&'a AttemptBrief> for JobRun<'a> {
    fn from(brief: &'a AttemptBrief) -> Self {
        Self {
            attempt: &brief.attempt,
            key: &brief.key,
            job: brief.job,
            retries: brief.retries.as_deref(),
            started_unix_ms: Some(brief.started_unix_ms),
            untrusted: brief.untrusted,
            own_job: brief.is_of_own_job(),
        }
    }
}

impl<'a> From<&'a Summary> for JobRun<'a> {
    fn from(summary: &'a Summary) -> Self {
        Self {
            attempt: &summary.attempt,
            key: &summary.key,
            job: JobMark::of(&summary.key),
            retries: summary.retries.as_ref(),
            started_unix_ms: Some(summary.started_unix_ms),
            untrusted: summary.opening.untrusted,
            own_job: summary.opening.proven,
        }
    }
}

impl<'a> From<&'a Evidence> for JobRun<'a> {
    fn from(evidence: &'a Evidence) -> Self {
        let untrusted = evidence.is_untrusted();
        match evidence.measured.as_deref() {
            Some(summary) => Self { attempt: &evidence.attempt, untrusted, ..summary.into() },
            None => Self {
                attempt: &evidence.attempt,
                key: &evidence.key,
                job: JobMark::of(&evidence.key),
                retries: None,
                started_unix_ms: None,
                untrusted,
                own_job: false,
            },
        }
    }
}

/// The attempt that an attempt retries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RetryOf<'h> {
    /// No attempt: this one is the first, as far as is known.
    Nothing,
    /// An attempt that the history does not have.
    Unknown,
    /// This attempt, which the history has.
    Attempt(&'h Arc<AttemptBrief>),
}

impl JobRun<'_> {
    /// Whether an attempt is another execution of the same command of the same job. The caller has compared the job marks.
    fn is_of_job(&self, other: &AttemptBrief) -> bool {
        let (one, this) =
            (JobExecution::read(other.attempt.as_str()), JobExecution::read(self.attempt.as_str()));
        let same_host = one.host == this.host || one.host.is_empty() || this.host.is_empty();
        other.attempt != *self.attempt
            && one.command == this.command
            && same_host
            && other.key.build_key_texts() == self.key.build_key_texts()
    }
}

impl JobRun<'_> {
    /// Whether another attempt may count as an earlier run of this one. An untrusted attempt chooses its own labels, so it never counts for
    /// a trusted attempt, and it counts for a proven job only if it is proven too.
    fn counts(&self, other: &AttemptBrief) -> bool {
        !other.untrusted || (self.untrusted && (!self.own_job || other.is_of_own_job()))
    }

    /// Whether another attempt belongs to the same job of the same pipeline.
    fn is_same_job(&self, other: &AttemptBrief) -> bool {
        self.job.is_some() && self.job == other.job
    }

    /// Whether another attempt belongs to the same CI job, by the job number in its id.
    fn is_same_number(&self, other: &AttemptBrief) -> bool {
        let (one, this) =
            (JobExecution::read(other.attempt.as_str()), JobExecution::read(self.attempt.as_str()));
        (one.host, one.job) == (this.host, this.job)
    }
}

impl History {
    /// The attempt that `run` retries.
    pub(crate) fn retry_of(&self, run: &JobRun<'_>) -> RetryOf<'_> {
        if let Some(named) = run.retries.filter(|named| self.is_possible_retry(run, named)) {
            return match self.visible_to(run, named) {
                Some(original) => RetryOf::Attempt(original),
                None => RetryOf::Unknown,
            };
        }
        self.earlier_in_job(run).next_back().map_or(RetryOf::Nothing, RetryOf::Attempt)
    }

    /// Whether an attempt is a retry, and of what cause of failure. A run after a success is not a retry.
    pub fn retry_after(&self, brief: &AttemptBrief) -> RetryStatus {
        match self.retry_of(&brief.into()) {
            RetryOf::Attempt(original) if original.outcome == Outcome::Succeeded => RetryStatus::Nothing,
            RetryOf::Attempt(original) => original.cause.map_or(RetryStatus::Unknown, RetryStatus::Cause),
            RetryOf::Unknown => RetryStatus::Unknown,
            RetryOf::Nothing if brief.number > 1 => RetryStatus::Unknown,
            RetryOf::Nothing => RetryStatus::Nothing,
        }
    }

    /// The attempts before this one: first those of its chain of retries, newest first, then the others of its job.
    pub fn attempts_before(&self, run: &JobRun<'_>) -> Vec<&Arc<AttemptBrief>> {
        let mut found = self.retry_chain(run);
        let same_original = run.retries.into_iter().flat_map(|original| {
            let all =
                run.untrusted.then(|| self.untrusted_on_rung(Rung::Exact, run.key)).into_iter().flatten();
            let of_key = all.chain(self.on_rung(Rung::Exact, run.key)).map(|observation| &observation.brief);
            of_key.filter(move |brief| {
                let is_related = !brief.untrusted || run.is_same_number(brief) || run.is_same_job(brief);
                let counts = is_related && run.counts(brief);
                counts && brief.retries.as_deref() == Some(original) && is_before(brief, run)
            })
        });
        for brief in same_original.chain(self.earlier_in_job(run)) {
            if found.len() >= LINEAGE_STEPS {
                break;
            }
            if brief.attempt != *run.attempt && !found.iter().any(|known| known.attempt == brief.attempt) {
                found.push(brief);
            }
        }
        found
    }

    /// The known attempt that retries this one; the earliest if there are several.
    pub(crate) fn retried_by(&self, original: &AttemptId, key: &Key) -> Option<&Arc<AttemptBrief>> {
        let names_original = |brief: &&Arc<AttemptBrief>| brief.retries.as_deref() == Some(original);
        if let Some(retry) =
            self.on_rung(Rung::Exact, key).rev().map(|observation| &observation.brief).find(names_original)
        {
            return Some(retry);
        }
        let known = self.get(original)?;
        let is_retry = |brief: &&Arc<AttemptBrief>| match self.retry_of(&JobRun::from(&***brief)) {
            RetryOf::Attempt(of) => Arc::ptr_eq(of, known),
            RetryOf::Unknown | RetryOf::Nothing => false,
        };
        let mut others = self.others_of_job(&(&**known).into());
        others.sort_unstable_by_key(|brief| brief.position());
        others.into_iter().filter(|brief| !brief.untrusted || known.untrusted).find(is_retry)
    }

    /// The newest attempts with the same key that name this one as the attempt they retry.
    pub(crate) fn exact_retries_of(&self, original: &AttemptBrief) -> Vec<Arc<AttemptBrief>> {
        let trusted = self.on_rung(Rung::Exact, &original.key);
        let of_key = trusted.chain(self.untrusted_on_rung(Rung::Exact, &original.key));
        let retries = of_key.map(|observation| &observation.brief);
        retries.filter(|brief| brief.retries.as_deref() == Some(&original.attempt)).map(Arc::clone).collect()
    }

    /// The last known retry of this attempt, directly or by way of its retries, and how it ended. An untrusted attempt may have untrusted
    /// ones.
    pub fn last_retry(&self, original: &AttemptId) -> Option<(AttemptId, Outcome)> {
        let next = |known: &Arc<AttemptBrief>| {
            // a run after a success is no retry
            if known.outcome == Outcome::Succeeded {
                return None;
            }
            // several may name the first attempt of a job: the newest counts
            let named =
                self.exact_retries_of(known).into_iter().find(|brief| known.untrusted || !brief.untrusted);
            named.or_else(|| self.retried_by(&known.attempt, &known.key).map(Arc::clone))
        };
        let retries = std::iter::successors(next(self.get(original)?), next).take(LINEAGE_STEPS);
        retries.last().map(|brief| (brief.attempt.clone(), brief.outcome))
    }

    /// Whether a known retry of this attempt passed.
    pub fn has_retry_passed(&self, original: &AttemptId, key: &Key) -> bool {
        self.retried_by(original, key).is_some_and(|retry| retry.outcome == Outcome::Succeeded)
    }

    /// If this attempt changes, the retry status of others may change too. Returns them with their status: the attempt itself, those of its
    /// job, the one that it retries, the one that this one retries and so on, and `retries`, which name it as the one that they retry.
    /// Unknown attempts are left out.
    pub(crate) fn lineage_of(
        &self,
        brief: &AttemptBrief,
        retries: Vec<Arc<AttemptBrief>>,
    ) -> Vec<(Arc<AttemptBrief>, RetryStatus)> {
        // an attempt further up may no longer count those of its job as earlier that go back to it by way of this one
        let original = |brief: &AttemptBrief| self.get(brief.retries.as_deref()?);
        let originals = std::iter::successors(original(brief), |known| original(known)).take(LINEAGE_STEPS);
        let mut of_job: Vec<_> = brief.job.into_iter().flat_map(|job| self.of_job(job)).collect();
        // in a full list, an attempt of any command of the job may have been removed in place of this one
        if of_job.len() < LINEAGE_STEPS {
            of_job = self.others_of_job(&brief.into());
        }
        let known = of_job.into_iter().chain(self.get(&brief.attempt)).chain(originals);
        let with_after = |brief: Arc<AttemptBrief>| {
            let after = self.retry_after(&brief);
            (brief, after)
        };
        known.map(Arc::clone).chain(retries).map(with_after).collect()
    }

    /// The attempts in the chain of retries that agents reported, newest first.
    fn retry_chain(&self, run: &JobRun<'_>) -> Vec<&Arc<AttemptBrief>> {
        let mut found: Vec<&Arc<AttemptBrief>> = Vec::new();
        let mut before = run.retries;
        while found.len() < LINEAGE_STEPS
            && let Some(known) = before.and_then(|id| self.visible_to(run, id))
        {
            // ends the loop of two attempts that claim to retry each other
            if known.attempt == *run.attempt || found.iter().any(|other| other.attempt == known.attempt) {
                break;
            }
            found.push(known);
            before = known.retries.as_deref();
        }
        found
    }

    /// The attempt with this id, if it may count for `run`: an untrusted attempt never counts for a trusted one, and an attempt of another
    /// project never belongs to the same job.
    fn visible_to(&self, run: &JobRun<'_>, id: &AttemptId) -> Option<&Arc<AttemptBrief>> {
        let is_of_another = |one: &str, other: &str| !one.is_empty() && !other.is_empty() && one != other;
        let known = self.get(id).filter(|known| run.counts(known))?;
        (!is_of_another(&known.key.project, &run.key.project)).then_some(known)
    }

    /// Whether this attempt can be a retry of `named`. If both claim to retry each other, it can only if `named` started earlier.
    fn is_possible_retry(&self, run: &JobRun<'_>, named: &AttemptId) -> bool {
        let Some(original) = self.visible_to(run, named) else { return named != run.attempt };
        let chain = self.retry_chain(&JobRun::from(&**original));
        let mut all = chain.into_iter().chain([original]);
        let in_a_circle = all.any(|known| known.retries.as_deref() == Some(run.attempt));
        named != run.attempt && (!in_a_circle || is_before(original, run))
    }

    /// Earlier attempts of the same job, earliest first.
    fn earlier_in_job(&self, run: &JobRun<'_>) -> impl DoubleEndedIterator<Item = &Arc<AttemptBrief>> {
        let mut others = self.others_of_job(run);
        // an attempt that claims to retry this one is later, whatever the clocks show
        let goes_back = |brief: &AttemptBrief| {
            self.retry_chain(&brief.into()).iter().any(|known| known.attempt == *run.attempt)
        };
        others.retain(|brief| run.counts(brief) && !goes_back(brief));
        let this = others.len();
        let mut places: Vec<usize> =
            in_order(others.iter().map(|brief| JobRun::from(&***brief)).chain([*run]));
        let end = places.iter().position(|place| *place == this).unwrap_or_default();
        places.truncate(end);
        places.into_iter().filter_map(move |place| others.get(place).copied())
    }

    /// Other attempts of the same job, in no order.
    fn others_of_job(&self, run: &JobRun<'_>) -> Vec<&Arc<AttemptBrief>> {
        let Some(job) = run.job else { return Vec::new() };
        self.of_job(job).filter(|brief| run.is_of_job(brief)).collect()
    }
}

/// The indexes of the runs, earliest run first: by job number; runs without a number are placed by their start.
fn in_order<'a>(runs: impl Iterator<Item = JobRun<'a>>) -> Vec<usize> {
    let mut runs: Vec<(usize, JobRun<'a>)> = runs.enumerate().collect();
    let number = |run: &JobRun<'a>| {
        let named = JobExecution::read(run.attempt.as_str());
        named.number().map(|number| (number, named.try_number))
    };
    runs.sort_by_key(|(_, run)| {
        (number(run).is_none(), number(run), run.started_unix_ms.unwrap_or(u64::MAX), run.attempt.as_str())
    });
    let mut latest = 0;
    let mut placed: Vec<(u64, usize)> = Vec::with_capacity(runs.len());
    for (place, run) in runs {
        let started = match number(&run) {
            // a clock may be wrong by an hour, a job number is not
            Some(_) => {
                latest = latest.max(run.started_unix_ms.unwrap_or_default());
                latest
            }
            None => run.started_unix_ms.unwrap_or(u64::MAX),
        };
        placed.push((started, place));
    }
    // the sort is stable, so runs with equal starts keep their order
    placed.sort_by_key(|(started, _)| *started);
    placed.into_iter().map(|(_, place)| place).collect()
}

/// Whether an attempt came before this run, in the order of [`in_order`].
fn is_before(brief: &AttemptBrief, run: &JobRun<'_>) -> bool {
    in_order([brief.into(), *run].into_iter()).first() == Some(&0)
}

#[cfg(test)]
mod tests;
