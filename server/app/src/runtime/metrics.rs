//! Every metric of the server, with its help text. The encoder adds `_total` to counters.
//!
//! | module | content |
//! |---|---|
//! | `fleet` | counters of what builds used, requested and lost |
//! | `packages` | gauges of the most wasteful packages of the last day |
//! | `process` | use of the machine by the process |
//! | `classic` | the text format before OpenMetrics |

mod classic;
mod fleet;
mod packages;
mod process;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fleet::{CauseChangedLabels, EndedLabels, HeldLabels};
use packages::Packages;
use plimsoll_proto::shown;
use process::ProcessMetrics;

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabel {
    /// The label's value.
    pub(crate) kind: &'static str,
}

/// Labels for a verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct JudgedLabels {
    /// The cause that the verdict found.
    pub(crate) kind: &'static str,
    /// The action that the verdict advises.
    pub(crate) action: &'static str,
}

/// Label for an issuer of tokens. There are as many values as issuers in the access file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct IssuerLabel {
    /// The issuer, as in the claim `iss`.
    pub(crate) issuer: String,
}

/// Labels for a pool. There are as many pools as in the pools file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PoolLabels {
    /// Name of the pool.
    pub(crate) pool: String,
    /// `wanted` or `held`; for hosts also `free`, `kept` or `quarantined`.
    pub(crate) state: &'static str,
}

/// Labels for a server upstream. There are as many as in the operator's file, and as have tickets that are to be closed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AtUpstream {
    /// Its address without credentials.
    pub(crate) upstream: String,
    /// `waiting`, `ready` or `closing`; of calls `answered`, `fault`, `timeout`, `unreachable` or `malformed`.
    pub(crate) state: &'static str,
}

/// Label for a rule. Only rules with corrected causes have a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RuleLabel {
    /// Id of the rule, or the source of the evidence.
    pub(crate) rule: String,
}

type BytesGauge = Gauge<u64, AtomicU64>;
type KindCounters = Family<KindLabel, Counter>;
/// A counter of amounts that are not whole numbers.
type AmountCounter = Counter<f64, AtomicU64>;
type KindHistograms = Family<KindLabel, Histogram, fn() -> Histogram>;

