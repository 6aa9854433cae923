//! One execution of a key.

use std::{borrow::Borrow, fmt, sync::Arc};

use plimsoll_proto::{job::JobExecution, measured::is_valid_memory};
use serde::{Deserialize, Serialize};

use super::{Bytes, Cores, Key, MeasurementSource, Millis, stored_record::stored_record};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $limit:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses an id: 1 to the allowed number of characters, all of `A-Z a-z 0-9 . _ : / -`.
            /// Errors: says which rule the text breaks.
            pub fn parse(text: &str) -> Result<Self, String> {
                if text.is_empty() {
                    return Err("must not be empty".to_owned());
                }
                if text.len() > $limit {
                    return Err(format!("has {} bytes, at most {} are allowed", text.len(), $limit));
                }
                match text.chars().find(|c| !c.is_ascii_alphanumeric() && !"._:/-".contains(*c)) {
                    Some(c) => Err(format!("holds {c:?}; allowed are A-Z a-z 0-9 . _ : / -")),
                    None => Ok(Self(text.into())),
                }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id! {
    /// Id of an attempt: the CI job's id where there is one, else a ULID.
    AttemptId, plimsoll_proto::limits::ATTEMPT_BYTES
}
id! {
    /// Id of the agent run that delivers an attempt; it stays the same when the agent reconnects.
    SessionId, plimsoll_proto::limits::SESSION_BYTES
}
id! {
    /// Id of a ticket: the caller's own, else a ULID.
    TicketId, plimsoll_proto::limits::TICKET_BYTES
}

impl AttemptId {
    /// A placeholder id for recorded failures without one; nothing depends on it.
    pub fn unnamed() -> Self {
        Self("-".into())
    }
}

stored_record! {
    /// One execution of a key, as its agent announced it.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Attempt {
        /// ID of the attempt.
        pub id: AttemptId,
        /// The agent run that delivers the attempt.
        pub session: SessionId,
        /// What is built.
        pub key: Key,
        /// Number of the attempt: 1 for the first execution, 2 for the first retry.
        pub number: u32,
        /// The attempt that this one retries.
        pub retries: Option<AttemptId>,
        /// Where the attempt's measurements come from.
        pub source: MeasurementSource,
        /// Requests and limits of the attempt.
        pub resources: Resources,
        /// Start by the agent's clock, in milliseconds since 1970.
        pub started_unix_ms: u64,
        /// What the server recorded when the attempt opened.
        pub opening: OpeningRecord = default,
    }
}

impl Attempt {
    /// Whether `other` is this attempt again, after its agent reconnected. Knowing another agent's session id is not enough: project and
    /// trust must match too.
    pub fn is_same_agent(&self, other: &Self) -> bool {
        self.session == other.session
            && self.key.project == other.key.project
            && (self.opening.untrusted || !other.opening.untrusted)
    }

    /// Whether this attempt gives up its id to `other`: `other` proved that it is the job which the id names, and this attempt did not.
    pub fn yields_to(&self, other: &Self) -> bool {
        !self.opening.proven && other.opening.proven && !self.is_same_agent(other)
    }

    /// Whether its agent proved that it is of exactly the job which the id names. Where the id names a run before the job, as those of
    /// GitHub do, only the run is proven: an agent may name any job of it.
    pub fn is_proven_job(&self) -> bool {
        self.opening.proven && !JobExecution::read(self.id.as_str()).job.contains('/')
    }

    /// The slot in a pool that this attempt may take although it has no ticket. `None` if its sender is not trusted and its job or run is
    /// not proven, because there may be any number of such attempts.
    pub fn slot_without_ticket(&self) -> Option<PoolSlot> {
        let OpeningRecord { untrusted, proven, .. } = self.opening;
        let of_job = || {
            let JobExecution { host, job, .. } = JobExecution::read(self.id.as_str());
            let proven = job.split_once('/').map_or(job, |(run, _invented)| run);
            PoolSlot::OfJob(format!("{host}:{proven}"))
        };
        if untrusted { proven.then(of_job) } else { Some(PoolSlot::Own) }
    }
}

/// A slot in a pool for an attempt without a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolSlot {
    /// A slot for this attempt alone.
    Own,
    /// One slot shared by all attempts of this job, or of this run of GitHub's, because each can start any number of them.
    OfJob(String),
}

stored_record! {
    /// What the server recorded when an attempt opened: its pool, whether predictions may learn from it, and its prediction at that time.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct OpeningRecord {
        /// Name of the pool; empty if unknown.
        pub pool: String = default,
        /// The ticket that holds the slot in which the attempt runs. Kept while the attempt is open.
        pub ticket: Option<TicketId> = default,
        /// Whether the sender is untrusted. Such an attempt is measured and judged, but never lowers the sizes of others.
        pub untrusted: bool = default,
        /// Whether the agent proved with the CI job's token that the attempt belongs to that job, or to a job of that run.
        pub proven: bool = default,
        /// The prediction for its key before this attempt was added to the history; `None` in records without one.
        pub predicted: Option<PredictionSnapshot> = default,
    }
}

stored_record! {
    /// The predicted numbers with which an ended attempt is compared.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
    pub struct PredictionSnapshot {
        /// Memory to request.
        pub memory_request: Bytes,
        /// Memory limit.
        pub memory_limit: Bytes,
        /// CPU to request.
        pub cpu_request: Cores,
        /// Wall time that 95 % of the attempts stay below.
        pub wall_p95: Millis,
        /// Wall time that half of the attempts stay below; 0 if it was not recorded.
        #[serde(default)]
        pub wall_p50: Millis,
        /// Whether the predicted memory was the configured default: no attempt was known to predict from.
        pub is_default: bool = default,
    }
}

stored_record! {
    /// Requests and limits of an attempt. `None` means that the value is not set or not known.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Resources {
        /// Memory request: memory that the scheduler reserves for the build.
        pub memory_request: Option<Bytes> = default,
        /// Memory limit: near it the kernel reclaims memory, above it the kernel kills.
        pub memory_limit: Option<Bytes> = default,
        /// CPU request: CPU that the scheduler reserves for the build.
        pub cpu_request: Option<Cores> = default,
        /// CPU limit: above it the kernel throttles.
        pub cpu_limit: Option<Cores> = default,
    }
}

impl Resources {
    /// Memory that the build reserves: the request, else the limit.
    pub fn memory_asked(&self) -> Option<Bytes> {
        self.memory_request.or(self.memory_limit)
    }

    /// Like [`Self::memory_asked`], for sums and ratios: also `None` for values that are no real size, such as 1 byte.
    pub fn memory_size_asked(&self) -> Option<Bytes> {
        self.memory_asked().filter(|asked| is_valid_memory(asked.0))
    }

    /// CPU that the build reserves: the request, else the limit.
    pub fn cpu_asked(&self) -> Option<Cores> {
        self.cpu_request.or(self.cpu_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bounded_and_plain() {
        assert!(AttemptId::parse("gitlab.com:12345/x_y-1").is_ok());
        for bad in ["", "a b", "a\0", "ü", &"x".repeat(129)] {
            assert!(AttemptId::parse(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(SessionId::parse(&"x".repeat(65)).is_err());
    }
}
