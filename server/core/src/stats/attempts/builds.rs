//! Table of builds with a number for each. A million attempts are of some thousand builds, so a query compares each build once, and
//! attempts by the number of their build.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash as _, Hasher as _},
    sync::Arc,
};

use foldhash::fast::{FixedState, RandomState};

use crate::domain::{AttemptBrief, Key};

/// A build: the fields of the key that distinguish it.
#[derive(Debug, Clone, Default)]
pub(in crate::stats) struct BuildIdentity {
    pub(in crate::stats) key: Arc<Key>,
    pub(in crate::stats) jobs: u16,
    /// Number of the build's line: builds that differ only in version, compiler and stack are in one line.
    pub(in crate::stats) line: u32,
}

/// All builds with attempts, by number.
#[derive(Debug, Default)]
pub(in crate::stats) struct Builds {
    by_number: Arc<Vec<BuildIdentity>>,
    /// Number of attempts of each build.
    rows: Vec<u32>,
    numbers: HashMap<(Arc<Key>, u16), u32, RandomState>,
    free: Vec<u32>,
    lines: LineIndex,
    /// Cache from the address of a key to the number of its build, because hashing the key's texts takes longer than everything else. An
    /// entry may be wrong, so it is verified.
    guesses: Vec<u32>,
}

/// Number of entries in `guesses`: 256 KiB.
const GUESS_ENTRIES: usize = 1 << 16;

/// Numbers of lines (builds that differ only in version, compiler and stack), by a hash of their texts. Two of a million lines collide
/// about once in 40,000 years.
#[derive(Debug, Default)]
struct LineIndex {
    numbers: HashMap<u64, u32, RandomState>,
    /// Hash and reference count of each line.
    all: Vec<(u64, u32)>,
    free: Vec<u32>,
}

impl Builds {
    /// The number of an attempt's build; counts one more attempt of that build.
    pub(in crate::stats) fn acquire(&mut self, brief: &AttemptBrief) -> u32 {
        let guess = Arc::as_ptr(&brief.key).addr() / align_of::<Key>() % GUESS_ENTRIES;
        let number = self.guessed_build(guess, brief).unwrap_or_else(|| {
            let name = (Arc::clone(&brief.key), brief.jobs);
            let known = self.numbers.get(&name).copied();
            let number = known.unwrap_or_else(|| self.insert(name));
            self.guesses.resize(GUESS_ENTRIES, 0);
            self.guesses.get_mut(guess).map(|guess| *guess = number).unwrap_or_default();
            number
        });
        if let Some(rows) = slot_mut(&mut self.rows, number) {
            *rows = rows.saturating_add(1);
        }
        number
    }

    /// The build number that the cache has for this attempt; `None` if it belongs to another build.
    fn guessed_build(&self, guess: usize, brief: &AttemptBrief) -> Option<u32> {
        let number = *self.guesses.get(guess)?;
        let build = self.by_number.get(usize::try_from(number).ok()?)?;
        (build.jobs == brief.jobs && Arc::ptr_eq(&build.key, &brief.key)).then_some(number)
    }

    fn insert(&mut self, name: (Arc<Key>, u16)) -> u32 {
        let build = BuildIdentity {
            line: self.lines.acquire(line_of(&name.0, name.1)),
            key: Arc::clone(&name.0),
            jobs: name.1,
        };
        let all = Arc::make_mut(&mut self.by_number);
        let number = self.free.pop().unwrap_or_else(|| u32::try_from(all.len()).unwrap_or(u32::MAX));
        if let Some(free) = slot_mut(all, number) {
            *free = build;
        } else {
            all.push(build);
            self.rows.push(0);
        }
        self.numbers.insert(name, number);
        number
    }

    /// Counts one attempt fewer of this build.
    pub(in crate::stats) fn release(&mut self, number: u32) {
        let Some(rows) = slot_mut(&mut self.rows, number) else { return };
        *rows = rows.saturating_sub(1);
        if *rows > 0 {
            return;
        }
        if let Some(build) = slot_mut(Arc::make_mut(&mut self.by_number).as_mut_slice(), number) {
            let BuildIdentity { key, jobs, line } = std::mem::take(build);
            self.numbers.remove(&(key, jobs));
            self.lines.release(line);
            self.free.push(number);
        }
    }

    /// All builds at this moment, for a query.
    pub(in crate::stats) fn all(&self) -> Arc<Vec<BuildIdentity>> {
        Arc::clone(&self.by_number)
    }

    /// Number of the line that a build is in: the line of builds that differ only in version, compiler and stack.
    pub(in crate::stats) fn line(&self, number: u32) -> u32 {
        usize::try_from(number).ok().and_then(|at| self.by_number.get(at)).map_or(0, |build| build.line)
    }
}

impl LineIndex {
    fn acquire(&mut self, hash: u64) -> u32 {
        let Self { numbers, all, free } = self;
        let number = *numbers.entry(hash).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                all.push((hash, 0));
                u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
            })
        });
        if let Some(line) = slot_mut(all, number) {
            *line = (hash, line.1.saturating_add(1));
        }
        number
    }

    fn release(&mut self, number: u32) {
        let Some((hash, builds)) = slot_mut(&mut self.all, number) else { return };
        *builds = builds.saturating_sub(1);
        if *builds == 0 {
            self.numbers.remove(hash);
            self.free.push(number);
        }
    }
}

fn line_of(key: &Key, jobs: u16) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    [&key.project, &key.package, &key.variants, &key.arch, &key.build_system].hash(&mut hasher);
    jobs.hash(&mut hasher);
    hasher.finish()
}

fn slot_mut<T>(all: &mut [T], number: u32) -> Option<&mut T> {
    all.get_mut(usize::try_from(number).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    fn brief(package: &str, version: &str) -> AttemptBrief {
        AttemptBrief::from(&test_summary("a", package, version, 1))
    }

    #[test]
    fn a_referenced_build_stays_and_numbers_are_reused() {
        let mut builds = Builds::default();
        let numbers = ["1", "2", "1"].map(|version| builds.acquire(&brief("zlib", version)));
        assert_eq!(numbers, [0, 1, 0]);
        let other = builds.acquire(&brief("hdf5", "1"));
        assert_eq!(builds.line(0), builds.line(1), "versions of one package are of one line");
        assert_ne!(builds.line(0), builds.line(other));
        let before = builds.all();
        builds.release(0);
        builds.release(0);
        assert_eq!(builds.acquire(&brief("curl", "1")), 0);
        assert_eq!((before[0].key.package.as_str(), builds.all()[0].key.package.as_str()), ("zlib", "curl"));
        builds.release(1);
        builds.release(1);
        assert_eq!(builds.numbers.len(), 2);
        assert_eq!(builds.lines.numbers.len(), 2);
    }
}
