//! Attempts similar to a key, with weights.
//!
//! Every attempt counts only on the most similar rung that it shares with the key. A rung with `n` attempts takes `n / (n + k)` of the
//! weight that the more similar rungs left; the default gets the rest. Older attempts weigh less. An attempt that memory stopped does not
//! make the others count as older: it takes weight from all others evenly, because a further failure must never make a size smaller.

use std::sync::Arc;

use super::Settings;
use crate::domain::{AttemptId, Bytes, History, Key, PartEffect, Rung, RungObservation, job_of_part};

/// Which attempts of the history are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrustScope {
    /// Trusted attempts only.
    Trusted,
    /// Trusted attempts, and untrusted ones of the same package and project.
    All,
    /// Trusted attempts with a completely measured need, not only as a lower bound.
    Measured,
}

/// `k` of [`credibility_weight`] for rungs of the same package: one attempt of the same key takes more than half of the weight (replayed: 0.3 to 1.5
/// are within 2 % of each other on Spack's CI, 3 wastes 5 % more).
const CREDIBILITY_K: f64 = 0.7;
/// The `k` of [`credibility_weight`] for rungs of other packages: they show what builds are like in general, not what this one needs.
const HALF_KNOWN_WIDE: f64 = 3.0;

/// Weight that attempts with a total of `known` take of the weight `left`: the credibility of Buehlmann (1967), `n / (n + k)`. At `k`
/// attempts they take one half.
pub(super) fn credibility_weight(left: f64, known: f64, k: f64) -> f64 {
    left * known / (known + k)
}

/// Weight of attempts on a rung at which they get half of the share that is left: the `k` of [`credibility_weight`].
pub(super) fn credibility_k(rung: Rung) -> f64 {
    if rung.is_of_build() { CREDIBILITY_K } else { HALF_KNOWN_WIDE }
}

/// Weight of an attempt relative to the next newer one of its rung; the weight halves after 69 attempts. Replayed: 0.97 to 0.99 give the
/// same result, 0.9 and 0.95 forget a package's rare large variant.
const AGE_DECAY: f64 = 0.99;
/// Wider rungs are not read once [`SimilarAttempts::unknown`] is below this, because narrower rungs have enough attempts.
const SKIP_WIDER_BELOW: f64 = 0.02;
/// Like [`SKIP_WIDER_BELOW`], for the rung of sibling parts of one parallel job. Parts of a matrix can need very different sizes, so after
/// three attempts a part is predicted by itself.
const SKIP_WIDER_BELOW_FOR_PARTS: f64 = 0.2;
/// Fewest packages from which a build of an unknown package is predicted. With fewer, one package built a hundred times would decide for
/// all unknown ones.
pub(super) const FEWEST_PACKAGES: usize = 10;
/// Ratio of input sizes, as a logarithm to base 2, at which an attempt counts half: 2 %.
const HALF_WEIGHT_DISTANCE: f64 = 0.03;

/// A similar attempt, with its weight.
#[derive(Debug)]
pub(super) struct WeightedAttempt<'h> {
    pub(super) observation: &'h RungObservation,
    pub(super) rung: Rung,
    /// Weight by age and by distance in input size: 1 for the newest attempt of its rung, less for others.
    pub(super) freshness: f64,
    /// The attempt's share of the total weight.
    pub(super) weight: f64,
    /// Need as a logarithm to base 2 of bytes, adjusted to the requested input, build jobs and parts of the key.
    pub(super) need: f64,
}

/// Total weight of the attempts of one rung.
#[derive(Debug, Default)]
struct RungWeight {
    total_weight: f64,
    /// The weight reduced by distance in input size.
    with_distance: f64,
    /// The part of `total_weight` from attempts that memory did not stop.
    uncensored: f64,
}

/// The part of the history that a [`TrustScope`] includes.
#[derive(Debug, Clone, Copy)]
struct HistoryView<'h, 'o> {
    history: &'h History,
    scope: TrustScope,
    /// Attempts that are left out.
    odd: &'o [AttemptId],
}

impl<'h> HistoryView<'h, '_> {
    /// Trusted attempts with the same values as `key` in the rung's fields (no arch: any), newest first.
    fn on_rung(self, rung: Rung, key: &Key) -> impl Iterator<Item = &'h RungObservation> {
        self.listed(rung, key, true)
            .filter(move |observation| self.scope != TrustScope::Measured || observation.incomplete.is_none())
    }

    fn listed(self, rung: Rung, key: &Key, trusted: bool) -> impl Iterator<Item = &'h RungObservation> {
        let is_odd = move |seen: &RungObservation| self.odd.contains(&seen.brief.attempt);
        self.history.similar_on_rung(rung, key, trusted).filter(move |seen| !is_odd(seen))
    }
}

