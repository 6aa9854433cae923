//! The sizes of a job of stock Spack. Never slow: Spack asks for one spec after another and waits for each.

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

/// Newest attempts among which a project is looked for.
const LOOKED_AT: usize = 128;

/// Newest attempts among which others of a package are looked for.
const LOOKED_IN: usize = 4096;
/// Projects that are named in the log for a mismatch, each once.
const NAMED: usize = 64;

/// Projects that were asked for without any history, while others have attempts of the same package: each was named in the log.
#[derive(Debug, Default)]
pub(crate) struct UnmatchedProjects(Mutex<BTreeSet<String>>);

impl UnmatchedProjects {
    /// Names the project in the log, unless it was named before or too many were.
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

/// A project with attempts of the package, while that of the key has none.
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
    /// Nothing: shadow mode is on for the key.
    Withheld,
    /// These sizes.
    Sizes(Box<Prediction>),
}

impl SizingService {
    /// What a job of `key` should ask for, within the time that `gantry` allows.
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

    /// Counts an answer to Spack by what became of it.
    pub(crate) fn count_allocation(&self, kind: &'static str) {
        self.metrics.allocations.get_or_create(&Kind::of(kind)).inc();
    }

    /// What is predicted, if that is known well enough, else the defaults above what builds of the package have needed. `None` if that
    /// ended badly.
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

    /// The defaults, or what builds of the package have needed where that is more, and a project that has attempts of the package while this
    /// one has none; worked out where it holds up no other request: it
    /// reads the history. `None` if that ended badly.
    async fn defaults_raised_to_need(&self, key: Arc<Key>) -> Option<(Prediction, Option<String>)> {
        let (history, settings) = (self.history.clone(), Arc::clone(&self.settings));
        let reading = tokio::task::spawn_blocking(move || {
            history.read(|history| {
                (predict::defaults_raised_to_need(history, &key, &settings), other_project(history, &key))
            })
        });
        reading.await.ok()
    }

    /// Spack does not say for which project it asks. Without a header and a setting, it is that of the newest trusted attempt that has
    /// one.
    pub(crate) fn usual_project(&self) -> String {
        self.history.read(|history| {
            let mut projects = history.newest_trusted().take(LOOKED_AT).map(|summary| &summary.key.project);
            projects.find(|project| !project.is_empty()).cloned().unwrap_or_default()
        })
    }
}
