//! An ingest over a store in memory, for tests.

use std::{sync::Arc, time::Duration};

use super::{Ingest, Parts, Retain, Worker};
use crate::{
    clock::Clock,
    domain::{
        Action, Attempt, AttemptId, Cause, History, Key, Opening, Outlook, Resources, SessionId, Signature,
        Source, Verdict, VerdictBasis,
    },
    judging::{Judging, Sources},
    learned::Learned,
    metrics::Metrics,
    placing::Placing,
    predict, retry,
    store::{Batch, Kind, Store},
    ticketing::Ticketing,
};

/// Silence after which an attempt is closed as lost.
pub(super) const PATIENCE: Duration = Duration::from_hours(1);

/// The handle and the worker, with room for `capacity` attempts in the history.
pub(crate) fn ingest(store: &Store, capacity: usize) -> (Ingest, Worker) {
    let metrics = Arc::new(Metrics::new());
    let sources = Sources { rules_dir: None, policy_file: None, policy: retry::Policy::default() };
    let placing = Placing::open(None, Arc::clone(&metrics)).unwrap();
    let (ticketing, _nobody_runs_it) =
        Ticketing::new(store.clone(), placing.clone(), Arc::clone(&metrics), Clock);
    Ingest::new(Parts {
        store: store.clone(),
        placing,
        ticketing,
        learned: Learned::new(History::new(capacity)),
        judging: Judging::open(sources, Arc::clone(&metrics)).unwrap(),
        metrics,
        clock: Clock,
        predict: Arc::new(predict::Settings::default()),
        pods: super::JobPods::default(),
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
pub(crate) fn attempt(id: &str) -> Attempt {
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

/// A verdict on an attempt whose failure has a name.
pub(super) fn verdict(attempt: &AttemptId) -> Verdict {
    let line = || "make: *** Error 2".to_owned();
    let signature = Some(Signature { id: "0123456789abcdef".into(), line: line(), first: line() });
    Verdict {
        attempt: attempt.clone(),
        action: Action::AsIs,
        cause: Cause::Unknown,
        confidence: 0.5,
        evidence: Vec::new(),
        next: None,
        attempts_left: 1,
        reason: String::new(),
        outlook: Outlook { signature, ..Outlook::default() },
        given_unix_ms: None,
        job: None,
        basis: VerdictBasis::default(),
    }
}

/// Flips a bit in the summary of an ended attempt.
pub(super) async fn damage_summary(store: &Store, id: &AttemptId) {
    let key = [&Kind::Summary.prefix_of(id)[..], &[0]].concat();
    let mut value = store.get(&key).await.unwrap().unwrap().value;
    value[20] ^= 1;
    let mut batch = Batch::default();
    batch.put(key, value);
    store.commit(batch).await.unwrap();
}
