//! What the payload of a record is: JSON, or fields with numbers ([`super::packed`]).

use plimsoll_core::domain::{Attempt, JobPod, Ticket, Verdict};
use serde::{Serialize, de::DeserializeOwned};

use super::bytes::Damage;

/// JSON. Any tool reads it, and fields can be added.
pub(super) const JSON: u8 = 1;
/// A message of protocol buffers: a third of the bytes, and a fraction of the time to read.
pub(super) const FIELDS: u8 = 2;

/// Something that is kept as a record.
pub(super) trait Record: Sized {
    /// Appends the codec byte and the payload.
    ///
    /// # Errors
    /// Why it has no such form.
    fn pack(&self, out: &mut Vec<u8>) -> Result<(), String>;

    /// Reads a payload of any codec that this kind of record was ever written with.
    fn unpack(codec: u8, payload: &[u8]) -> Result<Self, Damage>;
}

/// Appends the JSON form.
pub(super) fn pack_json<T: Serialize>(record: &T, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(JSON);
    serde_json::to_writer(out, record).map_err(|error| error.to_string())
}

/// Reads the JSON form.
pub(super) fn unpack_json<T: DeserializeOwned>(codec: u8, payload: &[u8]) -> Result<T, Damage> {
    if codec != JSON {
        return Err(unknown(codec));
    }
    serde_json::from_slice(payload)
        .map_err(|error| Damage::new(format!("is not the JSON it should be: {error}")))
}

/// A codec that this program cannot read.
pub(super) fn unknown(codec: u8) -> Damage {
    Damage::new(format!("codec {codec} is not known; written by a newer version?"))
}

macro_rules! json_record {
    ($($name:ty),+) => {$(
        impl $crate::codec::Record for $name {
            fn pack(&self, out: &mut Vec<u8>) -> Result<(), String> {
                $crate::codec::pack_json(self, out)
            }

            fn unpack(codec: u8, payload: &[u8]) -> Result<Self, $crate::bytes::Damage> {
                $crate::codec::unpack_json(codec, payload)
            }
        }
    )+};
}

pub(super) use json_record;

json_record!(Attempt, JobPod, Ticket, Verdict);
