//! One execution of a key.

use std::{borrow::Borrow, fmt, sync::Arc};

use plimsoll_proto::{job::JobExecution, measured::is_size};
use serde::{Deserialize, Serialize};

use super::{Bytes, Cores, Key, Millis};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $limit:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id, if it has 1 to the allowed number of characters, all of `A-Z a-z 0-9 . _ : / -`.
            ///
            /// # Errors
            /// Says which rule the text breaks.
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
    /// Which agent writes an attempt; the same over reconnections.
    SessionId, plimsoll_proto::limits::SESSION_BYTES
}
id! {
    /// Id of a ticket: the caller's own, else a ULID.
    TicketId, plimsoll_proto::limits::TICKET_BYTES
}

impl AttemptId {
    /// The id of an attempt that has none: in recorded failures nothing depends on it.
    pub fn unnamed() -> Self {
        Self("-".into())
    }
}

/// One execution of a key, as its agent announced it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// The agent that writes it.
    pub session: SessionId,
    /// What is built.
    pub key: Key,
    /// 1 for the first execution.
    pub number: u32,
    /// The attempt that this one retries.
    pub retries: Option<AttemptId>,
    /// Where the numbers are read.
    pub source: MeasurementSource,
    /// What was asked for and is in force.
    pub resources: Resources,
    /// Start by the agent's clock, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// What the server noted of it.
    #[serde(default, skip_serializing_if = "OpeningRecord::is_empty")]
    pub opening: OpeningRecord,
}

impl Attempt {
    /// Whether `other` is of the same agent, once more. A caller who learnt the session of another is still a stranger: project and trust
    /// are proven.
    pub fn is_same_agent(&self, other: &Self) -> bool {
        self.session == other.session
            && self.key.project == other.key.project
            && (self.opening.untrusted || !other.opening.untrusted)
    }

    /// Whether it gives its id up to `other`: one that is proven to be of the job that the id names, while this one is not.
    pub fn yields_to(&self, other: &Self) -> bool {
        !self.opening.proven && other.opening.proven && !self.is_same_agent(other)
    }

    /// The place in a pool that it may take beside tickets; `None` if its sender is not trusted and its job is not proven: there can
    /// be any number of those.
    pub fn seat(&self) -> Option<PoolSlot> {
        let OpeningRecord { untrusted, proven, .. } = self.opening;
        let of_job = || {
            let JobExecution { host, job, .. } = JobExecution::read(self.id.as_str());
            PoolSlot::OfJob(format!("{host}:{job}"))
        };
        if untrusted { proven.then(of_job) } else { Some(PoolSlot::Own) }
    }
}

/// A place in a pool beside tickets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolSlot {
    /// Its own.
    Own,
    /// The one that all attempts of this job share: a job can have any number of them.
    OfJob(String),
}

/// What the server noted of an attempt when it opened: where it runs, whether it may be learned from, and what was predicted for it then.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpeningRecord {
    /// Name of the pool; empty if not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// The ticket in whose place it runs. Kept while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketId>,
    /// It is measured and judged, and never lowers the sizes of others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Its agent proved that it is an attempt of its own CI job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proven: bool,
    /// The prediction for its key before it was learned from; `None` in records that do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<PredictionSnapshot>,
}

impl OpeningRecord {
    /// Nothing was noted: it takes no room.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The numbers of a prediction against which an ended attempt is held.
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
    /// The memory was the configured default: no attempt told anything of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
}

/// Where the numbers of an attempt were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasurementSource {
    /// Not said.
    #[default]
    Unspecified,
    /// cgroup v2.
    CgroupV2,
    /// cgroup v1.
    CgroupV1,
    /// The processes of the build, through `/proc`.
    ProcessTree,
    /// Prometheus, which reads now and then: a peak is at least what it saw.
    Prometheus,
}

/// What was asked for, or is in force. `None` means none or not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Memory kept free for the build by the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_request: Option<Bytes>,
    /// Memory at which the kernel reclaims, then kills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// CPU kept free for the build by the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_request: Option<Cores>,
    /// CPU beyond which the kernel throttles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<Cores>,
}

impl Resources {
    /// What the build occupies for others: the request, else the limit.
    pub fn memory_asked(&self) -> Option<Bytes> {
        self.memory_request.or(self.memory_limit)
    }

    /// The same as sums and ratios count it: `None` also for what is no size ([`is_size`]).
    pub fn memory_size_asked(&self) -> Option<Bytes> {
        self.memory_asked().filter(|asked| is_size(asked.0))
    }

    /// CPU that the build occupies for others: the request, else the limit.
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
