//! Hashes that identify the rungs of a key: their texts would take several times the memory of the keys.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use super::super::{Key, Rung, job_of_part};

/// Hash of a rung and of the key's fields that attempts on the rung have in common.
pub(super) type RungKey = u64;

/// Computes rung keys. The hash is seeded at random (`SipHash`, the standard library's protection against hash flooding), so no caller can
/// choose a key that collides with another's. The chance that two of a million rungs collide is one in 40 million for each start.
#[derive(Debug, Default)]
pub(super) struct RungHasher(RandomState);

impl RungHasher {
    /// All rungs of a key, from the narrowest to the widest.
    pub(super) fn rung_keys<'m>(&'m self, key: &'m Key) -> impl Iterator<Item = RungKey> + 'm {
        // a key without a build system has no rung for it, and a job that is not part of a parallel job has no rung of siblings
        let has = |rung: &Rung| match rung {
            Rung::BuildSystem => !key.build_system.is_empty(),
            Rung::Siblings => job_of_part(&key.package).is_some(),
            _ => true,
        };
        Rung::LADDER.into_iter().filter(has).map(|rung| self.rung_key(rung, key))
    }

    /// Hash of one rung of a key.
    pub(super) fn rung_key(&self, rung: Rung, key: &Key) -> RungKey {
        let mut hasher = self.0.build_hasher();
        (rung as u8).hash(&mut hasher);
        if rung == Rung::BuildSystem {
            key.build_system.hash(&mut hasher);
            return hasher.finish();
        }
        if rung == Rung::Siblings {
            key.project.hash(&mut hasher);
            job_of_part(&key.package).hash(&mut hasher);
            return hasher.finish();
        }
        shared_texts(rung, key).for_each(|part| part.hash(&mut hasher));
        hasher.finish()
    }
}

/// The texts that attempts on a rung of one package have in common; none for wider rungs.
fn shared_texts(rung: Rung, key: &Key) -> impl Iterator<Item = &String> {
    // each rung uses all fields of the wider rungs, and further ones
    let parts = [
        &key.project,
        &key.package,
        &key.variants,
        &key.arch,
        &key.build_system,
        &key.compiler,
        &key.compiler_version,
        &key.version,
    ];
    let shared = match rung {
        Rung::Default | Rung::Fleet | Rung::BuildSystem | Rung::Siblings => 0,
        Rung::Package => 2,
        Rung::NoCompiler => 5,
        Rung::NoVersion => 7,
        Rung::Exact => 8,
    };
    parts.into_iter().take(shared)
}

/// Whether two keys are on the same rung of one package, or would be if they had the same arch.
pub(in crate::domain) fn are_same_but_arch(rung: Rung, key: &Key, other: &Key) -> bool {
    let mut pairs = shared_texts(rung, key).zip(shared_texts(rung, other));
    pairs.all(|(one, text)| one == text || std::ptr::eq(one, &raw const key.arch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_boundaries_distinguish_rung_keys() {
        let key = |project: &str, package: &str| Key {
            project: project.into(),
            package: package.into(),
            ..Key::default()
        };
        let (hasher, one, other) = (RungHasher::default(), key("a", "bc"), key("ab", "c"));
        for rung in [Rung::Exact, Rung::NoVersion, Rung::NoCompiler, Rung::Package] {
            assert_ne!(hasher.rung_key(rung, &one), hasher.rung_key(rung, &other));
        }
        assert_eq!(hasher.rung_key(Rung::Fleet, &one), hasher.rung_key(Rung::Fleet, &other));
        let all: std::collections::HashSet<RungKey> = hasher.rung_keys(&one).collect();
        assert_eq!(all.len(), Rung::LADDER.len() - 2, "each rung has a number of its own");
        let (part, other) = (key("a", "test 1/3"), key("a", "test 2/4"));
        assert_eq!(hasher.rung_keys(&part).count(), Rung::LADDER.len() - 1);
        assert_eq!(hasher.rung_key(Rung::Siblings, &part), hasher.rung_key(Rung::Siblings, &other));
        let other = hasher.rung_key(Rung::Siblings, &key("b", "test 1/3"));
        assert_ne!(hasher.rung_key(Rung::Siblings, &part), other);
    }
}