/// The attempts similar to a key: most similar rung first; within a rung, trusted ones first, newest first.
#[derive(Debug, Default)]
pub(super) struct SimilarAttempts<'h> {
    pub(super) attempts: Vec<WeightedAttempt<'h>>,
    /// Rungs with attempts, with their share of the total weight.
    pub(super) shares: Vec<(Rung, f64)>,
    /// As `shares`, but from uncensored attempts alone: their need is known, not only a lower bound.
    pub(super) fitted_shares: Vec<(Rung, f64)>,
    /// The share of the total weight that `fitted_shares` leave.
    fitted_left: f64,
    /// Attempts that were left out as odd, without weight.
    pub(super) left_out: Vec<WeightedAttempt<'h>>,
    /// What the parts of the key add to its need, as far as other configurations show it.
    pub(super) parts: Vec<PartEffect>,
    /// The share of the total weight that the default gets.
    pub(super) default_share: f64,
    /// How little is known about the package, from 1 (no attempt of it is known) towards 0. Censored attempts do not lower it, so that a
    /// further failure never keeps wider rungs from being read.
    pub(super) unknown_share: f64,
}

impl<'h> SimilarAttempts<'h> {
    /// Collects the similar attempts but the `odd` ones. An unknown package gets the default until [`FEWEST_PACKAGES`] others are known.
    pub(super) fn gather(
        history: &'h History,
        key: &Key,
        settings: &Settings,
        scope: TrustScope,
        odd: &[AttemptId],
    ) -> Self {
        let view = HistoryView { history, scope, odd };
        let mut similar =
            Self { default_share: 1.0, fitted_left: 1.0, unknown_share: 1.0, ..Self::default() };
        similar.attempts.reserve(2 * History::PER_RUNG);
        for rung in Rung::LADDER.into_iter().filter(|rung| rung.is_of_build()) {
            if similar.unknown_share
                >= if rung == Rung::Siblings { SKIP_WIDER_BELOW_FOR_PARTS } else { SKIP_WIDER_BELOW }
            {
                let known = similar.add_rung(view, key, rung, CREDIBILITY_K);
                similar.unknown_share *= CREDIBILITY_K / (known + CREDIBILITY_K);
            }
        }
        let taken = similar.lower_default();
        if !similar.knows_package() && !settings.preset {
            let scope = if scope == TrustScope::All { TrustScope::Trusted } else { scope };
            let trusted = HistoryView { scope, ..view };
            let tells = |rung: &Rung| has_packages(FEWEST_PACKAGES, trusted.on_rung(*rung, key));
            for rung in [Rung::BuildSystem, Rung::Fleet].into_iter().filter(tells) {
                similar.add_rung(trusted, key, rung, HALF_KNOWN_WIDE);
            }
        }
        similar.attempts.iter_mut().for_each(|used| used.weight /= taken);
        similar.shares.iter_mut().for_each(|(_, share)| *share /= taken);
        similar.default_share /= taken;
        similar
    }

    /// Whether the history has an uncensored attempt of the same package. Then other packages are not used.
    pub(super) fn knows_package(&self) -> bool {
        self.unknown_share < 1.0
    }

    /// Lowers the weight of the default, and returns the total weight after that.
    ///
    /// The default is a guess, so its weight is multiplied by the unknown share a second time: it is two fifths after one attempt, and a
    /// fifteenth after ten, of what it would be otherwise.
    fn lower_default(&mut self) -> f64 {
        let taken = 1.0 - self.default_share;
        self.default_share *= self.unknown_share;
        taken + self.default_share
    }

    /// Adds the attempts of one rung. Returns the weight of its uncensored attempts.
    fn add_rung(&mut self, view: HistoryView<'h, '_>, key: &Key, rung: Rung, half: f64) -> f64 {
        let first = self.attempts.len();
        let mut weight = RungWeight::default();
        self.add_list(key, rung, |rung| view.on_rung(rung, key), &mut weight);
        if view.scope == TrustScope::All && rung >= Rung::Package {
            self.add_list(key, rung, |rung| view.listed(rung, key, false), &mut weight);
        }
        if weight.total_weight <= 0.0 {
            return 0.0;
        }
        let share = credibility_weight(self.default_share, weight.total_weight, half);
        for used in self.attempts.iter_mut().skip(first) {
            used.weight = share * used.freshness / weight.with_distance;
        }
        self.shares.push((rung, share));
        self.default_share -= share;
        if weight.uncensored > 0.0 {
            let fitted = credibility_weight(self.fitted_left, weight.uncensored, half);
            self.fitted_shares.push((rung, fitted));
            self.fitted_left -= fitted;
        }
        weight.uncensored
    }

