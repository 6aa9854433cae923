//! Services over a store, for tests.

use std::sync::Arc;

use plimsoll_core::{domain::History, shadow, shared_history::SharedHistory};
use plimsoll_store::Store;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    door::read_api::ReadApi,
    fleet::{AttemptService, StatisticsService, statistics::QuestionSlots},
    ingest::{Ingest, fixture},
    pools::PoolRegistry,
    runtime::{answer_memory::AnswerMemory, metrics::Metrics},
    sizing::{SizingService, shadow_mode::ShadowMode},
    verdicts::Verdicts,
};

/// The service over these pools, with an empty history and an empty store.
pub(crate) fn sizing_alone(pools: PoolRegistry) -> SizingService {
    SizingService {
        history: SharedHistory::new(History::new(1000)),
        prediction_cache: Arc::default(),
        settings: Arc::default(),
        shadow: ShadowMode::open(None, shadow::Settings::default(), Arc::new(Metrics::new())).unwrap(),
        pools,
        metrics: Arc::new(Metrics::new()),
        known_answers: Arc::default(),
        unmatched_projects: Arc::default(),
    }
}

/// The service with an empty history and without pools.
pub(crate) fn sizing() -> SizingService {
    sizing_alone(PoolRegistry::open(None, Arc::new(Metrics::new())).unwrap())
}

/// The writer of this store.
async fn ingest(store: &Store) -> Ingest {
    let (ingest, mut worker) = fixture::ingest(store, 10);
    worker.resume().await.unwrap();
    TaskTracker::new().spawn(worker.run(CancellationToken::new()));
    ingest
}

/// The service for verdicts over what is on disk, with its writer.
pub(crate) async fn verdicts(store: &Store) -> Verdicts {
    fixture::verdicts(&ingest(store).await)
}

/// What may be read over what is on disk.
pub(crate) async fn read_api(store: &Store) -> ReadApi {
    let (sizing, ingest) = (sizing(), ingest(store).await);
    let verdicts = fixture::verdicts(&ingest);
    ReadApi {
        statistics: StatisticsService {
            ingest: ingest.clone(),
            classifier: fixture::verdict_parts(&ingest).classifier,
            history: sizing.history.clone(),
            verdicts: verdicts.clone(),
            pools: sizing.pools.clone(),
            question_slots: QuestionSlots::new(AnswerMemory::default()),
        },
        attempts: AttemptService { ingest, verdicts },
        sizing,
    }
}
