//! The wire contract of Plimsoll, and how its messages are read by people.
//!
//! | module | what it is |
//! |---|---|
//! | [`v1`], [`externalscaler`] | messages and services, compiled from the `.proto` files of this crate |
//! | [`limits`] | the largest messages and values that agent and server send and accept |
//! | [`cause`] | the causes of failure, with all that is the same for every failure with one |
//! | [`counters`], [`job`], [`job_pod`], [`spack`] | how counters, jobs, pods and Spack's variables are written |
//! | [`words`] | converts messages to text: numbers, times, sums, reasons, verdicts, proposals, JSON |
//! | [`codec`] | encodes messages as bytes |
//! | [`wire_enum`](wire_enum!), [`WireEnum`] | declare the enums of the wire, with a name for each variant |

pub mod cause;
pub mod codec;
pub mod counters;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod job;
pub mod job_pod;
pub mod key;
pub mod limits;
pub mod spack;
mod wire_enum;
pub mod words;

pub use wire_enum::WireEnum;
pub use words::{
    cells, evidence, facts, figures, json, lowering, measured, reasons, recommendations, series, shown, sums,
    tables, times, verdict, wrap,
};

/// Messages, clients and servers of the package `plimsoll.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("plimsoll.v1");

    impl From<Hello> for agent_message::Message {
        fn from(hello: Hello) -> Self {
            Self::Hello(hello)
        }
    }

    impl From<Batch> for agent_message::Message {
        fn from(batch: Batch) -> Self {
            Self::Batch(batch)
        }
    }

    impl From<Finish> for agent_message::Message {
        fn from(finish: Finish) -> Self {
            Self::Finish(finish)
        }
    }
}

/// KEDA's external scaler: messages, client and server of the package `externalscaler`.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod externalscaler {
    tonic::include_proto!("externalscaler");
}

/// The compiled `.proto` files, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
