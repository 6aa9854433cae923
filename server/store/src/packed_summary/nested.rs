//! Nested messages of a packed summary: its key, its phases, its prediction, its largest process, what rescue did.

use std::{collections::BTreeMap, mem};

use plimsoll_core::domain::{
    Bytes, Cores, CpuMicros, Hints, Key, LargestProcess, Millis, Phase, PredictionSnapshot, Rescue,
};
use plimsoll_proto::{key::TEXTS, key_texts};
use prost::Message;

use super::Damage;

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

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct PackedPrediction {
    #[prost(uint64, tag = "1")]
    memory_request: u64,
    #[prost(uint64, tag = "2")]
    memory_limit: u64,
    #[prost(double, tag = "3")]
    cpu_request: f64,
    #[prost(uint64, tag = "4")]
    wall_p95: u64,
    #[prost(bool, tag = "5")]
    is_default: bool,
    #[prost(uint64, tag = "6")]
    wall_p50: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PackedPhase {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint64, tag = "2")]
    started: u64,
    #[prost(uint64, tag = "3")]
    wall: u64,
    #[prost(uint64, tag = "4")]
    need_peak: u64,
    #[prost(uint64, tag = "5")]
    cpu: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PackedLargestProcess {
    #[prost(string, tag = "1")]
    program: String,
    #[prost(string, tag = "2")]
    file: String,
    #[prost(uint64, tag = "3")]
    memory: u64,
    #[prost(uint64, tag = "4")]
    elapsed: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PackedRescue {
    #[prost(uint64, optional, tag = "1")]
    would_pause: Option<u64>,
    #[prost(uint32, tag = "2")]
    would_pause_processes: u32,
    #[prost(uint32, tag = "3")]
    pauses: u32,
    #[prost(uint64, tag = "4")]
    paused: u64,
    #[prost(uint64, tag = "5")]
    paused_process_time: u64,
    #[prost(uint64, tag = "6")]
    together_peak: u64,
    #[prost(string, tag = "7")]
    gave_up: String,
    #[prost(uint32, tag = "8")]
    raises: u32,
    #[prost(uint64, optional, tag = "9")]
    ended: Option<u64>,
    #[prost(uint64, tag = "10")]
    raised_byte_seconds: u64,
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

impl PackedPrediction {
    pub(super) fn of(predicted: &PredictionSnapshot) -> Self {
        Self {
            memory_request: predicted.memory_request.0,
            memory_limit: predicted.memory_limit.0,
            cpu_request: predicted.cpu_request.0,
            wall_p95: predicted.wall_p95.0,
            wall_p50: predicted.wall_p50.0,
            is_default: predicted.is_default,
        }
    }

    pub(super) fn prediction(self) -> PredictionSnapshot {
        PredictionSnapshot {
            memory_request: Bytes(self.memory_request),
            memory_limit: Bytes(self.memory_limit),
            cpu_request: Cores(self.cpu_request),
            wall_p95: Millis(self.wall_p95),
            wall_p50: Millis(self.wall_p50),
            is_default: self.is_default,
        }
    }
}

impl PackedPhase {
    pub(super) fn of(phase: &Phase) -> Self {
        Self {
            name: phase.name.clone(),
            started: phase.started.0,
            wall: phase.wall.0,
            need_peak: phase.need_peak.0,
            cpu: phase.cpu.0,
        }
    }

    pub(super) fn phase(self) -> Phase {
        Phase {
            name: self.name,
            started: Millis(self.started),
            wall: Millis(self.wall),
            need_peak: Bytes(self.need_peak),
            cpu: CpuMicros(self.cpu),
        }
    }
}

impl PackedLargestProcess {
    pub(super) fn of(process: &LargestProcess) -> Self {
        let LargestProcess { program, file, memory, elapsed } = process.clone();
        Self { program, file, memory: memory.0, elapsed: elapsed.0 }
    }

    pub(super) fn largest_process(self) -> LargestProcess {
        let Self { program, file, memory, elapsed } = self;
        LargestProcess { program, file, memory: Bytes(memory), elapsed: Millis(elapsed) }
    }
}

impl PackedRescue {
    pub(super) fn of(rescue: &Rescue) -> Self {
        Self {
            would_pause: rescue.would_pause.map(|time| time.0),
            would_pause_processes: rescue.would_pause_processes,
            pauses: rescue.pauses,
            paused: rescue.paused.0,
            paused_process_time: rescue.paused_process_time.0,
            together_peak: rescue.together_peak.0,
            gave_up: rescue.gave_up.clone(),
            raises: rescue.raises,
            ended: rescue.ended.map(|time| time.0),
            raised_byte_seconds: rescue.raised_byte_seconds,
        }
    }

    pub(super) fn rescue(self) -> Rescue {
        Rescue {
            would_pause: self.would_pause.map(Millis),
            would_pause_processes: self.would_pause_processes,
            pauses: self.pauses,
            paused: Millis(self.paused),
            paused_process_time: Millis(self.paused_process_time),
            together_peak: Bytes(self.together_peak),
            gave_up: self.gave_up,
            raises: self.raises,
            ended: self.ended.map(Millis),
            raised_byte_seconds: self.raised_byte_seconds,
        }
    }
}
