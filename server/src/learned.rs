//! The history, shared: the ingest adds to it, everybody else reads it. Locked for microseconds only; nobody holds the lock
//! while waiting for anything.

use std::sync::{Arc, PoisonError, RwLock};

use crate::domain::{AttemptId, Brief, Fact, History};

/// Attempts that are shown under one lock: a fraction of a millisecond of looking.
const SHOWN_AT_ONCE: usize = 2048;

/// A handle on the one history of this server.
#[derive(Debug, Clone)]
pub(crate) struct Learned(Arc<RwLock<History>>);

impl Learned {
    /// Shares `history`.
    pub(crate) fn new(history: History) -> Self {
        Self(Arc::new(RwLock::new(history)))
    }

    /// Looks at the history. `look` must be short: no I/O, no loop over everything.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        // a panic elsewhere cannot leave the history half changed in a way that matters for reading
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an attempt and returns how many are known now.
    pub(crate) fn learn(&self, attempt: impl Into<Fact>) -> usize {
        let fact = attempt.into();
        let mut history = self.0.write().unwrap_or_else(PoisonError::into_inner);
        history.learn(fact);
        history.len()
    }

    /// Adds many attempts, oldest first, and returns how many are known now.
    pub(crate) fn learn_all(&self, attempts: Vec<Fact>) -> usize {
        let mut history = self.0.write().unwrap_or_else(PoisonError::into_inner);
        history.learn_all(attempts);
        history.len()
    }

    /// Puts an attempt in the place of what was known of it, if it is still known.
    pub(crate) fn settle(&self, attempt: impl Into<Fact>) {
        let fact = attempt.into();
        self.0.write().unwrap_or_else(PoisonError::into_inner).settle(fact);
    }

    /// How many attempts may be known.
    pub(crate) fn capacity(&self) -> usize {
        self.read(History::capacity)
    }

    /// Whether the attempt with this id is in memory.
    pub(crate) fn knows(&self, id: &AttemptId) -> bool {
        self.read(|history| history.get(id).is_some())
    }

    /// Shows every attempt to `look` once, the last to arrive first, and lets go of the lock every few thousand. Those that come
    /// meanwhile are not shown.
    pub(crate) fn each(&self, mut look: impl FnMut(&Arc<Brief>)) {
        let (mut from, mut last) = (0, None::<Arc<Brief>>);
        while let Some((behind, shown)) = self.read(|history| {
            let mut rest = history.newest_first().skip(from);
            // others may have come before it
            let place = |last: &Arc<Brief>| rest.by_ref().position(|brief| brief.attempt == last.attempt);
            let behind = last.as_ref().map_or(Some(0), place)?;
            let some = rest.take(SHOWN_AT_ONCE).inspect(|brief| look(brief));
            let shown = some.enumerate().last().map(|(index, brief)| (index, Arc::clone(brief)));
            shown.map(|(index, brief)| (behind + index + usize::from(last.is_some()), brief))
        }) {
            from += behind;
            last = Some(shown);
        }
    }

    /// All attempts, newest first. Copies pointers, so that long work is done without the lock.
    pub(crate) fn newest_first(&self) -> Vec<Arc<Brief>> {
        self.read(|history| history.newest_first().map(Arc::clone).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary;

    #[test]
    fn each_attempt_is_shown_once_while_others_come() {
        let learned = Learned::new(History::new(SHOWN_AT_ONCE * 5));
        let count = SHOWN_AT_ONCE * 3 + 7;
        let fact = |n: usize| Fact::from(test_summary(&n.to_string(), "zlib", "1", 1));
        learned.learn_all((0..count).map(fact).collect());
        let (mut shown, another) = (Vec::new(), learned.clone());
        let mut calls = 0;
        // between two locks, as another thread would
        learned.each(|brief| {
            calls += 1;
            shown.push(brief.attempt.clone());
            if calls % SHOWN_AT_ONCE == 0 {
                let another = another.clone();
                let n = count + calls;
                std::thread::spawn(move || another.learn(fact(n)));
            }
        });
        let expected: Vec<String> = (0..count).rev().map(|n| n.to_string()).collect();
        let old = |id: &&AttemptId| id.as_str().parse::<usize>().is_ok_and(|n| n < count);
        assert_eq!(shown.iter().filter(old).map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
}
