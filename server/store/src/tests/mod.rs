//! The promises of the store, for each store that makes them, and one broken disk for each promise of the one on disk.

mod conformance;
mod damage;
mod database;
mod database_bad_input;
mod database_cut;
mod database_failover;
mod database_history;
mod database_moving;
mod database_proxy;
mod database_refusal;
mod database_replica;
mod filled;
pub(super) mod fixture;
mod formats;
mod full_disk;
mod links;
mod list_history;
mod matrix;
mod open_copy;
mod opening;
mod size;
mod steady;
mod typed;
mod whole;
mod witness;
