//! The agent's side of the wire: delivers samples to the server, and sends requests to it.
//!
//! | module | what it does |
//! |---|---|
//! | [`delivery`] | keeps samples, in memory and on disk, until the server has them on its disk |
//! | [`questions`] | asks the server, once, within a time |
//! | [`channel`], [`trust`], [`token`] | the connection: address, TLS, certificates, the agent's identity |
//! | [`connection_check`] | checks a server and the spool directory, for `plimsoll doctor` |
//! | `tls`, `reasons` | why a connection or a call failed, in words that say what to change |
//! | `files` | reads certificates and tokens without waiting for a file system that hangs |
//! | `fuzz` | the parsers of foreign bytes, for a fuzzer (feature `fuzz`) |
//!
//! Nothing here waits for a server longer than its caller allows, and nothing fails a build.

pub mod channel;
pub mod connection_check;
pub mod delivery;
mod files;
pub mod fuzz;
pub mod questions;
mod reasons;
mod tls;
pub mod token;
pub mod trust;
