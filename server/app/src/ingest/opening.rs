//! Stores with an attempt, when it opens, the prediction for its key. The prediction is later
//! compared with what the attempt needed.

use plimsoll_core::{
    domain::{Attempt, Bytes, Cores, Millis, OpeningRecord, Prediction, PredictionSnapshot, Rung},
    predict,
};

use crate::ingest::Ingest;

impl Ingest {
    /// Adds the prediction to an attempt. It is computed from memory on the stream's thread,
    /// because the worker must not spend time on it. An attempt that is reopened keeps the
    /// prediction of its first opening.
    pub(crate) fn with_prediction(&self, attempt: Attempt) -> Attempt {
        let parts = &self.parts;
        let prediction =
            parts.history.read(|history| predict::predict_known(history, &attempt.key, &parts.predict));
        // what the history predicts, also where callers get defaults, lowered to the sizes of the pool
        let prediction = parts.pools.lowered(&attempt.key, prediction);
        let opening = OpeningRecord { predicted: Some(noted(&prediction)), ..attempt.opening };
        Attempt { opening, ..attempt }
    }
}

/// The predicted values that are compared with measurements when the attempt has ended.
fn noted(prediction: &Prediction) -> PredictionSnapshot {
    PredictionSnapshot {
        memory_request: Bytes(prediction.memory_request.value),
        memory_limit: Bytes(prediction.memory_limit.value),
        cpu_request: Cores(Millis(prediction.cpu_request.value).as_f64() / 1000.0),
        wall_p95: Millis(prediction.wall_p95.value),
        // a default is no median of what was built
        wall_p50: Millis(if prediction.wall_p50.basis.is_default() { 0 } else { prediction.wall_p50.value }),
        is_default: prediction.memory_limit.basis.rung == Rung::Default,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{AttemptId, Sample, test_summary};
    use plimsoll_store::{self as store, Store};

    use super::*;
    use crate::ingest::{Append, Finish, StreamHandle, fixture};

    fn id() -> AttemptId {
        AttemptId::parse("a").unwrap()
    }

    /// Opens the attempt of one and the same agent once more.
    async fn open(ingest: &Ingest, stream: &StreamHandle) {
        ingest.open(fixture::attempt("a"), stream, false).await.unwrap();
    }

    /// Builds of the same package that need far more.
    fn teach(ingest: &Ingest) {
        for n in 0..20 {
            ingest.parts.history.learn(&test_summary(&format!("later-{n}"), "zlib", "1", 30_000));
        }
    }

    /// What is noted of an attempt that is open.
    async fn of_open(store: &Store) -> Option<PredictionSnapshot> {
        let open = store::open_attempts(store).await.unwrap();
        open.into_iter().find(|attempt| attempt.id == id()).unwrap().opening.predicted
    }

    fn finish() -> Finish {
        let (last_sequence, wall) = (1, Some(Millis(2000)));
        Finish { last_sequence, wall, exit: None, ..fixture::finish(id()) }
    }

    #[test]
    fn the_stored_prediction_respects_the_pools() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pools.toml");
        std::fs::write(&path, "[[pool]]\nname = \"small\"\nmemory = \"64MiB\"\n").unwrap();
        let (mut ingest, _worker) = fixture::ingest(&Store::memory(), 10);
        let noted =
            |ingest: &Ingest| ingest.with_prediction(fixture::attempt("a")).opening.predicted.unwrap();
        assert!(noted(&ingest).memory_limit > Bytes(64 << 20));
        let metrics = std::sync::Arc::clone(&ingest.parts.metrics);
        ingest.parts.pools = crate::pools::PoolRegistry::open(Some(path), metrics).unwrap();
        assert_eq!(noted(&ingest).memory_limit, Bytes(64 << 20));
    }

    #[tokio::test]
    async fn the_first_stored_prediction_is_never_replaced() {
        let store = Store::memory();
        let stream = StreamHandle::new();
        let asked = async |ingest: &Ingest| {
            open(ingest, &stream).await;
            // the history moves on: a second opening must not see it
            teach(ingest);
            open(ingest, &stream).await;
            let samples = vec![Some(Sample { elapsed: Millis(1000), ..Sample::default() })];
            let append = Append { attempt: id(), first_sequence: 1, lost: 0, samples, acts: None };
            ingest.append(append, &stream).await.unwrap().answer().await.unwrap();
        };
        fixture::with_server(&store, 10, asked).await;
        let first = of_open(&store).await.unwrap();
        let unknown = predict::Settings::default();
        assert!(first.is_default);
        assert_eq!((first.memory_limit, first.wall_p95), (unknown.memory_limit, unknown.wall_p95));
        assert_eq!((first.memory_request, first.cpu_request), (unknown.memory_request, unknown.cpu_request));
        fixture::with_server(&store, 10, async |ingest: &Ingest| {
            teach(ingest);
            open(ingest, &stream).await;
            ingest.finish(finish(), &stream).await.unwrap();
            // its agent did not hear the answer
            open(ingest, &stream).await;
        })
        .await;
        let summary = store::read_summary(&store, &id()).await.unwrap().unwrap();
        assert_eq!(summary.opening.predicted, Some(first));
    }
}
