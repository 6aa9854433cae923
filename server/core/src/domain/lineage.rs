//! Which attempts are executions of one job, and which of them retries which: one rule for verdicts, statistics, and what is shown.
//!
//! | witness | says |
//! |---|---|
//! | what an agent says it retries | that attempt, also where it is not known here |
//! | attempts of the same key, pipeline and job of one CI system | the one before it: a job that GitLab retries says nothing itself |
//!
//! A job may run several commands (`HOST:JOB`, `HOST:JOB.2`), which are not retries of each other. The number of a CI job orders attempts,
//! because it grows and no clock is in it; only attempts without one are ordered by their start. Attempts that say they retry each other
//! are believed where that agrees with their start.
//!
//! The labels of an attempt that its job's own token opened are those of the token (`identity` of the server). An untrusted attempt of which
//! nothing proves that counts neither for what is trusted nor for an attempt of which it is proven.

use std::sync::Arc;

use plimsoll_proto::job::JobExecution;

use super::{
    AttemptBrief, AttemptId, Evidence, History, JobMark, Key, Outcome, RetryStatus, Rung, Summary,
    history::LINEAGE_STEPS,
};

/// One execution of a job, as far as its order among the others goes.
#[derive(Debug, Clone, Copy)]
pub struct JobRun<'a> {
    attempt: &'a AttemptId,
    key: &'a Key,
    job: Option<JobMark>,
    retries: Option<&'a AttemptId>,
    /// `None` if it was not measured: then it is the last.
    started_unix_ms: Option<u64>,
    untrusted: bool,
    /// Its job's own token opened it.
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

/// What an attempt retries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RetryOf<'h> {
    /// It is the first, as far as is known.
    Nothing,
    /// An attempt that is not known here.
    Unknown,
    /// This one.
    Attempt(&'h Arc<AttemptBrief>),
}

impl JobRun<'_> {
    /// Whether an attempt is another execution of the same command of the same job. The mark of the job is compared already.
    fn is_of_job(&self, other: &AttemptBrief) -> bool {
        let (one, this) =
            (JobExecution::read(other.attempt.as_str()), JobExecution::read(self.attempt.as_str()));
        let same_host = one.host == this.host || one.host.is_empty() || this.host.is_empty();
        other.attempt != *self.attempt
            && one.command == this.command
            && same_host
            && other.key.built_texts() == self.key.built_texts()
    }
}

impl JobRun<'_> {
    /// Whether another attempt can stand before this one. What is not trusted says of itself which job it is: it never counts for what is
    /// trusted, and for a job that proves itself only if it proves itself as well.
    fn counts(&self, other: &AttemptBrief) -> bool {
        !other.untrusted || (self.untrusted && (!self.own_job || other.is_of_own_job()))
    }

    /// Whether another attempt is of the same job of the same pipeline.
    fn is_same_job(&self, other: &AttemptBrief) -> bool {
        self.job.is_some() && self.job == other.job
    }

    /// Whether another attempt is of the same CI job, by its id.
    fn is_same_number(&self, other: &AttemptBrief) -> bool {
        let (one, this) =
            (JobExecution::read(other.attempt.as_str()), JobExecution::read(self.attempt.as_str()));
        (one.host, one.job) == (this.host, this.job)
    }
}

