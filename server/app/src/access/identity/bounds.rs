//! Bounds of a caller. How much of them it uses is counted in [`usage`](super::usage).

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use serde::Deserialize;

/// Mask of the bits of an IPv6 address that identify a network: usually a customer has a whole
/// network and may use any address in it.
const NETWORK_BITS: u128 = !0 << 64;

/// The part of an address that identifies a customer.
pub(crate) fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK_BITS)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// What is limited for each caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Streams,
    /// Clients that wait for their tickets.
    Waits,
    /// Connections that are kept when a listener is full.
    Connections,
    /// Concurrent calls, without streams.
    Calls,
    /// Concurrent requests for a verdict, running or queued.
    Verdicts,
    OpenAttempts,
    Samples,
    Bytes,
    Queries,
    Attempts,
    Keys,
    Labels,
}

impl Bound {
    /// Name of the bound in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Waits => "waits",
            Self::Connections => "connections",
            Self::Calls => "calls",
            Self::Verdicts => "verdicts",
            Self::OpenAttempts => "open_attempts",
            Self::Samples => "samples",
            Self::Bytes => "bytes",
            Self::Queries => "queries",
            Self::Attempts => "attempts",
            Self::Keys => "keys",
            Self::Labels => "labels",
        }
    }
}

/// Limits of one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    streams: u64,
    waits: u64,
    connections: u64,
    calls: u64,
    verdicts: u64,
    open_attempts: u64,
    samples_per_second: u64,
    bytes_per_second: u64,
    queries_per_second: u64,
    attempts_per_hour: u64,
    keys_per_hour: u64,
    labels_per_hour: u64,
}

impl Bounds {
    /// Bounds for the token of a CI job. A job runs some commands at once, each with a sample a
    /// second, and a generate job asks for thousands of sizes. Each call may hold an incomplete
    /// message of 256 KiB, and each verdict uses a core.
    pub(super) const OF_JOB: Self = Self {
        streams: 64,
        waits: 16,
        connections: 16,
        calls: 128,
        verdicts: 4,
        open_attempts: 64,
        samples_per_second: 1_000,
        bytes_per_second: 256 * 1024,
        queries_per_second: 2_000,
        attempts_per_hour: 1_000,
        keys_per_hour: 1_000,
        labels_per_hour: 2_000,
    };
    /// Bounds for a token that many runners share: enough for the traffic of ten thousand
    /// concurrent builds.
    pub(super) const OF_FLEET: Self = Self {
        streams: 20_000,
        waits: 20_000,
        connections: u64::MAX,
        calls: 2_048,
        verdicts: 128,
        open_attempts: 100_000,
        samples_per_second: 100_000,
        bytes_per_second: 32 * 1024 * 1024,
        queries_per_second: 20_000,
        attempts_per_hour: 100_000,
        keys_per_hour: 100_000,
        labels_per_hour: 100_000,
    };

    /// The same bounds for a trusted caller; lower ones for an untrusted caller. Keys and labels
    /// stay in memory, where untrusted attempts get a sixteenth of the space. One untrusted caller
    /// may fill that space, however many builds use its token. Its concurrent calls are limited to
    /// the same share.
    pub(super) fn for_trust(self, trusted: bool) -> Self {
        let most = |of_trusted: u64, all: u64| if trusted { of_trusted } else { of_trusted.min(all / 16) };
        Self {
            calls: most(self.calls, Self::OF_FLEET.calls),
            verdicts: most(self.verdicts, Self::OF_FLEET.verdicts),
            // one open attempt for each stream that its agents may have, and a few more
            open_attempts: most(self.open_attempts, 4 * Self::OF_FLEET.open_attempts),
            keys_per_hour: most(self.keys_per_hour, Self::OF_FLEET.keys_per_hour),
            labels_per_hour: most(self.labels_per_hour, Self::OF_FLEET.labels_per_hour),
            ..self
        }
    }

    pub(super) fn limit_of(&self, bound: Bound) -> u64 {
        match bound {
            Bound::Streams => self.streams,
            Bound::Waits => self.waits,
            Bound::Connections => self.connections,
            Bound::Calls => self.calls,
            Bound::Verdicts => self.verdicts,
            Bound::OpenAttempts => self.open_attempts,
            Bound::Samples => self.samples_per_second,
            Bound::Bytes => self.bytes_per_second,
            Bound::Queries => self.queries_per_second,
            Bound::Attempts => self.attempts_per_hour,
            Bound::Keys => self.keys_per_hour,
            Bound::Labels => self.labels_per_hour,
        }
    }
}

