//! Every metric of the server, with its sentence. Counters get `_total` from the encoder.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, text},
    metrics::{
        TypedMetric,
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric, Registry, Unit},
};

/// A label with a fixed set of values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    /// The value.
    pub(crate) kind: &'static str,
}

type Bytes = Gauge<u64, AtomicU64>;
type Kinds = Family<Kind, Counter>;

/// The fields of [`Metrics`], each with its name and its sentence, and with its first state or its unit where they are special.
macro_rules! metrics {
    ($($field:ident: $type:ty = $name:literal, $help:literal $(, from $first:expr)? $(, in $unit:expr)?;)*) => {
        /// Every metric of the server. Cheap to update from anywhere.
        #[derive(Debug)]
        pub(crate) struct Metrics {
            registry: Registry,
            $(#[doc = $help] pub(crate) $field: $type,)*
        }

        impl Metrics {
            /// All metrics at zero.
            pub(crate) fn new() -> Self {
                let mut registry = Registry::with_prefix("plimsoll");
                $(let $field: $type = first!($($first)?);
                register(&mut registry, $name, $help, [$($unit)?], &$field);)*
                Self { registry, $($field,)* }
            }
        }
    };
}

macro_rules! first {
    () => {
        Default::default()
    };
    ($first:expr) => {
        $first
    };
}

metrics! {
    history_attempts: Gauge = "history_attempts", "Attempts in memory to learn from";
    predictions: Kinds = "predictions", "Predictions, by the rung that weighed most";
    predict_seconds: Histogram = "predict", "Time to compute one prediction",
        from Histogram::new(exponential_buckets(0.000_001, 2.0, 14)), in Unit::Seconds;
    verdicts: Kinds = "verdicts", "Verdicts, by cause";
    rules_reloads: Kinds = "rules_reloads",
        "Times that rules and retry policy were read again: taken, refused (those in force stayed)";
    rules_refused: Gauge = "rules_refused",
        "1 if the rules or the retry policy on disk are wrong and not in force";
    allocations: Kinds = "allocations",
        "Requests for an allocation: answered, late (the defaults were sent), refused";
    hooks: Kinds = "hooks", "Job hooks, by what became of them; dropped: the queue was full";
    gitlab_requests: Kinds = "gitlab_requests",
        "Questions to GitLab, by what became of them; no_turn: it was asked too much already, or is away";
    gitlab_queue: Gauge = "gitlab_queue_jobs", "Ended jobs that GitLab shall be asked about";
    admissions: Kinds = "admissions", "Pods that were looked at, by what became of them";
    samples: Counter = "ingest_samples", "Samples that were synced to disk and acknowledged";
    samples_repeated: Counter = "ingest_samples_repeated",
        "Samples that came again and were acknowledged again";
    samples_lost: Counter = "ingest_samples_lost", "Samples that agents had to drop";
    refusals: Kinds = "ingest_refusals", "Requests that were refused, by kind";
    open_attempts: Gauge = "ingest_open_attempts", "Attempts that have not ended";
    connections: Gauge = "grpc_connections", "Connections to the gRPC listener";
    connections_refused: Counter = "grpc_connections_refused",
        "Connections that were closed at once: as many as may be there were there";
    http_connections: Gauge = "http_connections", "Connections to the HTTP listeners";
    http_connections_refused: Counter = "http_connections_refused",
        "HTTP connections that were closed at once: as many as may be there were there";
    http_connections_cut: Kinds = "http_connections_cut",
        "HTTP connections that were cut off: slow, malformed, too_large, handshake";
    streams: Gauge = "ingest_streams", "Connected streams of agents";
    sealed: Kinds = "ingest_sealed_attempts", "Attempts that ended, by outcome or cause";
    starts_estimated: Counter = "ingest_starts_estimated", "Attempts with a wrong clock";
    queue: Gauge = "ingest_queue_requests", "Requests that wait for the writer";
    commit_seconds: Histogram = "store_commit", "Time from a commit's start until it is on disk",
        from Histogram::new(exponential_buckets(0.000_25, 2.0, 14)), in Unit::Seconds;
    store_writable: Gauge = "store_writable", "1 if the store takes writes";
    series_bytes: Bytes = "store_series", "Sealed samples, as of the last walk over them", in Unit::Bytes;
    series_blocks: Kinds = "store_old_blocks", "Blocks of old samples that were made smaller or removed";
    summaries_removed: Counter = "summaries_removed",
        "Ended attempts that were older than the bound on their age and are gone";
    store_bytes: Bytes = "store", "Disk that the store takes", in Unit::Bytes;
}

/// Makes a metric known, with its unit if it has one.
fn register<M>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: impl IntoIterator<Item = Unit>,
    metric: &M,
) where
    M: EncodeMetric + TypedMetric + Metric + Clone,
{
    match unit.into_iter().next() {
        Some(unit) => registry.register_with_unit(name, help, unit, metric.clone()),
        None => registry.register(name, help, metric.clone()),
    }
}

impl Metrics {
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
