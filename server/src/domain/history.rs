//! The summaries that a prediction may learn from, in memory and bounded.
//!
//! A summary stands in the order of arrival, under its id, and on each rung of the ladder. Lists of a rung keep the newest
//! [`PER_RUNG`]; the whole keeps the newest `capacity`. The oldest leaves everywhere at once, so that nothing leaks.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{AttemptId, Key, Rung, Summary};

/// Newest attempts kept on one rung. More would only average over times long gone.
const PER_RUNG: usize = 128;

/// Finished attempts by id and by similarity.
#[derive(Debug)]
pub struct History {
    capacity: usize,
    newest: VecDeque<Arc<Summary>>,
    by_id: HashMap<AttemptId, Arc<Summary>>,
    rungs: HashMap<RungKey, VecDeque<Arc<Summary>>>,
}

/// What attempts on one rung have in common.
type RungKey = (Rung, String);

impl History {
    /// An empty history of at most `capacity` attempts (at least 1).
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            newest: VecDeque::new(),
            by_id: HashMap::new(),
            rungs: HashMap::new(),
        }
    }

    /// Learns a summary. An attempt that is already known is not learnt twice.
    pub fn learn(&mut self, summary: Arc<Summary>) {
        if self.by_id.contains_key(&summary.attempt) {
            return;
        }
        while self.newest.len() >= self.capacity {
            self.forget_oldest();
        }
        for key in rung_keys(&summary.key) {
            let list = self.rungs.entry(key).or_default();
            if list.len() >= PER_RUNG {
                list.pop_front();
            }
            list.push_back(Arc::clone(&summary));
        }
        self.by_id.insert(summary.attempt.clone(), Arc::clone(&summary));
        self.newest.push_back(summary);
    }

    /// Puts a summary in the place of an earlier one of the same attempt and key; nothing happens if there is none.
    pub fn settle(&mut self, summary: &Arc<Summary>) {
        let Some(earlier) = self.by_id.get(&summary.attempt).filter(|known| known.key == summary.key) else {
            return;
        };
        let earlier = Arc::clone(earlier);
        // the same summary everywhere: readers tell attempts apart by the pointer. It is mostly among the newest.
        let put = |list: &mut VecDeque<Arc<Summary>>| {
            let place = list.iter_mut().rev().find(|known| Arc::ptr_eq(known, &earlier));
            if let Some(known) = place {
                *known = Arc::clone(summary);
            }
        };
        put(&mut self.newest);
        for key in rung_keys(&summary.key) {
            self.rungs.get_mut(&key).into_iter().for_each(put);
        }
        self.by_id.insert(summary.attempt.clone(), Arc::clone(summary));
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.newest.pop_front() else { return };
        self.by_id.remove(&oldest.attempt);
        for key in rung_keys(&oldest.key) {
            let Some(list) = self.rungs.get_mut(&key) else { continue };
            if list.front().is_some_and(|first| first.attempt == oldest.attempt) {
                list.pop_front();
            }
            if list.is_empty() {
                self.rungs.remove(&key);
            }
        }
    }

    /// The attempt with this id, if it is among those kept in memory.
    pub fn get(&self, id: &AttemptId) -> Option<&Arc<Summary>> {
        self.by_id.get(id)
    }

    /// Attempts that share the rung's part of `key`, newest first.
    pub fn on_rung(&self, rung: Rung, key: &Key) -> impl Iterator<Item = &Arc<Summary>> {
        self.rungs.get(&rung_key(rung, key)).into_iter().flat_map(|list| list.iter().rev())
    }

    /// All attempts, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<Summary>> {
        self.newest.iter().rev()
    }

    /// How many attempts may be kept.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many attempts are kept.
    pub fn len(&self) -> usize {
        self.newest.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }
}

fn rung_keys(key: &Key) -> impl Iterator<Item = RungKey> {
    // a key without a build system has no part in the rung of its build system
    let rungs = Rung::LADDER.into_iter();
    rungs
        .filter(|rung| *rung != Rung::BuildSystem || !key.build_system.is_empty())
        .map(|rung| rung_key(rung, key))
}

