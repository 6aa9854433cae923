//! A prediction for a handler.

use std::{sync::Arc, time::Instant};

use super::Parts;
use crate::domain::{Key, Prediction};

/// A prediction, worked out where it holds up no other request. `None` if that ended badly.
pub(super) async fn predicted(parts: &Parts, key: Arc<Key>) -> Option<Prediction> {
    let (learned, settings, metrics) =
        (parts.learned.clone(), Arc::clone(&parts.predict), Arc::clone(&parts.metrics));
    let (answers, placing) = (Arc::clone(&parts.answers), parts.placing.clone());
    let predicting = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let prediction = answers.predict(&learned, &key, &settings);
        metrics.predicted(prediction.memory_limit.basis.rung, began.elapsed());
        placing.put(&key, prediction)
    });
    predicting.await.ok()
}
