//! Services over a store, for tests.

use std::sync::Arc;

use plimsoll_core::{domain::History, shared_history::SharedHistory};
use plimsoll_store::Store;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    AttemptService, SizingService, StatisticsService,
    statistics::{ProposalSlots, QuestionSlots},
};
use crate::{
    runtime::{answer_memory::AnswerMemory, metrics::Metrics},
    sessions::fixture,
    state::pools::PoolRegistry,
    transport::read_api::ReadApi,
    verdicts::Verdicts,
};

/// The service over these pools, with an empty history and without a writer.
pub(crate) fn sizing_alone(pools: PoolRegistry) -> SizingService {
    let (ingest, _worker) = fixture::ingest(&Store::memory(), 10);
    let metrics = Arc::new(Metrics::new());
    SizingService {
        history: SharedHistory::new(History::new(1)),
        private: Arc::default(),
        prediction_cache: Arc::default(),
        settings: Arc::default(),
        shadow: Arc::default(),
        ingest,
        pools,
        metrics,
        known_answers: Arc::default(),
        unmatched_projects: Arc::default(),
    }
}

/// The service over what is on disk, with an empty history.
pub(crate) async fn sizing(store: &Store) -> SizingService {
    let (ingest, mut worker) = fixture::ingest(store, 10);
    worker.resume().await.unwrap();
    TaskTracker::new().spawn(worker.run(CancellationToken::new()));
    let pools = PoolRegistry::open(None, Arc::new(Metrics::new())).unwrap();
    SizingService { ingest, ..sizing_alone(pools) }
}

/// The service for verdicts over what is on disk.
pub(crate) async fn verdicts(store: &Store) -> Verdicts {
    fixture::verdicts(&sizing(store).await.ingest)
}

/// What may be read over what is on disk.
pub(crate) async fn read_api(store: &Store) -> ReadApi {
    let sizing = sizing(store).await;
    let verdicts = fixture::verdicts(&sizing.ingest);
    ReadApi {
        statistics: StatisticsService {
            history: sizing.history.clone(),
            verdicts: verdicts.clone(),
            pools: sizing.pools.clone(),
            question_slots: QuestionSlots::new(AnswerMemory::default()),
            proposal_slots: ProposalSlots::default(),
        },
        attempts: AttemptService { verdicts },
        sizing,
    }
}
