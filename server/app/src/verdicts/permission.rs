//! Who may ask for a verdict, correct one, and read what others reported; and whether a caller's report is stored.

use std::sync::Arc;

use plimsoll_core::domain::{AttemptId, Cause, Evidence, Verdict};

use super::{Asker, AttemptNames, CorrectionJob, ReadableWords, Verdicts, judge::VerdictScope};
use crate::access::{
    Refusal,
    guard::AdmittedCaller,
    identity::{Bound, Identity, Role},
};

/// A person's correction of a failure's cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrectionRequest {
    pub(crate) attempt: AttemptId,
    /// The corrected cause; `None` undoes an earlier correction.
    pub(crate) cause: Option<Cause>,
    pub(crate) why: String,
    /// How long the correction applies to other failures with the same signature, milliseconds;
    /// `None`: it applies only to this attempt.
    pub(crate) signature_for_ms: Option<u64>,
}

impl Verdicts {
    /// The verdict on an ended attempt, or on the newest run of a CI job. A verdict that is stored
    /// is on disk before it is returned.
    /// Errors: the caller may not ask about the attempt, exceeds its bound on concurrent verdicts, or the writer refuses.
    pub(crate) async fn should_retry(
        &self,
        caller: &AdmittedCaller,
        (mut question, newest_run): (Evidence, bool),
    ) -> Result<Verdict, Refusal> {
        let _own = caller.within(|caller| caller.place(Bound::Verdicts)).map_err(Refusal::Exceeded)?;
        let caller = caller.identity();
        let _place = self.queue.take_slot(caller.trusted)?;
        if !learns_nothing(caller) {
            question.attempt = self.meant_attempt(caller, &question, newest_run).await?;
        }
        match self.scope(caller, &mut question).await? {
            (VerdictScope::Kept, asker) => self.judge(question, asker).await,
            (scope, asker) => self.judge_without_storing(question, asker, scope).await,
        }
    }

    /// Stores a person's correction of the cause, and returns the corrected verdict. It is on disk
    /// before it is returned.
    /// Errors: the caller is a CI job, the attempt is unknown or not visible to the caller (both look the same) or has not failed, or the
    /// writer refuses.
    pub(crate) async fn correct(
        &self,
        caller: &AdmittedCaller,
        request: CorrectionRequest,
    ) -> Result<Verdict, Refusal> {
        let _own = caller.within(|caller| caller.place(Bound::Verdicts)).map_err(Refusal::Exceeded)?;
        let caller = caller.identity();
        if caller.proven.job.is_some() {
            let text = "the token of a CI job corrects no verdict, because code in a pull request could excuse its own failures; \
                        use a person's token with the role operator";
            return Err(Refusal::NotAllowed(text.to_owned()));
        }
        let _place = self.queue.take_slot(true)?;
        let CorrectionRequest { attempt, cause, why, signature_for_ms } = request;
        let attempt = AttemptNames { verdicts: self, caller }.full_id(&attempt).await?;
        let Some(project) = self.project_of(caller, &attempt).await? else {
            return Err(Refusal::NotFound(format!("no attempt {attempt} is known here")));
        };
        let hides = self.private.logs && self.private.hides_from(caller, &project);
        let asker = Asker {
            is_trusted: true,
            sees_all: caller.projects.is_all(),
            readable_words: ReadableWords {
                logs: caller.may_learn_of(&project) && !hides,
                corrections: caller.reads(&project) && !hides,
            },
            by: caller.reporter_for(&project),
        };
        let correcting = CorrectionJob { attempt, project, cause, why, signature_for_ms, asker };
        Box::pin(self.store_correction(correcting)).await
    }

    /// The attempt that a question is about. An id without host is not matched to an attempt of
    /// another package.
    async fn meant_attempt(
        &self,
        caller: &Arc<Identity>,
        question: &Evidence,
        newest_run: bool,
    ) -> Result<AttemptId, Refusal> {
        let names = AttemptNames { verdicts: self, caller };
        let (asked, package) = (&question.attempt, &question.key.package);
        let mut full = names.full_id(asked).await?;
        if full != *asked && !package.is_empty() {
            let found = self.writer.find(&full).await?;
            if found.is_none_or(|(summary, _running)| summary.key.package != *package) {
                full.clone_from(asked);
            }
        }
        if newest_run { names.newest_run(&full).await } else { Ok(full) }
    }

    /// The project of an attempt that was measured or has a verdict, if the caller may see the
    /// project.
    async fn project_of(&self, caller: &Identity, attempt: &AttemptId) -> Result<Option<String>, Refusal> {
        let projects = match self.writer.find(attempt).await? {
            Some((summary, _running)) => vec![summary.key.project.clone()],
            None => self.judged_projects(attempt).await?,
        };
        Ok(projects.into_iter().find(|project| caller.sees(project)))
    }

    /// Decides how a question of `caller` is handled. The attempt belongs to the project that was
    /// measured, else to the project that the question names. The verdict is stored if the caller
    /// is trusted, or if the caller is the job itself and predictions do not use its attempt: a
    /// stored verdict is shown to others, counts toward the attempt's retry limit, and affects
    /// predictions if the attempt does.
    async fn scope(
        &self,
        caller: &Identity,
        question: &mut Evidence,
    ) -> Result<(VerdictScope, Asker), Refusal> {
        let (is_trusted, sees_all) = (caller.trusted, caller.projects.is_all());
        let by = caller.reporter_for(&question.key.project);
        let asker = Asker { is_trusted, sees_all, readable_words: ReadableWords::NONE, by };
        if is_trusted && sees_all && caller.roles.has(Role::Reader) && !self.private.logs {
            return Ok((VerdictScope::Kept, Asker { readable_words: ReadableWords::ALL, ..asker }));
        }
        if learns_nothing(caller) {
            return Ok((VerdictScope::WithoutAttempt, Asker::stranger()));
        }
        let found = self.writer.find(&question.attempt).await?;
        let seen = found.as_ref().map(|(summary, _running)| caller.sees(&summary.key.project));
        if seen != Some(true) {
            caller.asks_about(&question.attempt, &mut question.key).map_err(Refusal::Forbidden)?;
        }
        let measured = found.as_ref().map(|(summary, _running)| summary);
        let project = measured.map_or(&question.key.project, |summary| &summary.key.project);
        let is_own_job = caller.is_own_job(question.attempt.as_str());
        let may_see = caller.may_learn_of(project);
        let hides = self.private.logs && self.private.hides_from(caller, project);
        // the project is known by now, so the reporter is determined again
        let by = caller.reporter_for(project);
        // a job sees all of its own log; corrections written by people are shown only to readers of
        // the project
        let reads = ReadableWords {
            logs: is_own_job || (may_see && !hides),
            corrections: caller.reads(project) && !hides,
        };
        let asker = Asker { readable_words: reads, by, ..asker };
        let teaches = measured.is_some_and(|summary| !summary.opening.untrusted);
        let is_own = seen.is_some() && !teaches && is_own_job;
        let scope = match seen {
            Some(false) => return Ok((VerdictScope::WithoutAttempt, Asker::stranger())),
            _ if caller.trusted || is_own => VerdictScope::Kept,
            _ => VerdictScope::NotKept,
        };
        Ok((scope, asker))
    }
}

/// Whether the caller is anonymous and may see no attempt.
fn learns_nothing(caller: &Identity) -> bool {
    let is_everyone = caller.trusted && caller.projects.is_all();
    caller.is_anonymous && !caller.roles.has(Role::Reader) && !is_everyone
}

#[cfg(test)]
mod tests;
