//! Sizes for jobs of stock Spack. An answer has a short time limit, because Spack waits for it
//! before it asks for its next spec.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use axum::body::Bytes;
use plimsoll_core::{
    domain::{History, Key, Prediction, Rung},
    gantry, predict,
};
use tokio::time::timeout;

use super::{SizingService, WithheldAnswer, known_answers::RepeatableAnswer, prediction::AnswerIfUnsure};
use crate::runtime::metrics::KindLabel;

/// Newest attempts that are searched for other projects with the same package.
const SEARCHED_FOR_OTHERS: usize = 4096;
/// Most projects for which a mismatch is logged, each once.
const MAX_LOGGED: usize = 64;

/// Projects for which a mismatch was logged: they have no attempt of a requested package, but
/// another project has.
#[derive(Debug, Default)]
pub(crate) struct UnmatchedProjects(Mutex<BTreeSet<String>>);

impl UnmatchedProjects {
    /// Warns that only the project `other` has attempts of the package. Does nothing if the key's
    /// project was logged before, or if `MAX_NAMED` projects were.
    fn log_mismatch(&self, key: &Key, other: &str) {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < MAX_LOGGED && named.insert(key.project.clone()) {
            let other = if other.is_empty() { "(no project)" } else { other };
            tracing::warn!(
                project = key.project,
                package = key.package,
                other_project = other,
                "no attempt of this project, but of another one: sent the defaults; check the header Plimsoll-Project and the import"
            );
        }
    }
}

/// Another project with attempts of the package, if the key's project has none of it.
fn other_project(history: &History, key: &Key) -> Option<String> {
    if history.on_rung(Rung::Package, key).next().is_some() {
        return None;
    }
    let mut looked = history.newest_trusted().take(SEARCHED_FOR_OTHERS).map(|brief| &brief.key);
    looked
        .find(|other| other.package == key.package && other.project != key.project)
        .map(|other| other.project.clone())
}

/// The answer to Spack.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Allocation {
    /// No sizes: the key is in shadow mode.
    Withheld,
    /// The sizes; with a [`RepeatableAnswer`] if the same request may get the same answer again.
    Sizes(Arc<Prediction>, Option<RepeatableAnswer>),
}

/// Sizes, with what is needed to count and to repeat them.
type CountedSizes = (RepeatableAnswer, Arc<Prediction>);

impl SizingService {
    /// Sizes for a job of `key`, within the time limit in `gantry`.
    pub(crate) async fn allocate(&self, key: Key, gantry: &gantry::Settings) -> Allocation {
        let key = Arc::new(key);
        // read first: an answer before a change of shadow mode is not repeated after it
        let shadow = self.shadow.changes();
        if self.withholds_from(&key, WithheldAnswer::Allocation) {
            self.count_allocation("shadow");
            return Allocation::Withheld;
        }
        let sizing = timeout(gantry.answer_within, self.sure_or_defaults(Arc::clone(&key), gantry));
        let Some((answer, prediction)) = sizing.await.ok().flatten() else {
            tracing::warn!(package = key.package, "a prediction took too long: sent the defaults");
            self.count_allocation("late");
            let defaults = self.pools.lowered(&key, predict::defaults(&key, &self.settings));
            return Allocation::Sizes(Arc::new(defaults), None);
        };
        self.count_allocation(answer.kind);
        let answer = RepeatableAnswer { shadow, ..answer };
        Allocation::Sizes(prediction, Some(answer).filter(|_| !self.has_pools()))
    }

    /// The body of an earlier answer to a request with the same text, if it is still valid. Counted
    /// in the metrics like the earlier answer.
    pub(crate) fn repeated_answer(&self, text: &str) -> Option<Bytes> {
        let began = Instant::now();
        if self.has_pools() {
            return None;
        }
        let (body, answer) = self.known_answers.get(text)?;
        if answer.shadow != self.shadow.changes()
            || !self.history.read(|history| history.is_current(&answer.version))
        {
            return None;
        }
        self.metrics.predicted(answer.rung, began.elapsed());
        self.count_allocation(answer.kind);
        Some(body)
    }

    /// Caches the answer to a request, for [`Self::repeated_answer`].
    pub(crate) fn keep_answer(&self, text: &str, body: Bytes, answer: RepeatableAnswer) {
        self.known_answers.store_answer(text, body, answer);
    }

    /// Counts an answer to Spack by its kind.
    pub(crate) fn count_allocation(&self, kind: &'static str) {
        self.metrics.allocations.get_or_create(&KindLabel::of(kind)).inc();
    }

