//! Finds builds with a need that shifted: from which attempt on, by which factor, and what else changed then. Pure.
//!
//! It compares attempts that differ only in version, compiler and stack, because these may be the reason of a shift. The attempts of such
//! builds are called a line; `level_change` checks at most the newest [`WINDOW_ATTEMPTS`] of each line.

use std::fmt::Write as _;

use plimsoll_proto::v1::ChangeKind;

use crate::domain::{AttemptBrief, AttemptId, Bytes, Key};
use crate::stats::shifts::level_change::{self, LevelChange};

/// Number of attempts that are checked in each line of builds, the newest ones.
pub(in crate::stats) const WINDOW_ATTEMPTS: usize = 64;
/// Least shift in bytes that is reported, whatever its factor: the default memory floor.
const MIN_SHIFT: Bytes = Bytes(64 << 20);

/// A shift of a build's need.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    /// Key of the build.
    pub key: Key,
    /// How the need shifted.
    pub kind: ChangeKind,
    /// The first attempt on the new level; for a drift, the first one that was checked.
    pub attempt: AttemptId,
    /// When that attempt ended, milliseconds since 1970.
    pub ended_unix_ms: u64,
    /// Need now over need before.
    pub factor: f64,
    /// Median need before the shift.
    pub before: Bytes,
    /// Median need since the shift.
    pub now: Bytes,
    /// Number of attempts from `attempt` on.
    pub attempts_since: u32,
    /// Number of attempts before `attempt`.
    pub attempts_before: u32,
    /// Fields of the key that changed with that attempt; empty if none did, or for a drift.
    pub changed: String,
    /// Memory that the attempts since the shift held in addition, GiB x h; negative if they held less.
    pub extra_gib_hours: f64,
}

/// An attempt of the history, and the need that it proves.
pub(in crate::stats) type ProvenNeed<'a> = (&'a AttemptBrief, Bytes);

/// The shift in a series of attempts, oldest first; `None` if there is none.
pub(in crate::stats) fn regression(row: &[ProvenNeed<'_>]) -> Option<Regression> {
    let needs: Vec<f64> = row.iter().map(|(_, need)| need.as_f64().max(1.0).log2()).collect();
    let LevelChange { kind, at, before, now } = level_change::last_change(&needs)?;
    let (first, _) = row.get(at)?;
    let (before, now) = (Bytes::from_f64(before.exp2()), Bytes::from_f64(now.exp2()));
    if now.saturating_sub(before).max(before.saturating_sub(now)) < MIN_SHIFT {
        return None;
    }
    let since = row.get(at..)?;
    let extra =
        since.iter().map(|(attempt, need)| need.gib_hours(attempt.wall) - before.gib_hours(attempt.wall));
    let last_before = at.checked_sub(1).and_then(|last| row.get(last));
    Some(Regression {
        key: Key::clone(&first.key),
        kind,
        attempt: first.attempt.clone(),
        ended_unix_ms: first.ended_unix_ms(),
        factor: now.as_f64() / before.as_f64().max(1.0),
        before,
        now,
        attempts_since: count_u32(since.len()),
        attempts_before: count_u32(at),
        changed: last_before.map(|(last, _)| changed_fields(&last.key, &first.key)).unwrap_or_default(),
        extra_gib_hours: extra.sum(),
    })
}

/// Describes the changed fields: `version 1.2 -> 1.3, compiler gcc@12 -> gcc@13`.
fn changed_fields(before: &Key, now: &Key) -> String {
    let named = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    let compiler = |key: &Key| match key.compiler_version.as_str() {
        "" => named(&key.compiler),
        version => format!("{}@{version}", key.compiler),
    };
    let parts = [
        ("version", named(&before.version), named(&now.version)),
        ("compiler", compiler(before), compiler(now)),
        ("stack", named(&before.stack), named(&now.stack)),
    ];
    let mut text = String::new();
    for (name, before, now) in parts.into_iter().filter(|(_, before, now)| before != now) {
        let comma = if text.is_empty() { "" } else { ", " };
        let _written = write!(text, "{comma}{name} {before} -> {now}");
    }
    text
}

fn count_u32(attempts: usize) -> u32 {
    u32::try_from(attempts).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
