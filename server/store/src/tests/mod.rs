//! The promises of the store, for each store that makes them, and one broken disk for each promise of the one on disk.

mod conformance;
mod damage;
#[cfg(feature = "postgres")]
mod database;
#[cfg(feature = "postgres")]
mod database_bad_input;
#[cfg(feature = "postgres")]
mod database_cut;
#[cfg(feature = "postgres")]
mod database_failover;
#[cfg(feature = "postgres")]
mod database_history;
#[cfg(feature = "postgres")]
mod database_moving;
#[cfg(feature = "postgres")]
mod database_proxy;
#[cfg(feature = "postgres")]
mod database_refusal;
#[cfg(feature = "postgres")]
mod database_replica;
mod filled;
pub(super) mod fixture;
mod flipped;
mod formats;
mod full_disk;
mod links;
#[cfg(feature = "postgres")]
mod list_history;
mod matrix;
mod open_copy;
mod opening;
mod size;
mod steady;
mod typed;
mod whole;
mod witness;
