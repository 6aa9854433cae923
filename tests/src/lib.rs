//! What the tests, the demo and the benchmark share: the real programs, started on free ports, and a bare client.

mod agent;
mod client;
pub mod endure;
mod patience;
mod programs;
mod server;

pub use agent::{Agent, Answer};
pub use client::{Sender, hello, sample};
pub use patience::eventually;
pub use programs::{Profile, Programs};
pub use server::Server;
