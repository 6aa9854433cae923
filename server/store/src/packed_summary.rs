//! A summary as numbered fields: a protocol-buffers message that only this store uses. `FORMAT.md` lists the
//! fields.
//!
//! A field number is never reused. A reader skips unknown fields, so a newer server may add some; an unknown
//! enum value (an outcome, a cause) makes the record unreadable, because a guessed value would be wrong.

mod field;
mod nested;
mod reused;

use std::mem;

use field::FieldValue;
use nested::PackedKey;
use plimsoll_core::domain::{
    AttemptId, Bytes, Cause, Cores, CpuMicros, DeliveryOrigin, EvidenceSource, Exit, LargestProcess,
    MeasurementSource, Micros, Millis, OomOrigin, OpeningRecord, Outcome, Phase, PredictionSnapshot, Rescue,
    Resources, SessionId, Summary,
};
use plimsoll_proto::counters::PageCounters;
use prost::Message;
pub(super) use reused::SummaryDecoder;

use super::{
    bytes::Damage,
    codec::{self, FIELDS_CODEC, Record},
    keys::KeyKind,
};

/// The stored number of a value is its position in this list, counted from 1: append new values at the end.
const SOURCES: &[MeasurementSource] = &[
    MeasurementSource::Unspecified,
    MeasurementSource::CgroupV2,
    MeasurementSource::CgroupV1,
    MeasurementSource::ProcessTree,
    MeasurementSource::Prometheus,
];
const OUTCOMES: &[Outcome] = &Outcome::ALL;
const ORIGINS: &[OomOrigin] = &OomOrigin::ALL;
const CAUSES: &[Cause] = &Cause::ALL;

const EVIDENCE: &[EvidenceSource] = &[
    EvidenceSource::Kernel,
    EvidenceSource::Container,
    EvidenceSource::Pod,
    EvidenceSource::Measured,
    EvidenceSource::Exit,
    EvidenceSource::Ci,
    EvidenceSource::Log,
    EvidenceSource::Policy,
    EvidenceSource::Person,
];

