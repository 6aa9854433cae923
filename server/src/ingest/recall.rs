//! What is known of finished attempts at a start: the newest of them to learn from, and the verdicts on them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use foldhash::fast::RandomState;

use super::{again::NewestShort, strays::Strays, worker::Worker};
use crate::{
    domain::{Action, AttemptId, Fact, Key, Room, Summary, Verdict, bytes_of},
    learned::Ended,
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
    /// Each key once: a million attempts have some thousand.
    keys: HashSet<Arc<Key>, RandomState>,
    stats: Stats,
}

impl Newest {
    fn of(room: Room, stats: Stats) -> Self {
        Self { room, bytes: 0, kept: Vec::new(), keys: HashSet::default(), stats }
    }

    fn take(&mut self, summary: Summary) {
        let ended_unix_ms = summary.ended_unix_ms();
        let Ended { mut fact, beside } = summary.into();
        if let Some(key) = self.keys.get(&fact.brief.key) {
            fact.share(key);
        } else {
            self.bytes += fact.brief.key.allocated();
            self.keys.insert(Arc::clone(&fact.brief.key));
        }
        self.bytes += bytes_of(&fact.brief);
        self.stats.add_one_of_many(&beside, &fact.brief);
        self.kept.push((ended_unix_ms, fact));
        // cutting now and then costs less than keeping order all the time
        let capacity = self.room.attempts;
        if self.kept.len() >= capacity.saturating_add(capacity / 8).saturating_add(1024) {
            self.cut(capacity);
        }
        while self.bytes > self.room.bytes && self.kept.len() > 1 {
            self.cut(self.kept.len() / 8 * 7);
        }
    }

