//! Who may ask for a verdict, correct one, and read what others reported; and whether a caller's report is stored.

use std::sync::Arc;

use plimsoll_core::{
    domain::{AttemptId, Evidence, Reporter, Summary, Verdict},
    mask,
};

use super::{
    Asker, CorrectionRequest, FoundAttempt, MeantAttempt, Verdicts, judge::VerdictScope, queue::AttemptTurn,
};
use crate::access::{
    Refusal, Reply,
    guard::Caller,
    identity::{Bound, Identity, Role},
    privacy::ReadableWords,
};

impl Verdicts {
    /// The verdict on an ended attempt, or on the newest run of a CI job. A verdict that is stored
    /// is on disk before it is returned.
    /// Errors: the caller may not ask about the attempt, exceeds its bound on concurrent verdicts, or the writer refuses.
    pub(crate) async fn should_retry(
        &self,
        caller: &Caller,
        (mut question, newest_run): (Evidence, bool),
    ) -> Reply<Verdict> {
        let _own = caller.within(|caller| caller.place(Bound::Verdicts)).map_err(Refusal::Exceeded)?;
        let _place = self.queue.take_slot(caller.trusted)?;
        if learns_nothing(caller) {
            let (asker, scope) = (Asker::stranger(), VerdictScope::WithoutAttempt);
            return self.judge_without_storing(self.masked(question).await?, asker, scope, None).await;
        }
        mask::key(&mut question.key);
        let meant = self.meant_attempt(caller, &question, newest_run).await?;
        question.attempt.clone_from(&meant.id);
        let measured = meant.found.as_ref().map(|(summary, _running)| &**summary);
        let scoped = self.scope(caller, &mut question, measured)?;
        // a log takes time, so that of a caller that may not ask is not masked; what the token proves has replaced fields of the key
        let question = self.masked(question).await?;
        match scoped {
            (VerdictScope::Kept, asker) => {
                let (_turn, found) = self.in_turn(&meant.id).await?;
                Box::pin(self.judge_in_turn(question, asker, found)).await
            }
            (scope, asker) => {
                // read again: masking may have waited for a core
                let found = self.ingest.find(&meant.id).await?;
                self.judge_without_storing(question, asker, scope, found).await
            }
        }
    }

    /// Stores a person's correction of the cause, and returns the corrected verdict. It is on disk
    /// before it is returned.
    /// Errors: the caller is a CI job, the attempt is unknown or not visible to the caller (both look the same) or has not failed, or the
    /// writer refuses.
    pub(crate) async fn correct(&self, caller: &Caller, mut request: CorrectionRequest) -> Reply<Verdict> {
        let _own = caller.within(|caller| caller.place(Bound::Verdicts)).map_err(Refusal::Exceeded)?;
        if caller.proven.job.is_some() {
            let text = "the token of a CI job corrects no verdict, because code in a pull request could excuse its own failures; \
                        use a person's token with the role operator";
            return Err(Refusal::NotAllowed(text.to_owned()));
        }
        let _place = self.queue.take_slot(true)?;
        let meant = self.meant(caller, &request.attempt).await?;
        request.attempt.clone_from(&meant.id);
        let attempt = &request.attempt;
        let (_turn, found) = self.in_turn(&meant.id).await?;
        let projects = match &found {
            Some((summary, _running)) => vec![summary.key.project.clone()],
            None => self.judged_projects(attempt).await?,
        };
        let Some(project) = projects.into_iter().find(|project| caller.sees(project)) else {
            return Err(Refusal::NotFound(format!("no attempt {attempt} is known here")));
        };
        let asker = Asker { is_trusted: true, ..self.asker(caller, attempt, &project) };
        Box::pin(self.store_correction(request, project, asker, found)).await
    }

    /// Waits until no other question about the attempt is judged. The attempt is read again, because it may have ended, or have another
    /// cause, since.
    pub(super) async fn in_turn(&self, attempt: &AttemptId) -> Reply<(AttemptTurn, FoundAttempt)> {
        let turn = self.queue.wait_for_turn(attempt).await;
        Ok((turn, self.ingest.find(attempt).await?))
    }

    /// The attempt that a question is about. An id without host is not matched to an attempt of
    /// another package.
    async fn meant_attempt(
        &self,
        caller: &Arc<Identity>,
        question: &Evidence,
        newest_run: bool,
    ) -> Reply<MeantAttempt> {
        let (asked, package) = (&question.attempt, &question.key.package);
        let mut meant = self.meant(caller, asked).await?;
        let is_of_package = meant.found.as_ref().is_some_and(|(summary, _)| summary.key.package == *package);
        if meant.id != *asked && !package.is_empty() && !is_of_package {
            meant = self.find(asked.clone()).await?;
        }
        let newest = if newest_run { self.newest_run(caller, &meant.id).await? } else { None };
        Ok(newest.unwrap_or(meant))
    }

    /// Decides how a question of `caller` is handled. The attempt belongs to the project that was
    /// measured, else to the project that the question names. The verdict is stored if the caller
    /// is trusted, or if the caller is the job itself and predictions do not use its attempt: a
    /// stored verdict is shown to others, counts toward the attempt's retry limit, and affects
    /// predictions if the attempt does.
    fn scope(
        &self,
        caller: &Identity,
        question: &mut Evidence,
        measured: Option<&Summary>,
    ) -> Reply<(VerdictScope, Asker)> {
        if caller.trusted && caller.projects.is_all() && caller.roles.has(Role::Reader) && !self.private.logs
        {
            let asker = self.asker(caller, &question.attempt, &question.key.project);
            return Ok((VerdictScope::Kept, Asker { readable_words: ReadableWords::ALL, ..asker }));
        }
        let seen = measured.map(|summary| caller.sees(&summary.key.project));
        if seen != Some(true) {
            caller.asks_about(&question.attempt, &mut question.key).map_err(Refusal::Forbidden)?;
        }
        let project = measured.map_or(&question.key.project, |summary| &summary.key.project);
        let asker = self.asker(caller, &question.attempt, project);
        let teaches = measured.is_some_and(|summary| !summary.opening.untrusted);
        let is_own = measured.is_some() && !teaches && caller.is_own_job(question.attempt.as_str());
        match seen {
            Some(false) => Ok((VerdictScope::WithoutAttempt, Asker::stranger())),
            _ if caller.trusted || is_own => Ok((VerdictScope::Kept, asker)),
            _ => Ok((VerdictScope::NotKept, asker)),
        }
    }

    /// `caller` as it asks about an attempt of this project.
    fn asker(&self, caller: &Identity, attempt: &AttemptId, project: &str) -> Asker {
        Asker {
            is_trusted: caller.trusted,
            sees_all: caller.projects.is_all(),
            readable_words: self.private.readable_words(caller, attempt, project),
            // anonymous callers are many, so none of them has reported before
            by: if caller.is_anonymous { Reporter::of("", Vec::new()) } else { caller.reporter_for(project) },
        }
    }
}

/// Whether the caller is anonymous and may see no attempt.
fn learns_nothing(caller: &Identity) -> bool {
    let is_everyone = caller.trusted && caller.projects.is_all();
    caller.is_anonymous && !caller.roles.has(Role::Reader) && !is_everyone
}

#[cfg(test)]
mod tests;
