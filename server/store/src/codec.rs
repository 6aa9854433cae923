//! Encodings of a record's payload: JSON, or numbered fields ([`super::packed_summary`]).

use plimsoll_core::domain::{
    Attempt, JobPod, Ticket, TicketNumbers, UpstreamServer, UpstreamTicket, Verdict,
};
use serde::{Serialize, de::DeserializeOwned};

use super::bytes::Damage;

/// A record as JSON: any tool can read it, and fields can be added.
const JSON_CODEC: u8 = 1;
/// A record as a protocol-buffers message: a third of JSON's bytes, and much faster to read.
pub(super) const FIELDS_CODEC: u8 = 2;

/// A type stored as a record.
pub(super) trait Record: Sized {
    /// Appends the codec byte and the payload.
    /// Errors: Names the reason if the value cannot be encoded.
    fn pack(&self, out: &mut Vec<u8>) -> Result<(), String>;

    /// Reads the output of [`Self::pack`].
    fn unpack(codec: u8, payload: &[u8]) -> Result<Self, Damage>;
}

/// Appends the JSON form.
pub(super) fn pack_json<T: Serialize>(record: &T, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(JSON_CODEC);
    serde_json::to_writer(out, record).map_err(|error| error.to_string())
}

/// Reads the JSON form.
pub(super) fn unpack_json<T: DeserializeOwned>(codec: u8, payload: &[u8]) -> Result<T, Damage> {
    if codec != JSON_CODEC {
        return Err(unknown_codec(codec));
    }
    serde_json::from_slice(payload)
        .map_err(|error| Damage::new(format!("is not the JSON it should be: {error}")))
}

/// The error for an unknown codec.
pub(super) fn unknown_codec(codec: u8) -> Damage {
    Damage::new(format!("codec {codec} is not known"))
}

macro_rules! json_record {
    ($($name:ty),+) => {$(
        impl Record for $name {
            fn pack(&self, out: &mut Vec<u8>) -> Result<(), String> {
                pack_json(self, out)
            }

            fn unpack(codec: u8, payload: &[u8]) -> Result<Self, Damage> {
                unpack_json(codec, payload)
            }
        }
    )+};
}

json_record!(Attempt, JobPod, Ticket, TicketNumbers, UpstreamServer, UpstreamTicket, Verdict);