    /// Leaves the newest, as many as these, in no order; and the keys of those that are left.
    fn cut(&mut self, most: usize) {
        let most = most.max(1);
        if self.kept.len() > most {
            self.kept.select_nth_unstable_by_key(most, |(ended, _)| std::cmp::Reverse(*ended));
            self.kept.truncate(most);
            self.stats.sweep();
            self.keys.retain(|key| Arc::strong_count(key) > 1);
            let attempts = self.kept.iter().map(|(_, fact)| bytes_of(&fact.brief)).sum::<usize>();
            self.bytes = attempts + self.keys.iter().map(|key| key.allocated()).sum::<usize>();
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
        if self.waiting.remove(&summary.attempt) && !summary.opening.untrusted {
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
    fn take(&mut self, summary: Summary) {
        self.judged.meet(&summary);
        self.metrics.remember(&summary);
        let [trusted, untrusted] = &mut self.newest;
        (if summary.opening.untrusted { untrusted } else { trusted }).take(summary);
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
        store::load_verdicts(&self.parts.store, take).await?;
        short.note_all(&self.short_of_memory);
        let newest = room.map(|room| Newest::of(room, stats.clone()));
        let metrics = Arc::clone(&self.parts.metrics);
        let recalled = Arc::new(Mutex::new(Recalled { judged, newest, metrics }));
        let taking = Arc::clone(&recalled);
        // nobody else looks before the end
        let take = move |summary| taking.lock().unwrap_or_else(PoisonError::into_inner).take(summary);
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
        store::load_verdicts(&self.parts.store, take).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::{
        domain::{Cause, History, JobName, Opening, Outcome, test_summary},
        ingest::{Ingest, fixture},
        store::{Batch, Store},
    };

    /// What a server with room for `capacity` attempts knows after its start.
    async fn started(store: &Store, capacity: usize) -> Ingest {
        let (ingest, mut worker) = fixture::ingest(store, capacity);
        worker.resume().await.unwrap();
        ingest
    }

    fn ended(id: &str, hour: u64) -> Summary {
        let mut summary = test_summary(id, "zlib", "1", 10);
        summary.started_unix_ms += hour * 3_600_000;
        summary.key.hints.build_jobs = Some(8);
        summary.key.git_ref = "main".into();
        summary.key.labels = [("commit".to_owned(), "abc".to_owned())].into();
        summary
    }

    fn verdict(of: &Summary) -> Verdict {
        fixture::verdict(&of.attempt)
    }

    /// One attempt that is too old, one that failed, and its retry, which passed.
    async fn filled() -> (Store, [Summary; 3]) {
        let store = Store::memory();
        let failed = Summary { outcome: Outcome::Failed, ..ended("1-failed", 1) };
        let retry = Summary { retries: Some(failed.attempt.clone()), ..ended("0-retry", 2) };
        let old = Summary { outcome: Outcome::Failed, ..ended("2-old", 0) };
        let mut batch = Batch::default();
        for summary in [&old, &failed, &retry] {
            store::put_summary(&mut batch, summary).unwrap();
        }
        for summary in [&old, &failed] {
            store::put_verdict(&mut batch, 7, &verdict(summary)).unwrap();
        }
        store.commit(batch).await.unwrap();
        (store, [old, failed, retry])
    }

    #[tokio::test]
    async fn a_start_knows_the_newest_and_what_became_of_retries_by_the_whole_key() {
        let (store, [old, failed, retry]) = filled().await;
        let ingest = started(&store, 2).await;
        let newest: Vec<_> =
            ingest.parts.learned.newest_first().iter().map(|brief| brief.attempt.clone()).collect();
        assert_eq!(newest, [retry.attempt, failed.attempt]);
        assert_eq!(ingest.parts.metrics.history_attempts.get(), 2);
        assert!(!ingest.parts.learned.knows(&old.attempt));
        let flaky = ingest.flaky(10);
        assert_eq!(flaky.len(), 1, "{flaky:?}");
        assert_eq!((flaky[0].key.as_str(), flaky[0].helped.passed), ("zlib@1 -j8", 1));
        assert_eq!(ingest.listed(&old.attempt).await.unwrap(), Some(old), "it is still on disk");
    }

    #[tokio::test]
    async fn untrusted_attempts_push_no_trusted_one_out_and_say_nothing_of_retries() {
        let store = Store::memory();
        let mut batch = Batch::default();
        let untrusted = |id: String, hour| {
            let opening = Opening { untrusted: true, ..Opening::default() };
            Summary { opening, ..ended(&id, hour) }
        };
        for n in 0..40 {
            let failed = Summary { outcome: Outcome::Failed, ..untrusted(format!("x{n}"), 10 + n) };
            let retry =
                Summary { retries: Some(failed.attempt.clone()), ..untrusted(format!("y{n}"), 100 + n) };
            store::put_verdict(&mut batch, 7, &verdict(&failed)).unwrap();
            store::put_summary(&mut batch, &failed).unwrap();
            store::put_summary(&mut batch, &retry).unwrap();
        }
        let trusted = [ended("1", 0), ended("2", 1)];
        for summary in &trusted {
            store::put_summary(&mut batch, summary).unwrap();
        }
        store.commit(batch).await.unwrap();
        let ingest = started(&store, 2).await;
        assert!(trusted.iter().all(|summary| ingest.parts.learned.knows(&summary.attempt)));
        assert_eq!(ingest.parts.learned.newest_first().len(), 2 + 1, "one untrusted one beside them");
        assert_eq!(ingest.flaky(10), []);
    }

    #[test]
    fn of_attempts_whose_names_are_long_the_newest_are_read_within_the_memory_for_them() {
        let stats = Stats::new(crate::stats::Settings::default());
        let mut newest = Newest::of(Room { attempts: 100_000, bytes: 1 << 20 }, stats);
        let mut most = 0;
        for n in 0..3000_u64 {
            // their order is none
            let hour = n * 7 % 3000;
            let mut summary = ended(&n.to_string(), hour);
            summary.key.variants = format!("{hour:0>1000}");
            newest.take(summary);
            most = most.max(newest.bytes);
            assert!(newest.keys.len() <= newest.kept.len());
        }
        assert!(most <= 1 << 20, "{most}");
        let left = newest.oldest_first();
        assert!((300..1000).contains(&left.len()), "{}", left.len());
        assert_eq!(left.last().unwrap().brief.key.variants, format!("{:0>1000}", 2999));
    }

    #[tokio::test]
    async fn of_the_verdicts_on_attempts_that_nobody_measured_the_oldest_go_and_no_others() {
        let (store, [_, failed, _]) = filled().await;
        let (open, mut batch) = (fixture::attempt("open"), Batch::default());
        store::put_attempt(&mut batch, &open).unwrap();
        let stray = |n: u64| ended(&format!("stray-{n}"), 0);
        for n in 0..25 {
            let given = Verdict { given_unix_ms: (n > 0).then_some(n), ..verdict(&stray(n)) };
            store::put_verdict(&mut batch, 7, &given).unwrap();
        }
        store::put_verdict(&mut batch, 7, &verdict(&ended("open", 0))).unwrap();
        store.commit(batch).await.unwrap();
        let (_ingest, mut worker) = fixture::ingest(&store, 10);
        let holds = async |id: &AttemptId| store::count_verdicts(&store, id, 9).await.unwrap() == 1;
        for (most, first_kept) in [(25, 0_u64), (20, 7), (20, 7)] {
            let (_loaded, strays) = worker.recall().await.unwrap();
            worker.drop_strays(strays, slice::from_ref(&open), most).await;
            let gone = first_kept.checked_sub(1).map(stray);
            assert!(holds(&stray(first_kept).attempt).await && holds(&stray(24).attempt).await, "of {most}");
            assert!(gone.is_none() || !holds(&gone.unwrap().attempt).await, "of {most}");
            assert!(holds(&failed.attempt).await && holds(&open.id).await);
        }
        // all others are of 1970
        let mut batch = Batch::default();
        let young = Verdict { given_unix_ms: Some(u64::MAX), ..verdict(&stray(99)) };
        store::put_verdict(&mut batch, 7, &young).unwrap();
        store.commit(batch).await.unwrap();
        let summaries_for = Some(std::time::Duration::from_hours(1));
        worker.parts.retain = crate::ingest::Retain { summaries_for, ..worker.parts.retain };
        let (_loaded, strays) = worker.recall().await.unwrap();
        worker.drop_strays(strays, slice::from_ref(&open), 25).await;
        assert!(!holds(&stray(24).attempt).await, "older than summaries may get");
        assert!(holds(&young.attempt).await && holds(&failed.attempt).await && holds(&open.id).await);
    }

    #[tokio::test]
    async fn a_start_knows_the_jobs_that_memory_ended_although_nobody_measured_them() {
        let (store, mut batch) = (Store::memory(), Batch::default());
        let labels = [("pipeline", "7"), ("job", "build")].map(|(name, said)| (name.into(), said.into()));
        let key = Key { project: "a/b".into(), labels: labels.into(), ..Key::default() };
        let bigger = |gib: u64| {
            let settings = crate::predict::Settings::default();
            let mut next = crate::predict::predict(&History::new(1), &key, &settings);
            next.memory_limit.value = gib << 30;
            Some(next)
        };
        // the older one has the later id
        for (id, given, gib) in [("2", 10, 64), ("1", 20, 96)] {
            let (job, given_unix_ms) = (JobName::of(&key), Some(given));
            let killed = Verdict { cause: Cause::Oom, next: bigger(gib), ..verdict(&ended(id, 0)) };
            store::put_verdict(&mut batch, 7, &Verdict { given_unix_ms, job, ..killed }).unwrap();
        }
        store.commit(batch).await.unwrap();
        let ingest = started(&store, 2).await;
        let next = ingest.again(&key).await.unwrap().unwrap();
        assert_eq!(next.memory_limit.value, 96 << 30, "the last one counts");
        assert_eq!(ingest.again(&Key { project: "c/d".into(), ..key }).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_damaged_summary_costs_itself_alone() {
        let (store, [_, failed, _]) = filled().await;
        fixture::damage_summary(&store, &failed.attempt).await;
        let ingest = started(&store, 10).await;
        assert_eq!(ingest.parts.learned.newest_first().len(), 2);
        assert_eq!(ingest.flaky(10), []);
        assert_eq!(ingest.listed(&failed.attempt).await.unwrap(), None, "left out of lists");
    }
}
