//! What the tests, the demo and the benchmark share: the real programs, started on free ports, and a bare client.

mod access;
mod agent;
pub mod bare;
mod client;
pub mod endure;
pub mod figures;
mod files;
pub mod flood;
pub mod http;
mod issuer;
pub mod pace;
mod programs;
mod quote;
mod rpc;
mod server;
mod site;
pub mod waits;
mod words;

pub use access::AccessFile;
pub use agent::{Agent, Answer};
pub use client::{Sender, batch, finish, hello, key, sample, with_token};
pub use files::allow_open_files;
pub use issuer::{Issuer, unix_now};
pub use plimsoll_support::patience::eventually;
pub use programs::{Profile, Programs};
pub use quote::{quoted, quoted_by_python};
pub use rpc::call;
pub use server::{QUIET, Server};
pub use site::Site;
pub use words::{assert_has, assert_lacks};
