//! One prediction, for all callers: from the cache, or computed; counted, and assigned to a pool.
//!
//! Bursts of pipelines ask for the same specs repeatedly, while builds of other packages end. A prediction depends only on key, history
//! and settings, so a cached one is reused while what it was computed from is the same ([`AnswerVersion`]). A full cache is emptied.
//! Cached predictions are returned on the caller's thread, others are computed on a blocking thread.

use std::{
    collections::HashMap,
    hash::BuildHasher as _,
    mem,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use foldhash::fast::RandomState;
use plimsoll_core::{
    domain::{AnswerVersion, Bytes, Hints, History, Key, Prediction, Rung},
    predict,
    shared_history::SharedHistory,
};
use plimsoll_proto::key::BUILD_TEXTS;

use super::SizingService;

/// Most keys in the cache: the specs of a large stack. About 4 MB.
const CACHED_KEYS: usize = 4096;

impl SizingService {
    /// The prediction for the next attempt of the key, with its pool; a guess is replaced by the
    /// defaults. Counted in the metrics.
    pub(super) fn next_size(&self, key: &Key) -> Arc<Prediction> {
        self.with_pool(key, self.counted(Instant::now(), self.sizes(key)).answer)
    }

    /// Assigns a prediction to a pool and counts the assignment. Without pools the prediction is
    /// returned unchanged.
    pub(super) fn with_pool(&self, key: &Key, prediction: Arc<Prediction>) -> Arc<Prediction> {
        if !self.has_pools() {
            return prediction;
        }
        Arc::new(self.pools.assign(key, Arc::unwrap_or_clone(prediction)))
    }

    /// Whether attempts are assigned to pools.
    pub(super) fn has_pools(&self) -> bool {
        !self.pools.now().pools().is_empty()
    }

    fn sizes(&self, key: &Key) -> Sizes {
        self.prediction_cache.sizes(&self.history, key, &self.settings)
    }

    /// Counts a prediction in the metrics, with the time since `began`.
    fn counted(&self, began: Instant, sizes: Sizes) -> Sizes {
        self.metrics.predicted(sizes.predicted.memory_limit.basis.rung, began.elapsed());
        sizes
    }

    /// The prediction for a key with its pool, computed on a blocking thread and counted. Returns
    /// `None` if the computation failed.
    pub(crate) async fn size_in_background(&self, key: Arc<Key>) -> Option<Arc<Prediction>> {
        let sizes = self.sizes_in_background(&key).await?;
        Some(self.with_pool(&key, sizes.predicted))
    }

    /// The prediction for a build with a preset, if others of the fleet show that less than its request suffices. `None` if they do not, or
    /// if attempts of the package are known.
    pub(crate) async fn lowered_preset(
        &self,
        key: Arc<Key>,
        preset: MemoryPreset,
    ) -> Option<Arc<Prediction>> {
        let service = self.clone();
        let computing = move || {
            let settings = preset.settings(&service.settings);
            let key = BuildKey::of(&key).key();
            let predicted = service.history.read(|history| predict::predict(history, &key, &settings));
            let is_lower = !predicted.is_of_package && predicted.memory_request.value < preset.request.0;
            is_lower.then(|| service.with_pool(&key, Arc::new(predicted)))
        };
        tokio::task::spawn_blocking(computing).await.ok().flatten()
    }

    /// The predictions for a key without a pool, counted. What is not cached is computed on a
    /// blocking thread. Returns `None` if the computation failed.
    pub(super) async fn sizes_in_background(&self, key: &Arc<Key>) -> Option<Sizes> {
        let began = Instant::now();
        if let Some(known) = self.prediction_cache.cached(&self.history, key) {
            return Some(self.counted(began, known));
        }
        let (service, key) = (self.clone(), Arc::clone(key));
        // counted on the blocking thread: a caller whose time limit passes does not wait for the
        // result
        let computing = move || service.counted(Instant::now(), service.sizes(&key));
        tokio::task::spawn_blocking(computing).await.ok()
    }

    /// The prediction for a key, for a walk over very many keys; `in_pool`: within the maximum of its pool. Neither counted nor
    /// cached: the cache is for builds about to start.
    pub(crate) fn one_of_many(&self, key: &Key, in_pool: bool) -> Prediction {
        let prediction = self.history.read(|history| predict::predict(history, key, &self.settings));
        if in_pool && self.has_pools() { self.pools.lowered(key, prediction) } else { prediction }
    }

    /// The prediction for a key without a pool, for callers that choose the pool themselves. Not
    /// counted.
    pub(crate) fn sizes_without_pool(&self, key: &Key) -> Prediction {
        Arc::unwrap_or_clone(self.sizes(key).predicted)
    }
}

/// Memory that a build asks for by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryPreset {
    pub(crate) request: Bytes,
    pub(crate) limit: Bytes,
}