impl History {
    /// What an attempt retries.
    pub(crate) fn retry_of(&self, run: &JobRun<'_>) -> RetryOf<'_> {
        if let Some(named) = run.retries.filter(|named| self.is_believed(run, named)) {
            return match self.seen_by(run, named) {
                Some(original) => RetryOf::Attempt(original),
                None => RetryOf::Unknown,
            };
        }
        self.earlier_in_job(run).next_back().map_or(RetryOf::Nothing, RetryOf::Attempt)
    }

    /// Whether an attempt is a retry, and after what. One that runs again after a success mends nothing, and is none.
    pub fn retry_after(&self, brief: &AttemptBrief) -> RetryStatus {
        match self.retry_of(&brief.into()) {
            RetryOf::Attempt(original) if original.outcome == Outcome::Succeeded => RetryStatus::Nothing,
            RetryOf::Attempt(original) => original.cause.map_or(RetryStatus::Unknown, RetryStatus::Cause),
            RetryOf::Unknown => RetryStatus::Unknown,
            RetryOf::Nothing if brief.number > 1 => RetryStatus::Unknown,
            RetryOf::Nothing => RetryStatus::Nothing,
        }
    }

    /// The attempts before this one: first those of the chain that it goes back to, newest first, then all others of its job.
    pub fn before(&self, run: &JobRun<'_>) -> Vec<&Arc<AttemptBrief>> {
        let mut found = self.chain(run);
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

    /// The attempt that retries this one, if one that is known does: the first of several.
    pub(crate) fn retried_by(&self, original: &AttemptId, key: &Key) -> Option<&Arc<AttemptBrief>> {
        let names_original = |brief: &&Arc<AttemptBrief>| brief.retries.as_deref() == Some(original);
        if let Some(retry) =
            self.on_rung(Rung::Exact, key).map(|observation| &observation.brief).find(names_original)
        {
            return Some(retry);
        }
        let known = self.get(original)?;
        let is_retry = |brief: &&Arc<AttemptBrief>| match self.retry_of(&JobRun::from(&***brief)) {
            RetryOf::Attempt(of) => Arc::ptr_eq(of, known),
            RetryOf::Unknown | RetryOf::Nothing => false,
        };
        self.in_job(&(&**known).into())
            .into_iter()
            .filter(|brief| !brief.untrusted || known.untrusted)
            .find(is_retry)
    }

    /// Whether a retry of this attempt is known and passed.
    pub fn has_retry_passed(&self, original: &AttemptId, key: &Key) -> bool {
        self.retried_by(original, key).is_some_and(|retry| retry.outcome == Outcome::Succeeded)
    }

    /// The attempts that something new about this one may matter to, each with what it is a retry after: itself, those of its job, the
    /// one that it says it retries, and `retries`, which say that they retry it. One that is not known any more is left out.
    pub(crate) fn lineage_of(
        &self,
        brief: &AttemptBrief,
        retries: Vec<Arc<AttemptBrief>>,
    ) -> Vec<(Arc<AttemptBrief>, RetryStatus)> {
        let original = brief.retries.as_deref().and_then(|original| self.get(original));
        let known = self.in_job(&brief.into()).into_iter().chain(self.get(&brief.attempt)).chain(original);
        let with_after = |brief: Arc<AttemptBrief>| {
            let after = self.retry_after(&brief);
            (brief, after)
        };
        known.map(Arc::clone).chain(retries).map(with_after).collect()
    }

    /// The attempts that agents say this one goes back to, newest first.
    fn chain(&self, run: &JobRun<'_>) -> Vec<&Arc<AttemptBrief>> {
        let mut found: Vec<&Arc<AttemptBrief>> = Vec::new();
        let mut before = run.retries;
        while found.len() < LINEAGE_STEPS
            && let Some(known) = before.and_then(|id| self.seen_by(run, id))
        {
            // two attempts that say they retry each other
            if known.attempt == *run.attempt || found.iter().any(|other| other.attempt == known.attempt) {
                break;
            }
            found.push(known);
            before = known.retries.as_deref();
        }
        found
    }

    /// The attempt with this id, as far as it counts for this one: no untrusted attempt can stand before a trusted one, and an attempt of
    /// another project is of another job, whatever is said.
    fn seen_by(&self, run: &JobRun<'_>, id: &AttemptId) -> Option<&Arc<AttemptBrief>> {
        let is_of_another = |one: &str, other: &str| !one.is_empty() && !other.is_empty() && one != other;
        let known = self.get(id).filter(|known| run.counts(known))?;
        (!is_of_another(&known.key.project, &run.key.project)).then_some(known)
    }

    /// Whether this attempt can retry the one that it says. Where they go back to each other, only if that one began before it.
    fn is_believed(&self, run: &JobRun<'_>, named: &AttemptId) -> bool {
        let Some(original) = self.seen_by(run, named) else { return named != run.attempt };
        let chain = self.chain(&JobRun::from(&**original));
        let mut all = chain.into_iter().chain([original]);
        let in_a_circle = all.any(|known| known.retries.as_deref() == Some(run.attempt));
        named != run.attempt && (!in_a_circle || is_before(original, run))
    }

    /// Other attempts of the job of this one that are before it, earliest first.
    fn earlier_in_job(&self, run: &JobRun<'_>) -> impl DoubleEndedIterator<Item = &Arc<AttemptBrief>> {
        let mut others = self.in_job(run);
        // what says that it goes back to this one came after it, whatever the clocks say
        let goes_back = |brief: &AttemptBrief| {
            self.chain(&brief.into()).iter().any(|known| known.attempt == *run.attempt)
        };
        others.retain(|brief| run.counts(brief) && !goes_back(brief));
        let this = others.len();
        let mut places: Vec<usize> =
            in_order(others.iter().map(|brief| JobRun::from(&***brief)).chain([*run]));
        let end = places.iter().position(|place| *place == this).unwrap_or_default();
        places.truncate(end);
        places.into_iter().filter_map(move |place| others.get(place).copied())
    }

    /// Other attempts of the job of this one, in no order.
    fn in_job(&self, run: &JobRun<'_>) -> Vec<&Arc<AttemptBrief>> {
        let Some(job) = run.job else { return Vec::new() };
        self.of_job(job).filter(|brief| run.is_of_job(brief)).collect()
    }
}

/// The runs by their places, earliest first: in the order of the jobs' numbers; those without one where their start puts them.
fn in_order<'a>(runs: impl Iterator<Item = JobRun<'a>>) -> Vec<usize> {
    let mut runs: Vec<(usize, JobRun<'a>)> = runs.enumerate().collect();
    let number = |run: &JobRun<'a>| {
        let named = JobExecution::read(run.attempt.as_str());
        named.number().map(|number| (number, named.tried))
    };
    runs.sort_by_key(|(_, run)| {
        (number(run).is_none(), number(run), run.started_unix_ms.unwrap_or(u64::MAX), run.attempt.as_str())
    });
    let mut latest = 0;
    let mut placed: Vec<(u64, usize)> = Vec::with_capacity(runs.len());
    for (place, run) in runs {
        let started = match number(&run) {
            // a clock may be an hour off, a number is not
            Some(_) => {
                latest = latest.max(run.started_unix_ms.unwrap_or_default());
                latest
            }
            None => run.started_unix_ms.unwrap_or(u64::MAX),
        };
        placed.push((started, place));
    }
    // stable: what began at the same time stays in its order
    placed.sort_by_key(|(started, _)| *started);
    placed.into_iter().map(|(_, place)| place).collect()
}

/// Whether an attempt came before this one.
fn is_before(brief: &AttemptBrief, run: &JobRun<'_>) -> bool {
    in_order([brief.into(), *run].into_iter()).first() == Some(&0)
}

#[cfg(test)]
mod tests;
