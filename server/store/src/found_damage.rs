//! Damage that readings of an open store have found: counted, logged once for each place, and named with the way out.
//!
//! A place is a record that cannot be decoded, or a page that the engine cannot read. What no reading looks at is not in use, such as garbage
//! behind the end of the engine's log, and is not counted.

use std::{
    collections::HashSet,
    fmt::Display,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{bytes::Damage, keys};

/// Most places that are told apart, some 100 bytes each; the count stops there.
const MAX_PLACES: usize = 10_000;
/// Most places that the log names: more would hide other lines, and `verify` names all.
const MAX_LOGGED: usize = 20;

/// The damage that was found since the store was opened. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FoundDamage {
    /// What helps, with the command.
    way_out: Arc<str>,
    places: Arc<Mutex<HashSet<String>>>,
}

impl FoundDamage {
    /// Nothing found yet in the store in this directory.
    pub(crate) fn in_directory(dir: &Path) -> Self {
        let dir = dir.display();
        let way_out = format!(
            "stop the server and save what is left with: plimsoll-server repair {dir} --into {dir}.repaired"
        );
        Self { way_out: way_out.into(), ..Self::default() }
    }

    /// Nothing found yet in the store in a database.
    pub(crate) fn in_database() -> Self {
        let way_out = "see all with plimsoll-server verify, and restore a backup into another database";
        Self { way_out: way_out.into(), ..Self::default() }
    }

    /// Number of places, up to 10,000.
    pub fn places(&self) -> usize {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// One line for operators: how much is damaged, and what helps. `None` if nothing was found.
    pub fn notice(&self) -> Option<String> {
        let (places, way_out) = (self.places(), &self.way_out);
        let s = if places == 1 { "" } else { "s" };
        let says = "found in the store, what is there is left out";
        (places > 0).then(|| format!("{places} damaged place{s} {says}; {way_out}"))
    }

    /// The reason why something cannot be read or written, with the way out.
    pub(crate) fn explain(&self, reason: impl Display) -> String {
        format!("{reason}; {}", self.way_out)
    }

    /// Notes damage at a place; returns its reason with the way out.
    pub(crate) fn note_and_explain(&self, reason: &str) -> String {
        self.note(reason, reason);
        self.explain(reason)
    }

    /// Notes a record that cannot be decoded.
    pub(crate) fn note_record(&self, key: &[u8], damage: &Damage) {
        let key = keys::text(key);
        self.note(&key.to_string(), format_args!("the record under key {key} cannot be decoded ({damage})"));
    }

    /// Notes damage at a place. Only the first reading of a place is counted and logged.
    pub(crate) fn note(&self, place: &str, what: impl Display) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= MAX_PLACES || !places.insert(place.to_owned()) {
            return;
        }
        let (found, way_out) = (places.len(), &self.way_out);
        drop(places);
        if found <= MAX_LOGGED {
            tracing::error!(%what, %way_out, "damage in the store, what is there is left out");
        }
        if found == MAX_LOGGED {
            tracing::error!("more damage is counted by plimsoll_store_damaged_places and not logged");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_counted_once_for_each_place() {
        let found = FoundDamage::in_directory(Path::new("/data"));
        assert_eq!((found.places(), found.notice()), (0, None));
        for place in ["a", "b", "a"] {
            found.note(place, "torn");
        }
        let notice = found.notice().unwrap();
        assert!(notice.starts_with("2 damaged places found"), "{notice}");
        assert!(notice.contains("repair /data --into "), "{notice}");
        for n in 0..2 * MAX_PLACES {
            found.note(&n.to_string(), "torn");
        }
        assert_eq!(found.places(), MAX_PLACES);
    }
}
