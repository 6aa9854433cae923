//! Every metric of the server, with its sentence. Counters get `_total` from the encoder.
//!
//! | module | |
//! |---|---|
//! | `fleet` | what builds used, asked for and lost: counters |
//! | `packages` | the most wasteful packages of the last day: gauges |
//! | `process` | what the process takes of the machine |
//! | `classic` | the text format that came before OpenMetrics |

mod classic;
mod fleet;
mod packages;
mod process;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fleet::{CauseChanged, Ended, Held};
use packages::Packages;
use plimsoll_proto::shown;
use process::Process;

use plimsoll_core::domain::{Action, Cause, Rung, Summary};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, text},
    metrics::{
        TypedMetric,
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Metric, Registry, Unit},
};

/// A label with a fixed set of values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    /// The value.
    pub(crate) kind: &'static str,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Judged {
    /// The cause.
    pub(crate) kind: &'static str,
    /// What was advised.
    pub(crate) action: &'static str,
}

/// Something of one issuer of tokens. There are as many as the operator's file names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfIssuer {
    /// As in the claim `iss`.
    pub(crate) issuer: String,
}

/// Something of one pool. There are as many pools as the operator's file may name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct InPool {
    /// Its name.
    pub(crate) pool: String,
    /// `wanted` or `held`.
    pub(crate) state: &'static str,
}

/// Something of one rule that says why an attempt failed. There are as many as rules were corrected.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfRule {
    /// Id of the rule, or the source of the evidence.
    pub(crate) rule: String,
}

type Bytes = Gauge<u64, AtomicU64>;
type Kinds = Family<Kind, Counter>;
/// A sum that is no whole number.
type Amount = Counter<f64, AtomicU64>;
type Times = Family<Kind, Histogram, fn() -> Histogram>;

