//! Records: a payload with a codec byte and a checksum, split into parts that fit into values.
//!
//! A record is written by one commit. A shorter record over a longer one leaves old parts behind; readers skip them, because every part
//! contains the number of parts.

use super::{
    bounds::MAX_VALUE,
    bytes::{self, Damage},
    codec::Record,
    errors::KeyText,
    kv::{Batch, KeyValue},
};

/// Most parts of a record, because one byte has their number.
const MAX_PARTS: usize = 255;
/// Bytes of a record in one part; the byte before them is the number of parts.
const PART_BYTES: usize = MAX_VALUE - 1;
/// Largest record, bytes.
pub const MAX_RECORD: usize = MAX_PARTS * PART_BYTES;

/// Why a record cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record is too long.
    #[error(
        "the record for key {key} has {bytes} bytes, at most {MAX_RECORD} can be stored: shorten its texts"
    )]
    TooLong {
        /// Key of the record.
        key: KeyText,
        /// Length of the record.
        bytes: usize,
    },
    /// The value cannot be encoded.
    #[error("the record for key {key} cannot be encoded: {reason}")]
    Unencodable {
        /// Key of the record.
        key: KeyText,
        /// Why the value cannot be encoded.
        reason: String,
    },
}

/// Adds the parts of a record under `key`.
pub(super) fn put<T: Record>(batch: &mut Batch, key: &[u8], record: &T) -> Result<(), RecordError> {
    for (part_key, value) in encode(key, record)? {
        batch.put(part_key, value);
    }
    Ok(())
}

/// Replaces the record `old` by `new`; also removes the parts that only the longer `old` had.
pub(super) fn replace<T: Record>(batch: &mut Batch, key: &[u8], old: &T, new: &T) -> Result<(), RecordError> {
    let new = encode(key, new)?;
    for (part_key, _) in encode(key, old)?.into_iter().skip(new.len()) {
        batch.delete(part_key);
    }
    for (part_key, value) in new {
        batch.put(part_key, value);
    }
    Ok(())
}

/// Removes the parts of `record`.
pub(super) fn delete<T: Record>(batch: &mut Batch, key: &[u8], record: &T) -> Result<(), RecordError> {
    for (part_key, _) in encode(key, record)? {
        batch.delete(part_key);
    }
    Ok(())
}

/// Key and value of each part.
type RecordParts = Vec<(Vec<u8>, Vec<u8>)>;

fn encode<T: Record>(key: &[u8], record: &T) -> Result<RecordParts, RecordError> {
    let mut bytes = Vec::new();
    record
        .pack(&mut bytes)
        .map_err(|reason| RecordError::Unencodable { key: KeyText(key.to_vec()), reason })?;
    let bytes = bytes::with_checksum(bytes);
    let Ok(parts) = u8::try_from(bytes.len().div_ceil(PART_BYTES)) else {
        return Err(RecordError::TooLong { key: KeyText(key.to_vec()), bytes: bytes.len() });
    };
    Ok((0..parts)
        .zip(bytes.chunks(PART_BYTES))
        .map(|(index, slice)| ([key, &[index]].concat(), [&[parts], slice].concat()))
        .collect())
}

/// Joins the parts of records. They must arrive in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct RecordJoiner {
    /// Key of the current record: the keys of its parts without their last byte. Empty before the first part.
    key: Vec<u8>,
    bytes: Vec<u8>,
    /// Parts joined so far.
    parts_found: u8,
    /// Number of parts that the record has according to its first part; 0 if the first part is missing.
    promised: u8,
}

/// The key of a record, and the record or why it is damaged.
pub(super) type JoinedRecord<T> = (Vec<u8>, Result<T, Damage>);

impl RecordJoiner {
    /// Adds the next part; returns the previous record if this part starts another one.
    pub(super) fn push<T: Record>(&mut self, entry: &KeyValue) -> Option<JoinedRecord<T>> {
        let before = if self.is_next(&entry.key) { self.finish() } else { None };
        self.add(&entry.key, &entry.value.value);
        before
    }

    /// Whether the part under this key starts another record.
    pub(super) fn is_next(&self, key: &[u8]) -> bool {
        key.split_last().is_some_and(|(_part, key)| key != self.key)
    }

