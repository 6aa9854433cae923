//! Renames a project while the server runs: some records of the store at a time, and with them what is in memory of these.

use std::time::Duration;

use plimsoll_core::domain::{AttemptId, Outcome, ProjectRename, Summary};
use plimsoll_store::{self as store, RenameWalk, SealError};

use super::{
    IngestParts, Refusal, request::AnswerSender, startup::in_force::is_learnable, unwritable, worker::Worker,
};

/// Pause between two steps. A million attempts take about an hour.
pub(super) const STEP_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a step that failed.
const RETRY_AFTER: Duration = Duration::from_mins(1);

impl Worker {
    /// Begins to rename a project; answered once that is on disk.
    pub(super) async fn begin_rename(&mut self, rename: ProjectRename, answer: AnswerSender<()>) {
        let begun = match &self.renaming {
            Some(walk) if *walk.rename() == rename => Ok(()),
            Some(walk) => Err(Refusal::NotAllowed(format!("{} is being renamed", walk.rename().from))),
            None => match RenameWalk::begin(&self.parts.store, rename).await {
                Ok(walk) => {
                    self.renaming = Some(walk);
                    Ok(())
                }
                Err(error) => Err(unwritable(error)),
            },
        };
        // the caller may no longer wait
        drop(answer.send(begun));
    }

    /// Does one step of the rename, if there is one. Returns the pause before the next one.
    pub(super) async fn rename_step(&mut self) -> Duration {
        if self.renaming.is_none() {
            return STEP_INTERVAL;
        }
        // what is on its way to the disk has the former name, and would undo the step
        self.commit_all().await;
        let Some(mut walk) = self.renaming.take() else { return STEP_INTERVAL };
        let stepped = step(&self.parts, &mut walk).await;
        let (attempts, ProjectRename { from, to }) = (walk.attempts(), walk.rename());
        let pause = match &stepped {
            Ok(true) => {
                tracing::info!(from, to, attempts, "renamed a project");
                return STEP_INTERVAL;
            }
            Ok(false) => STEP_INTERVAL,
            Err(error) => {
                tracing::error!(from, to, attempts, %error, "a project is renamed in part; this is tried again");
                RETRY_AFTER
            }
        };
        self.renaming = Some(walk);
        pause
    }
}

/// One step, in the store and in memory; whether it was the last.
async fn step(parts: &IngestParts, walk: &mut RenameWalk) -> Result<bool, SealError> {
    let step = walk.step(&parts.store).await?;
    let is_known = |id: &AttemptId| parts.history.read(|history| history.get(id).is_some());
    for summary in step.summaries.iter().filter(|summary| is_known(&summary.attempt)) {
        parts.history.unlearn(&summary.attempt);
        parts.history.learn(summary);
    }
    for verdict in &step.verdicts {
        relearn_verdicts(parts, &verdict.attempt).await?;
    }
    parts.classifier.count_corrections();
    Ok(step.is_last)
}

/// Learns the verdict in force on an attempt again, if the attempt is in memory.
async fn relearn_verdicts(parts: &IngestParts, attempt: &AttemptId) -> Result<(), SealError> {
    let IngestParts { store, history, classifier, .. } = parts;
    let failed = |summary: &Summary| summary.outcome != Outcome::Succeeded;
    let Some(summary) = store::read_summary(store, attempt).await?.filter(failed) else { return Ok(()) };
    if history.read(|history| history.get(attempt).is_none()) {
        return Ok(());
    }
    let Some(verdict) = store::read_verdicts(store, attempt).await?.pop() else { return Ok(()) };
    classifier.unlearn(attempt);
    classifier.recall(&verdict);
    if is_learnable(&verdict) {
        classifier.learn(&summary.key, &verdict);
    }
    if !verdict.basis.by_untrusted {
        history.note_memory_end(&verdict);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{test_summary, test_verdict};
    use plimsoll_store::Store;

    use super::*;
    use crate::ingest::{Ingest, fixture};

    /// The projects of what is in memory: of attempts, and of known failures.
    fn projects(ingest: &Ingest) -> [Vec<String>; 2] {
        let attempts = ingest.parts.history.newest_first();
        let groups = ingest.parts.classifier.failure_groups(|_brief| true, 10);
        let groups = groups.into_iter().map(|group| group.project).collect();
        [attempts.iter().map(|brief| brief.key.project.clone()).collect(), groups]
    }

    #[tokio::test(start_paused = true)]
    async fn a_renamed_project_keeps_its_history() {
        let Store::Memory(memory) = Store::memory() else { panic!("in memory") };
        let store = Store::Memory(memory.clone());
        let named = |id: &str, outcome| {
            let mut summary = Summary { outcome, ..test_summary(id, "zlib", "1", 10) };
            summary.key.project = "grp/app".into();
            summary
        };
        let (built, failed) = (named("1", Outcome::Succeeded), named("2", Outcome::Failed));
        let mut verdict = test_verdict("2", Some("make: *** Error 2"));
        verdict.basis.reported.project = "grp/app".into();
        fixture::put(&store, &[built, failed], &[verdict]).await;
        let [before, after] = ["grp/app", "team/app"].map(|name| [vec![name; 2], vec![name]]);
        let rename = |to| ProjectRename::new("grp", to).unwrap();
        let live = fixture::with_server(&store, 10, async |ingest| {
            assert_eq!(projects(ingest), before);
            ingest.rename_project(rename("team")).await.unwrap();
            memory.refuse_commits("the disk is full");
            tokio::time::sleep(Duration::from_secs(1)).await;
            let busy = ingest.rename_project(rename("other")).await.unwrap_err().to_string();
            assert_eq!(busy, "grp is being renamed");
            memory.accept_commits();
            tokio::time::sleep(Duration::from_mins(2)).await;
            projects(ingest)
        });
        assert_eq!(live.await, after);
        assert_eq!(fixture::with_server(&store, 10, async |ingest| projects(ingest)).await, after);
        // begun again, and finished by a start
        RenameWalk::begin(&store, ProjectRename::new("team", "grp").unwrap()).await.unwrap();
        assert_eq!(fixture::with_server(&store, 10, async |ingest| projects(ingest)).await, before);
    }
}
