//! Predicts how the engine would read its log, before it opens.
//!
//! sled writes when it opens: it truncates its log where it stops reading, and zeroes each segment that it considers free. Only then it
//! reads its first page, and may refuse. So the part of the log that sled is about to read is read here first; a healthy start costs that
//! much and no more. If a message is missing there, the whole log is read: the engine may open only if it would lose nothing that was ever
//! acknowledged, as after a power cut.

use std::{fs::File, io, path::Path};

use super::{
    RawLog,
    flipped::FlippedBit,
    message::{LogMessage, MessageKind, SEGMENT},
    page::{PageChange, PageContent, PageNode, ValueAt},
    survey::LogSurvey,
    versioned,
    walk::{WalkStep, walk},
};
use crate::{kv::StoreIdentity, sled::engine::IDENTITY};

/// How the engine would open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenForecast {
    /// The engine would find everything acknowledged, once these bits are corrected; with the store's identity, `None` if the log has none.
    Opens(Option<StoreIdentity>, Vec<FlippedBit>),
    /// The engine would find everything, and the newest identity of the store has a wrong checksum.
    DamagedIdentity,
    /// The engine would find less, and overwrite the rest. The first unreadable byte of the log; its length if the end is missing.
    Torn(u64),
}

/// Examines a log that the engine is about to read from the log position `since` on. Commits up to `known` were acknowledged.
///
/// # Errors
/// The disk cannot be read.
pub(crate) fn forecast(path: &Path, since: u64, known: u64) -> io::Result<OpenForecast> {
    let survey = LogSurvey::of(path, since)?;
    match identity_of_sound(path, &survey, since)? {
        Some(found) if found.sequence >= known => Ok(OpenForecast::Opens(Some(found), survey.flipped)),
        _ => forecast_from_all(path, survey.reach(since), known),
    }
}

/// The identity in a log of which the engine misses nothing.
pub(super) fn identity_of_sound(
    path: &Path,
    survey: &LogSurvey,
    since: u64,
) -> io::Result<Option<StoreIdentity>> {
    if !survey.is_sound(since) {
        return Ok(None);
    }
    let reach = survey.reach(since);
    match newest_identity(path, survey, reach)? {
        // nothing was committed since the engine recorded its position, as after a clean stop: the identity is further back
        None => newest_identity(path, &LogSurvey::of_headers(path)?, reach),
        found => Ok(found),
    }
}

/// Forecasts the opening from the whole log, of which the engine uses the part before the log position `reach`.
fn forecast_from_all(path: &Path, reach: u64, known: u64) -> io::Result<OpenForecast> {
    let (all, seen) = (RawLog::read(path, false)?, RawLog::read_before(path, reach, false)?);
    if seen.is_whole() && all.adds_nothing_acknowledged(&seen, reach, known)? {
        return Ok(match seen.identity()? {
            None if seen.replay.entries.contains_key(IDENTITY) => OpenForecast::DamagedIdentity,
            found => OpenForecast::Opens(found, all.survey.flipped),
        });
    }
    let first = all.survey.holes.iter().map(|hole| hole.at).min();
    Ok(OpenForecast::Torn(first.map_or_else(|| all.file.metadata().map(|file| file.len()), Ok)?))
}

impl RawLog {
    /// Whether each acknowledged entry after `reach` is the same in `seen`, the part before it.
    fn adds_nothing_acknowledged(&self, seen: &Self, reach: u64, known: u64) -> io::Result<bool> {
        let behind = self.replay.entries.iter().filter(|(key, stored)| stored.lsn >= reach && key.len() > 1);
        for (key, stored) in behind {
            let version = versioned(&self.value(stored)?).map(|value| value.version);
            let seen = seen.get(key)?.map(|value| value.version);
            if version.is_some_and(|version| version <= known) && seen != version {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The last identity written before a log position; `None` also if its checksum is wrong, whatever was written before it. Each commit
/// writes one, so it is in the last segment, or close to it.
pub(super) fn newest_identity(
    path: &Path,
    survey: &LogSurvey,
    before: u64,
) -> io::Result<Option<StoreIdentity>> {
    let (file, mut bytes, mut found) = (File::open(path)?, Vec::new(), None);
    for slot in survey.slots.iter().rev() {
        survey.read(&file, slot.at, &mut bytes);
        let base = slot.number * SEGMENT as u64;
        walk(&bytes, slot.number, |step| match step {
            WalkStep::Message(at, message) if base + (at as u64) < before => {
                found = identity_in(&message).map(<[u8]>::to_vec).or_else(|| found.take());
            }
            WalkStep::Message(..) | WalkStep::Gap { .. } => {}
        });
        if found.is_some() {
            break;
        }
    }
    Ok(found.and_then(|bytes| StoreIdentity::decode(&bytes)))
}

/// The bytes of the identity that a message writes, if it does; of any length, because another format may have a longer one, and is refused
/// by its number.
fn identity_in<'m>(message: &LogMessage<'m>) -> Option<&'m [u8]> {
    let bytes = |value: ValueAt| message.body.get(value.at..value.at + value.len);
    match message.kind {
        MessageKind::Link => match PageChange::read(message.body)? {
            // a page may leave out the key, which is one byte
            PageChange::Set(key, value) if key == IDENTITY || key.is_empty() => bytes(value),
            _ => None,
        },
        MessageKind::Node => {
            let node = PageNode::read(message.body)?;
            let PageContent::Leaf(entries) = &node.content else { return None };
            let found = entries.iter().find(|(key, _)| node.whole(key) == IDENTITY);
            found.and_then(|(_, value)| bytes(*value))
        }
        _ => None,
    }
}
