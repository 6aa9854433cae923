//! When which packages changed last, so that an answer stays valid while other packages change.

use std::hash::{BuildHasher as _, RandomState};

use super::{
    super::{Key, job_of_part},
    History,
};

/// Number of slots for packages, 8 bytes each. Packages that share one invalidate each other's answers, which costs time and nothing else.
const SLOTS: usize = 1 << 14;

/// Numbers of the last changes. The number of a change is how many there were up to it.
#[derive(Debug)]
pub(super) struct Versions {
    changes: u64,
    /// The last change that may concern any package.
    of_all: u64,
    /// By slot: the last change of a package.
    of_slot: Vec<u64>,
    hasher: RandomState,
}

/// What an answer was computed from. [`History::is_current`] says whether that is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerVersion {
    /// The slot of the package; `None` if other packages count.
    slot: Option<usize>,
    change: u64,
    /// What attempts of other packages contribute: [`History::fleet_terms`]; `None` if they do not count.
    fleet: Option<[u64; 5]>,
}

impl Versions {
    pub(super) fn new() -> Self {
        Self { changes: 0, of_all: 0, of_slot: vec![0; SLOTS], hasher: RandomState::new() }
    }

    /// Number of changes so far.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Notes a change of a package.
    pub(super) fn note(&mut self, key: &Key) {
        self.changes += 1;
        for slot in [self.slot(key), self.slot_anywhere(key)] {
            if let Some(last) = self.of_slot.get_mut(slot) {
                *last = self.changes;
            }
        }
    }

    /// Notes a change that may concern any package.
    pub(super) fn note_all(&mut self) {
        self.changes += 1;
        self.of_all = self.changes;
    }

    /// The version now, of the key's package or of all.
    pub(super) fn now(&self, key: &Key, is_of_package: bool, fleet: [u64; 5]) -> AnswerVersion {
        let slot = is_of_package.then(|| self.slot(key));
        AnswerVersion { slot, change: self.last_change(slot), fleet: slot.map(|_| fleet) }
    }

    /// The version of an answer that stays the same until an attempt of the key's package changes, in any project.
    pub(super) fn of_unknown(&self, key: &Key) -> AnswerVersion {
        let slot = Some(self.slot_anywhere(key));
        AnswerVersion { slot, change: self.last_change(slot), fleet: None }
    }

    /// Whether an answer of this version would be the same now.
    pub(super) fn is_current(&self, version: &AnswerVersion, fleet: [u64; 5]) -> bool {
        version.change == self.last_change(version.slot) && version.fleet.is_none_or(|then| then == fleet)
    }

    fn last_change(&self, slot: Option<usize>) -> u64 {
        let of_slot = slot.and_then(|slot| self.of_slot.get(slot));
        of_slot.map_or(self.changes, |last| self.of_all.max(*last))
    }

    /// The slot of the key's package, which the parts of a parallel job share.
    fn slot(&self, key: &Key) -> usize {
        let package = job_of_part(&key.package).unwrap_or(&key.package);
        let hash = self.hasher.hash_one((&key.project, package));
        usize::try_from(hash % SLOTS as u64).unwrap_or_default()
    }

    /// The slot of the key's package in all projects.
    fn slot_anywhere(&self, key: &Key) -> usize {
        let package = job_of_part(&key.package).unwrap_or(&key.package);
        usize::try_from(self.hasher.hash_one(package) % SLOTS as u64).unwrap_or_default()
    }
}

impl History {
    /// The version of what an answer for `key` is computed from now. `is_of_package`: from attempts of its package alone, and from
    /// [`Self::mean_held`].
    pub fn answer_version(&self, key: &Key, is_of_package: bool) -> AnswerVersion {
        self.versions.now(key, is_of_package, self.fleet_terms())
    }

    /// The version of an answer that is the same while no attempt of the package of `key` is known, whatever others need.
    pub fn unknown_version(&self, key: &Key) -> AnswerVersion {
        self.versions.of_unknown(key)
    }

    /// Whether what an answer was computed from is still the same.
    pub fn is_current(&self, version: &AnswerVersion) -> bool {
        self.versions.is_current(version, self.fleet_terms())
    }

    /// What attempts of other packages contribute to a prediction from attempts of one package.
    fn fleet_terms(&self) -> [u64; 5] {
        let incomplete = f64::from(u8::from(self.has_incomplete()));
        let [shift, lateness] = self.time_shift_and_lateness();
        [self.mean_held(), self.mean_held_measured(), shift, lateness, incomplete].map(f64::to_bits)
    }
}
