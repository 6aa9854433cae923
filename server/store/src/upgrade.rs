//! Work that an upgrade does once: how far it is, so that a stop in its middle costs a page of it.

use serde::{Deserialize, Serialize};

use super::{
    Store,
    codec::json_record,
    envelope::{self, RecordError},
    errors::StoreError,
    keys,
    kv::Batch,
    records::read,
};

/// How far one kind of work is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeMark {
    /// Which work: lower-case letters and `-`.
    pub name: String,
    /// The key behind which it goes on; `None` at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<u8>>,
    /// It is done, and never again begun.
    #[serde(default)]
    pub done: bool,
}

json_record!(UpgradeMark);

impl UpgradeMark {
    /// Nothing of it is done.
    pub fn begin(name: &str) -> Self {
        Self { name: name.to_owned(), after: None, done: false }
    }
}

/// Adds how far it is.
pub fn put_upgrade(batch: &mut Batch, mark: &UpgradeMark) -> Result<(), RecordError> {
    envelope::put(batch, &keys::upgrade(&mark.name), mark)
}

/// How far the work with this name is; `None` if it was never begun.
pub async fn read_upgrade(store: &Store, name: &str) -> Result<Option<UpgradeMark>, StoreError> {
    read(store, keys::upgrade(name)).await
}