    /// Adds the attempts of one list that narrower rungs have not added yet. `list` returns the attempts of a rung, newest first.
    fn add_list<I: Iterator<Item = &'h RungObservation>>(
        &mut self,
        key: &Key,
        rung: Rung,
        list: impl Fn(Rung) -> I,
        weight: &mut RungWeight,
    ) {
        let input = key.hints.input_bytes.filter(|bytes| *bytes > 0 && rung.is_of_build());
        let input = input.map(|bytes| Bytes(bytes).as_f64().log2());
        let mut fresh = 1.0;
        // all lists are in the same order, and a wider list contains the attempts of narrower ones from the same time: walking the lists
        // side by side finds attempts that were counted already, without comparing all of them
        let mut inside: Vec<_> = self.counted_narrower(rung).map(|inner| list(inner).peekable()).collect();
        let here = list(rung).filter(|observation| {
            let same = |other: &&RungObservation| Arc::ptr_eq(&other.brief, &observation.brief);
            let counted = inside.iter_mut().filter_map(|list| list.next_if(same)).count() > 0;
            let same_package = || rung == Rung::BuildSystem && is_same_package(key, &observation.brief.key);
            !counted && !observation.need.is_nan() && !same_package()
        });
        for observation in here {
            let near = fresh * input.map_or(1.0, |asked| nearness(asked, observation));
            weight.total_weight += fresh;
            weight.with_distance += near;
            let need = f64::from(observation.need);
            self.attempts.push(WeightedAttempt { observation, rung, freshness: near, weight: 0.0, need });
            if !observation.censored {
                weight.uncensored += fresh;
                fresh *= AGE_DECAY;
            }
        }
    }

    /// The rungs with attempts that are counted already and that the list of `rung` contains.
    fn counted_narrower(&self, rung: Rung) -> impl Iterator<Item = Rung> {
        // the rung of one build system is skipped if its builds are of too few packages, so its attempts are not counted yet
        let by_build_system = self.shares.iter().any(|(counted, _)| *counted == Rung::BuildSystem);
        let counted = move |inner: &Rung| *inner != Rung::BuildSystem || by_build_system;
        narrower_lists(rung).iter().copied().filter(counted)
    }

    /// Number of uncensored attempts over all rungs.
    pub(super) fn uncensored_count(&self) -> usize {
        self.attempts.iter().filter(|used| !used.observation.censored).count()
    }

    /// Number of attempts over all rungs.
    pub(super) fn attempts(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// The rung with the largest share among rungs with uncensored attempts; among all rungs if there are no uncensored attempts.
    pub(super) fn main_rung(&self) -> Rung {
        let shares = if self.fitted_shares.is_empty() { &self.shares } else { &self.fitted_shares };
        let heaviest = shares.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
        heaviest.map_or(Rung::Default, |(rung, _)| *rung)
    }

    /// Whether all attempts are of a rung. For the rungs of a package, attempts on narrower rungs count too.
    pub(super) fn are_all_of(&self, rung: Rung) -> bool {
        !self.attempts.is_empty()
            && self.attempts.iter().all(|used| {
                used.rung == rung || (matches!(rung, Rung::Package | Rung::Siblings) && used.rung > rung)
            })
    }

    /// Attempts of the package itself, including those that memory stopped.
    pub(super) fn of_package(&self) -> impl Iterator<Item = &WeightedAttempt<'h>> {
        self.attempts.iter().filter(|used| used.rung.is_of_build())
    }
}

/// For the list of `rung`: the widest lists of more similar attempts that it contains entirely.
fn narrower_lists(rung: Rung) -> &'static [Rung] {
    match rung {
        // the attempts of one package can be of several build systems, so its list is not within that of one build system; keys are
        // compared instead
        Rung::Default | Rung::Exact | Rung::BuildSystem => &[],
        Rung::NoVersion => &[Rung::Exact],
        Rung::NoCompiler => &[Rung::NoVersion],
        Rung::Package => &[Rung::NoCompiler],
        Rung::Siblings => &[Rung::Package],
        Rung::Fleet => &[Rung::Package, Rung::Siblings, Rung::BuildSystem],
    }
}