/// Declares the fields of [`Metrics`], each with its name and help text, and its initial state or unit if needed.
macro_rules! metrics {
    ($($field:ident: $type:ty = $name:literal, $help:literal $(, from $first:expr)? $(, in $unit:expr)?;)*) => {
        /// Every metric of the server. Cheap to update from anywhere.
        #[derive(Debug)]
        pub(crate) struct Metrics {
            registry: Registry,
            /// Metrics with names that do not start with `plimsoll`.
            shared: Registry,
            packages: Arc<Packages>,
            $(#[doc = $help] pub(crate) $field: $type,)*
        }

        impl Metrics {
            /// Creates all metrics with the value zero.
            pub(crate) fn new() -> Self {
                let (mut registry, mut shared) = (Registry::with_prefix("plimsoll"), Registry::default());
                let packages = Arc::new(Packages::default());
                registry.register_collector(Box::new(Arc::clone(&packages)));
                shared.register_collector(Box::new(ProcessMetrics::starting()));
                let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
                registry.register("build", "The release", version);
                $(let $field: $type = first!($($first)?);
                register(&mut registry, $name, $help, [$($unit)?], &$field);)*
                let metrics = Self { registry, shared, packages, $($field,)* };
                metrics.begin_series();
                metrics
            }

            /// Uses every metric once, so that each has a series.
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
    history_attempts: Gauge = "history_attempts", "Attempts in memory that predictions learn from";
    history_attempts_max: Gauge = "history_attempts_max", "Limit of attempts in memory";
    history_bytes: BytesGauge = "history",
        "Memory of the attempts that predictions and statistics use, as the server counts it",
        in Unit::Bytes;
    history_bytes_max: BytesGauge = "history_max", "Limit of that memory; beyond it the oldest attempts are kept on disk only",
        in Unit::Bytes;
    lowerings_taken_back: KindCounters = "lowerings_taken_back", "Lowered memory sizes taken back, by how they failed: killed, failed";
    predictions: KindCounters = "predictions", "Predictions, by the rung with the most weight";
    predict_seconds: KindHistograms = "predict", "Time to compute one prediction, by the rung with the most weight",
        from Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_001, 2.0, 16))),
        in Unit::Seconds;
    verdicts: Family<JudgedLabels, Counter> = "verdicts", "Verdicts, by cause and advised action";
    withheld: KindCounters = "shadow_withheld",
        "Predictions not applied because of shadow mode, by kind: prediction, allocation, pod";
    shadow: Gauge = "shadow", "1 if the server is in shadow mode";
    shadow_reloads: KindCounters = "shadow_reloads",
        "Reloads of the shadow file, by result: taken, refused (what was in force stays)";
    shadow_refused: Gauge = "shadow_file_refused", "1 if the shadow file on disk is invalid and not in force";
    rules_reloads: KindCounters = "rules_reloads",
        "Reloads of the rules and the retry policy, by result: taken, refused (the old ones stay in force)";
    access_reloads: KindCounters = "access_reloads",
        "Reloads of the access file, by result: taken, refused (the old one stays in force)";
    access_file_refused: Gauge = "access_file_refused", "1 if the access file on disk is invalid and not in force";
    access_callers: Gauge = "access_callers", "Callers with tracked usage, at the last check of the access file";
    access_tokens: Gauge = "access_tokens_remembered",
        "Signed tokens with a cached check, at the last check of the access file; at 10000 the cache is emptied";
    issuer_keys_until: Family<IssuerLabel, Gauge> = "issuer_keys_until_timestamp",
        "Unix time at which the keys fetched from an issuer expire; 0 if none were fetched", in Unit::Seconds;
    issuer_fetches: KindCounters = "issuer_fetches",
        "Requests to issuers for their keys, by result; after a failure the old keys stay valid for a day";
    access_refused: KindCounters = "access_refused", "Callers refused, by reason";
    access_exceeded: KindCounters = "access_exceeded",
        "Messages, requests and streams refused because a caller exceeded one of its limits, by limit";
    rules_refused: Gauge = "rules_refused",
        "1 if the rules or the retry policy on disk are invalid and not in force";
    certificates_reloads: KindCounters = "certificates_reloads",
        "Reloads of changed certificates, by result: taken, refused (the old one stays in force)";
    certificates_refused: Gauge = "certificates_refused",
        "Listeners with an invalid certificate on disk that is not in force";
    certificate_ends: Family<KindLabel, Gauge> = "certificate_ends_timestamp",
        "Unix time at which the certificate in force ends, by the setting that names it", in Unit::Seconds;
    pools_reloads: KindCounters = "pools_reloads",
        "Reloads of the pools file, by result: taken, refused (the old one stays in force)";
    pools_refused: Gauge = "pools_refused", "1 if the pools file on disk is invalid and not in force";
    placements: KindCounters = "placements",
        "Predictions placed in a pool, by result: fits, clamped (no pool is that large), none (no pool takes it)";
    pool_places: Family<PoolLabels, Gauge> = "pool_places",
        "Places in a pool, by state: wanted (waiting tickets), held (granted tickets, and open attempts without a ticket)";
    pool_cores: Family<PoolLabels, Gauge<f64, AtomicU64>> = "pool_cores", "Cores requested by the places of a pool";
    pool_memory_bytes: Family<PoolLabels, BytesGauge> = "pool_memory", "Memory requested by the places of a pool",
        in Unit::Bytes;
    tickets: Family<KindLabel, Gauge> = "tickets", "Open tickets, by state: granted, queued";
    tickets_max: Gauge = "tickets_max", "Limit of open tickets";
    ticket_waits: Family<KindLabel, Gauge> = "ticket_waits",
        "Clients that wait for their tickets with an open call, by caller: job (a token of one CI job or pod), other";
    ticket_waits_refused: Counter = "ticket_waits_refused",
        "Calls that wait for a ticket answered at once, because too many wait: their clients come back";
    ticket_changes: KindCounters = "ticket_changes",
        "Changes of tickets, by kind: opened, granted, attended (an attempt runs in the place), missed (an attempt came before its place was granted), kept (the attempt ended and may be retried), collected (a client of Resalloc has asked for it), renewed (its job asked again with a newer token), hosted (it has its host), adapted (its pool got its first hosts or lost its last), closed, expired, refused (a client of Resalloc asked for what can never be granted)";
    ticket_wait_seconds: Histogram = "ticket_wait", "Time from the opening of a ticket to its grant",
        from Histogram::new(exponential_buckets(0.1, 3.0, 14)), in Unit::Seconds;
    ticket_decision_seconds: Histogram = "ticket_decision",
        "Time to decide one ticket request, without the disk",
        from Histogram::new(exponential_buckets(0.000_001, 2.0, 16)), in Unit::Seconds;
    pool_hosts: Family<PoolLabels, Gauge> = "pool_hosts",
        "Hosts of a pool, by state: free, held (by a ticket), kept (for tickets of the sandbox that had it), quarantined (did not answer)";
    host_checks: KindCounters = "host_checks", "Checks of hosts before they are given out, by result: answered, failed";
    upstream_tickets: Family<AtUpstream, Gauge> = "upstream_tickets",
        "Tickets at a server upstream, by state: waiting (no machine yet), ready, closing (until the upstream confirms it), unanswered (calls that may have taken one)";
    upstream_calls: Family<AtUpstream, Counter> = "upstream_calls",
        "Calls of a server upstream, by state: answered, fault, timeout, unreachable, malformed (no answer of Resalloc)";
    upstream_numbers: KindCounters = "upstream_numbers",
        "Tickets upstream that no answer named, by kind: found (of a lost answer: closed), foreign (of another client: left alone), given up (at an upstream that no pool names and that did not answer for a day)";
    allocations: KindCounters = "allocations",
        "Allocation requests, by result: answered, late or unsure (defaults sent), other project (defaults sent; another project has attempts of the package), refused, shadow (nothing sent)";
    hooks: KindCounters = "hooks",
        "GitLab hooks, by result; dropped: answered with 503, as the queue was full or the store did not take it; foreign: of a project that the caller may not report on; other host: of another GitLab than the one that is asked, so not judged; other: not the end of a job";
    hooks_ignored: KindCounters = "hooks_ignored",
        "GitLab hooks that report no ended job, by event; job: a job that has not ended; unknown: an event that this release does not know";
    ends_left_out: Counter = "ends_left_out",
        "Job ends dropped: too many reports for one job";
    gitlab_requests: KindCounters = "gitlab_requests",
        "Requests to GitLab, by result; without a turn: not sent, because too many were waiting or GitLab did not answer";
    gitlab_queue: Gauge = "gitlab_queue_jobs", "Ended jobs that wait for a request to GitLab";
    backups: KindCounters = "backups",
        "Backups over HTTP, by result: whole, stalled (the client read nothing for two minutes), left (the client disconnected), unreadable";
    admissions: KindCounters = "admissions", "Pods reviewed at admission, by result";
    admissions_unsized: KindCounters = "admissions_unsized",
        "Pods of CI jobs that kept their own sizes, by reason; other pods are not counted";
    facts_skipped: KindCounters = "facts_skipped",
        "Invalid facts that were ignored (a size of -1, 0 build jobs), by their source: hello, batch, finish, pod; the log names each";
    pods_not_on_disk: Counter = "pods_not_on_disk",
        "Pods of jobs kept in memory only, because too many requests waited for the writer";
    samples: Counter = "ingest_samples", "Samples synced to disk and acknowledged";
    samples_repeated: Counter = "ingest_samples_repeated",
        "Samples received again and acknowledged again";
    samples_lost: Counter = "ingest_samples_lost", "Samples dropped by agents";
    refusals: KindCounters = "ingest_refusals", "Requests refused, by kind";
    taken_over: KindCounters = "ousted",
        "Attempts (open, ended) and tickets dropped when the job's own agent claimed their ID";
    verdicts_left_old: Counter = "verdicts_left_old",
        "Attempts not judged again at their end, because too many waited; the next request for a verdict judges them";
    verdicts_asked: Gauge = "verdicts_asked", "Verdict requests in progress or waiting";
    verdicts_asked_max: Gauge = "verdicts_asked_max", "Limit of verdict requests in progress or waiting";
    verdicts_wrong: Family<RuleLabel, Gauge> = "verdicts_wrong",
        "Attempts with a cause corrected by a person, by the rule that found the wrong one; undone corrections are not counted";
    rules_silenced: Family<RuleLabel, Gauge> = "rules_silenced",
        "Projects in which a rule was wrong so often that it names no cause any more";
    corrections: KindCounters = "verdict_corrections", "Corrections of failure causes by people: made, undone";
    open_attempts: Gauge = "ingest_open_attempts", "Open attempts";
    open_attempts_max: Gauge = "ingest_open_attempts_max", "Limit of open attempts";
    silent_attempts: Gauge = "ingest_silent_attempts",
        "Open attempts without a message for two minutes, checked every minute";
    connections: Gauge = "grpc_connections", "Open connections to the gRPC listener";
    connections_replaced: Counter = "grpc_connections_replaced",
        "gRPC connections closed for newer ones, the oldest without an admitted call first: limit of connections reached";
    calls_failed: KindCounters = "grpc_calls_failed",
        "gRPC calls answered with an error alone, by its code; resource exhausted: a limit was exceeded";
    http_connections: Gauge = "http_connections", "Open connections to the HTTP listeners";
    http_connections_replaced: Counter = "http_connections_replaced",
        "HTTP connections closed for newer ones, the oldest without an admitted request first: limit of connections reached";
    http_connections_cut: KindCounters = "http_connections_cut",
        "HTTP connections closed by the server, by reason: slow, unread, malformed, too large, handshake";
    streams: Gauge = "ingest_streams", "Connected agent streams";
    sealed: KindCounters = "ingest_sealed_attempts", "Ended attempts, by outcome or cause";
    starts_estimated: Counter = "ingest_starts_estimated", "Attempts with an estimated start, because the clock of the agent is wrong";
    queue: Gauge = "ingest_queue_requests", "Requests waiting for the writer";
    queue_max: Gauge = "ingest_queue_requests_max", "Limit of requests waiting for the writer";
    commit_seconds: Histogram = "store_commit", "Time from the start of a commit until it is on disk",
        from Histogram::new(exponential_buckets(0.000_25, 2.0, 14)), in Unit::Seconds;
    store_writable: Gauge = "store_writable", "1 if the store accepts writes";
    clock_ahead: Family<KindLabel, Gauge> = "clock_ahead",
        "Seconds that the server's clock is ahead of another (below 0: behind): database, agents (0 unless several agree)";
    standby: Gauge = "standby", "1 while another server has the store and this one waits for it";
    lease_epoch: Gauge = "store_lease_epoch", "Number of the lease of a store in a database: each takeover raises it; 0 for other stores";
    unknown_fates: Gauge = "store_unknown_fates",
        "Groups of commits without an answer from the database, of which the server then found out whether they are there";
    commits_lost: Gauge = "store_commits_lost",
        "Acknowledged commits that failovers of the database lost, as far as a server saw it";
    damaged_places: Gauge = "store_damaged_places",
        "Damaged records and pages of the store that readings found since the start; what is there is left out";
    series_bytes: BytesGauge = "store_series", "Size of all sealed samples, at the last retention run", in Unit::Bytes;
    series_blocks: KindCounters = "store_old_blocks", "Blocks of old samples downsampled or removed";
    summaries_removed: Counter = "summaries_removed", "Ended attempts removed because of their age";
    log_lines_removed: Counter = "log_lines_removed", "Verdicts with log lines removed because of their age";
    store_bytes: BytesGauge = "store", "Disk space used by the store", in Unit::Bytes;
    series_max_bytes: BytesGauge = "store_series_max", "Limit of sealed samples; 0 if there is none", in Unit::Bytes;
    disk_free_bytes: BytesGauge = "store_disk_free", "Free space on the disk of the store", in Unit::Bytes;
    disk_bytes: BytesGauge = "store_disk", "Size of the disk of the store", in Unit::Bytes;
    fleet_attempts: Family<EndedLabels, Counter> = "fleet_attempts",
        "Ended attempts, by outcome (`succeeded`, `failed`, `lost`, `ended`, `canceled`) and cause";
    fleet_cause_changes: Family<CauseChangedLabels, Counter> = "fleet_cause_changes",
        "Attempts with a cause changed by a verdict after they were counted, by the old and the new cause";
    fleet_retries: Counter = "fleet_retries",
        "Ended attempts that were retries, as their agent reported or as earlier attempts of the job show";
    fleet_wall: AmountCounter = "fleet_wall", "Wall time of ended attempts", in Unit::Seconds;
    fleet_memory_asked: AmountCounter = "fleet_memory_asked",
        "Memory asked for (request, else limit) multiplied by time, of attempts with a measured need",
        in unit_of("byte_seconds");
    fleet_memory_used: AmountCounter = "fleet_memory_used",
        "Part of the memory asked for that successful attempts used, multiplied by time", in unit_of("byte_seconds");
    fleet_memory_wasted: AmountCounter = "fleet_memory_wasted",
        "Part of the memory asked for that was not used, or that failed attempts used, multiplied by time", in unit_of("byte_seconds");
    fleet_memory_not_measured: Counter = "fleet_memory_not_measured",
        "Attempts without a measured mean need; they are in none of the memory sums";
    fleet_cpu_asked: AmountCounter = "fleet_cpu_asked",
        "CPU asked for (request, else limit) multiplied by time, of attempts with measured CPU time",
        in unit_of("core_seconds");
    fleet_cpu_used: AmountCounter = "fleet_cpu_used",
        "Part of the CPU asked for that successful attempts used, multiplied by time", in unit_of("core_seconds");
    fleet_cpu_wasted: AmountCounter = "fleet_cpu_wasted",
        "Part of the CPU asked for that was not used, or that failed attempts used, multiplied by time", in unit_of("core_seconds");
    fleet_cpu_not_measured: Counter = "fleet_cpu_not_measured",
        "Attempts without measured CPU time; they are in none of the CPU sums";
    fleet_need_over_ask: Histogram = "fleet_need_over_ask",
        "Peak need divided by the memory asked for, of attempts that asked for at least 1 MiB; a lower bound for attempts stopped by memory",
        from Histogram::new([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0]),
        in unit_of("ratio");
    fleet_predictions: Family<HeldLabels, Counter> = "fleet_predictions",
        "Attempts compared with the prediction at their start, by number and whether it held; one stopped by memory below a size does not count for that size";
    fleet_limit_over_need: Histogram = "fleet_limit_over_need",
        "Memory limit predicted at the start, divided by the measured peak need",
        from Histogram::new([0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0]), in unit_of("ratio");
    would_be_attempts: Counter = "would_be_attempts",
        "Attempts with a prediction, a measured need and a known memory request or limit, in shadow mode or not";
    would_be_asked: AmountCounter = "would_be_asked", "Memory asked for by these attempts, multiplied by time", in unit_of("byte_seconds");
    would_be_predicted: AmountCounter = "would_be_predicted",
        "Memory that the predicted requests would have asked for, multiplied by time", in unit_of("byte_seconds");
    would_be_failed: Counter = "would_be_failed", "Of these attempts, those ended by memory";
    would_be_failing: Counter = "would_be_failing", "Of these attempts, those with a need above the predicted limit";
    rescue_attempts: KindCounters = "rescue_attempts", "Attempts in which rescue acted: saved (needed more than the limit before a raise), `probably_saved` (paused, together above it), ended, other";
    rescue_paused_process: AmountCounter = "rescue_paused_process", "Sum of the times for which each process was paused", in Unit::Seconds;
    rescue_over_median: AmountCounter = "rescue_over_median", "Wall time beyond the predicted median, of attempts that succeeded after pauses", in Unit::Seconds;
    rescue_raised: AmountCounter = "rescue_raised", "Memory above the limit at the start that raises allowed, multiplied by time", in unit_of("byte_seconds");
}

