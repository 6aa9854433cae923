//! Predicts what the engine would find in its log, before it opens the log.
//!
//! sled writes when it opens: it truncates its log where it stops reading, and zeroes each segment that it
//! considers free. Only then does it read its first page, and may refuse. So this module first reads the part
//! of the log that sled is about to read; a healthy start costs this much and no more. If a message is missing
//! in that part, the whole log is read: the engine may open it only if nothing that was ever acknowledged would
//! be lost, as after a power cut.

use std::{fs::File, io, path::Path};

use super::{
    RawLog,
    message::{LogMessage, MessageKind, SEGMENT_BYTES},
    page::{PageChange, PageContent, PageNode, ValueAt},
    survey::{LogSurvey, read_segment},
    versioned,
    walk::{WalkStep, walk},
};
use crate::{kv::StoreIdentity, sled::engine::IDENTITY};

/// What the engine would find in its log if it opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenForecast {
    /// The engine would find everything that was acknowledged, and this identity of the store; `None` if the log has none.
    Opens(Option<StoreIdentity>),
    /// The engine would find everything, and the newest identity of the store has a wrong checksum.
    DamagedIdentity,
    /// The engine would lose something, and overwrite it. The number is the position of the first unreadable
    /// byte in the log, or the length of the log if its end is missing.
    Torn(u64),
}

/// Examines a log that the engine is about to read from the log position `since` on. Commits up to `known` were acknowledged.
/// Errors: the disk cannot be read.
pub(crate) fn forecast(path: &Path, since: u64, known: u64) -> io::Result<OpenForecast> {
    let survey = LogSurvey::of(path, since)?;
    match identity_of_sound(path, &survey, since)? {
        Some(found) if found.sequence >= known => Ok(OpenForecast::Opens(Some(found))),
        _ => forecast_from_all(path, survey.reach(since), known),
    }
}

/// The store's identity, if the engine can use all of the log.
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
        // nothing was committed after the position that the engine recorded (as after a clean stop): look for
        // the identity before that position
        None => newest_identity(path, &LogSurvey::of_headers(path)?, reach),
        found => Ok(found),
    }
}

/// Makes the forecast from the whole log; the engine would use the part before the log position `reach`.
fn forecast_from_all(path: &Path, reach: u64, known: u64) -> io::Result<OpenForecast> {
    let (all, seen) = (RawLog::read(path, false)?, RawLog::read_before(path, reach, false)?);
    if seen.is_whole() && all.adds_nothing_acknowledged(&seen, reach, known)? {
        return Ok(match seen.identity()? {
            None if seen.replay.entries.contains_key(IDENTITY) => OpenForecast::DamagedIdentity,
            found => OpenForecast::Opens(found),
        });
    }
    let first = all.survey.holes.iter().map(|hole| hole.at).min();
    Ok(OpenForecast::Torn(first.map_or_else(|| all.file.metadata().map(|file| file.len()), Ok)?))
}

impl RawLog {
    /// Whether the engine loses nothing acknowledged if it drops the log from `reach` on: `seen`, the part
    /// before `reach`, has each acknowledged entry with the same value.
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

/// The last identity that was written before a log position; `None` if its checksum is wrong, even if an
/// earlier identity is readable. Each commit writes the identity, so the last one is in the last segment or
/// close to it.
pub(super) fn newest_identity(
    path: &Path,
    survey: &LogSurvey,
    before: u64,
) -> io::Result<Option<StoreIdentity>> {
    let (file, mut bytes, mut found) = (File::open(path)?, Vec::new(), None);
    for slot in survey.slots.iter().rev() {
        read_segment(&file, slot.at, &mut bytes);
        let base = slot.number * SEGMENT_BYTES as u64;
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

/// The bytes of the identity, if this message writes it. They may have any length: another format's identity
/// may be longer, and is refused by its number.
fn identity_in<'m>(message: &LogMessage<'m>) -> Option<&'m [u8]> {
    let bytes = |value: ValueAt| message.body.get(value.position..value.position + value.len);
    match message.kind {
        MessageKind::Link => match PageChange::read(message.body)? {
            // a page may leave out the first bytes of a key, and the identity's key has only one
            PageChange::Set(key, value) if key == IDENTITY || key.is_empty() => bytes(value),
            _ => None,
        },
        MessageKind::Node => {
            let node = PageNode::read(message.body)?;
            let PageContent::Leaf(entries) = &node.content else { return None };
            let found = entries.iter().find(|(key, _)| node.full_key(key) == IDENTITY);
            found.and_then(|(_, value)| bytes(*value))
        }
        _ => None,
    }
}