    /// The prediction if it is confident enough, else the defaults raised to the known need of the
    /// package. Returns `None` if the computation failed.
    async fn sure_or_defaults(&self, key: Arc<Key>, gantry: &gantry::Settings) -> Option<CountedSizes> {
        let sizes = self.sizes_in_background(&key).await?;
        let rung = sizes.predicted.memory_limit.basis.rung;
        let answer = |version, kind| RepeatableAnswer { version, shadow: 0, kind, rung };
        if sizes.predicted.is_known(&sizes.predicted.memory_request, gantry.confidence) {
            return Some((answer(sizes.version, "answered"), self.with_pool(&key, sizes.predicted)));
        }
        let AnswerIfUnsure { least, other_project } = match sizes.if_unsure.get() {
            Some(known) => known.clone(),
            None => self.answer_if_unsure(Arc::clone(&key), Arc::clone(&sizes.if_unsure)).await?,
        };
        // without a floor, a guess from other packages is an answer
        let version = if gantry.confidence > 0.0 { sizes.version_if_unsure(&least) } else { sizes.version };
        if let Some(other) = &other_project {
            self.unmatched_projects.log_mismatch(&key, other);
        }
        let kind = if other_project.is_some() { "other_project" } else { "unsure" };
        Some((answer(version, kind), self.with_pool(&key, least)))
    }

    /// Computes the answer on a blocking thread, because it reads the history, and stores it in
    /// `cached`. Returns `None` if the computation failed.
    async fn answer_if_unsure(
        &self,
        key: Arc<Key>,
        cached: Arc<OnceLock<AnswerIfUnsure>>,
    ) -> Option<AnswerIfUnsure> {
        let (history, settings) = (self.history.clone(), Arc::clone(&self.settings));
        let reading = tokio::task::spawn_blocking(move || {
            let answer = || {
                history.read(|history| AnswerIfUnsure {
                    least: Arc::new(predict::defaults_raised_to_need(history, &key, &settings)),
                    other_project: other_project(history, &key),
                })
            };
            cached.get_or_init(answer).clone()
        });
        reading.await.ok()
    }

    /// Project of the newest trusted attempt that has one. Spack does not send its project, so this
    /// one is used if neither a header nor a setting names one.
    pub(crate) fn usual_project(&self) -> String {
        self.known_answers.usual_project(&self.history)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_core::domain::test_summary;

    use super::*;
    use crate::{door::fixture::sizing_alone, pools::PoolRegistry, runtime::metrics::Metrics};

    fn service(pools: &str) -> (SizingService, tempfile::TempDir) {
        let (dir, file) = plimsoll_support::temporary::file_with("pools.toml", pools);
        let file = (!pools.is_empty()).then_some(file);
        let pools = PoolRegistry::open(file, Arc::new(Metrics::new())).unwrap();
        (sizing_alone(pools), dir)
    }

    fn known(service: &SizingService) -> Option<Bytes> {
        service.repeated_answer("zlib")
    }

    /// Asks for a package, and keeps the answer.
    async fn ask(service: &SizingService, package: &str) -> Arc<Prediction> {
        let key = Key { package: package.into(), ..Key::default() };
        let gantry =
            gantry::Settings { answer_within: Duration::from_mins(10), ..gantry::Settings::default() };
        let Allocation::Sizes(sizes, again) = service.allocate(key, &gantry).await else {
            panic!("withheld")
        };
        if let Some(again) = again {
            service.keep_answer(package, Bytes::from(sizes.memory_request.value.to_string()), again);
        }
        sizes
    }

    #[tokio::test]
    async fn repeated_answers_last_until_history_changes() {
        let (service, _dir) = service("");
        for package in ["zlib", "unknown"] {
            service.history.learn(&test_summary("1", "zlib", "1", 3000));
            let sizes = ask(&service, package).await;
            let body = Bytes::from(sizes.memory_request.value.to_string());
            assert_eq!(service.repeated_answer(package), Some(body), "{package}");
        }
        let text = service.metrics.encode().unwrap();
        for kind in ["answered", "unsure"] {
            assert!(text.contains(&format!("plimsoll_allocations_total{{kind=\"{kind}\"}} 2")), "{text}");
        }
        for n in 0..40 {
            service.history.learn(&test_summary(&format!("other-{n}"), "hdf5", "1", 6000));
        }
        let before = ask(&service, "zlib").await;
        service.history.learn(&test_summary("2", "zlib", "1", 9000));
        assert_eq!(known(&service), None);
        assert!(ask(&service, "zlib").await.memory_request.value > before.memory_request.value);
        assert!(known(&service).is_some());
        service.history.learn(&test_summary("3", "hdf5", "1", 6000));
        assert!(known(&service).is_some(), "an attempt of another package ended");
    }

    #[tokio::test]
    async fn with_pools_no_answer_is_repeated() {
        let (service, _dir) = service("[[pool]]\nname = \"small\"\nmemory = \"1GiB\"\ncores = 1\n");
        service.history.learn(&test_summary("1", "zlib", "1", 3000));
        ask(&service, "zlib").await;
        assert_eq!(known(&service), None);
    }
}
