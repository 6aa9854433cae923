//! The wire contract of Plimsoll, and nothing else: messages and services of the package `plimsoll.v1`, compiled from the
//! `.proto` files beside this crate, the [`limits`] that both ends obey, the spelling of keys and
//! quantities that both must agree on, and numbers as both ends tell
//! them to people: how they are written ([`figures`]), of one attempt ([`measured`], [`series`]), of many ([`sums`]), points in [`times`], and what a
//! verdict says first ([`verdict`]), and what jobs should request ([`recommendations`]). Words of others are shown by [`shown`]. What the
//! programs find when they check themselves is [`checks`], and when a certificate ends [`certificate`]. How both open their own files is
//! [`own_files`].

pub mod certificate;
pub mod checks;
pub mod counters;
pub mod evidence;
pub mod figures;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod job;
pub mod job_pod;
pub mod json;
pub mod limits;
pub mod measured;
pub mod own_files;
pub mod quantity;
pub mod reasons;
pub mod recommendations;
pub mod series;
pub mod shown;
pub mod spack;
pub mod sums;
pub mod times;
pub mod verdict;
pub mod wrap;

/// Messages, clients and servers of the package `plimsoll.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("plimsoll.v1");
}

/// KEDA's external scaler: messages, client and server of the package `externalscaler`.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod externalscaler {
    tonic::include_proto!("externalscaler");
}

/// The compiled `.proto` files, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
