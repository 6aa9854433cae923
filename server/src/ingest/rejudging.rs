//! Attempts that are judged anew without being asked about:
//!
//! | which | why |
//! |---|---|
//! | one that ended after a verdict on it was given | its counters and its end were not known then |
//! | all with verdicts of an earlier release, once | there the last question counted alone, however little it said, and a verdict changed no summary |
//!
//! The second kind is a walk over all verdicts, a page at a time. How far it is stands in the store, so that it goes on there after a
//! stop; a page that was worked on twice is as one that was worked on once. Its end is written there too: it runs once.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Ingest, Refusal,
    causes::found,
    known_verdicts::{Asker, KnownVerdicts},
    request::Request,
    worker::Worker,
};
use crate::{
    domain::{AttemptId, Evidence},
    store::{self, Batch, SealError, UpgradeMark},
};

/// Attempts that wait to be judged anew. One for which there is no room is judged when the next question about it comes.
const WAITING: usize = 1024;

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
        if let Err(error) = self.walk().await {
            tracing::warn!(%error, "could not judge verdicts of an earlier release anew; tried again at the next start");
        }
        while let Some(attempt) = self.ended.recv().await {
            if let Err(error) = self.ingest.judge_anew(attempt.clone()).await {
                tracing::warn!(%attempt, %error, "could not judge an attempt anew after its end");
            }
        }
    }

    /// Walks over all verdicts, if that was not done before.
    async fn walk(&self) -> Result<(), SealError> {
        let store = &self.ingest.parts.store;
        let mut mark = store::read_upgrade(store, WALK).await?.unwrap_or_else(|| UpgradeMark::begin(WALK));
        let mut walked = Walked::default();
        while !mark.done {
            let (ids, next) = store::judged_after(store, mark.after.as_deref()).await?;
            for id in &ids {
                self.look_at(id, &mut walked).await;
            }
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

    async fn look_at(&self, attempt: &AttemptId, walked: &mut Walked) {
        walked.attempts += 1;
        match self.ingest.bring_up_to_date(attempt).await {
            Ok(judged) => walked.judged += u64::from(judged),
            Err(error) => {
                walked.failed += 1;
                tracing::warn!(%attempt, %error, "could not judge an attempt anew");
            }
        }
    }
}

impl Ingest {
    /// Puts the verdict on all that is known of an attempt in force.
    pub(super) async fn judge_anew(&self, attempt: AttemptId) -> Result<(), Refusal> {
        // the future of a question is large, and this one waits for long
        Box::pin(self.judge(Evidence::about(attempt), Asker::TRUSTED)).await.map(drop)
    }

    /// Judges an attempt anew whose verdict in force knows less than those before it; else writes the cause of that verdict into the
    /// summary. True if it was judged anew. Verdicts that note what they stand on are as they should be.
    async fn bring_up_to_date(&self, attempt: &AttemptId) -> Result<bool, Refusal> {
        let given = self.verdicts(attempt, "").await?;
        let Some(last) = given.first().filter(|last| last.basis.evidence.is_none()).cloned() else {
            return Ok(false);
        };
        if !KnownVerdicts::of(given, Asker::TRUSTED, "").last_knows_all() {
            self.judge_anew(attempt.clone()).await?;
            return Ok(true);
        }
        let found = found(&last);
        self.ask(|answer| Request::Recause { attempt: attempt.clone(), found, answer }).await?;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{
        domain::{
            Action, Cause, EvidenceLine, EvidenceSource, Exit, Outcome, Summary, Verdict, test_summary,
        },
        ingest::fixture,
        store::{MemoryStore, Store},
    };

    /// An attempt that failed, and nobody knows why.
    fn failed(id: &str) -> Summary {
        let (outcome, exit) = (Outcome::Failed, Some(Exit::Code(1)));
        Summary { outcome, exit, cause: Some(Cause::Unknown), ..test_summary(id, "zlib", "1", 10) }
    }

    /// Two verdicts as an earlier release left them: by the log, and later by nothing, which is the one in force.
    fn overwritten(id: &str) -> [(u64, Verdict); 2] {
        let unknown = Verdict { given_unix_ms: Some(20), ..fixture::verdict(&AttemptId::parse(id).unwrap()) };
        let line = EvidenceLine {
            source: EvidenceSource::Log,
            text: "compile-error: x.c:1:2: error: no".into(),
            supports: true,
        };
        let (cause, action) = (Cause::Deterministic, Action::No);
        let by_log =
            Verdict { cause, action, evidence: vec![line], given_unix_ms: Some(10), ..unknown.clone() };
        let mut unnamed = unknown;
        unnamed.outlook.signature = None;
        [(7, by_log), (8, unnamed)]
    }

    async fn with_overwritten(ids: &[&str]) -> (MemoryStore, Store) {
        let memory = MemoryStore::default();
        let store = Store::Memory(memory.clone());
        let mut batch = Batch::default();
        for id in ids {
            store::put_summary(&mut batch, &failed(id)).unwrap();
            for (question, verdict) in overwritten(id) {
                store::put_verdict(&mut batch, question, &verdict).unwrap();
            }
        }
        store.commit(batch).await.unwrap();
        (memory, store)
    }

    /// A server over the store, and its walk.
    async fn started(store: &Store) -> (Ingest, Rejudging, JoinHandle<()>) {
        let (ingest, mut worker) = fixture::ingest(store, 1000);
        worker.resume().await.unwrap();
        let rejudging = Rejudging::new(ingest.clone(), &mut worker);
        (ingest, rejudging, TaskTracker::new().spawn(worker.run(CancellationToken::new())))
    }

    async fn cause(store: &Store, id: &str) -> (Option<Cause>, Option<EvidenceSource>) {
        let summary = store::read_summary(store, &AttemptId::parse(id).unwrap()).await.unwrap().unwrap();
        (summary.cause, summary.cause_source)
    }

    const BY_LOG: (Option<Cause>, Option<EvidenceSource>) =
        (Some(Cause::Deterministic), Some(EvidenceSource::Log));

    #[tokio::test]
    async fn a_verdict_of_an_earlier_release_that_knew_less_than_one_before_it_is_judged_anew_once() {
        let (_memory, store) = with_overwritten(&["a"]).await;
        let (ingest, rejudging, worker) = started(&store).await;
        rejudging.walk().await.unwrap();
        let id = AttemptId::parse("a").unwrap();
        let given = ingest.verdicts(&id, "").await.unwrap();
        assert_eq!((given.len(), given[0].cause), (3, Cause::Deterministic), "{given:?}");
        assert_eq!(cause(&store, "a").await, BY_LOG);
        let counted = ingest.parts.learned.read(|history| history.get(&id).and_then(|brief| brief.cause));
        assert_eq!(counted, Some(Cause::Deterministic), "statistics have it without a restart");
        worker.abort();
        let before = store.status().commits;
        let (_ingest, rejudging, worker) = started(&store).await;
        rejudging.walk().await.unwrap();
        assert_eq!(store.status().commits, before, "it runs once");
        worker.abort();
    }

    #[tokio::test]
    async fn a_walk_that_a_stop_cut_short_goes_on_and_judges_nothing_twice() {
        let ids: Vec<String> = (100..200).map(|n| n.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let (memory, store) = with_overwritten(&ids).await;
        let (ingest, rejudging, worker) = started(&store).await;
        rejudging.look_at(&AttemptId::parse("100").unwrap(), &mut Walked::default()).await;
        memory.refuse_commits("the disk is full");
        assert!(rejudging.walk().await.is_err(), "how far it is cannot be written");
        memory.accept_commits();
        worker.abort();
        drop(ingest);
        let (ingest, rejudging, worker) = started(&store).await;
        rejudging.walk().await.unwrap();
        for id in ids {
            let given = ingest.verdicts(&AttemptId::parse(id).unwrap(), "").await.unwrap();
            assert_eq!((given.len(), given[0].cause), (3, Cause::Deterministic), "{id}");
            assert_eq!(cause(&store, id).await, BY_LOG, "{id}");
        }
        worker.abort();
    }

    #[tokio::test]
    async fn the_only_verdict_of_an_earlier_release_stands_and_its_cause_becomes_that_of_the_attempt() {
        let store = Store::memory();
        let [(question, by_log), _] = overwritten("a");
        let mut batch = Batch::default();
        store::put_summary(&mut batch, &failed("a")).unwrap();
        store::put_verdict(&mut batch, question, &by_log).unwrap();
        store.commit(batch).await.unwrap();
        let (ingest, rejudging, worker) = started(&store).await;
        rejudging.walk().await.unwrap();
        assert_eq!(cause(&store, "a").await, BY_LOG);
        assert_eq!(ingest.verdicts(&by_log.attempt, "").await.unwrap(), [by_log]);
        worker.abort();
    }
}
