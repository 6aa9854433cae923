//! The store in files, and everything known about sled 0.34.7: no other module uses sled.
//!
//! | module | what it does |
//! |---|---|
//! | `store`, `writer`, `plan`, `shared` | the store's handle; writes a group of commits with one sync |
//! | `engine`, `quiet_panics` | guarded calls of sled |
//! | `durable` | makes its flush reach the disk |
//! | `directory`, `marker`, `witness`, `small_files`, `fault` | the data directory: whether it is ours and complete, and why a store does not open |
//! | `opening`, `prepared` | compare engine, marker and witness before anything is written; a refused start changes nothing |
//! | `snapshot`, `store_copy`, `offline`, `preload` | reading a store while it runs, from a copy, or closed; writing a new one |
//! | `past_damage`, `raw_log`, `readable_records`, `damaged`, `repair`, `repair_loss` | reading a damaged store |

mod damaged;
pub(crate) mod directory;
mod durable;
pub(crate) mod engine;
mod engine_error;
mod fault;
mod lock;
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

pub use directory::bytes_below;
pub use durable::syncs;
pub use fault::{FORMAT_VERSION, OpenError};
pub use marker::store_id_of;
pub use offline::OfflineStore;
pub use opening::store_id_at;
pub use preload::StoreFiller;
pub use raw_log::LogLoss;
pub use repair::{RepairReport, repair};
pub use repair_loss::RepairLoss;
pub(crate) use snapshot::EngineSnapshot;
pub use store::{SledStore, StoreSettings};
pub use store_copy::StoreCopy;
