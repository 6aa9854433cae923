//! What is known of finished attempts at a start: the newest of them to learn from, and the verdicts on them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use foldhash::fast::RandomState;

use super::{again::NewestShort, strays::Strays, worker::Worker};
use crate::{
    domain::{Action, AttemptId, Fact, Key, Room, Summary, Verdict, bytes_of},
    metrics::Metrics,
    stats::Stats,
    store::{self, Loaded, StoreError},
};

/// The newest attempts out of many that come in any order, in bounded memory.
struct Newest {
    room: Room,
    /// Bytes of the attempts and of their keys, which is most of what the history will count.
    bytes: usize,
    /// Each with its end, milliseconds since 1970: looking for it in the attempt would take longer than all the sorting.
    kept: Vec<(u64, Fact)>,
    /// Each key once, by its texts in one piece: a million attempts have some thousand.
    keys: HashMap<Box<[u8]>, Arc<Key>, RandomState>,
    /// The texts of the last key.
    texts: Vec<u8>,
    stats: Stats,
}

impl Newest {
    fn of(room: Room, stats: Stats) -> Self {
        Self { room, bytes: 0, kept: Vec::new(), keys: HashMap::default(), texts: Vec::new(), stats }
    }

    fn take(&mut self, summary: &Summary) {
        let key = self.key_of(&summary.key);
        let fact = Fact::of(summary, key);
        self.bytes += bytes_of(&fact.brief);
        self.stats.add_one_of_many(&summary.into(), &fact.brief);
        self.kept.push((summary.ended_unix_ms(), fact));
        // cutting now and then costs less than keeping order all the time
        let capacity = self.room.attempts;
        if self.kept.len() >= capacity.saturating_add(capacity / 8).saturating_add(1024) {
            self.cut(capacity);
        }
        while self.bytes > self.room.bytes && self.kept.len() > 1 {
            self.cut(self.kept.len() / 8 * 7);
        }
    }

    /// What was built, shared by all attempts that built the same; a new one is counted.
    fn key_of(&mut self, key: &Key) -> Arc<Key> {
        self.texts.clear();
        for text in key.built_texts() {
            self.texts.extend_from_slice(&text.len().to_le_bytes());
            self.texts.extend_from_slice(text.as_bytes());
        }
        if let Some(known) = self.keys.get(self.texts.as_slice()) {
            return Arc::clone(known);
        }
        let new = Arc::new(key.built());
        self.bytes += new.allocated() + self.texts.len();
        self.keys.insert(self.texts.as_slice().into(), Arc::clone(&new));
        new
    }

    /// Leaves the newest, as many as these, in no order; and the keys of those that are left.
    fn cut(&mut self, most: usize) {
        let most = most.max(1);
        if self.kept.len() > most {
            self.kept.select_nth_unstable_by_key(most, |(ended, _)| std::cmp::Reverse(*ended));
            self.kept.truncate(most);
            self.stats.sweep();
            self.keys.retain(|_, key| Arc::strong_count(key) > 1);
            let attempts = self.kept.iter().map(|(_, fact)| bytes_of(&fact.brief)).sum::<usize>();
            self.bytes =
                attempts + self.keys.iter().map(|(texts, key)| texts.len() + key.allocated()).sum::<usize>();
        }
    }

    /// The newest is learnt last, so that it weighs most.
    fn oldest_first(mut self) -> Vec<Fact> {
        self.cut(self.room.attempts);
        // equal ends keep one order, whatever was cut
        let in_order = |a: &(u64, Fact), b: &(u64, Fact)| {
            a.0.cmp(&b.0).then_with(|| a.1.brief.attempt.cmp(&b.1.brief.attempt))
        };
        self.kept.sort_unstable_by(in_order);
        self.kept.into_iter().map(|(_, fact)| fact).collect()
    }
}

/// Which verdicts of the store can be learnt: their attempts with their keys, in memory that is bounded as the history's is, and no
/// verdict. Those are read again when it is known which attempts are remembered.
struct Judged {
    most: usize,
    /// Attempts with a verdict to learn from that were not met yet.
    waiting: HashSet<AttemptId>,
    /// The newest of them, each with its end, milliseconds since 1970.
    met: Vec<(u64, AttemptId, Key)>,
    strays: Strays,
}

impl Judged {
    fn of(most: usize) -> Self {
        Self { most, waiting: HashSet::new(), met: Vec::new(), strays: Strays::default() }
    }

    fn note(&mut self, verdict: &Verdict) {
        self.strays.note(verdict);
        if teaches(verdict) && !self.waiting.contains(&verdict.attempt) {
            self.waiting.insert(verdict.attempt.clone());
        }
    }

