//! Attempts that are judged anew without being asked about:
//!
//! | which | why |
//! |---|---|
//! | one that ended after a verdict on it was given | its counters and its end were not known then |
//! | all with verdicts of an earlier release, once | there the last question counted alone, however little it said, and a verdict changed no summary |
//!
//! The second kind is a walk over all verdicts, a page at a time; attempts that end meanwhile do not wait for it. What a page changes is
//! asked of the writer at once, so that it shares few commits. How far the walk is stands in the store, so that it goes on there after a
//! stop; a page that was worked on twice is as one that was worked on once. Its end is written there too: it runs once.

use plimsoll_core::domain::{AttemptId, Evidence};
use plimsoll_store::{self as store, Batch, SealError, UpgradeMark};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    sessions::{Ingest, Refusal, request::Request, worker::Worker},
    verdict_records::{
        causes::found,
        known::{Asker, KnownVerdicts},
    },
};

/// Attempts that wait to be judged anew. One for which there is no room is counted, and judged when the next question about it comes.
const WAITING: usize = 1024;
/// Attempts of a page that are judged at once: their verdicts share commits, and few enough wait in line before a question.
const AT_ONCE: usize = 16;

/// The name of the walk in the store.
const WALK: &str = "evidence-adds-up";

/// The task that judges attempts anew.
#[derive(Debug)]
pub(crate) struct Rejudging {
    ingest: Ingest,
    ended: mpsc::Receiver<AttemptId>,
}

/// What the walk did.
#[derive(Debug, Default)]
struct Walked {
    attempts: u64,
    judged: u64,
    failed: u64,
}

impl Rejudging {
    /// The task, which hears from `worker` which attempts ended after a verdict on them.
    pub(crate) fn new(ingest: Ingest, worker: &mut Worker) -> Self {
        let (sender, ended) = mpsc::channel(WAITING);
        worker.judged_early = Some(sender);
        Self { ingest, ended }
    }

    /// Works until `end`.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let _ended = end.run_until_cancelled(self.work()).await;
    }

    async fn work(&mut self) {
        let Self { ingest, ended } = self;
        tokio::join!(walk_once(ingest), judge_ended(ingest, ended));
    }
}

/// Judges attempts anew as they end.
async fn judge_ended(ingest: &Ingest, ended: &mut mpsc::Receiver<AttemptId>) {
    while let Some(attempt) = ended.recv().await {
        if let Err(error) = ingest.judge_anew(attempt.clone()).await {
            tracing::warn!(%attempt, %error, "could not judge an attempt again after its end");
        }
    }
}

async fn walk_once(ingest: &Ingest) {
    if let Err(error) = walk(ingest).await {
        tracing::warn!(%error, "could not judge verdicts of an earlier release again; tried again at the next start");
    }
}

/// Walks over all verdicts, if that was not done before.
async fn walk(ingest: &Ingest) -> Result<(), SealError> {
    let store = &ingest.parts.store;
    let mut mark = store::read_upgrade(store, WALK).await?.unwrap_or_else(|| UpgradeMark::begin(WALK));
    let mut walked = Walked::default();
    while !mark.done {
        let (ids, next) = store::judged_after(store, mark.after.as_deref()).await?;
        walk_page(ingest, &ids, &mut walked).await;
        if walked.attempts == 0 && next.is_none() && mark.after.is_none() {
            // nothing was ever judged here: there is nothing to remember
            return Ok(());
        }
        mark = UpgradeMark { done: next.is_none(), after: next, ..mark };
        let mut batch = Batch::default();
        store::put_upgrade(&mut batch, &mark)?;
        store.commit(batch).await?;
    }
    let Walked { attempts, judged, failed } = walked;
    if attempts > 0 {
        tracing::info!(attempts, judged, failed, "looked at all verdicts of earlier releases");
    }
    Ok(())
}

/// Brings the attempts of a page up to date, many at once.
async fn walk_page(ingest: &Ingest, ids: &[AttemptId], walked: &mut Walked) {
    let mut waiting = ids.iter();
    let mut working = JoinSet::new();
    loop {
        for id in waiting.by_ref().take(AT_ONCE.saturating_sub(working.len())) {
            let (ingest, id) = (ingest.clone(), id.clone());
            working.spawn(async move {
                let judged = ingest.bring_up_to_date(&id).await;
                (id, judged)
            });
        }
        match working.join_next().await {
            None => return,
            Some(Ok((id, judged))) => walked.note(&id, judged),
            Some(Err(error)) => {
                walked.failed += 1;
                tracing::error!(%error, "judging an attempt again failed unexpectedly");
            }
        }
    }
}

impl Walked {
    fn note(&mut self, attempt: &AttemptId, judged: Result<bool, Refusal>) {
        self.attempts += 1;
        match judged {
            Ok(judged) => self.judged += u64::from(judged),
            Err(error) => {
                self.failed += 1;
                tracing::warn!(%attempt, %error, "could not judge an attempt again");
            }
        }
    }
}

impl Ingest {
    /// Puts the verdict on all that is known of an attempt in force.
    pub(crate) async fn judge_anew(&self, attempt: AttemptId) -> Result<(), Refusal> {
        // the future of a question is large, and this one waits for long
        Box::pin(self.judge(Evidence::about(attempt), Asker::TRUSTED)).await.map(drop)
    }

    /// Judges an attempt anew whose verdict in force knows less than those before it; else writes the cause of that verdict into the
    /// summary. True if it was judged anew. Verdicts that note what they stand on are as they should be.
    async fn bring_up_to_date(&self, attempt: &AttemptId) -> Result<bool, Refusal> {
        let known = self.find(attempt).await?;
        let project = known.map(|(summary, _running)| summary.key.project.clone()).unwrap_or_default();
        let given = self.verdicts(attempt, &project).await?;
        let Some(last) = given.first().filter(|last| last.basis.evidence.is_none()).cloned() else {
            return Ok(false);
        };
        if !KnownVerdicts::of(given, &project).last_knows_all() {
            self.judge_anew(attempt.clone()).await?;
            return Ok(true);
        }
        let found = found(&last);
        self.ask(|answer| Request::Recause { attempt: attempt.clone(), found, answer }).await?;
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
