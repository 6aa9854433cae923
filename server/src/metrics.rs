//! Every metric of the server, with its sentence. Counters get `_total` from the encoder.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

/// A label with a fixed set of values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    /// The value.
    pub(crate) kind: &'static str,
}

type Bytes = Gauge<u64, AtomicU64>;

/// Every metric of the server. Cheap to update from anywhere.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) samples: Counter,
    pub(crate) samples_repeated: Counter,
    pub(crate) samples_lost: Counter,
    pub(crate) refusals: Family<Kind, Counter>,
    pub(crate) open_attempts: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Counter,
    pub(crate) sealed: Family<Kind, Counter>,
    pub(crate) starts_estimated: Counter,
    pub(crate) queue: Gauge,
    pub(crate) commit_seconds: Histogram,
    pub(crate) history_attempts: Gauge,
    pub(crate) predictions: Family<Kind, Counter>,
    pub(crate) predict_seconds: Histogram,
    pub(crate) verdicts: Family<Kind, Counter>,
    pub(crate) rules_reloads: Family<Kind, Counter>,
    pub(crate) rules_refused: Gauge,
    pub(crate) allocations: Family<Kind, Counter>,
    pub(crate) hooks: Family<Kind, Counter>,
    pub(crate) admissions: Family<Kind, Counter>,
    pub(crate) store_writable: Gauge,
    pub(crate) store_bytes: Bytes,
    pub(crate) series_bytes: Bytes,
    pub(crate) series_blocks: Family<Kind, Counter>,
    pub(crate) summaries_removed: Counter,
}

impl Metrics {
    /// All metrics at zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("plimsoll");
        let metrics = Self {
            samples: Counter::default(),
            samples_repeated: Counter::default(),
            samples_lost: Counter::default(),
            refusals: Family::default(),
            open_attempts: Gauge::default(),
            streams: Gauge::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            sealed: Family::default(),
            starts_estimated: Counter::default(),
            queue: Gauge::default(),
            commit_seconds: Histogram::new(exponential_buckets(0.000_25, 2.0, 14)),
            history_attempts: Gauge::default(),
            predictions: Family::default(),
            predict_seconds: Histogram::new(exponential_buckets(0.000_001, 2.0, 14)),
            verdicts: Family::default(),
            rules_reloads: Family::default(),
            rules_refused: Gauge::default(),
            allocations: Family::default(),
            hooks: Family::default(),
            admissions: Family::default(),
            store_writable: Gauge::default(),
            store_bytes: Bytes::default(),
            series_bytes: Bytes::default(),
            series_blocks: Family::default(),
            summaries_removed: Counter::default(),
            registry: Registry::default(),
        };
        Self::register_asking(&metrics, &mut registry);
        Self::register_keeping(&metrics, &mut registry);
        Self { registry, ..metrics }
    }

    /// What is asked.
    fn register_asking(metrics: &Self, r: &mut Registry) {
        r.register("history_attempts", "Attempts in memory to learn from", metrics.history_attempts.clone());
        r.register("predictions", "Predictions, by the rung that weighed most", metrics.predictions.clone());
        r.register_with_unit(
            "predict",
            "Time to compute one prediction",
            Unit::Seconds,
            metrics.predict_seconds.clone(),
        );
        r.register("verdicts", "Verdicts, by cause", metrics.verdicts.clone());
        r.register(
            "rules_reloads",
            "Times that rules and retry policy were read again: taken, refused (those in force stayed)",
            metrics.rules_reloads.clone(),
        );
        r.register(
            "rules_refused",
            "1 if the rules or the retry policy on disk are wrong and not in force",
            metrics.rules_refused.clone(),
        );
        r.register(
            "allocations",
            "Requests for an allocation: answered, late (the defaults were sent), refused",
            metrics.allocations.clone(),
        );
        r.register(
            "hooks",
            "Job hooks, by what became of them; dropped: the queue was full",
            metrics.hooks.clone(),
        );
        r.register(
            "admissions",
            "Pods that were looked at, by what became of them",
            metrics.admissions.clone(),
        );
    }

    /// What arrives and what is on disk.
    fn register_keeping(metrics: &Self, r: &mut Registry) {
        r.register(
            "ingest_samples",
            "Samples that were synced to disk and acknowledged",
            metrics.samples.clone(),
        );
        r.register(
            "ingest_samples_repeated",
            "Samples that came again and were acknowledged again",
            metrics.samples_repeated.clone(),
        );
        r.register("ingest_samples_lost", "Samples that agents had to drop", metrics.samples_lost.clone());
        r.register("ingest_refusals", "Requests that were refused, by kind", metrics.refusals.clone());
        r.register("ingest_open_attempts", "Attempts that have not ended", metrics.open_attempts.clone());
        r.register("grpc_connections", "Connections to the gRPC listener", metrics.connections.clone());
        r.register(
            "grpc_connections_refused",
            "Connections that were closed at once: as many as may be there were there",
            metrics.connections_refused.clone(),
        );
        r.register("ingest_streams", "Connected streams of agents", metrics.streams.clone());
        r.register(
            "ingest_sealed_attempts",
            "Attempts that ended, by outcome or cause",
            metrics.sealed.clone(),
        );
        r.register(
            "ingest_starts_estimated",
            "Attempts with a wrong clock",
            metrics.starts_estimated.clone(),
        );
        r.register("ingest_queue_requests", "Requests that wait for the writer", metrics.queue.clone());
        r.register_with_unit(
            "store_commit",
            "Time from a commit's start until it is on disk",
            Unit::Seconds,
            metrics.commit_seconds.clone(),
        );
        r.register("store_writable", "1 if the store takes writes", metrics.store_writable.clone());
        r.register_with_unit(
            "store_series",
            "Sealed samples, as of the last walk over them",
            Unit::Bytes,
            metrics.series_bytes.clone(),
        );
        r.register(
            "store_old_blocks",
            "Blocks of old samples that were made smaller or removed",
            metrics.series_blocks.clone(),
        );
        r.register(
            "summaries_removed",
            "Ended attempts that were older than summaries_keep_for and are gone",
            metrics.summaries_removed.clone(),
        );
        r.register_with_unit("store", "Disk that the store takes", Unit::Bytes, metrics.store_bytes.clone());
    }

    /// All metrics as OpenMetrics text.
    pub(crate) fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Kind {
    /// The label with this value.
    pub(crate) fn of(kind: &'static str) -> Self {
        Self { kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_by_convention_and_the_text_ends() {
        let metrics = Metrics::new();
        metrics.samples.inc_by(3);
        metrics.verdicts.get_or_create(&Kind::of("oom")).inc();
        let text = metrics.encode().unwrap();
        assert!(text.contains("plimsoll_ingest_samples_total 3\n"), "{text}");
        assert!(text.contains("plimsoll_verdicts_total{kind=\"oom\"} 1\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