fn rung_key(rung: Rung, key: &Key) -> RungKey {
    let parts: &[&str] = match rung {
        Rung::Default | Rung::Fleet => &[],
        Rung::BuildSystem => &[&key.build_system],
        Rung::Package => &[&key.project, &key.package],
        Rung::NoCompiler => &[&key.project, &key.package, &key.variants, &key.arch, &key.build_system],
        Rung::NoVersion => &[
            &key.project,
            &key.package,
            &key.variants,
            &key.arch,
            &key.build_system,
            &key.compiler,
            &key.compiler_version,
        ],
        Rung::Exact => &[
            &key.project,
            &key.package,
            &key.variants,
            &key.arch,
            &key.build_system,
            &key.compiler,
            &key.compiler_version,
            &key.version,
        ],
    };
    // no part holds a control character, so the separator cannot be forged
    (rung, parts.join("\u{1f}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::{Bytes, Cores, CpuMicros, Exit, Millis, Outcome, Resources, Source};

    /// A finished attempt that needed `need_mib`.
    pub(crate) fn summary(id: &str, package: &str, version: &str, need_mib: u64) -> Summary {
        Summary {
            attempt: AttemptId::parse(id).unwrap(),
            key: Key { package: package.into(), version: version.into(), ..Key::default() },
            number: 1,
            retries: None,
            source: Source::CgroupV2,
            resources: Resources::default(),
            started_unix_ms: 1_700_000_000_000,
            origin: None,
            wall: Millis(60_000),
            cpu: CpuMicros(120_000_000),
            cpu_peak: Cores(4.0),
            samples: 60,
            samples_lost: 0,
            need_peak: Bytes(need_mib << 20),
            need_mean: Bytes(need_mib << 19),
            memory_peak: Bytes(need_mib << 21),
            oom_kill: Some(0),
            reclaim_failures: Some(0),
            outcome: Outcome::Succeeded,
            exit: Some(Exit::Code(0)),
            cause: None,
            censored: false,
            oom_origin: None,
            oom_group_kill: None,
            memory_stall: None,
            refaults: None,
            throttled: None,
            starved: None,
            starved_at_end: None,
            phases: Vec::new(),
        }
    }

    #[test]
    fn rungs_widen_from_exact_to_fleet() {
        let mut history = History::new(100);
        history.learn(Arc::new(summary("1", "zlib", "1.2", 10)));
        history.learn(Arc::new(summary("2", "zlib", "1.3", 10)));
        history.learn(Arc::new(summary("3", "hdf5", "1.3", 10)));
        let key = summary("x", "zlib", "1.3", 0).key;
        let ids = |rung| history.on_rung(rung, &key).map(|s| s.attempt.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(Rung::Exact), ["2"]);
        assert_eq!(ids(Rung::NoVersion), ["2", "1"]);
        assert_eq!(ids(Rung::Fleet), ["3", "2", "1"]);
        assert!(
            ids(Rung::BuildSystem).is_empty(),
            "an unknown build system has nothing in common with others"
        );
    }

    #[test]
    fn an_attempt_is_learnt_once() {
        let mut history = History::new(100);
        history.learn(Arc::new(summary("1", "zlib", "1", 10)));
        history.learn(Arc::new(summary("1", "zlib", "1", 99)));
        assert_eq!(history.len(), 1);
        assert_eq!(history.newest_first().next().unwrap().need_peak, Bytes(10 << 20));
    }

    #[test]
    fn a_settled_attempt_is_changed_everywhere_and_stands_where_it_stood() {
        let mut history = History::new(100);
        for n in 0..3 {
            history.learn(Arc::new(summary(&n.to_string(), "zlib", "1", 10)));
        }
        let settled = Arc::new(Summary { outcome: Outcome::Failed, ..summary("1", "zlib", "1", 10) });
        history.settle(&settled);
        history.settle(&Arc::new(summary("unknown", "zlib", "1", 10)));
        assert_eq!(history.len(), 3);
        for rung in Rung::LADDER.into_iter().filter(|rung| *rung != Rung::BuildSystem) {
            let second = history.on_rung(rung, &settled.key).nth(1).unwrap();
            assert!(Arc::ptr_eq(second, &settled), "{rung:?}");
        }
        assert!(Arc::ptr_eq(history.newest_first().nth(1).unwrap(), &settled));
        assert!(Arc::ptr_eq(history.get(&settled.attempt).unwrap(), &settled));
    }

    #[test]
    fn the_oldest_leaves_everywhere_at_once() {
        let mut history = History::new(10);
        for n in 0..1000 {
            history.learn(Arc::new(summary(&n.to_string(), &format!("p{n}"), "1", 10)));
        }
        assert_eq!(history.len(), 10);
        assert_eq!(history.by_id.len(), 10);
        let held: usize = history.rungs.values().map(VecDeque::len).sum();
        assert_eq!(held, 50, "five rungs of ten attempts");
        assert!(history.rungs.len() <= 41, "{} lists for ten packages", history.rungs.len());
    }
}
