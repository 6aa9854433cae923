//! Encodings of a record's payload: JSON, or numbered fields ([`super::packed_summary`]).

use std::borrow::Cow;

use plimsoll_core::domain::{
    Attempt, JobHook, JobPod, ProjectRename, Summary, Ticket, TicketNumbers, UpstreamServer, UpstreamTicket,
    Verdict,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    bytes::Damage,
    keys::{KeyKind, NUMBERS_PART, RENAME_PART},
};

/// A record as JSON: any tool can read it, and fields can be added.
const JSON_CODEC: u8 = 1;
/// A record as a protocol-buffers message: a third of JSON's bytes, and much faster to read.
pub(super) const FIELDS_CODEC: u8 = 2;

/// A type stored as a record.
pub trait Record: Sized {
    /// Kind of the record's key.
    const KIND: KeyKind;

    /// Appends the codec byte and the payload.
    /// Errors: Names the reason if the value cannot be encoded.
    fn pack(&self, out: &mut Vec<u8>) -> Result<(), String>;

    /// Reads the output of [`Self::pack`].
    fn unpack(codec: u8, payload: &[u8]) -> Result<Self, Damage>;
}

/// A record with a key that follows from its content.
pub trait KeyedRecord: Record {
    /// The part of the key between the kind and the byte that ends an id.
    fn key_id(&self) -> Cow<'_, str>;
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
    ($($name:ty: $kind:ident,)+) => {$(
        impl Record for $name {
            const KIND: KeyKind = KeyKind::$kind;

            fn pack(&self, out: &mut Vec<u8>) -> Result<(), String> {
                pack_json(self, out)
            }

            fn unpack(codec: u8, payload: &[u8]) -> Result<Self, Damage> {
                unpack_json(codec, payload)
            }
        }
    )+};
}

json_record! {
    Attempt: Attempt,
    JobHook: Hook,
    JobPod: Pod,
    ProjectRename: Rename,
    Ticket: Ticket,
    TicketNumbers: Numbers,
    UpstreamServer: UpstreamServer,
    UpstreamTicket: UpstreamTicket,
    Verdict: Verdict,
}

macro_rules! keyed_record {
    ($($name:ty: $record:ident => $id:expr,)+) => {$(
        impl KeyedRecord for $name {
            fn key_id(&self) -> Cow<'_, str> {
                let $record = self;
                $id.into()
            }
        }
    )+};
}

keyed_record! {
    Attempt: attempt => attempt.id.as_str(),
    JobHook: hook => hook.name.as_str(),
    ProjectRename: _rename => RENAME_PART,
    Summary: summary => summary.attempt.as_str(),
    Ticket: ticket => ticket.id.as_str(),
    TicketNumbers: _numbers => NUMBERS_PART,
    UpstreamServer: server => server.key(),
    UpstreamTicket: ticket => ticket.key(),
}