/// Bounds in the access file; missing ones have their defaults.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BoundsTable {
    /// Streams at once.
    pub(super) streams: Option<u32>,
    /// Clients that wait for their tickets at once.
    pub(super) waits: Option<u32>,
    /// Calls at once, without streams.
    pub(super) calls: Option<u32>,
    /// Questions for verdicts at once.
    pub(super) verdicts: Option<u32>,
    /// Attempts that are open at once.
    pub(super) open_attempts: Option<u32>,
    /// Samples in one second.
    pub(super) samples_per_second: Option<u32>,
    /// Bytes of samples in one second.
    pub(super) bytes_per_second: Option<u32>,
    /// Questions in one second.
    pub(super) queries_per_second: Option<u32>,
    /// New attempts in one hour.
    pub(super) attempts_per_hour: Option<u32>,
    /// New keys in one hour.
    pub(super) keys_per_hour: Option<u32>,
    /// New labels in one hour.
    pub(super) labels_per_hour: Option<u32>,
}

impl BoundsTable {
    pub(super) fn or_default(self, usual: Bounds) -> Bounds {
        let or = |configured: Option<u32>, usual: u64| configured.map_or(usual, u64::from);
        Bounds {
            streams: or(self.streams, usual.streams),
            waits: or(self.waits, usual.waits),
            connections: usual.connections,
            calls: or(self.calls, usual.calls),
            verdicts: or(self.verdicts, usual.verdicts),
            open_attempts: or(self.open_attempts, usual.open_attempts),
            samples_per_second: or(self.samples_per_second, usual.samples_per_second),
            bytes_per_second: or(self.bytes_per_second, usual.bytes_per_second),
            queries_per_second: or(self.queries_per_second, usual.queries_per_second),
            attempts_per_hour: or(self.attempts_per_hour, usual.attempts_per_hour),
            keys_per_hour: or(self.keys_per_hour, usual.keys_per_hour),
            labels_per_hour: or(self.labels_per_hour, usual.labels_per_hour),
        }
    }
}

/// A caller exceeds a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExceededBound {
    pub(crate) bound: Bound,
    pub(crate) limit: u64,
    /// How long to wait before the next try.
    pub(crate) retry_after: Duration,
}

impl fmt::Display for ExceededBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, setting) = match self.bound {
            Bound::Streams => ("streams at once", "streams"),
            Bound::Waits => ("clients that wait for tickets at once", "waits"),
            Bound::Connections => ("kept connections at once", "connections"),
            Bound::Calls => ("calls at once", "calls"),
            Bound::Verdicts => ("questions for a verdict at once", "verdicts"),
            Bound::OpenAttempts => ("open attempts at once", "open_attempts"),
            Bound::Samples => ("samples a second", "samples_per_second"),
            Bound::Bytes => ("bytes a second", "bytes_per_second"),
            Bound::Queries => ("questions a second", "queries_per_second"),
            Bound::Attempts => ("attempts an hour", "attempts_per_hour"),
            Bound::Keys => ("keys an hour", "keys_per_hour"),
            Bound::Labels => ("labels an hour", "labels_per_hour"),
        };
        let (most, after) = (self.limit, self.retry_after.as_secs().max(1));
        write!(
            f,
            "this caller may have {most} {what} (bounds.{setting} of the file of access); come back in {after} s"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_names_these_bounds() {
        let page = include_str!("../../../../../deploy/docs/files.md");
        for (key, bound) in [
            ("streams", Bound::Streams),
            ("waits", Bound::Waits),
            ("calls", Bound::Calls),
            ("verdicts", Bound::Verdicts),
            ("open_attempts", Bound::OpenAttempts),
            ("samples_per_second", Bound::Samples),
            ("bytes_per_second", Bound::Bytes),
            ("queries_per_second", Bound::Queries),
            ("attempts_per_hour", Bound::Attempts),
            ("keys_per_hour", Bound::Keys),
            ("labels_per_hour", Bound::Labels),
        ] {
            let [job, fleet] = [Bounds::OF_JOB, Bounds::OF_FLEET].map(|bounds| bounds.limit_of(bound));
            let row = format!(
                "| `{key}` | whole number | `{job}` for a job's or a pod's token, `{fleet}` for others |"
            );
            assert!(page.contains(&row), "{row}");
        }
    }
}