    /// Adds a part to the current record, or starts another record with it.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        let Some((index, key)) = key.split_last() else { return };
        if key != self.key {
            self.clear();
            self.key.extend_from_slice(key);
        }
        let (promised, slice) =
            value.split_first().map_or((0, value), |(promised, slice)| (*promised, slice));
        if *index == 0 {
            // the first part of a damaged record may promise none
            self.promised = promised.max(1);
        }
        // a part with another index or count is left over from an older, longer record: it is skipped
        if *index == self.parts_found && promised == self.promised && self.parts_found < self.promised {
            self.bytes.extend_from_slice(slice);
            self.parts_found += 1;
        }
    }

    /// Ends the current record and returns it; `None` if there were no parts, or only parts left over from an
    /// older record.
    pub(super) fn finish<T: Record>(&mut self) -> Option<JoinedRecord<T>> {
        let record = self.payload().map(|payload| {
            let record = payload.and_then(|(codec, payload)| T::unpack(codec, payload));
            (self.key.clone(), record)
        });
        self.clear();
        record
    }

    /// Codec and payload of the current record; `None` in the cases of [`Self::finish`].
    pub(super) fn payload(&self) -> Option<Result<(u8, &[u8]), Damage>> {
        let Self { bytes, parts_found: found, promised, .. } = self;
        (*promised > 0).then(|| {
            if found < promised {
                return Err(Damage::new(format!("{found} of {promised} parts were found")));
            }
            bytes::checked(bytes)
        })
    }

    /// Number of parts of the current record that were joined so far.
    pub(super) fn found(&self) -> usize {
        usize::from(self.parts_found)
    }

    /// Key of the current record, without the byte that numbers the parts.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    fn clear(&mut self) {
        self.key.clear();
        self.bytes.clear();
        (self.parts_found, self.promised) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        codec,
        keys::KeyKind,
        kv::{VersionedValue, WriteOp},
    };

    impl Record for String {
        const KIND: KeyKind = KeyKind::Summary;

        fn pack(&self, out: &mut Vec<u8>) -> Result<(), String> {
            codec::pack_json(self, out)
        }

        fn unpack(codec: u8, payload: &[u8]) -> Result<Self, Damage> {
            codec::unpack_json(codec, payload)
        }
    }

    fn entries(key: &[u8], text: &str) -> Vec<KeyValue> {
        let mut batch = Batch::default();
        put(&mut batch, key, &text.to_owned()).unwrap();
        let entry = |write: &WriteOp| KeyValue {
            key: write.key().clone(),
            value: VersionedValue { version: 1, value: write.value().to_vec() },
        };
        batch.writes.iter().map(entry).collect()
    }

    fn join(entries: &[KeyValue]) -> Vec<JoinedRecord<String>> {
        let mut joiner = RecordJoiner::default();
        let mut records: Vec<_> = entries.iter().filter_map(|entry| joiner.push(entry)).collect();
        records.extend(joiner.finish());
        records
    }

    #[test]
    fn a_ten_kilobyte_record_is_rejoined_from_parts() {
        let text = "x".repeat(10 * 1024);
        let mut parts = entries(b"sa\0", &text);
        assert_eq!(parts.len(), 3);
        assert!(parts.iter().all(|part| part.value.value.len() <= MAX_VALUE));
        parts.extend(entries(b"sb\0", "short"));
        let records = join(&parts);
        assert_eq!(records, [(b"sa\0".to_vec(), Ok(text)), (b"sb\0".to_vec(), Ok("short".to_owned()))]);
    }

    #[test]
    fn leftover_parts_of_longer_records_are_skipped() {
        let long = entries(b"sa\0", &"x".repeat(10 * 1024));
        let mut parts = entries(b"sa\0", "short");
        parts.extend_from_slice(&long[1..]);
        assert_eq!(join(&parts), [(b"sa\0".to_vec(), Ok("short".to_owned()))]);
        assert_eq!(join(&long[1..]), [], "without its head it is not a record");
    }

    #[test]
    fn damage_is_found_and_limited_to_its_record() {
        let mut parts = entries(b"sa\0", &"x".repeat(10 * 1024));
        parts[1].value.value[100] ^= 4;
        parts.extend(entries(b"sb\0", "short"));
        parts.push(entries(b"sc\0", &"x".repeat(10 * 1024)).remove(0));
        let records = join(&parts);
        let fine: Vec<bool> = records.iter().map(|(_, record)| record.is_ok()).collect();
        assert_eq!(fine, [false, true, false], "{records:?}");
    }

    #[test]
    fn an_oversized_record_is_refused_with_its_key() {
        let error = put(&mut Batch::default(), b"sa\0", &"x".repeat(MAX_RECORD)).unwrap_err();
        assert!(error.to_string().contains("sa\\x00"), "{error}");
    }
}
