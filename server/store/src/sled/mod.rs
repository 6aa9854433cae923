//! The store in files, and everything known about sled 0.34.7: no other module uses sled.
//!
//! | module | what it does |
//! |---|---|
//! | `store`, `writer`, `commit_plan`, `engine_state` | the store's handle; writes a group of commits with one sync |
//! | `engine`, `quiet_panics` | guarded calls of sled |
//! | `durable` | makes its flush reach the disk |
//! | `directory`, `marker`, `witness`, `small_files`, `open_error` | the data directory: whether it is ours and complete, and why a store does not open |
//! | `opening`, `prepared` | compare engine, marker and witness before anything is written; a refused start changes nothing |
//! | `snapshot`, `store_copy`, `offline`, `preload` | reading a store while it runs, from a copy, or closed; writing a new one |
//! | `past_damage`, `raw_log`, `readable_records`, `damaged`, `repair`, `repair_loss` | reading a damaged store |

mod commit_plan;
mod damaged;
pub(crate) mod directory;
mod durable;
pub(crate) mod engine;
mod engine_error;
mod engine_state;
mod lock;
pub(crate) mod marker;
mod offline;
mod open_error;
mod opening;
mod past_damage;
mod preload;
mod prepared;
mod quiet_panics;
pub(crate) mod raw_log;
mod readable_records;
mod repair;
mod repair_loss;
pub(crate) mod small_files;
mod snapshot;
mod store;
mod store_copy;
pub(crate) mod witness;
mod writer;

pub use directory::bytes_below;
pub use durable::syncs;
pub use marker::store_id_of;
pub use offline::OfflineStore;
pub use open_error::{FORMAT_VERSION, OpenError};
pub use opening::store_id_at;
pub use preload::StoreFiller;
pub use raw_log::LogLoss;
pub use repair::{RepairReport, repair};
pub use repair_loss::RepairLoss;
pub(crate) use snapshot::EngineSnapshot;
pub use store::{SledStore, StoreSettings};
pub use store_copy::StoreCopy;
