//! Selects the entries that a server can read, for a repair: complete records under their own keys, and chunks
//! that can be decoded.

use plimsoll_core::domain::{
    Attempt, JobHook, JobPod, ProjectRename, Summary, Ticket, TicketNumbers, UpstreamServer, UpstreamTicket,
    Verdict,
};

use crate::{
    CheckFinding,
    bytes::{self, Damage},
    chunk,
    codec::Record as _,
    envelope::RecordJoiner,
    keys::{self, KeyKind},
    kv::KeyValue,
};

/// Joins entries, which come in the order of their keys, to records, and leaves out records of which an entry is missing or unreadable.
#[derive(Debug, Default)]
pub(crate) struct WholeRecordFilter {
    joiner: RecordJoiner,
    /// Parts of the current record so far.
    parts: Vec<KeyValue>,
}

impl WholeRecordFilter {
    /// Adds an entry. Passes the record or chunk that is now complete to `take`, or why it cannot be read.
    pub(crate) fn push<E>(
        &mut self,
        entry: KeyValue,
        take: &mut dyn FnMut(Result<KeyValue, CheckFinding>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.joiner.is_next(&entry.key) {
            self.finish(take)?;
        }
        let flaw = |reason: String| CheckFinding { key: keys::text(&entry.key), reason };
        if !keys::is_well_formed(&entry.key) {
            return take(Err(flaw("is not a key of this format".to_owned())));
        }
        if KeyKind::of(&entry.key).is_some_and(KeyKind::is_chunk) {
            let start = keys::start_of(&entry.key).unwrap_or_default();
            let read = chunk::decode(start, &entry.value.value);
            return take(read.map_err(|damage| flaw(damage.0)).map(|_runs| entry));
        }
        self.joiner.add(&entry.key, &entry.value.value);
        self.parts.push(entry);
        Ok(())
    }

    /// Ends the current record, and passes it to `take` as `push` does.
    pub(crate) fn finish<E>(
        &mut self,
        take: &mut dyn FnMut(Result<KeyValue, CheckFinding>) -> Result<(), E>,
    ) -> Result<(), E> {
        let joiner = std::mem::take(&mut self.joiner);
        let parts = std::mem::take(&mut self.parts);
        if parts.is_empty() {
            return Ok(());
        }
        let whole = match joiner.payload() {
            Some(payload) => payload.and_then(|(codec, payload)| check_owner(joiner.key(), codec, payload)),
            None => Err(Damage::new("its first part is not there")),
        };
        match whole {
            // further parts are left over from an older, longer record
            Ok(()) => parts.into_iter().take(joiner.found()).try_for_each(|part| take(Ok(part))),
            Err(damage) => take(Err(CheckFinding { key: keys::text(joiner.key()), reason: damage.0 })),
        }
    }
}

/// Whether a value belongs under this key; `None` if the value does not show it, as with records of several
/// parts.
pub(crate) fn belongs_under(key: &[u8], value: &[u8]) -> Option<bool> {
    let kind = KeyKind::of(key)?;
    let (part, common) = key.split_last()?;
    let (parts, record) = value.split_first()?;
    if kind.is_chunk() || *part != 0 || *parts != 1 {
        return None;
    }
    let owned = bytes::checked(record).and_then(|(codec, payload)| check_owner(common, codec, payload));
    Some(owned.is_ok())
}

/// Checks that a record can be decoded, and that its key has the same attempt or ticket as the record.
fn check_owner(key: &[u8], codec: u8, payload: &[u8]) -> Result<(), Damage> {
    let kind = KeyKind::of(key).ok_or_else(|| Damage::new("is no record"))?;
    let owner = owner_of(kind, codec, payload)?;
    if keys::id_of(key).is_some_and(|id| id.as_str() == owner) {
        Ok(())
    } else {
        Err(Damage::new(format!("is a record of {owner}")))
    }
}

/// Id of the attempt or ticket that a record belongs to.
fn owner_of(kind: KeyKind, codec: u8, payload: &[u8]) -> Result<String, Damage> {
    Ok(match kind {
        KeyKind::Attempt => Attempt::unpack(codec, payload)?.id.to_string(),
        KeyKind::Hook => JobHook::unpack(codec, payload)?.name,
        KeyKind::Pod => {
            let pod = JobPod::unpack(codec, payload)?;
            pod.id().ok_or_else(|| Damage::new("is the pod of no job"))?.to_string()
        }
        KeyKind::Numbers => {
            TicketNumbers::unpack(codec, payload)?;
            keys::NUMBERS_PART.to_owned()
        }
        KeyKind::Rename => {
            ProjectRename::unpack(codec, payload)?;
            keys::RENAME_PART.to_owned()
        }
        KeyKind::Summary => Summary::unpack(codec, payload)?.attempt.to_string(),
        KeyKind::Ticket => Ticket::unpack(codec, payload)?.id.to_string(),
        KeyKind::UpstreamServer => UpstreamServer::unpack(codec, payload)?.key(),
        KeyKind::UpstreamTicket => UpstreamTicket::unpack(codec, payload)?.key(),
        KeyKind::Verdict => Verdict::unpack(codec, payload)?.attempt.to_string(),
        KeyKind::Fragment | KeyKind::Block => return Err(Damage::new("is no record")),
    })
}
