//! A summary as numbered fields: a protocol-buffers message that only this store uses. `FORMAT.md` lists the
//! fields.
//!
//! A field number is never reused. A reader skips unknown fields, so a newer server may add some; an unknown
//! enum value (an outcome, a cause) makes the record unreadable, because a guessed value would be wrong.

mod nested;
mod reused;

use nested::{PackedKey, PackedLargestProcess, PackedPhase, PackedPrediction, PackedRescue};
use plimsoll_core::domain::{
    AttemptId, Bytes, Cause, Cores, CpuMicros, DeliveryOrigin, EvidenceSource, Exit, MeasurementSource,
    Micros, Millis, OomOrigin, OpeningRecord, Outcome, Resources, SessionId, Summary,
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

#[expect(clippy::struct_excessive_bools, reason = "each is a field of the stored form")]
#[derive(Clone, PartialEq, Message)]
struct Packed {
    #[prost(string, tag = "1")]
    attempt: String,
    #[prost(message, required, tag = "2")]
    key: PackedKey,
    #[prost(uint32, tag = "3")]
    number: u32,
    #[prost(string, optional, tag = "4")]
    retries: Option<String>,
    #[prost(uint32, tag = "5")]
    source: u32,
    #[prost(uint64, optional, tag = "6")]
    memory_request: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    memory_limit: Option<u64>,
    #[prost(double, optional, tag = "8")]
    cpu_request: Option<f64>,
    #[prost(double, optional, tag = "9")]
    cpu_limit: Option<f64>,
    #[prost(uint64, tag = "10")]
    started_unix_ms: u64,
    #[prost(string, optional, tag = "11")]
    origin_session: Option<String>,
    #[prost(uint64, tag = "12")]
    origin_started_unix_ms: u64,
    #[prost(uint64, tag = "13")]
    wall: u64,
    #[prost(uint64, tag = "14")]
    cpu: u64,
    #[prost(double, tag = "15")]
    cpu_peak: f64,
    #[prost(uint64, tag = "16")]
    samples: u64,
    #[prost(uint64, tag = "17")]
    samples_lost: u64,
    #[prost(uint64, tag = "18")]
    need_peak: u64,
    #[prost(uint64, tag = "19")]
    need_mean: u64,
    #[prost(uint64, tag = "20")]
    memory_peak: u64,
    #[prost(uint64, optional, tag = "21")]
    oom_kill: Option<u64>,
    #[prost(uint64, optional, tag = "22")]
    reclaim_failures: Option<u64>,
    #[prost(uint32, tag = "23")]
    outcome: u32,
    #[prost(sint32, optional, tag = "24")]
    exit_code: Option<i32>,
    #[prost(sint32, optional, tag = "25")]
    exit_signal: Option<i32>,
    #[prost(uint32, tag = "26")]
    cause: u32,
    #[prost(bool, tag = "27")]
    censored: bool,
    #[prost(uint32, tag = "28")]
    oom_origin: u32,
    #[prost(uint64, optional, tag = "29")]
    oom_group_kill: Option<u64>,
    #[prost(uint64, optional, tag = "30")]
    memory_stall: Option<u64>,
    #[prost(uint64, optional, tag = "31")]
    refaults: Option<u64>,
    #[prost(uint64, optional, tag = "32")]
    throttled: Option<u64>,
    #[prost(uint64, optional, tag = "33")]
    starved: Option<u64>,
    #[prost(uint64, optional, tag = "34")]
    starved_at_end: Option<u64>,
    #[prost(message, repeated, tag = "35")]
    phases: Vec<PackedPhase>,
    #[prost(string, tag = "36")]
    pool: String,
    #[prost(bool, tag = "37")]
    untrusted: bool,
    #[prost(message, optional, tag = "38")]
    predicted: Option<PackedPrediction>,
    #[prost(bool, tag = "40")]
    unneeded: bool,
    #[prost(bool, tag = "41")]
    proven: bool,
    #[prost(uint32, tag = "42")]
    cause_source: u32,
    #[prost(string, tag = "43")]
    ci_reason: String,
    #[prost(uint64, optional, tag = "44")]
    pgmajfault: Option<u64>,
    #[prost(string, tag = "45")]
    offloaded_to: String,
    #[prost(uint64, optional, tag = "46")]
    memory_limit_at_start: Option<u64>,
    #[prost(message, optional, tag = "47")]
    largest_process: Option<PackedLargestProcess>,
    #[prost(uint32, optional, tag = "48")]
    compilers_peak: Option<u32>,
    #[prost(message, optional, tag = "49")]
    rescue: Option<PackedRescue>,
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
    fn of(summary: &Summary) -> Self {
        let Summary { resources, origin, opening, .. } = summary;
        Self {
            attempt: summary.attempt.to_string(),
            key: PackedKey::of(&summary.key),
            number: summary.number,
            retries: summary.retries.as_ref().map(ToString::to_string),
            source: number_of(SOURCES, &summary.source),
            memory_request: resources.memory_request.map(|bytes| bytes.0),
            memory_limit: resources.memory_limit.map(|bytes| bytes.0),
            cpu_request: resources.cpu_request.map(|cores| cores.0),
            cpu_limit: resources.cpu_limit.map(|cores| cores.0),
            started_unix_ms: summary.started_unix_ms,
            origin_session: origin.as_ref().map(|origin| origin.session.to_string()),
            origin_started_unix_ms: origin.as_ref().map_or(0, |origin| origin.started_unix_ms),
            wall: summary.wall.0,
            cpu: summary.cpu.0,
            cpu_peak: summary.cpu_peak.0,
            samples: summary.samples,
            samples_lost: summary.samples_lost,
            need_peak: summary.need_peak.0,
            need_mean: summary.need_mean.0,
            memory_peak: summary.memory_peak.0,
            oom_kill: summary.oom_kill,
            reclaim_failures: summary.reclaim_failures,
            outcome: number_of(OUTCOMES, &summary.outcome),
            exit_code: summary
                .exit
                .and_then(|exit| if let Exit::Code(code) = exit { Some(code) } else { None }),
            exit_signal: summary
                .exit
                .and_then(|exit| if let Exit::Signal(signal) = exit { Some(signal) } else { None }),
            cause: summary.cause.map_or(0, |cause| number_of(CAUSES, &cause)),
            censored: summary.censored,
            oom_origin: summary.oom_origin.map_or(0, |origin| number_of(ORIGINS, &origin)),
            oom_group_kill: summary.oom_group_kill,
            memory_stall: summary.memory_stall.map(|time| time.0),
            refaults: summary.pages.refaults,
            throttled: summary.throttled.map(|time| time.0),
            starved: summary.starved.map(|time| time.0),
            starved_at_end: summary.starved_at_end.map(|time| time.0),
            phases: summary.phases.iter().map(PackedPhase::of).collect(),
            pool: opening.pool.clone(),
            untrusted: opening.untrusted,
            predicted: opening.predicted.as_ref().map(PackedPrediction::of),
            unneeded: summary.unneeded,
            proven: opening.proven,
            cause_source: summary.cause_source.map_or(0, |source| number_of(EVIDENCE, &source)),
            ci_reason: summary.ci_reason.clone(),
            pgmajfault: summary.pages.pgmajfault,
            offloaded_to: summary.offloaded_to.clone(),
            memory_limit_at_start: summary.memory_limit_at_start.map(|bytes| bytes.0),
            largest_process: summary.largest_process.as_ref().map(PackedLargestProcess::of),
            compilers_peak: summary.compilers_peak,
            rescue: summary.rescue.as_ref().map(PackedRescue::of),
        }
    }

    fn read(&mut self, codec: u8, payload: &[u8]) -> Result<(), Damage> {
        if codec != FIELDS_CODEC {
            return Err(codec::unknown_codec(codec));
        }
        self.merge(payload)
            .map_err(|error| Damage::new(format!("has not the fields it should have: {error}")))
    }

    /// Returns the summary; moves the texts out of this message.
    fn summary(&mut self) -> Result<Summary, Damage> {
        let session = self.origin_session.as_deref().map(SessionId::parse).transpose();
        let session = session.map_err(|rule| Damage::new(format!("the session {rule}")))?;
        let exit = self.exit_code.map(Exit::Code).or_else(|| self.exit_signal.map(Exit::Signal));
        Ok(Summary {
            attempt: id(&self.attempt)?,
            key: self.key.key()?,
            number: self.number,
            retries: self.retries.as_deref().map(id).transpose()?,
            source: required_value("source", SOURCES, self.source)?,
            resources: Resources {
                memory_request: self.memory_request.map(Bytes),
                memory_limit: self.memory_limit.map(Bytes),
                cpu_request: self.cpu_request.map(Cores),
                cpu_limit: self.cpu_limit.map(Cores),
            },
            memory_limit_at_start: self.memory_limit_at_start.map(Bytes),
            started_unix_ms: self.started_unix_ms,
            origin: session
                .map(|session| DeliveryOrigin { session, started_unix_ms: self.origin_started_unix_ms }),
            wall: Millis(self.wall),
            cpu: CpuMicros(self.cpu),
            cpu_peak: Cores(self.cpu_peak),
            samples: self.samples,
            samples_lost: self.samples_lost,
            need_peak: Bytes(self.need_peak),
            need_mean: Bytes(self.need_mean),
            memory_peak: Bytes(self.memory_peak),
            oom_kill: self.oom_kill,
            reclaim_failures: self.reclaim_failures,
            outcome: required_value("outcome", OUTCOMES, self.outcome)?,
            exit,
            cause: value_of("cause", CAUSES, self.cause)?,
            cause_source: value_of("source of the cause", EVIDENCE, self.cause_source)?,
            ci_reason: std::mem::take(&mut self.ci_reason),
            censored: self.censored,
            oom_origin: value_of("origin of a kill", ORIGINS, self.oom_origin)?,
            oom_group_kill: self.oom_group_kill,
            memory_stall: self.memory_stall.map(Micros),
            pages: PageCounters { refaults: self.refaults, pgmajfault: self.pgmajfault },
            throttled: self.throttled.map(Micros),
            starved: self.starved.map(Millis),
            starved_at_end: self.starved_at_end.map(Millis),
            phases: self.phases.drain(..).map(PackedPhase::phase).collect(),
            largest_process: self.largest_process.take().map(PackedLargestProcess::largest_process),
            compilers_peak: self.compilers_peak,
            rescue: self.rescue.take().map(PackedRescue::rescue),
            unneeded: self.unneeded,
            offloaded_to: std::mem::take(&mut self.offloaded_to),
            opening: OpeningRecord {
                // the attempt's ticket was closed when the attempt ended
                ticket: None,
                pool: std::mem::take(&mut self.pool),
                untrusted: self.untrusted,
                proven: self.proven,
                predicted: self.predicted.map(PackedPrediction::prediction),
            },
        })
    }
}

fn id(text: &str) -> Result<AttemptId, Damage> {
    AttemptId::parse(text).map_err(|rule| Damage::new(format!("the id of an attempt {rule}")))
}

/// The number that is stored for a value: its position in the list, from 1 on. 0 if the list lacks it; a test
/// checks that this never happens.
fn number_of<T: PartialEq>(words: &[T], word: &T) -> u32 {
    let place = words.iter().position(|known| known == word);
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