/// The fields of [`Metrics`], each with its name and its sentence, and with its first state or its unit where they are special.
macro_rules! metrics {
    ($($field:ident: $type:ty = $name:literal, $help:literal $(, from $first:expr)? $(, in $unit:expr)?;)*) => {
        /// Every metric of the server. Cheap to update from anywhere.
        #[derive(Debug)]
        pub(crate) struct Metrics {
            registry: Registry,
            /// Names that begin otherwise.
            shared: Registry,
            packages: Arc<Packages>,
            $(#[doc = $help] pub(crate) $field: $type,)*
        }

        impl Metrics {
            /// All metrics at zero.
            pub(crate) fn new() -> Self {
                let (mut registry, mut shared) = (Registry::with_prefix("plimsoll"), Registry::default());
                let packages = Arc::new(Packages::default());
                registry.register_collector(Box::new(Arc::clone(&packages)));
                shared.register_collector(Box::new(Process::starting()));
                let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
                registry.register("build", "The release", version);
                $(let $field: $type = first!($($first)?);
                register(&mut registry, $name, $help, [$($unit)?], &$field);)*
                let metrics = Self { registry, shared, packages, $($field,)* };
                metrics.begin();
                metrics
            }

            /// Uses every metric once, so that each family has a series.
            #[cfg(test)]
            fn use_all(&self) {
                $(tests::Use::once(&self.$field);)*
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
    history_attempts_max: Gauge = "history_attempts_max", "Attempts that may be in memory to learn from";
    history_bytes: Bytes = "history",
        "Memory that they take, as counted by their parts; statistics and what builds have in common are part of it",
        in Unit::Bytes;
    history_bytes_max: Bytes = "history_max", "Memory that they may take; then the oldest are left on disk alone",
        in Unit::Bytes;
    predictions: Kinds = "predictions", "Predictions, by the rung that weighed most";
    predict_seconds: Times = "predict", "Time to compute one prediction, by the rung that weighed most",
        from Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_001, 2.0, 16))),
        in Unit::Seconds;
    verdicts: Family<Judged, Counter> = "verdicts", "Verdicts, by cause and by what was advised";
    withheld: Kinds = "shadow_withheld",
        "Predictions that were not put into force because of shadow mode: prediction, allocation, pod";
    shadow: Gauge = "shadow", "1 in shadow mode";
    rules_reloads: Kinds = "rules_reloads",
        "Times that rules and retry policy were read again: taken, refused (those in force stayed)";
    access_reloads: Kinds = "access_reloads",
        "Readings of a changed file of access, by what became of it: taken, refused (the old one stays in force)";
    access_file_refused: Gauge = "access_file_refused", "1 if the file of access is wrong and not in force";
    access_callers: Gauge = "access_callers", "Callers of whom is known what they have done, as of the last look at files";
    access_tokens: Gauge = "access_tokens_remembered",
        "Signed tokens whose check is remembered, as of the last look at files; at 10000 all are forgotten";
    issuer_keys_until: Family<OfIssuer, Gauge> = "issuer_keys_until_timestamp",
        "Until when the keys that were fetched from an issuer serve, since 1970; 0 if none ever came", in Unit::Seconds;
    issuer_fetches: Kinds = "issuer_fetches",
        "Questions to issuers for their keys, by what became of them; keys from before serve on for a day";
    access_refused: Kinds = "access_refused", "Callers that were refused, by the reason";
    access_exceeded: Kinds = "access_exceeded",
        "Messages, questions and streams that were refused because a caller exceeded one of its bounds, by the bound";
    rules_refused: Gauge = "rules_refused",
        "1 if the rules or the retry policy on disk are wrong and not in force";
    certificates_reloads: Kinds = "certificates_reloads",
        "Times that changed certificates were read again: taken, refused (the one in force stayed)";
    certificates_refused: Gauge = "certificates_refused",
        "Listeners whose certificate on disk is wrong and not in force";
    pools_reloads: Kinds = "pools_reloads",
        "Times that the file of pools was read again: taken, refused (the one in force stayed)";
    pools_refused: Gauge = "pools_refused", "1 if the file of pools is wrong and not in force";
    placements: Kinds = "placements",
        "Predictions that were put into a pool: fits, clamped (no pool has as much), none (no pool takes it)";
    pool_places: Family<InPool, Gauge> = "pool_places",
        "Places in a pool: wanted (tickets that wait), held (tickets, and open attempts without one)";
    pool_cores: Family<InPool, Gauge<f64, AtomicU64>> = "pool_cores", "Cores that are requested in them";
    pool_memory_bytes: Family<InPool, Bytes> = "pool_memory", "Memory that is requested in them",
        in Unit::Bytes;
    tickets: Family<Kind, Gauge> = "tickets", "Open tickets: granted, queued";
    tickets_max: Gauge = "tickets_max", "Tickets that may be open at once";
    ticket_changes: Kinds = "ticket_changes",
        "What became of tickets: opened, granted, attended (an attempt runs in the place), missed (one came, and had no place), kept (it ended, and another try may follow), closed, expired";
    ticket_wait_seconds: Histogram = "ticket_wait", "Time from the opening of a ticket until it had its place",
        from Histogram::new(exponential_buckets(0.1, 3.0, 14)), in Unit::Seconds;
    ticket_decision_seconds: Histogram = "ticket_decision",
        "Time to decide on a question about a ticket, without the disk",
        from Histogram::new(exponential_buckets(0.000_001, 2.0, 16)), in Unit::Seconds;
    allocations: Kinds = "allocations",
        "Requests for an allocation: answered, late or unsure (the defaults were sent), other project (the same, while another project has attempts of the package), refused, shadow (nothing was sent)";
    hooks: Kinds = "hooks",
        "Hooks of GitLab, by what became of them; dropped: the queue was full; not kept: taken in memory alone; foreign: of a project that the caller may not tell of; other: no end of a job";
    hooks_ignored: Kinds = "hooks_ignored",
        "Hooks of GitLab that tell of no ended job, by their event; a job that goes on is job, an event of a later GitLab unknown";
    hooks_on_disk: Gauge = "hooks_on_disk", "Job hooks that are on disk until they are worked on";
    hooks_on_disk_max: Gauge = "hooks_on_disk_max", "Job hooks that may be on disk at once";
    ends_left_out: Counter = "ends_left_out",
        "Ends of jobs that no agent had told of yet and that were not kept: enough others had told of the same job";
    gitlab_requests: Kinds = "gitlab_requests",
        "Questions to GitLab, by what became of them; without a turn: there were too many, or it is away";
    gitlab_queue: Gauge = "gitlab_queue_jobs", "Ended jobs that GitLab shall be asked about";
    backups: Kinds = "backups",
        "Backups over HTTP, by what became of them: whole, stalled (the client took nothing for two minutes), left (the client went), unreadable";
    admissions: Kinds = "admissions", "Pods that were looked at, by what became of them";
    admissions_unsized: Kinds = "admissions_unsized",
        "Pods of CI jobs that kept their own sizes, by the reason; pods of no job are not among them";
    facts_skipped: Kinds = "facts_skipped",
        "Facts that cannot be used and were left out (a size of -1, a number of jobs of 0), by what they came with: hello, finish, pod; the log names each";
    pods_not_on_disk: Counter = "pods_not_on_disk",
        "Pods of jobs that are remembered until the next start alone: too many requests waited for the writer";
    samples: Counter = "ingest_samples", "Samples that were synced to disk and acknowledged";
    samples_repeated: Counter = "ingest_samples_repeated",
        "Samples that came again and were acknowledged again";
    samples_lost: Counter = "ingest_samples_lost", "Samples that agents had to drop";
    refusals: Kinds = "ingest_refusals", "Requests that were refused, by kind";
    ousted: Kinds = "ousted",
        "What was dropped because the agent of the job came whose id it had: open and ended attempts, tickets";
    verdicts_left_old: Counter = "verdicts_left_old",
        "Attempts that ended after a verdict on them and were not judged anew at once, because too many waited; the next question does it";
    verdicts_asked: Gauge = "verdicts_asked", "Questions for a verdict that are being judged or wait for it";
    verdicts_asked_max: Gauge = "verdicts_asked_max", "Questions for a verdict that may be there at once";
    verdicts_wrong: Family<OfRule, Gauge> = "verdicts_wrong",
        "Attempts whose cause a person corrected, by the rule that found another one; a correction that is taken back is not among them";
    corrections: Kinds = "verdict_corrections", "Causes of failures that persons corrected (made) or took back (undone)";
    open_attempts: Gauge = "ingest_open_attempts", "Attempts that have not ended";
    open_attempts_max: Gauge = "ingest_open_attempts_max", "Attempts that may be open at once";
    silent_attempts: Gauge = "ingest_silent_attempts",
        "Open attempts of which nothing was heard for two minutes, as of the last minute";
    connections: Gauge = "grpc_connections", "Connections to the gRPC listener";
    connections_refused: Counter = "grpc_connections_refused",
        "Connections that were closed at once: as many as may be there were there";
    connections_cut: Kinds = "grpc_connections_cut",
        "Connections to the gRPC listener that were cut off: control frames (floods of frames of HTTP/2 without messages)";
    calls_failed: Kinds = "grpc_calls_failed",
        "Calls that were answered with nothing but an error, by its code; those beyond a bound are resource exhausted";
    http_connections: Gauge = "http_connections", "Connections to the HTTP listeners";
    http_connections_refused: Counter = "http_connections_refused",
        "HTTP connections that were closed at once: as many as may be there were there";
    http_connections_cut: Kinds = "http_connections_cut",
        "HTTP connections that were cut off: slow, unread, malformed, too large, handshake, control frames";
    answers_unsent: Bytes = "answers_unsent",
        "Memory of large answers that their clients have not taken yet", in Unit::Bytes;
    answers_dropped: Counter = "answers_dropped",
        "Answers that were cut short: their clients took nothing the longest, and others needed the room";
    streams: Gauge = "ingest_streams", "Connected streams of agents";
    sealed: Kinds = "ingest_sealed_attempts", "Attempts that ended, by outcome or cause";
    starts_estimated: Counter = "ingest_starts_estimated", "Attempts with a wrong clock";
    queue: Gauge = "ingest_queue_requests", "Requests that wait for the writer";
    queue_max: Gauge = "ingest_queue_requests_max", "Requests that may wait for the writer";
    commit_seconds: Histogram = "store_commit", "Time from a commit's start until it is on disk",
        from Histogram::new(exponential_buckets(0.000_25, 2.0, 14)), in Unit::Seconds;
    store_writable: Gauge = "store_writable", "1 if the store takes writes";
    series_bytes: Bytes = "store_series", "Sealed samples, as of the last walk over them", in Unit::Bytes;
    series_blocks: Kinds = "store_old_blocks", "Blocks of old samples that were made smaller or removed";
    summaries_removed: Counter = "summaries_removed",
        "Ended attempts that were older than the bound on their age and are gone";
    log_lines_removed: Counter = "log_lines_removed",
        "Verdicts whose lines of logs were older than the bound on their age and are gone";
    store_bytes: Bytes = "store", "Disk that the store takes", in Unit::Bytes;
    series_max_bytes: Bytes = "store_series_max", "Most bytes of sealed samples; 0 without a bound",
        in Unit::Bytes;
    disk_free_bytes: Bytes = "store_disk_free", "Room on the disk of the store", in Unit::Bytes;
    disk_bytes: Bytes = "store_disk", "Size of the disk of the store", in Unit::Bytes;
    fleet_attempts: Family<Ended, Counter> = "fleet_attempts",
        "Attempts that ended, by outcome (`succeeded`, `failed`, `lost`, or `canceled`, which is not among `failed`) and cause";
    fleet_cause_changes: Family<CauseChanged, Counter> = "fleet_cause_changes",
        "Attempts whose cause a verdict changed after they were counted, since the start, by the cause they were counted with and the new one";
    fleet_retries: Counter = "fleet_retries",
        "Attempts that ended and were retries, by what they said or by the attempts of their job that are known";
    fleet_wall: Amount = "fleet_wall", "Time that attempts took", in Unit::Seconds;
    fleet_memory_asked: Amount = "fleet_memory_asked",
        "Memory asked for over time, the request or else the limit, by attempts whose need was measured",
        in unit("byte_seconds");
    fleet_memory_used: Amount = "fleet_memory_used",
        "Of the memory asked for over time, what successful attempts put to use", in unit("byte_seconds");
    fleet_memory_wasted: Amount = "fleet_memory_wasted",
        "Of the memory asked for over time, what was not put to use", in unit("byte_seconds");
    fleet_memory_not_measured: Counter = "fleet_memory_not_measured",
        "Attempts whose need over time was not measured: they count in none of the sums of memory";
    fleet_cpu_asked: Amount = "fleet_cpu_asked",
        "CPU asked for over time, the request or else the limit, by attempts whose CPU time was measured",
        in unit("core_seconds");
    fleet_cpu_used: Amount = "fleet_cpu_used",
        "Of the CPU asked for over time, what successful attempts put to use", in unit("core_seconds");
    fleet_cpu_wasted: Amount = "fleet_cpu_wasted",
        "Of the CPU asked for over time, what was not put to use", in unit("core_seconds");
    fleet_cpu_not_measured: Counter = "fleet_cpu_not_measured",
        "Attempts whose CPU time was not measured: they count in none of the sums of CPU";
    fleet_need_over_ask: Histogram = "fleet_need_over_ask",
        "Highest need over the memory asked for, without asks below 1 MiB; of attempts that memory stopped a lower bound",
        from Histogram::new([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0]),
        in unit("ratio");
    fleet_predictions: Family<Held, Counter> = "fleet_predictions",
        "Attempts whose need or time was held against what was predicted when they opened; one that memory stopped below a size counts not for that size";
    fleet_limit_over_need: Histogram = "fleet_limit_over_need",
        "Memory limit predicted at the opening over the need that came",
        from Histogram::new([0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0]), in unit("ratio");
    would_be_attempts: Counter = "would_be_attempts",
        "Attempts with a prediction, a known need and a known ask, in shadow mode or not";
    would_be_asked: Amount = "would_be_asked", "Memory that they asked for over time",
        in unit("byte_seconds");
    would_be_predicted: Amount = "would_be_predicted",
        "Memory that the predicted requests would have asked for over time", in unit("byte_seconds");
    would_be_failed: Counter = "would_be_failed", "Of them, those that memory ended";
    would_be_failing: Counter = "would_be_failing", "Of them, those whose need is above the predicted limit";
}

fn unit(name: &str) -> Unit {
    Unit::Other(name.to_owned())
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
        text::encode_registry(&mut text, &self.shared)?;
        text::encode_registry(&mut text, &self.registry)?;
        text::encode_eof(&mut text)?;
        // names of packages and pools come from callers
        Ok(shown::in_metrics(&text).into_owned())
    }

    /// All metrics in Prometheus' text format 0.0.4.
    pub(crate) fn encode_classic(&self) -> Result<String, std::fmt::Error> {
        self.encode().map(|text| classic::of(&text))
    }

    /// Counts a prediction that was asked for.
    pub(crate) fn predicted(&self, rung: Rung, took: Duration) {
        let kind = Kind::of(rung.as_str());
        self.predict_seconds.get_or_create(&kind).observe(took.as_secs_f64());
        self.predictions.get_or_create(&kind).inc();
    }

    /// Counts a verdict that is on disk.
    pub(crate) fn judged(&self, cause: Cause, action: Action) {
        self.verdicts.get_or_create(&Judged { kind: cause.as_str(), action: action.as_str() }).inc();
    }

    /// Adds an attempt of the past to the packages of the last day, and to no counter.
    pub(crate) fn remember(&self, summary: &Summary) {
        self.packages.add(summary);
    }
}

impl Kind {
    /// The label with this value.
    pub(crate) fn of(kind: &'static str) -> Self {
        Self { kind }
    }
}

#[cfg(test)]
mod tests;
