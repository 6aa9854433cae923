//! Keeps the keys of issuers up to date: fetches them again when they are old, when a token names
//! an unknown key, and after a failed request.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::{
    task::{AbortHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    GuardState,
    fetch::{FetchFailure, fetch_key_set},
};
use crate::{
    access::identity::{FetchedKeys, KeySetSource, REFETCH_AFTER},
    runtime::metrics::{IssuerLabel, KindLabel},
};

/// When keys are fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchTerms {
    /// Time limit of a request.
    pub(super) answer_within: Duration,
    /// Shortest time between two requests, however many callers need keys.
    pub(super) retry_after: Duration,
    /// Least, default and most time for which an answer is used before it is fetched again.
    pub(super) fresh: (Duration, Duration, Duration),
    /// Wait after the first failed request, and the longest wait; doubled after each failure.
    pub(super) backoff: (Duration, Duration),
}

/// GitLab declares its key set valid for a day, Kubernetes for an hour.
const FETCH_TERMS: FetchTerms = FetchTerms {
    answer_within: Duration::from_secs(10),
    retry_after: Duration::from_secs(REFETCH_AFTER),
    fresh: (Duration::from_mins(1), Duration::from_mins(10), Duration::from_hours(1)),
    backoff: (Duration::from_secs(10), Duration::from_mins(5)),
};

/// Keeps the keys of all issuers in force up to date, until `end`.
pub(super) async fn keep_all_keys(shared: Arc<GuardState>, end: CancellationToken) -> anyhow::Result<()> {
    let keep = |origin, fetched| keep_issuer_keys(Arc::clone(&shared), origin, fetched, FETCH_TERMS);
    end.run_until_cancelled(keep_each_issuer(&shared, FETCH_TERMS.backoff.0, keep)).await;
    Ok(())
}

/// Runs `keep` as a task for each issuer in force. A task that fails is logged, and restarted after
/// `pause`. Never returns.
pub(super) async fn keep_each_issuer<F>(
    shared: &GuardState,
    pause: Duration,
    keep: impl Fn(KeySetSource, Arc<FetchedKeys>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut kept: HashMap<KeySetSource, AbortHandle> = HashMap::new();
    // the tasks are aborted when this is dropped
    let mut running = JoinSet::new();
    loop {
        let now = shared.origins.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.retain(|origin, keeping| {
            let stays = now.contains_key(origin);
            if !stays {
                keeping.abort();
                shared.metrics.issuer_keys_until.remove(&issuer_label(origin));
            }
            stays && !keeping.is_finished()
        });
        for (origin, fetched) in now {
            shared.report_expiry(&origin, &fetched);
            kept.entry(origin.clone()).or_insert_with(|| running.spawn(keep(origin, fetched)));
        }
        tokio::select! {
            () = shared.origins_changed.notified() => {}
            Some(Err(error)) = running.join_next() => {
                if error.is_panic() {
                    shared.metrics.issuer_fetches.get_or_create(&KindLabel::of("broken")).inc();
                    tracing::error!(%error, "refreshing an issuer's keys failed unexpectedly; starting again");
                    sleep(pause).await;
                }
            }
        }
    }
}

fn issuer_label(origin: &KeySetSource) -> IssuerLabel {
    IssuerLabel { issuer: origin.issuer.clone() }
}

/// Keeps the keys of one issuer up to date.
pub(super) async fn keep_issuer_keys(
    shared: Arc<GuardState>,
    origin: KeySetSource,
    fetched: Arc<FetchedKeys>,
    terms: FetchTerms,
) {
    let mut failed = 0;
    loop {
        let now = || shared.clock.now_unix_ms() / 1000;
        fetched.request_started(now());
        let taken = match fetch_key_set(&origin, terms.answer_within).await {
            Ok(answer) => fetched
                .store_keys(answer.text, now())
                .map(|is_new| (is_new, answer.valid_for))
                .map_err(|why| FetchFailure::new("malformed", format!("its key set {why}"))),
            Err(trouble) => Err(trouble),
        };
        fetched.request_ended();
        let wait = match taken {
            Ok((is_new, fresh)) => {
                failed = 0;
                shared.report_expiry(&origin, &fetched);
                shared.keys_fetched(&origin, is_new);
                let (least, usual, most) = terms.fresh;
                fresh.unwrap_or(usual).clamp(least, most)
            }
            Err(trouble) => {
                shared.keys_not_fetched(&origin, &trouble, fetched.has_usable_keys(now()));
                let (first, most) = terms.backoff;
                failed += 1;
                first.saturating_mul(1 << (failed - 1).min(16)).min(most)
            }
        };
        let wanted = async {
            sleep(terms.retry_after).await;
            fetched.keys_wanted().await;
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = wanted => {}
        }
    }
}

impl GuardState {
    /// Sets the metric that shows when the issuer's keys expire. Skips an issuer that is no longer
    /// in force, because nothing would remove its metric.
    fn report_expiry(&self, origin: &KeySetSource, fetched: &FetchedKeys) {
        let until = i64::try_from(fetched.valid_until()).unwrap_or(i64::MAX);
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        if origins.contains_key(origin) {
            self.metrics.issuer_keys_until.get_or_create(&issuer_label(origin)).set(until);
        }
    }

    /// Counts a successful fetch. A key set that has changed is logged.
    fn keys_fetched(&self, origin: &KeySetSource, is_new: bool) {
        self.metrics.issuer_fetches.get_or_create(&KindLabel::of("fetched")).inc();
        if is_new {
            tracing::info!(issuer = origin.issuer, "took the issuer's keys over");
            // verified tokens are checked again, so that tokens signed with a removed key are
            // refused
            if let Some(access) = &*self.kept.in_force_now() {
                access.forget_checked();
            }
        }
    }

    /// Counts a failed fetch, and logs the reason.
    fn keys_not_fetched(&self, origin: &KeySetSource, trouble: &FetchFailure, serves: bool) {
        let FetchFailure { kind, text } = trouble;
        self.metrics.issuer_fetches.get_or_create(&KindLabel::of(kind)).inc();
        let issuer = &origin.issuer;
        if serves {
            tracing::warn!(issuer, kind, text, "cannot fetch an issuer's keys; the last ones stay in force");
        } else {
            tracing::error!(issuer, kind, text, "cannot fetch an issuer's keys; its tokens are not accepted");
        }
    }
}
