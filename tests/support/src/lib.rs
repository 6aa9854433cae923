//! What tests of several crates share. It knows the wire and the source tree, but no type of the server or the agent: the fixtures of a
//! crate's own types lie in that crate, behind a feature.
//!
//! | module | what it does |
//! |---|---|
//! | `collector` | a server that takes samples by the rules of the wire, and misbehaves where a test wants it to |
//! | `fake_http` | an HTTP server that responds as a function says |
//! | [`house`] | reads the source tree: which modules use which, what a code map names |
//! | `patience` | waits for something that happens soon |
//! | [`postgres`] | a PostgreSQL of the tests' own |
//! | [`small_disk`] | a small file system, to be filled or to take no writes |

#[cfg(feature = "servers")]
pub mod collector;
#[cfg(feature = "servers")]
pub mod fake_http;
pub mod house;
#[cfg(feature = "servers")]
pub mod patience;
pub mod postgres;
pub mod small_disk;
