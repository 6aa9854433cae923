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
    Shared,
    fetch::{Trouble, fetch},
};
use crate::{
    access::identity::{AGAIN, Fetched, Origin},
    runtime::metrics::{Kind, OfIssuer},
};

/// When keys are fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Time limit of a request.
    pub(super) within: Duration,
    /// Shortest time between two requests, however many callers need keys.
    pub(super) again: Duration,
    /// Least, default and most time for which an answer is used before it is fetched again.
    pub(super) fresh: (Duration, Duration, Duration),
    /// Wait after the first failed request, and the longest wait; doubled after each failure.
    pub(super) backoff: (Duration, Duration),
}

/// GitLab declares its key set valid for a day, Kubernetes for an hour.
const TERMS: Terms = Terms {
    within: Duration::from_secs(10),
    again: Duration::from_secs(AGAIN),
    fresh: (Duration::from_mins(1), Duration::from_mins(10), Duration::from_hours(1)),
    backoff: (Duration::from_secs(10), Duration::from_mins(5)),
};

/// Keeps the keys of all issuers in force up to date, until `end`.
pub(super) async fn keep_all(shared: Arc<Shared>, end: CancellationToken) -> anyhow::Result<()> {
    let keep = |origin, fetched| keep(Arc::clone(&shared), origin, fetched, TERMS);
    end.run_until_cancelled(keep_each(&shared, TERMS.backoff.0, keep)).await;
    Ok(())
}

/// Runs `keep` as a task for each issuer in force. A task that fails is logged, and restarted after
/// `pause`. Never returns.
pub(super) async fn keep_each<F>(shared: &Shared, pause: Duration, keep: impl Fn(Origin, Arc<Fetched>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut kept: HashMap<Origin, AbortHandle> = HashMap::new();
    // the tasks are aborted when this is dropped
    let mut running = JoinSet::new();
    loop {
        let now = shared.origins.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.retain(|origin, keeping| {
            let stays = now.contains_key(origin);
            if !stays {
                keeping.abort();
                shared.metrics.issuer_keys_until.remove(&label(origin));
            }
            stays && !keeping.is_finished()
        });
        for (origin, fetched) in now {
            shared.tell_until(&origin, &fetched);
            kept.entry(origin.clone()).or_insert_with(|| running.spawn(keep(origin, fetched)));
        }
        tokio::select! {
            () = shared.origins_changed.notified() => {}
            Some(Err(error)) = running.join_next() => {
                if error.is_panic() {
                    shared.metrics.issuer_fetches.get_or_create(&Kind::of("broken")).inc();
                    tracing::error!(%error, "refreshing an issuer's keys failed unexpectedly; starting again");
                    sleep(pause).await;
                }
            }
        }
    }
}

fn label(origin: &Origin) -> OfIssuer {
    OfIssuer { issuer: origin.issuer.clone() }
}

/// Keeps the keys of one issuer up to date.
pub(super) async fn keep(shared: Arc<Shared>, origin: Origin, fetched: Arc<Fetched>, terms: Terms) {
    let mut failed = 0;
    loop {
        let now = || shared.clock.now_unix_ms() / 1000;
        fetched.asking(now());
        let taken = match fetch(&origin, terms.within).await {
            Ok(answer) => fetched
                .put(answer.text, now())
                .map(|is_new| (is_new, answer.fresh))
                .map_err(|why| Trouble::new("malformed", format!("its key set {why}"))),
            Err(trouble) => Err(trouble),
        };
        fetched.asked();
        let wait = match taken {
            Ok((is_new, fresh)) => {
                failed = 0;
                shared.tell_until(&origin, &fetched);
                shared.keys_fetched(&origin, is_new);
                let (least, usual, most) = terms.fresh;
                fresh.unwrap_or(usual).clamp(least, most)
            }
            Err(trouble) => {
                shared.keys_not_fetched(&origin, &trouble, fetched.serves(now()));
                let (first, most) = terms.backoff;
                failed += 1;
                first.saturating_mul(1 << (failed - 1).min(16)).min(most)
            }
        };
        let wanted = async {
            sleep(terms.again).await;
            fetched.wanted().await;
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = wanted => {}
        }
    }
}

impl Shared {
    /// Sets the metric that shows when the issuer's keys expire. Skips an issuer that is no longer
    /// in force, because nothing would remove its metric.
    fn tell_until(&self, origin: &Origin, fetched: &Fetched) {
        let until = i64::try_from(fetched.until()).unwrap_or(i64::MAX);
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        if origins.contains_key(origin) {
            self.metrics.issuer_keys_until.get_or_create(&label(origin)).set(until);
        }
    }

    /// Counts a successful fetch. A key set that has changed is logged.
    fn keys_fetched(&self, origin: &Origin, is_new: bool) {
        self.metrics.issuer_fetches.get_or_create(&Kind::of("fetched")).inc();
        if is_new {
            tracing::info!(issuer = origin.issuer, "took the issuer's keys over");
            // verified tokens are checked again, so that tokens signed with a removed key are
            // refused
            if let Some(access) = &*self.kept.now() {
                access.forget();
            }
        }
    }

    /// Counts a failed fetch, and logs the reason.
    fn keys_not_fetched(&self, origin: &Origin, trouble: &Trouble, serves: bool) {
        let Trouble { kind, text } = trouble;
        self.metrics.issuer_fetches.get_or_create(&Kind::of(kind)).inc();
        let issuer = &origin.issuer;
        if serves {
            tracing::warn!(issuer, kind, text, "cannot fetch an issuer's keys; the last ones stay in force");
        } else {
            tracing::error!(issuer, kind, text, "cannot fetch an issuer's keys; its tokens are not accepted");
        }
    }
}
