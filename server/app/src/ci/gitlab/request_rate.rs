//! Limits the rate of requests to GitLab: a fixed number a second. Requests wait when GitLab asks
//! for it, and are skipped for a while when GitLab does not answer.

use std::{
    hash::{Hash as _, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::http::HeaderMap;
use plimsoll_base::with_defaults;
use tokio::time::{Instant, sleep_until};

use crate::runtime::outgoing;

with_defaults! {
    /// Limits of requests to GitLab.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct PaceTerms {
        /// Least time between two requests.
        // gitlab.com allows some 2,000 requests a minute for one token, other servers usually
        // 600; this is half of 600
        pub(crate) spacing: Duration = Duration::from_millis(200),
        /// Delay before the first repetition of a request; doubled before each further one.
        pub(crate) backoff: Duration = Duration::from_secs(1),
        /// Time limit from a request to the end of its answer.
        // time for a log of 64 MB over 20 Mbit/s
        pub(crate) answer_within: Duration = Duration::from_secs(30),
        /// Longest time that a request waits for its turn; a request that would wait longer is skipped.
        pub(crate) patience: Duration = Duration::from_secs(90),
        /// Time for which requests are skipped after a request that got no answer.
        pub(crate) pause: Duration = Duration::from_secs(30),
    }
}

/// The longest wait that GitLab may request; a longer one is probably a date that was read as a
/// duration.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// Limits the rate of requests to GitLab's API.
#[derive(Debug)]
pub(super) struct Pace {
    terms: PaceTerms,
    times: Mutex<PaceTimes>,
}

#[derive(Debug)]
struct PaceTimes {
    /// When the next request may be sent.
    next: Instant,
    /// Until then requests are skipped.
    paused_until: Instant,
}

impl Pace {
    pub(super) fn new(terms: PaceTerms) -> Self {
        let now = Instant::now();
        Self { terms, times: Mutex::new(PaceTimes { next: now, paused_until: now }) }
    }

    pub(super) fn terms(&self) -> &PaceTerms {
        &self.terms
    }

    /// Waits until a request may be sent. Returns false if the request is skipped instead.
    pub(super) async fn wait_for_turn(&self) -> bool {
        let turn = {
            let mut times = self.lock_times();
            let now = Instant::now();
            let turn = times.next.max(now);
            if now < times.paused_until || turn > now + self.terms.patience {
                return false;
            }
            times.next = turn + self.terms.spacing;
            turn
        };
        sleep_until(turn).await;
        true
    }

    /// Delays all further requests by this time.
    pub(super) fn delay_all(&self, time: Duration) {
        let mut times = self.lock_times();
        times.next = times.next.max(Instant::now() + time.min(LONGEST_WAIT));
    }

    /// Skips requests for a while, because GitLab does not answer.
    pub(super) fn pause(&self) {
        self.lock_times().paused_until = Instant::now() + self.terms.pause;
    }

    fn lock_times(&self) -> MutexGuard<'_, PaceTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delay before repetition `n`, counted from 0. It doubles each time; half of it is random, so
    /// that requests that failed together are not repeated together.
    pub(super) fn backoff(&self, n: u32, path: &str) -> Duration {
        let mut hasher = std::hash::DefaultHasher::new();
        (n, path).hash(&mut hasher);
        let spread = u32::try_from(hasher.finish() % 1000).unwrap_or(0);
        let time = self.terms.backoff.saturating_mul(2_u32.saturating_pow(n)).min(LONGEST_WAIT);
        time / 2 + time * spread / 1000
    }
}

/// The wait that GitLab requests: `Retry-After`, or the time until an exhausted rate
/// limit is reset.
pub(super) fn requested_wait(headers: &HeaderMap, now_unix_ms: u64) -> Option<Duration> {
    if let Some(wait) = outgoing::retry_after(headers, now_unix_ms) {
        return Some(wait);
    }
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    if number("ratelimit-remaining")? > 0 {
        return None;
    }
    let reset = number("ratelimit-reset")?.saturating_mul(1000);
    Some(Duration::from_millis(reset.saturating_sub(now_unix_ms)))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| ((*name).parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn requested_waits_are_read_from_response_headers() {
        let seconds = |all: &[(&'static str, &'static str)]| {
            requested_wait(&headers(all), 1_000_000_000).map(|time| time.as_secs())
        };
        assert_eq!(seconds(&[("retry-after", "7")]), Some(7));
        assert_eq!(seconds(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "1000060")]), Some(60));
        assert_eq!(seconds(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "5")]), Some(0));
        assert_eq!(seconds(&[("ratelimit-remaining", "9"), ("ratelimit-reset", "1000060")]), None);
        assert_eq!(seconds(&[("retry-after", "Mon, 12 Jan 1970 13:46:47 GMT")]), Some(7));
        assert_eq!(seconds(&[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")]), Some(0), "it has passed");
        assert_eq!(seconds(&[("retry-after", "soon")]), None);
        assert_eq!(seconds(&[]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_spaced_and_long_waits_skipped() {
        let pace = Pace::new(PaceTerms { patience: Duration::from_secs(1), ..PaceTerms::default() });
        let began = Instant::now();
        for _ in 0..5 {
            assert!(pace.wait_for_turn().await);
        }
        assert_eq!(began.elapsed().as_millis(), 800);
        pace.delay_all(Duration::from_hours(1));
        assert!(!pace.wait_for_turn().await);
        tokio::time::advance(LONGEST_WAIT).await;
        assert!(pace.wait_for_turn().await, "no request waits longer than {LONGEST_WAIT:?}");
    }

    #[test]
    fn repetitions_come_later_and_later_and_not_together() {
        let pace = Pace::new(PaceTerms::default());
        for n in 0..4 {
            let time = pace.backoff(n, "a").as_secs_f64() / f64::from(1 << n);
            assert!((0.5..1.5).contains(&time), "{n}: {time}");
        }
        assert_ne!(pace.backoff(0, "a"), pace.backoff(0, "b"));
        assert!(pace.backoff(99, "a") <= LONGEST_WAIT * 2);
    }
}
