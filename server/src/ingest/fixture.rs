//! An ingest over a store in memory, for tests.

use std::{sync::Arc, time::Duration};

use super::{Ingest, Parts, Retain, Worker};
use crate::{
    clock::Clock,
    domain::{Attempt, AttemptId, History, Key, Opening, Resources, SessionId, Source},
    judging::{Judging, Sources},
    learned::Learned,
    metrics::Metrics,
    placing::Placing,
    predict, retry,
    store::Store,
};

/// Silence after which an attempt is closed as lost.
pub(super) const PATIENCE: Duration = Duration::from_hours(1);

/// The handle and the worker, with room for `capacity` attempts in the history.
pub(crate) fn ingest(store: &Store, capacity: usize) -> (Ingest, Worker) {
    let metrics = Arc::new(Metrics::new());
    let sources = Sources { rules_dir: None, policy_file: None, policy: retry::Policy::default() };
    Ingest::new(Parts {
        store: store.clone(),
        learned: Learned::new(History::new(capacity)),
        judging: Judging::open(sources, Arc::clone(&metrics)).unwrap(),
        placing: Placing::open(None, Arc::clone(&metrics)).unwrap(),
        metrics,
        clock: Clock,
        predict: Arc::new(predict::Settings::default()),
        open_attempts: 10,
        retain: Retain::default(),
        abandon_after: PATIENCE,
    })
}

/// What it counts.
pub(crate) fn metrics(ingest: &Ingest) -> Arc<Metrics> {
    Arc::clone(&ingest.parts.metrics)
}

/// An attempt of one and the same agent.
pub(super) fn attempt(id: &str) -> Attempt {
    Attempt {
        id: AttemptId::parse(id).unwrap(),
        session: SessionId::parse("session").unwrap(),
        key: Key { package: "zlib".into(), ..Key::default() },
        number: 1,
        retries: None,
        source: Source::CgroupV2,
        resources: Resources::default(),
        started_unix_ms: 1_700_000_000_000,
        opening: Opening::default(),
    }
}