impl MemoryPreset {
    fn settings(self, usual: &predict::Settings) -> predict::Settings {
        let Self { request, limit } = self;
        predict::Settings {
            memory_request: request,
            memory_limit: limit,
            preset: true,
            preset_is_most: true,
            ..usual.clone()
        }
    }
}

/// The predictions for a key. Each is behind an `Arc`: under the lock of the cache nothing large is
/// copied or freed.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    pub(super) predicted: Arc<Prediction>,
    /// The answer for callers: the prediction, or the defaults if the prediction is a guess.
    answer: Arc<Prediction>,
    /// The answer for callers that require more confidence than the prediction has; computed when
    /// the first of them asks.
    pub(super) if_unsure: Arc<OnceLock<AnswerIfUnsure>>,
    /// What all of them are computed from.
    pub(super) version: AnswerVersion,
    /// If no attempt of the package is known: what keeps that true.
    unknown: Option<AnswerVersion>,
}

/// The answer for callers that require more confidence than the prediction has.
#[derive(Debug, Clone)]
pub(super) struct AnswerIfUnsure {
    /// The defaults, raised to the package's known need.
    pub(super) least: Arc<Prediction>,
    /// Another project with attempts of the package, if the key's project has none of it.
    pub(super) other_project: Option<String>,
}

impl Sizes {
    fn compute(history: &History, key: &Key, settings: &predict::Settings) -> Self {
        let predicted = Arc::new(predict::predict(history, key, settings));
        let answer = if predict::is_guess(&predicted) {
            Arc::new(predict::as_answer(Prediction::clone(&predicted), history, key, settings))
        } else {
            Arc::clone(&predicted)
        };
        let version = history.answer_version(key, predicted.is_of_package);
        let is_known = [Rung::Package, Rung::Siblings].into_iter().any(|rung| {
            history.on_rung(rung, key).chain(history.untrusted_on_rung(rung, key)).next().is_some()
        });
        let unknown = (!is_known).then(|| history.unknown_version(key));
        Self { predicted, answer, if_unsure: Arc::default(), version, unknown }
    }

    /// What the answer `least` of [`AnswerIfUnsure`] is computed from. For an unknown package these are the defaults, whatever attempts of
    /// others show, unless memory stopped a build of it.
    pub(super) fn version_if_unsure(&self, least: &Prediction) -> AnswerVersion {
        self.unknown.filter(|_| least.lower_bound.is_none()).unwrap_or(self.version)
    }
}

/// Cache of predictions by key, for one set of settings.
#[derive(Debug, Default)]
pub(crate) struct PredictionCache {
    /// By the hash of the key, so that a lookup copies no text. The key is stored too, to detect two keys with the same hash.
    sizes_by_hash: Mutex<HashMap<u64, (Key, Sizes), RandomState>>,
    hasher: RandomState,
}

impl PredictionCache {
    /// The cached predictions for `key`, if what they were computed from is still the same.
    fn cached(&self, history: &SharedHistory, key: &Key) -> Option<Sizes> {
        let built = BuildKey::of(key);
        self.cached_by_hash(self.hasher.hash_one(&built), &built, history)
    }

    fn cached_by_hash(&self, hash: u64, built: &BuildKey<'_>, history: &SharedHistory) -> Option<Sizes> {
        let known = {
            let table = self.sizes_by_hash.lock().unwrap_or_else(PoisonError::into_inner);
            // two keys may have the same hash
            let known = table.get(&hash).filter(|(key, _)| BuildKey::of(key) == *built);
            known.map(|(_, sizes)| sizes.clone())
        };
        known.filter(|sizes| history.read(|history| history.is_current(&sizes.version)))
    }

    /// The predictions for the next attempt of `key`. `settings` must be the same in every call.
    fn sizes(&self, history: &SharedHistory, key: &Key, settings: &predict::Settings) -> Sizes {
        let built = BuildKey::of(key);
        let hash = self.hasher.hash_one(&built);
        if let Some(known) = self.cached_by_hash(hash, &built, history) {
            return known;
        }
        let key = built.key();
        // read under one lock, so that the sizes belong to exactly this version of the history
        let sizes = history.read(|history| Sizes::compute(history, &key, settings));
        let mut table = self.sizes_by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        let full = if table.len() >= CACHED_KEYS { mem::take(&mut *table) } else { HashMap::default() };
        let earlier = table.insert(hash, (key, sizes.clone()));
        drop(table);
        // freed after the lock is released
        drop((full, earlier));
        sizes
    }
}

