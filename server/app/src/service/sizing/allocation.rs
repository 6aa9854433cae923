//! Sizes for a job of stock Spack. Always fast, because Spack asks for one spec after another.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use plimsoll_core::{
    domain::{History, Key, Prediction, Rung},
    gantry, predict,
};
use tokio::time::timeout;

use super::{SizingService, WithheldAnswer};
use crate::runtime::metrics::Kind;

/// Newest attempts that are searched for a project.
const LOOKED_AT: usize = 128;

/// Newest attempts that are searched for other projects with the package.
const LOOKED_IN: usize = 4096;
/// Most projects whose mismatch is logged, once each.
const NAMED: usize = 64;

/// Requested projects without history, although others have attempts of the same package: each was logged once.
#[derive(Debug, Default)]
pub(crate) struct UnmatchedProjects(Mutex<BTreeSet<String>>);

impl UnmatchedProjects {
    /// Logs a mismatch, unless its project was logged before or too many were.
    fn tell(&self, key: &Key, other: &str) {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < NAMED && named.insert(key.project.clone()) {
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

/// Another project with attempts of the package, if the key's project has none.
fn other_project(history: &History, key: &Key) -> Option<String> {
    if history.on_rung(Rung::Package, key).next().is_some() {
        return None;
    }
    let mut looked = history.newest_trusted().take(LOOKED_IN).map(|brief| &brief.key);
    looked
        .find(|other| other.package == key.package && other.project != key.project)
        .map(|other| other.project.clone())
}

/// The answer to Spack.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Allocation {
    /// No sizes: the key is in shadow mode.
    Withheld,
    /// These sizes.
    Sizes(Box<Prediction>),
}

impl SizingService {
    /// Sizes for a job of `key`, within the time limit in `gantry`.
    pub(crate) async fn allocate(&self, key: Key, gantry: &gantry::Settings) -> Allocation {
        let key = Arc::new(key);
        if self.withholds_from(&key, WithheldAnswer::Allocation) {
            self.count_allocation("shadow");
            return Allocation::Withheld;
        }
        let sizing = timeout(gantry.answer_within, self.sure_or_defaults(Arc::clone(&key), gantry));
        let (kind, prediction) = sizing.await.ok().flatten().unwrap_or_else(|| {
            tracing::warn!(package = key.package, "a prediction took too long: sent the defaults");
            ("late", self.pools.lowered(&key, predict::defaults(&key, &self.settings)))
        });
        self.count_allocation(kind);
        Allocation::Sizes(Box::new(prediction))
    }

    /// Counts an answer to Spack by its kind.
    pub(crate) fn count_allocation(&self, kind: &'static str) {
        self.metrics.allocations.get_or_create(&Kind::of(kind)).inc();
    }

    /// The prediction if it is confident enough, else the defaults raised to the package's known need. `None` if the computation failed.
    async fn sure_or_defaults(
        &self,
        key: Arc<Key>,
        gantry: &gantry::Settings,
    ) -> Option<(&'static str, Prediction)> {
        let predicted = self.size_in_background(Arc::clone(&key)).await?;
        if predicted.is_known(&predicted.memory_request, gantry.confidence) {
            return Some(("answered", predicted));
        }
        let (least, other) = self.defaults_raised_to_need(Arc::clone(&key)).await?;
        if let Some(other) = &other {
            self.unmatched.tell(&key, other);
        }
        let kind = if other.is_some() { "other_project" } else { "unsure" };
        Some((kind, self.pools.lowered(&key, least)))
    }

    /// The defaults raised to the package's known need, and another project with attempts of the package if this one has none. Computed on
    /// a blocking thread, because it reads the history. `None` if the computation failed.
    async fn defaults_raised_to_need(&self, key: Arc<Key>) -> Option<(Prediction, Option<String>)> {
        let (history, settings) = (self.history.clone(), Arc::clone(&self.settings));
        let reading = tokio::task::spawn_blocking(move || {
            history.read(|history| {
                (predict::defaults_raised_to_need(history, &key, &settings), other_project(history, &key))
            })
        });
        reading.await.ok()
    }

    /// Spack does not send its project. Without a header and a setting, it is that of the newest trusted attempt with a project.
    pub(crate) fn usual_project(&self) -> String {
        self.history.read(|history| {
            let mut projects = history.newest_trusted().take(LOOKED_AT).map(|summary| &summary.key.project);
            projects.find(|project| !project.is_empty()).cloned().unwrap_or_default()
        })
    }
}
