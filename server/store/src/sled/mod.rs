//! The store in files, and all that is known of sled 0.34.7: nothing outside of this module names it.
//!
//! | module | what it does |
//! |---|---|
//! | `store`, `writer`, `plan`, `shared` | the handle; the thread that gathers commits into one sync |
//! | `engine`, `quiet_panics` | every call of sled, guarded |
//! | `durable` | makes its flush reach the disk |
//! | `directory`, `marker`, `witness`, `small_files`, `fault` | the data directory: ours or not, whole or not, and why a store does not open |
//! | `opening`, `prepared` | compares engine, marker and witness before anything is written; a start that is refused changes nothing |
//! | `snapshot`, `store_copy`, `offline`, `preload` | a store read while it runs, as a copy, at rest, and made anew |
//! | `past_damage`, `raw_log`, `readable_records`, `check`, `damaged`, `repair`, `repair_loss` | what can be read of a damaged store |

mod check;
mod damaged;
pub(crate) mod directory;
mod durable;
pub(crate) mod engine;
mod fault;
pub(crate) mod marker;
mod offline;
mod opening;
mod past_damage;
mod plan;
mod preload;
mod prepared;
mod quiet_panics;
pub(crate) mod raw_log;
mod readable_records;
mod repair;
mod repair_loss;
mod shared;
pub(crate) mod small_files;
mod snapshot;
mod store;
mod store_copy;
pub(crate) mod witness;
mod writer;

pub use check::CheckReport;
pub use directory::bytes_below;
pub use durable::syncs;
pub use fault::{FORMAT_VERSION, OpenError};
pub use marker::id_of;
pub use offline::OfflineStore;
pub use opening::look_at;
pub use preload::StoreFiller;
pub use raw_log::LogLoss;
pub use readable_records::CheckFinding;
pub use repair::{RepairReport, repair};
pub use repair_loss::RepairLoss;
pub use snapshot::Snapshot;
pub use store::{SledStore, StoreSettings};
pub use store_copy::StoreCopy;