/// Declares the message of a summary. The fields of `same`, and those of the structs after it, have the names and types that they have
/// there, and are moved out of the message when the summary is made. The fields of `own` have a form of their own.
macro_rules! packed_summary {
    (
        same { $($tag:tt $kind:ident $(($label:ident))? $same:ident: $Same:ty,)+ }
        $(in $of:ident: $Of:ident { $($of_tag:tt $of_kind:ident $(($of_label:ident))? $part:ident: $Part:ty,)+ } $(but { $($but:ident: $but_value:expr,)+ })?)+
        own($summary:ident) { $($own_tag:tt $own_kind:ident $(($own_label:ident))? $own:ident: $Own:ty = $own_value:expr,)+ }
        read($packed:ident) { $($read:ident: $read_value:expr,)+ }
    ) => {
        #[derive(Clone, PartialEq, Message)]
        struct Packed {
            $(#[prost($kind $(, $label)?, tag = $tag)] $same: <$Same as FieldValue>::Field,)+
            $($(#[prost($of_kind $(, $of_label)?, tag = $of_tag)] $part: <$Part as FieldValue>::Field,)+)+
            $(#[prost($own_kind $(, $own_label)?, tag = $own_tag)] $own: $Own,)+
        }

        impl Packed {
            fn of($summary: &Summary) -> Self {
                Self {
                    $($same: $summary.$same.to_field(),)+
                    $($($part: $summary.$of.$part.to_field(),)+)+
                    $($own: $own_value,)+
                }
            }

            /// Returns the summary; moves the texts out of this message.
            fn summary(&mut self) -> Result<Summary, Damage> {
                let $packed = self;
                Ok(Summary {
                    $($read: $read_value,)+
                    $($same: FieldValue::from_field(mem::take(&mut $packed.$same)),)+
                    $($of: $Of {
                        $($part: FieldValue::from_field(mem::take(&mut $packed.$part)),)+
                        $($($but: $but_value,)+)?
                    },)+
                })
            }
        }
    };
}

packed_summary! {
    same {
        3 uint32 number: u32,
        10 uint64 started_unix_ms: u64,
        13 uint64 wall: Millis,
        14 uint64 cpu: CpuMicros,
        15 double cpu_peak: Cores,
        16 uint64 samples: u64,
        17 uint64 samples_lost: u64,
        18 uint64 need_peak: Bytes,
        19 uint64 need_mean: Bytes,
        20 uint64 memory_peak: Bytes,
        21 uint64(optional) oom_kill: Option<u64>,
        22 uint64(optional) reclaim_failures: Option<u64>,
        27 bool censored: bool,
        29 uint64(optional) oom_group_kill: Option<u64>,
        30 uint64(optional) memory_stall: Option<Micros>,
        32 uint64(optional) throttled: Option<Micros>,
        33 uint64(optional) starved: Option<Millis>,
        34 uint64(optional) starved_at_end: Option<Millis>,
        35 message(repeated) phases: Vec<Phase>,
        40 bool unneeded: bool,
        43 string ci_reason: String,
        45 string offloaded_to: String,
        46 uint64(optional) memory_limit_at_start: Option<Bytes>,
        47 message(optional) largest_process: Option<LargestProcess>,
        48 uint32(optional) compilers_peak: Option<u32>,
        49 message(optional) rescue: Option<Rescue>,
    }
    in resources: Resources {
        6 uint64(optional) memory_request: Option<Bytes>,
        7 uint64(optional) memory_limit: Option<Bytes>,
        8 double(optional) cpu_request: Option<Cores>,
        9 double(optional) cpu_limit: Option<Cores>,
    }
    in pages: PageCounters {
        31 uint64(optional) refaults: Option<u64>,
        44 uint64(optional) pgmajfault: Option<u64>,
    }
    in opening: OpeningRecord {
        36 string pool: String,
        37 bool untrusted: bool,
        38 message(optional) predicted: Option<PredictionSnapshot>,
        41 bool proven: bool,
    } but {
        // the attempt's ticket was closed when the attempt ended
        ticket: None,
    }
    own(summary) {
        1 string attempt: String = summary.attempt.to_string(),
        2 message(required) key: PackedKey = PackedKey::of(&summary.key),
        4 string(optional) retries: Option<String> = summary.retries.as_ref().map(ToString::to_string),
        5 uint32 source: u32 = number_of(SOURCES, Some(summary.source)),
        11 string(optional) origin_session: Option<String> = summary.origin.as_ref().map(|origin| origin.session.to_string()),
        12 uint64 origin_started_unix_ms: u64 = summary.origin.as_ref().map_or(0, |origin| origin.started_unix_ms),
        23 uint32 outcome: u32 = number_of(OUTCOMES, Some(summary.outcome)),
        24 sint32(optional) exit_code: Option<i32> = summary.exit.and_then(|exit| if let Exit::Code(code) = exit { Some(code) } else { None }),
        25 sint32(optional) exit_signal: Option<i32> = summary.exit.and_then(|exit| if let Exit::Signal(signal) = exit { Some(signal) } else { None }),
        26 uint32 cause: u32 = number_of(CAUSES, summary.cause),
        28 uint32 oom_origin: u32 = number_of(ORIGINS, summary.oom_origin),
        42 uint32 cause_source: u32 = number_of(EVIDENCE, summary.cause_source),
    }
    read(packed) {
        attempt: id(&packed.attempt)?,
        key: packed.key.key()?,
        retries: packed.retries.as_deref().map(id).transpose()?,
        source: required_value("source", SOURCES, packed.source)?,
        origin: packed.origin()?,
        outcome: required_value("outcome", OUTCOMES, packed.outcome)?,
        exit: packed.exit_code.map(Exit::Code).or_else(|| packed.exit_signal.map(Exit::Signal)),
        cause: value_of("cause", CAUSES, packed.cause)?,
        cause_source: value_of("source of the cause", EVIDENCE, packed.cause_source)?,
        oom_origin: value_of("origin of a kill", ORIGINS, packed.oom_origin)?,
    }
}

impl Record for Summary {
    const KIND: KeyKind = KeyKind::Summary;

    fn pack(&self, out: &mut Vec<u8>) -> Result<(), String> {
        out.push(FIELDS_CODEC);
        Packed::of(self).encode(out).map_err(|error| error.to_string())
    }

    fn unpack(codec: u8, payload: &[u8]) -> Result<Self, Damage> {
        let mut packed = Packed::default();
        packed.read(codec, payload)?;
        packed.summary()
    }
}

impl Packed {
    fn read(&mut self, codec: u8, payload: &[u8]) -> Result<(), Damage> {
        if codec != FIELDS_CODEC {
            return Err(codec::unknown_codec(codec));
        }
        self.merge(payload)
            .map_err(|error| Damage::new(format!("has not the fields it should have: {error}")))
    }

    fn origin(&self) -> Result<Option<DeliveryOrigin>, Damage> {
        let session = self.origin_session.as_deref().map(SessionId::parse).transpose();
        let session = session.map_err(|rule| Damage::new(format!("the session {rule}")))?;
        let started_unix_ms = self.origin_started_unix_ms;
        Ok(session.map(|session| DeliveryOrigin { session, started_unix_ms }))
    }
}

fn id(text: &str) -> Result<AttemptId, Damage> {
    AttemptId::parse(text).map_err(|rule| Damage::new(format!("the id of an attempt {rule}")))
}

/// The number that is stored for a value: its position in the list, from 1 on; 0 for none. Also 0 if the list lacks it; a test
/// checks that this never happens.
fn number_of<T: PartialEq>(words: &[T], word: Option<T>) -> u32 {
    let place = word.and_then(|word| words.iter().position(|known| *known == word));
    place.and_then(|place| u32::try_from(place + 1).ok()).unwrap_or(0)
}

/// The value with this stored number; `None` for 0.
fn value_of<T: Copy>(what: &str, words: &[T], number: u32) -> Result<Option<T>, Damage> {
    let Some(place) = number.checked_sub(1) else { return Ok(None) };
    let word = usize::try_from(place).ok().and_then(|place| words.get(place)).copied();
    let unknown = || Damage::new(format!("the {what} {number} is not known"));
    word.ok_or_else(unknown).map(Some)
}

fn required_value<T: Copy>(what: &str, words: &[T], number: u32) -> Result<T, Damage> {
    value_of(what, words, number)?.ok_or_else(|| Damage::new(format!("has no {what}")))
}

#[cfg(test)]
mod tests;