/// Whether the attempts are of at least `fewest` packages. Stops reading at the last package it needs.
fn has_packages<'h>(fewest: usize, observations: impl Iterator<Item = &'h RungObservation>) -> bool {
    let mut packages: Vec<(&str, &str)> = Vec::with_capacity(fewest);
    for observation in observations.filter(|observation| !observation.need.is_nan()) {
        let package = (observation.brief.key.project.as_str(), observation.brief.key.package.as_str());
        if !packages.contains(&package) {
            packages.push(package);
        }
        if packages.len() >= fewest {
            return true;
        }
    }
    false
}

/// Whether the attempt had the same input, or both are unknown.
pub(super) fn is_near(input: Option<u64>, observation: &RungObservation) -> bool {
    match input {
        None => observation.input.is_nan(),
        Some(bytes) => {
            !observation.input.is_nan() && nearness(Bytes(bytes).as_f64().log2(), observation) >= 0.5
        }
    }
}

/// Weight of an attempt by the distance of its input size from `asked`, a logarithm to base 2; 1 if the inputs are equal or unknown. It is
/// a rational quadratic kernel over the logarithms: it falls slowly, so that a distant attempt still counts a little.
pub(super) fn nearness(asked: f64, observation: &RungObservation) -> f64 {
    if observation.input.is_nan() {
        return 1.0;
    }
    let far = (asked - f64::from(observation.input)) / HALF_WEIGHT_DISTANCE;
    1.0 / (1.0 + far * far)
}

/// Whether two keys are of the same package, or of two parts of one parallel job.
pub(super) fn is_same_package(a: &Key, b: &Key) -> bool {
    let parts = || job_of_part(&a.package).is_some_and(|job| job_of_part(&b.package) == Some(job));
    a.project == b.project && (a.package == b.package || parts())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::domain::{Summary, test_summary as summary};

    fn keys() -> Vec<Key> {
        let mut keys = Vec::new();
        for bits in 0..32_u32 {
            let pick =
                |bit: u32, yes: &str| if bits >> bit & 1 == 1 { yes.to_owned() } else { String::new() };
            keys.push(Key {
                package: format!("p{}", bits & 1),
                version: pick(1, "2"),
                variants: pick(2, "+x"),
                compiler: pick(3, "gcc"),
                build_system: pick(4, "cmake"),
                ..Key::default()
            });
        }
        keys
    }

    #[test]
    fn each_attempt_counts_on_its_most_similar_rung() {
        let mut history = History::new(10_000);
        // an uneven walk over all kinds of keys, long enough for lists to drop their oldest
        for n in 0..2000 {
            let key = keys().swap_remove(n * n / 7 % 32);
            history.learn(Arc::new(Summary { key, ..summary(&n.to_string(), "p", "1", 1) }));
        }
        for asked in keys() {
            let similar =
                SimilarAttempts::gather(&history, &asked, &Settings::default(), TrustScope::Trusted, &[]);
            let mut seen = HashSet::new();
            for rung in Rung::LADDER {
                // of the same package, but pushed off its list by others: too old to say anything
                let too_old =
                    |s: &RungObservation| rung == Rung::BuildSystem && is_same_package(&asked, &s.brief.key);
                let listed =
                    history.on_rung(rung, &asked).filter(|s| seen.insert(&s.brief.attempt) && !too_old(s));
                let expected: Vec<_> = listed.map(|s| &s.brief.attempt).collect();
                let used = similar.attempts.iter().filter(|used| used.rung == rung);
                let scope = similar.shares.iter().any(|(there, _)| *there == rung);
                let used: Vec<_> = used.map(|used| &used.observation.brief.attempt).collect();
                // rungs that would not be scope are left out as a whole
                assert!(used == expected || (!scope && used.is_empty()), "{rung:?} of {asked:?}");
            }
        }
    }

    #[test]
    fn weights_and_default_share_sum_to_one() {
        let mut history = History::new(1000);
        for (n, version) in ["1", "2", "1", "3", "1"].iter().enumerate() {
            history.learn(Arc::new(summary(&n.to_string(), "zlib", version, 10)));
            history.learn(Arc::new(summary(&format!("x{n}"), "hdf5", version, 10)));
        }
        let (asked, settings) = (summary("q", "zlib", "1", 0).key, Settings::default());
        let similar = SimilarAttempts::gather(&history, &asked, &settings, TrustScope::Trusted, &[]);
        assert_eq!((similar.attempts.len(), similar.main_rung()), (5, Rung::Exact));
        let total: f64 = similar.attempts.iter().map(|used| used.weight).sum();
        assert!((total + similar.default_share - 1.0).abs() < 1e-9, "{total} + {}", similar.default_share);
        assert!(similar.attempts[0].weight > similar.attempts[1].weight, "newer weighs more");
    }
}