    fn meet(&mut self, summary: &Summary) {
        self.strays.meet(&summary.attempt);
        let waited = !self.waiting.is_empty() && self.waiting.remove(&summary.attempt);
        if waited && !summary.opening.untrusted {
            self.met.push((summary.ended_unix_ms(), summary.attempt.clone(), summary.key.clone()));
        }
        // the history remembers none that is older
        if self.met.len() >= self.most.saturating_mul(2).saturating_add(1024) {
            self.met.select_nth_unstable_by_key(self.most, |(ended, ..)| std::cmp::Reverse(*ended));
            self.met.truncate(self.most);
        }
    }
}

/// The others have no failure with a name.
const fn teaches(verdict: &Verdict) -> bool {
    verdict.outlook.signature.is_some()
}

/// What is kept of all summaries while they are read.
struct Recalled {
    judged: Judged,
    /// Trusted and untrusted ones: however many there are of these, they push none of those out.
    newest: [Newest; 2],
    metrics: Arc<Metrics>,
}

impl Recalled {
    fn take(&mut self, summary: &Summary) {
        self.judged.meet(summary);
        self.metrics.remember(summary);
        let [trusted, untrusted] = &mut self.newest;
        (if summary.opening.untrusted { untrusted } else { trusted }).take(summary);
    }
}

/// Hands on the verdict in force of each attempt, out of all verdicts in the order of their attempts.
struct InForce<F: FnMut(Verdict)> {
    last: Option<Verdict>,
    take: F,
}

impl<F: FnMut(Verdict)> InForce<F> {
    fn new(take: F) -> Self {
        Self { last: None, take }
    }

    fn push(&mut self, verdict: Verdict) {
        match self.last.take() {
            Some(last) if last.attempt == verdict.attempt => {
                let is_later = verdict.given_unix_ms >= last.given_unix_ms;
                self.last = Some(if is_later { verdict } else { last });
            }
            other => {
                self.end_with(other);
                self.last = Some(verdict);
            }
        }
    }

    fn end_with(&mut self, last: Option<Verdict>) {
        if let Some(last) = last {
            (self.take)(last);
        }
    }

    fn end(mut self) {
        let last = self.last.take();
        self.end_with(last);
    }
}

impl Worker {
    /// Learns the newest of the finished attempts, and the verdicts on them; gives the verdicts on others.
    pub(super) async fn recall(&self) -> Result<(Loaded, Strays), StoreError> {
        let room = self.parts.learned.room();
        let mut judged = Judged::of(room[0].attempts);
        let mut short = NewestShort::default();
        let stats = self.parts.learned.stats();
        let take = |verdict: Verdict| {
            short.take(&verdict);
            if verdict.action == Action::No {
                stats.expect_refused(&verdict.attempt);
            }
            judged.note(&verdict);
        };
        let mut in_force = InForce::new(take);
        store::load_verdicts(&self.parts.store, |verdict| in_force.push(verdict)).await?;
        in_force.end();
        short.note_all(&self.short_of_memory);
        let newest = room.map(|room| Newest::of(room, stats.clone()));
        let metrics = Arc::clone(&self.parts.metrics);
        let recalled = Arc::new(Mutex::new(Recalled { judged, newest, metrics }));
        let taking = Arc::clone(&recalled);
        // nobody else looks before the end
        let take =
            move |summary: &Summary| taking.lock().unwrap_or_else(PoisonError::into_inner).take(summary);
        let loaded = store::each_summary(&self.parts.store, take).await?;
        let recalled = Arc::into_inner(recalled)
            .ok_or_else(|| StoreError::Unavailable("it is still read".to_owned()))?;
        let Recalled { judged, newest, .. } = recalled.into_inner().unwrap_or_else(PoisonError::into_inner);
        let [_, known] = newest.map(|newest| self.parts.learned.learn_all(newest.oldest_first()));
        self.parts.metrics.history_attempts.set(i64::try_from(known).unwrap_or(i64::MAX));
        let Judged { met, strays, .. } = judged;
        self.recall_verdicts(met).await?;
        Ok((loaded, strays))
    }

    /// Learns the verdicts on these attempts, in the order of their ids, as far as they are remembered: one on another has nothing to
    /// say about the next one.
    async fn recall_verdicts(&self, met: Vec<(u64, AttemptId, Key)>) -> Result<(), StoreError> {
        let known: HashMap<AttemptId, Key> = met
            .into_iter()
            .filter(|(_, attempt, _)| self.parts.learned.knows(attempt))
            .map(|(_, attempt, key)| (attempt, key))
            .collect();
        if known.is_empty() {
            return Ok(());
        }
        let take = |verdict: Verdict| {
            if let Some(key) = known.get(&verdict.attempt).filter(|_| teaches(&verdict)) {
                self.parts.judging.learn(key, &verdict);
            }
        };
        let mut in_force = InForce::new(take);
        store::load_verdicts(&self.parts.store, |verdict| in_force.push(verdict)).await?;
        in_force.end();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
