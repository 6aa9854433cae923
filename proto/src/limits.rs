//! Bounds that the server enforces and the agent obeys. A message beyond a bound is refused with a clear error.

/// Bytes of one encoded message from a client.
pub const MESSAGE_BYTES: usize = 256 * 1024;
/// Bytes of one encoded answer; below the 4 MiB that gRPC clients accept by default.
pub const ANSWER_BYTES: usize = 3 * 1024 * 1024;
/// Bytes of an attempt's id.
pub const ATTEMPT_BYTES: usize = 128;
/// Bytes of a session's id.
pub const SESSION_BYTES: usize = 64;
/// Bytes of a ticket's id.
pub const TICKET_BYTES: usize = 128;
/// Bytes of the name of a ticket's owner.
pub const OWNER_BYTES: usize = 256;
/// Tags that a ticket may ask for beside those of its pool.
pub const TICKET_TAGS: usize = 8;
/// Tags of a runner that an agent may name.
pub const RUNNER_TAGS: usize = 64;
/// Bytes of one text field of a key.
pub const KEY_FIELD_BYTES: usize = 256;
/// Bytes of a key's variants.
pub const VARIANTS_BYTES: usize = 2048;
/// Labels of one key.
pub const LABELS: usize = 32;
/// Bytes of a label's name, and of its value.
pub const LABEL_BYTES: usize = 128;
/// Largest number of parallel jobs.
pub const BUILD_JOBS: u32 = 4096;
/// Samples of one batch.
pub const BATCH_SAMPLES: usize = 1000;
/// Attempts that one stream may have open.
pub const STREAM_ATTEMPTS: usize = 64;
/// Bytes of a log's end.
pub const LOG_TAIL_BYTES: usize = 64 * 1024;
/// Bytes of a reason that GitLab or Kubernetes gave.
pub const REASON_BYTES: usize = 256;
/// Bytes of the reason for a corrected cause.
pub const CORRECTION_BYTES: usize = 500;
/// Time for which a corrected cause may hold for a signature, milliseconds: a minute to 30 days.
pub const SIGNATURE_FOR_MS: std::ops::RangeInclusive<u64> = 60_000..=30 * 24 * 3_600_000;
/// Runs of one CI job that a question about a retry may list.
pub const RETRIED_JOBS: usize = 100;
/// Largest memory that a caller may claim: 1 PiB.
pub const MEMORY_BYTES: u64 = 1 << 50;
/// Longest time an attempt may claim to have run: 366 days in milliseconds.
pub const ELAPSED_MS: u64 = 366 * 24 * 3600 * 1000;
/// Most cores that a caller may claim.
pub const CORES: f64 = 65_536.0;
/// Samples of one attempt.
pub const ATTEMPT_SAMPLES: u64 = 100_000_000;
/// Rows of a series that one answer shows. Each has at most 120 bytes, so that all of them stay below [`ANSWER_BYTES`].
pub const SHOWN_SAMPLES: u32 = 20_000;
/// Rows of a series that an answer shows unless it is asked for another number.
pub const SHOWN_SAMPLES_DEFAULT: u32 = 2000;
/// Attempts of one page.
pub const PAGE_SIZE: u32 = 1000;
/// Rows of one answer of proposals.
pub const RECOMMENDATIONS: u32 = 500;
/// Rows of an answer of proposals unless it is asked for another number.
pub const RECOMMENDATIONS_DEFAULT: u32 = 100;
/// Steps of one series of statistics.
pub const STATS_STEPS: u64 = 1000;
/// Labels of one filter.
pub const FILTER_LABELS: usize = 8;
/// Groups of one answer of statistics.
pub const STATS_GROUPS: usize = 1000;
/// Attempts that one explanation lists.
pub const EXPLAIN_ATTEMPTS: usize = 200;
/// Phases of one attempt.
pub const PHASES: usize = 64;
/// Bytes of a phase's name.
pub const PHASE_NAME_BYTES: usize = 128;

/// Most verdicts that are shown of an attempt beside the one in force.
pub const EARLIER_VERDICTS: usize = 16;
/// The least memory size of a build, bytes: a shell, a compiler driver and the agent's own pages. A server may set another one
/// (`memory_floor`); an agent without a server has this one.
pub const MEMORY_FLOOR_BYTES: u64 = 64 << 20;
