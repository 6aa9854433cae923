//! Waiting for something that happens soon, without a clock in the verdict.

use std::{fmt::Debug, time::Duration};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// Looks before giving up: a minute on an idle machine. Only a failing test waits that long.
const LOOKS: u32 = 3000;

/// Looks again and again until `done`, and returns what was seen then.
pub async fn eventually<T: Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> T,
    done: impl Fn(&T) -> bool,
) -> T {
    for _ in 1..LOOKS {
        let seen = look().await;
        if done(&seen) {
            return seen;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let seen = look().await;
    assert!(done(&seen), "waited in vain until {what}; last seen: {seen:?}");
    seen
}