/// The key without the fields that differ between pipelines (such as the ref). Predictions are
/// computed from [`Self::key`], so the other fields cannot affect them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BuildKey<'k> {
    texts: [&'k str; BUILD_TEXTS],
    hints: Hints,
}

impl<'k> BuildKey<'k> {
    fn of(key: &'k Key) -> Self {
        Self { texts: key.build_key_texts(), hints: key.hints }
    }

    /// A key that has only the fields of this value; all others are empty.
    fn key(&self) -> Key {
        Key { hints: self.hints, ..Key::of_texts(self.texts) }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Millis, Summary, test_summary};

    use super::*;

    fn key(package: &str) -> Key {
        Key { package: package.into(), ..Key::default() }
    }

    #[test]
    fn defaults_for_an_unknown_package_outlive_attempts_of_others() {
        let (history, cache) = (SharedHistory::new(History::new(100)), PredictionCache::default());
        let settings = predict::Settings::default();
        let learn = |id: &str, package: &str, project: &str| {
            let summary = test_summary(id, package, "1", 100);
            let key = Key { project: project.into(), ..summary.key.clone() };
            let wall = Millis(60_000 * (1 + u64::from(id.len() > 2)) * 50);
            history.learn(&Summary { key, wall, ..summary });
        };
        (0..12).for_each(|n| learn(&n.to_string(), &format!("p{n}"), ""));
        let version = || {
            let least = history.read(|h| predict::defaults_raised_to_need(h, &key("new"), &settings));
            let sizes = cache.sizes(&history, &key("new"), &settings);
            (sizes.version, sizes.version_if_unsure(&least))
        };
        let is_current = |version: &AnswerVersion| history.read(|h| h.is_current(version));
        let (guess, unsure) = version();
        learn("another", "p3", "");
        assert!(!is_current(&guess) && is_current(&unsure));
        learn("elsewhere", "new", "other");
        assert!(!is_current(&unsure), "the answer names the other project");
        let (_, unsure) = version();
        learn("first", "new", "");
        assert!(!is_current(&unsure));
        let (known, unsure) = version();
        assert_eq!(known, unsure);
    }

    #[test]
    fn cached_predictions_follow_every_history_change() {
        let (history, cache) = (SharedHistory::new(History::new(100)), PredictionCache::default());
        let settings = predict::Settings::default();
        let asked = |package| cache.sizes(&history, &key(package), &settings).predicted;
        let worked_out = |package| Arc::new(history.read(|h| predict::predict(h, &key(package), &settings)));
        for n in 0..5 {
            for package in ["zlib", "hdf5", "zlib"] {
                assert_eq!(asked(package), worked_out(package), "after {n} attempts");
            }
            history.learn(&test_summary(&n.to_string(), "zlib", "1", 100 << n));
        }
        let before = asked("zlib");
        let mut settled = test_summary("4", "zlib", "1", 100);
        settled.need_peak.0 *= 50;
        history.replace_summary(&settled);
        assert_ne!(asked("zlib"), before, "an attempt that was settled counts at once");
    }

    #[tokio::test]
    async fn a_preset_is_lowered_while_the_package_is_unknown() {
        let sizing = crate::door::fixture::sizing();
        let learn = |id: usize, package: &str| {
            let mut summary = test_summary(&id.to_string(), package, "1", 1024);
            summary.resources.memory_request = Some(Bytes(8 << 30));
            sizing.history.learn(&summary);
        };
        let preset = MemoryPreset { request: Bytes(16 << 30), limit: Bytes(64 << 30) };
        let asked = || sizing.lowered_preset(Arc::new(key("new")), preset);
        assert_eq!(asked().await, None, "nothing is known");
        (0..40).for_each(|n| learn(n, &format!("p{n}")));
        let lowered = asked().await.unwrap();
        assert!(lowered.memory_request.value < 8 << 30, "{lowered:?}");
        assert_eq!(lowered.memory_limit.value, 64 << 30, "{lowered:?}");
        learn(99, "new");
        assert_eq!(asked().await, None, "its own attempts decide");
    }

    #[test]
    fn answers_are_bounded() {
        let (history, cache) = (SharedHistory::new(History::new(100)), PredictionCache::default());
        let settings = predict::Settings::default();
        for n in 0..CACHED_KEYS + 5 {
            let of_a_pipeline = Key { git_ref: n.to_string(), ..key(&n.to_string()) };
            for asked in [key(&n.to_string()), of_a_pipeline] {
                cache.sizes(&history, &asked, &settings);
            }
        }
        assert_eq!(cache.sizes_by_hash.lock().unwrap().len(), 5);
    }
}
