//! The sizes of a job of stock Spack. Never slow: Spack asks for one spec after another and waits for each.

use std::sync::Arc;

use plimsoll_core::{
    domain::{Key, Prediction},
    gantry, predict,
};
use tokio::time::timeout;

use super::{SizingService, WithheldAnswer};
use crate::runtime::metrics::Kind;

/// Newest attempts among which a project is looked for.
const LOOKED_AT: usize = 128;

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
        let least = self.defaults_above_need(Arc::clone(&key)).await?;
        Some(("unsure", self.pools.lowered(&key, least)))
    }

    /// The defaults, or what builds of the package have needed where that is more, worked out where it holds up no other request: it
    /// reads the history. `None` if that ended badly.
    async fn defaults_above_need(&self, key: Arc<Key>) -> Option<Prediction> {
        let (learned, settings) = (self.learned.clone(), Arc::clone(&self.settings));
        let reading = tokio::task::spawn_blocking(move || {
            learned.read(|history| predict::defaults_above_need(history, &key, &settings))
        });
        reading.await.ok()
    }

    /// Spack does not say for which project it asks. Without a header and a setting, it is that of the newest trusted attempt that has
    /// one.
    pub(crate) fn usual_project(&self) -> String {
        self.learned.read(|history| {
            let mut projects = history.newest_trusted().take(LOOKED_AT).map(|summary| &summary.key.project);
            projects.find(|project| !project.is_empty()).cloned().unwrap_or_default()
        })
    }
}
