//! Gives a project another name while the server runs: first in the store, then in memory.

use plimsoll_core::domain::{Outcome, ProjectRename};
use plimsoll_store::{self as store, SealError};

use super::{
    IngestParts, request::AnswerSender, startup::in_force::is_learnable, unwritable, worker::Worker,
};

impl Worker {
    /// Renames a project. Other requests wait meanwhile, because this task alone changes ended attempts.
    pub(super) async fn rename_project(&mut self, rename: &ProjectRename, answer: AnswerSender<()>) {
        // nothing of the project may be on its way to the disk under its former name
        self.commit_all().await;
        let begun = store::begin_rename(&self.parts.store, rename).await.map_err(unwritable);
        let is_begun = begun.is_ok();
        // the caller may no longer wait
        drop(answer.send(begun));
        if !is_begun {
            return;
        }
        let ProjectRename { from, to } = rename;
        match self.finish_rename(rename).await {
            Ok(attempts) => tracing::info!(from, to, attempts, "renamed a project"),
            Err(error) => {
                tracing::error!(from, to, %error, "a project is renamed in part; the next start goes on");
            }
        }
    }

    async fn finish_rename(&self, rename: &ProjectRename) -> Result<u64, SealError> {
        let IngestParts { store, history, classifier, .. } = &self.parts;
        let attempts = store::finish_rename(store).await?;
        let is_renamed = |project: &str| rename.renamed(project).is_some();
        for brief in history.newest_first().into_iter().filter(|brief| is_renamed(&brief.key.project)) {
            let Some(summary) = store::read_summary(store, &brief.attempt).await? else { continue };
            history.unlearn(&brief.attempt);
            history.learn(&summary);
            let failed = brief.outcome != Outcome::Succeeded;
            let verdicts =
                if failed { store::read_verdicts(store, &brief.attempt).await? } else { Vec::new() };
            let Some(verdict) = verdicts.last() else { continue };
            classifier.unlearn(&brief.attempt);
            classifier.recall(verdict);
            if is_learnable(verdict) {
                classifier.learn(&summary.key, verdict);
            }
            if !verdict.basis.by_untrusted {
                history.note_memory_end(verdict);
            }
        }
        classifier.count_corrections();
        Ok(attempts)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Outcome, Summary, test_summary};
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

    #[tokio::test]
    async fn a_renamed_project_keeps_its_history() {
        let store = Store::memory();
        let named = |id: &str, outcome| {
            let mut summary = Summary { outcome, ..test_summary(id, "zlib", "1", 10) };
            summary.key.project = "grp/app".into();
            summary
        };
        let (built, failed) = (named("1", Outcome::Succeeded), named("2", Outcome::Failed));
        let mut verdict = fixture::verdict(&failed.attempt);
        verdict.basis.reported.project = "grp/app".into();
        fixture::put(&store, &[built, failed.clone()], &[verdict]).await;
        let renamed = fixture::with_server(&store, 10, async |ingest| {
            assert_eq!(projects(ingest), [vec!["grp/app"; 2], vec!["grp/app"]]);
            ingest.rename_project(ProjectRename::new("grp", "team").unwrap()).await.unwrap();
            // answered after the rename, by the one task that writes
            ingest.find(&failed.attempt).await.unwrap();
            projects(ingest)
        });
        let renamed = renamed.await;
        let restarted = fixture::with_server(&store, 10, async |ingest| projects(ingest)).await;
        for found in [renamed, restarted] {
            assert_eq!(found, [vec!["team/app"; 2], vec!["team/app"]]);
        }
    }

    #[tokio::test]
    async fn a_start_finishes_a_rename() {
        let store = Store::memory();
        let mut summary = test_summary("1", "zlib", "1", 10);
        summary.key.project = "grp/app".into();
        fixture::put(&store, &[summary], &[]).await;
        store::begin_rename(&store, &ProjectRename::new("grp/app", "x").unwrap()).await.unwrap();
        let [attempts, _] = fixture::with_server(&store, 10, async |ingest| projects(ingest)).await;
        assert_eq!(attempts, ["x"]);
    }
}
