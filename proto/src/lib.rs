//! The wire contract of Plimsoll, and what both programs share beside it.
//!
//! | module | what it is |
//! |---|---|
//! | [`v1`], [`externalscaler`] | messages and services, compiled from the `.proto` files of this crate |
//! | [`limits`] | the bounds that both ends keep |
//! | [`counters`], [`job`], [`job_pod`], [`quantity`], [`spack`] | spellings of counters, jobs, pods, quantities and Spack's variables |
//! | [`json`] | the messages as JSON |
//! | [`figures`], [`times`], [`wrap`], [`shown`] | numbers, times and text for people; text of others made safe to show |
//! | [`measured`], [`series`], [`sums`] | what one attempt used, its samples, and the totals of many |
//! | [`reasons`], [`evidence`], [`verdict`], [`recommendations`] | reasons, evidence, verdicts and proposals in words |
//! | [`certificate`], [`checks`], [`own_files`] | when a certificate ends; checks of `doctor`; how both programs open their own files |

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