fn unit_of(name: &str) -> Unit {
    Unit::Other(name.to_owned())
}

/// Registers a metric, with its unit if it has one.
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
        // names of packages and pools come from callers, so control characters are escaped
        Ok(shown::escaped_metrics(&text).into_owned())
    }

    /// All metrics in Prometheus' text format 0.0.4.
    pub(crate) fn encode_classic(&self) -> Result<String, std::fmt::Error> {
        self.encode().map(|text| classic::of(&text))
    }

    /// Counts a requested prediction.
    pub(crate) fn predicted(&self, rung: Rung, took: Duration) {
        let kind = KindLabel::of(rung.as_str());
        self.predict_seconds.get_or_create(&kind).observe(took.as_secs_f64());
        self.predictions.get_or_create(&kind).inc();
    }

    /// Counts a verdict that is on disk.
    pub(crate) fn judged(&self, cause: Cause, action: Action) {
        self.verdicts.get_or_create(&JudgedLabels { kind: cause.as_str(), action: action.as_str() }).inc();
    }

    /// Adds an attempt that ended before the server started to the packages of the last day, but to
    /// no counter.
    pub(crate) fn add_past_attempt(&self, summary: &Summary) {
        self.packages.add(summary);
    }
}

impl KindLabel {
    pub(crate) fn of(kind: &'static str) -> Self {
        Self { kind }
    }
}

#[cfg(test)]
mod tests;
