//! Bounds of a caller. How much of them it uses is counted in [`usage`](super::usage).

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use plimsoll_base::named_enum;
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

/// Declares what is limited: the name of each bound in metrics, its setting in the access file, what it counts, and its value for the token
/// of a CI job and for one that a fleet shares.
macro_rules! bounds {
    ($($(#[$about:meta])* $Bound:ident $name:literal $setting:ident $what:literal $of_job:expr, $of_fleet:expr;)+) => {
        named_enum! {
            /// What is limited for each caller. The name is that in metrics.
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub(crate) enum Bound {
                $($Bound => $name,)+
            }
        }

        impl Bound {
            /// The setting in the access file, and what it counts.
            const fn words(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$Bound => (stringify!($setting), $what),)+
                }
            }
        }

        /// Limits of one caller.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) struct Bounds {
            $($setting: u64,)+
        }

        impl Bounds {
            /// Bounds for the token of a CI job. A job runs some commands at once, each with a sample a second, and a generate job asks for
            /// thousands of sizes. Each call may hold an incomplete message of 256 KiB, and each verdict uses a core.
            pub(super) const OF_JOB: Self = Self { $($setting: $of_job,)+ };
            /// Bounds for a token that many runners share: enough for the traffic of ten thousand concurrent builds.
            pub(super) const OF_FLEET: Self = Self { $($setting: $of_fleet,)+ };

            pub(super) const fn limit_of(&self, bound: Bound) -> u64 {
                match bound {
                    $(Bound::$Bound => self.$setting,)+
                }
            }
        }

        /// Bounds in the access file; missing ones have their defaults.
        #[derive(Debug, Clone, Copy, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct BoundsTable {
            $($(#[$about])* pub(super) $setting: Option<u32>,)+
        }

        impl BoundsTable {
            pub(super) fn or_default(self, usual: Bounds) -> Bounds {
                Bounds { $($setting: self.$setting.map_or(usual.$setting, u64::from),)+ }
            }
        }
    };
}

bounds! {
    Streams "streams" streams "streams at once" 64, 20_000;
    Waits "waits" waits "clients that wait for tickets at once" 16, 20_000;
    /// Connections that are kept when a listener is full: no setting.
    #[serde(skip)]
    Connections "connections" connections "kept connections at once" 16, u64::MAX;
    /// Without streams.
    Calls "calls" calls "calls at once" 128, 2_048;
    /// Running or queued.
    Verdicts "verdicts" verdicts "questions for a verdict at once" 4, 128;
    OpenAttempts "open_attempts" open_attempts "open attempts at once" 64, 100_000;
    Samples "samples" samples_per_second "samples a second" 1_000, 100_000;
    Bytes "bytes" bytes_per_second "bytes a second" 256 * 1024, 32 * 1024 * 1024;
    Queries "queries" queries_per_second "questions a second" 2_000, 20_000;
    Attempts "attempts" attempts_per_hour "attempts an hour" 1_000, 100_000;
    Keys "keys" keys_per_hour "keys an hour" 1_000, 100_000;
    Labels "labels" labels_per_hour "labels an hour" 2_000, 100_000;
}

impl Bounds {
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
        let (setting, what) = self.bound.words();
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
        for bound in Bound::ALL.into_iter().filter(|bound| *bound != Bound::Connections) {
            let key = bound.words().0;
            let [job, fleet] = [Bounds::OF_JOB, Bounds::OF_FLEET].map(|bounds| bounds.limit_of(bound));
            let row = format!(
                "| `{key}` | whole number | `{job}` for a job's or a pod's token, `{fleet}` for others |"
            );
            assert!(page.contains(&row), "{row}");
        }
    }
}
