//! Nested messages of a packed summary: its key, its phases, its prediction, its largest process, what rescue did.

use std::{collections::BTreeMap, mem};

use plimsoll_core::domain::{
    Bytes, Cores, CpuMicros, Hints, Key, LargestProcess, Millis, Phase, PredictionSnapshot, Rescue,
};
use plimsoll_proto::{key::TEXTS, key_texts};
use prost::Message;

use super::{
    Damage,
    field::{FieldValue, packed},
};

#[derive(Clone, PartialEq, Message)]
pub(super) struct PackedKey {
    #[prost(string, tag = "1")]
    project: String,
    #[prost(string, tag = "2")]
    stack: String,
    #[prost(string, tag = "3")]
    package: String,
    #[prost(string, tag = "4")]
    version: String,
    #[prost(string, tag = "5")]
    variants: String,
    #[prost(string, tag = "6")]
    compiler: String,
    #[prost(string, tag = "7")]
    compiler_version: String,
    #[prost(string, tag = "8")]
    arch: String,
    #[prost(string, tag = "9")]
    build_system: String,
    #[prost(string, tag = "10")]
    git_ref: String,
    #[prost(string, tag = "11")]
    owner: String,
    #[prost(btree_map = "string, string", tag = "12")]
    labels: BTreeMap<String, String>,
    #[prost(uint32, optional, tag = "13")]
    build_jobs: Option<u32>,
    #[prost(uint64, optional, tag = "14")]
    input_bytes: Option<u64>,
}

packed! {
    PackedPrediction of PredictionSnapshot {
        1 uint64 memory_request: Bytes,
        2 uint64 memory_limit: Bytes,
        3 double cpu_request: Cores,
        4 uint64 wall_p95: Millis,
        5 bool is_default: bool,
        6 uint64 wall_p50: Millis,
    }
}

packed! {
    PackedPhase of Phase {
        1 string name: String,
        2 uint64 started: Millis,
        3 uint64 wall: Millis,
        4 uint64 need_peak: Bytes,
        5 uint64 cpu: CpuMicros,
    }
}

packed! {
    PackedLargestProcess of LargestProcess {
        1 string program: String,
        2 string file: String,
        3 uint64 memory: Bytes,
        4 uint64 elapsed: Millis,
    }
}

packed! {
    PackedRescue of Rescue {
        1 uint64(optional) would_pause: Option<Millis>,
        2 uint32 would_pause_processes: u32,
        3 uint32 pauses: u32,
        4 uint64 paused: Millis,
        5 uint64 paused_process_time: Millis,
        6 uint64 together_peak: Bytes,
        7 string gave_up: String,
        8 uint32 raises: u32,
        9 uint64(optional) ended: Option<Millis>,
        10 uint64 raised_byte_seconds: u64,
    }
}

impl PackedKey {
    pub(super) fn of(key: &Key) -> Self {
        let mut packed = Self {
            labels: key.labels.clone(),
            build_jobs: key.hints.build_jobs,
            input_bytes: key.hints.input_bytes,
            ..Self::default()
        };
        packed.texts_mut().into_iter().zip(key.texts()).for_each(|(to, from)| from.clone_into(to));
        packed
    }

    /// Returns the key; moves the texts out of this message.
    pub(super) fn key(&mut self) -> Result<Key, Damage> {
        if *self == Self::default() {
            return Err(Damage::new("has no key"));
        }
        let hints = Hints { build_jobs: self.build_jobs, input_bytes: self.input_bytes };
        let mut key = Key { labels: mem::take(&mut self.labels), hints, ..Key::default() };
        key.texts_mut().into_iter().zip(self.texts_mut()).for_each(|(to, from)| mem::swap(to, from));
        Ok(key)
    }

    /// Takes back the texts of `key`, so that the next key is decoded into their allocations.
    pub(super) fn keep(&mut self, mut key: Key) {
        *self = Self { labels: mem::take(&mut key.labels), ..Self::default() };
        key.texts_mut().into_iter().zip(self.texts_mut()).for_each(|(from, to)| mem::swap(to, from));
    }

    /// The texts, in the order of [`plimsoll_proto::key::KEY_TEXTS`].
    fn texts_mut(&mut self) -> [&mut String; TEXTS] {
        key_texts!(self, git_ref, &mut)
    }
}
