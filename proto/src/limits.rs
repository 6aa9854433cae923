//! Limits that the server enforces and the agent keeps. A message beyond a limit is refused with a clear error.

pub use plimsoll_base::{
    log_excerpt::{CUT_LOG_BYTES, LOG_TAIL_BYTES},
    quantity::{CORES, MEMORY_BYTES},
};

/// Most bytes of one encoded message from a client.
pub const MESSAGE_BYTES: usize = 256 * 1024;
/// Most bytes of one encoded answer: less than the 4 MiB that gRPC clients accept by default.
pub const ANSWER_BYTES: usize = 3 * 1024 * 1024;
/// Longest id of an attempt, bytes.
pub const ATTEMPT_BYTES: usize = 128;
/// Longest id of a session, bytes.
pub const SESSION_BYTES: usize = 64;
/// Longest id of a ticket, bytes.
pub const TICKET_BYTES: usize = 128;
/// Longest name of a ticket's owner, bytes.
pub const OWNER_BYTES: usize = 256;
/// Most tags that a ticket may ask for, besides those of its pool.
pub const TICKET_TAGS: usize = 8;
/// Most tags of a runner that an agent may send.
pub const RUNNER_TAGS: usize = 64;
/// Longest text field of a key, bytes.
pub const KEY_FIELD_BYTES: usize = 256;
/// Longest variants of a key, bytes.
pub const VARIANTS_BYTES: usize = 2048;
/// Most labels of one key.
pub const LABELS: usize = 32;
/// Longest name of a label, and longest value, bytes.
pub const LABEL_BYTES: usize = 128;
/// Largest number of parallel jobs.
pub const BUILD_JOBS: u32 = 4096;
/// Most samples in one batch.
pub const BATCH_SAMPLES: usize = 1000;
/// Most attempts that one stream may have open.
pub const STREAM_ATTEMPTS: usize = 64;
/// Longest reason of GitLab or Kubernetes, bytes.
pub const REASON_BYTES: usize = 256;
/// Longest explanation of a corrected cause, bytes.
pub const CORRECTION_BYTES: usize = 500;
/// How long a corrected cause may apply to a signature, milliseconds: from a minute to 30 days.
pub const SIGNATURE_FOR_MS: std::ops::RangeInclusive<u64> = 60_000..=30 * 24 * 3_600_000;
/// Most runs of one CI job that a ShouldRetry request may list.
pub const RETRIED_JOBS: usize = 100;
/// Longest time an attempt may claim to have run: 366 days in milliseconds.
pub const ELAPSED_MS: u64 = 366 * 24 * 3600 * 1000;
/// Most samples of one attempt.
pub const ATTEMPT_SAMPLES: u64 = 100_000_000;
/// Most rows of a series in one answer. Each has at most 120 bytes, so all of them together stay below [`ANSWER_BYTES`].
pub const SHOWN_SAMPLES: u32 = 20_000;
/// Rows of a series in an answer, if the request does not name a number.
pub const SHOWN_SAMPLES_DEFAULT: u32 = 2000;
/// Most attempts of one page.
pub const PAGE_SIZE: u32 = 1000;
/// Most rows in one answer with proposals.
pub const RECOMMENDATIONS: u32 = 500;
/// Rows in an answer with proposals, if the request does not name a number.
pub const RECOMMENDATIONS_DEFAULT: u32 = 100;
/// Most numbers of build jobs in one request for proposals. Each takes a prediction for each build.
pub const RECOMMEND_BUILD_JOBS: usize = 8;
/// Most time steps in one answer of statistics.
pub const STATS_STEPS: u64 = 1000;
/// Most labels in one filter.
pub const FILTER_LABELS: usize = 8;
/// Most groups in one answer of statistics.
pub const STATS_GROUPS: usize = 1000;
/// Most attempts that one explanation lists.
pub const EXPLAIN_ATTEMPTS: usize = 200;
/// Most phases of one attempt.
pub const PHASES: usize = 64;
/// Longest name of a phase, bytes.
pub const PHASE_NAME_BYTES: usize = 128;
/// Longest name of a program, bytes.
pub const PROGRAM_BYTES: usize = 64;
/// Longest name of a file that a process worked on, bytes.
pub const FILE_NAME_BYTES: usize = 256;
/// Longest reason why rescue gave up, bytes.
pub const GAVE_UP_BYTES: usize = 256;

/// Most earlier verdicts on an attempt that are shown besides the one in force.
pub const EARLIER_VERDICTS: usize = 16;
/// Lowest memory size of a build, bytes: room for a shell, a compiler driver and the agent's own pages. A server may set another floor
/// (`memory_floor`); an agent without a server uses this one.
pub const MEMORY_FLOOR_BYTES: u64 = 64 << 20;
