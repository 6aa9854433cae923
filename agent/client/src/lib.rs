//! The agent's side of the wire: delivers samples to the server, and sends requests to it.
//!
//! | module | what it does |
//! |---|---|
//! | [`delivery`] | keeps samples, in memory and on disk, until the server has them on its disk |
//! | [`questions`] | sends requests to the server, once each, with a time limit |
//! | [`channel`], [`trust`], [`token`], [`id_token`] | the connection: address, TLS, certificates, the agent's credentials |
//! | `servers` | finds the one that serves among several servers |
//! | [`connection_check`] | checks a server and the spool directory, for `plimsoll doctor` |
//! | `tls`, `reasons` | texts that say why a connection or a request failed, and what to change |
//! | `files` | reads certificates and tokens without waiting for a file system that hangs |
//! | `fuzz` | parsers of untrusted bytes as fuzz targets (feature `fuzz`) |
//!
//! No function waits for a server longer than its caller allows, and no failure here fails a build.

pub mod channel;
pub mod connection_check;
pub mod delivery;
mod files;
pub mod fuzz;
pub mod id_token;
pub mod questions;
mod reasons;
mod servers;
mod tls;
pub mod token;
pub mod trust;
