//! What callers saw who append to lists: could a single server over a single disk have given it?

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

/// An append, as its caller saw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Append {
    pub(super) list: u8,
    pub(super) id: u64,
    pub(super) begun: u64,
    /// When it was acknowledged, and with which version; `None` if it was not, or not known.
    pub(super) acknowledged: Option<(u64, u64)>,
}

/// A read of the last entry of a list, as its caller saw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastRead {
    pub(super) list: u8,
    pub(super) begun: u64,
    /// Id of the entry; 0 for an empty list.
    pub(super) id: u64,
}

/// An entry of a list in the database.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListEntry {
    pub(super) id: u64,
    /// Id of the entry that its writer read before it.
    pub(super) before: u64,
    pub(super) version: u64,
}

/// All that the callers saw, and the lists at the end.
#[derive(Debug, Clone, Default)]
pub(super) struct HistoryOfLists {
    pub(super) appends: Vec<Append>,
    pub(super) reads: Vec<LastRead>,
    pub(super) lists: BTreeMap<u8, Vec<ListEntry>>,
}

/// What no single server over a single disk could have done. The numbers are ids of appends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Anomaly {
    /// It was acknowledged, and is not in its list.
    Lost(u64),
    /// It is there more than once.
    Doubled(u64),
    /// Nothing appended it to this list.
    Invented(u64),
    /// The entry in front of it is not the one that its writer read: another writer wrote between.
    BrokenChain(u64),
    /// Its version is not the one that was acknowledged, or not above that of the entry in front of it, or another commit's.
    WrongVersion(u64),
    /// It was begun after the other one was acknowledged, and has no later version.
    OutOfOrder(u64, u64),
    /// It was acknowledged before the list was read, and the reader saw an earlier end of the list.
    StaleRead(u64),
    /// It was read, and is not in its list.
    Vanished(u64),
}

impl HistoryOfLists {
    /// All anomalies of this history.
    pub(super) fn anomalies(&self) -> Vec<Anomaly> {
        let mut found = Vec::new();
        self.check_entries(&mut found);
        self.check_chains(&mut found);
        self.check_order(&mut found);
        self.check_reads(&mut found);
        found
    }

    /// Each acknowledged append is there exactly once, each other one at most once, and nothing else is there.
    fn check_entries(&self, found: &mut Vec<Anomaly>) {
        let appends: BTreeMap<u64, &Append> = self.appends.iter().map(|append| (append.id, append)).collect();
        let mut seen = BTreeSet::new();
        for (list, entry) in
            self.lists.iter().flat_map(|(list, entries)| entries.iter().map(move |entry| (list, entry)))
        {
            if !seen.insert(entry.id) {
                found.push(Anomaly::Doubled(entry.id));
            }
            match appends.get(&entry.id).filter(|append| append.list == *list) {
                None => found.push(Anomaly::Invented(entry.id)),
                Some(Append { acknowledged: Some((_, version)), .. }) if *version != entry.version => {
                    found.push(Anomaly::WrongVersion(entry.id));
                }
                Some(_) => {}
            }
        }
        let acknowledged = self.appends.iter().filter(|append| append.acknowledged.is_some());
        found.extend(
            acknowledged.filter(|append| !seen.contains(&append.id)).map(|append| Anomaly::Lost(append.id)),
        );
    }

    /// Each entry follows the one that its writer read, with a higher version.
    fn check_chains(&self, found: &mut Vec<Anomaly>) {
        let start = ListEntry { id: 0, before: 0, version: 0 };
        for entries in self.lists.values() {
            for (before, entry) in iter::once(&start).chain(entries).zip(entries) {
                let is_broken = entry.before != before.id;
                let is_early = entry.version <= before.version;
                found.extend(is_broken.then_some(Anomaly::BrokenChain(entry.id)));
                found.extend(is_early.then_some(Anomaly::WrongVersion(entry.id)));
            }
        }
    }

    /// Versions differ, and agree with time over all lists.
    fn check_order(&self, found: &mut Vec<Anomaly>) {
        let mut begun: Vec<(&Append, u64)> =
            self.appends.iter().filter_map(|append| Some((append, append.acknowledged?.1))).collect();
        let mut ended: Vec<(u64, u64, u64)> = Vec::new();
        let mut versions = BTreeSet::new();
        for (append, version) in &begun {
            if !versions.insert(*version) {
                found.push(Anomaly::WrongVersion(append.id));
            }
            ended.extend(append.acknowledged.map(|(at, version)| (at, version, append.id)));
        }
        begun.sort_unstable_by_key(|(append, _)| append.begun);
        ended.sort_unstable();
        let mut ended = ended.into_iter().peekable();
        // the highest version that was acknowledged so far, and its append
        let mut highest = (0, 0);
        for (append, version) in begun {
            while let Some((_, version, id)) = ended.next_if(|(at, ..)| *at < append.begun) {
                highest = highest.max((version, id));
            }
            if version < highest.0 {
                found.push(Anomaly::OutOfOrder(append.id, highest.1));
            }
        }
    }

    /// A read sees all that was acknowledged before it, and what it sees stays.
    fn check_reads(&self, found: &mut Vec<Anomaly>) {
        let mut places: BTreeMap<u64, usize> =
            self.lists.values().flat_map(|entries| entries.iter().map(|entry| entry.id).zip(1..)).collect();
        places.insert(0, 0);
        for read in &self.reads {
            let Some(seen) = places.get(&read.id) else {
                found.push(Anomaly::Vanished(read.id));
                continue;
            };
            let is_before = |append: &&Append| {
                append.list == read.list && append.acknowledged.is_some_and(|(at, _)| at < read.begun)
            };
            let last = self.appends.iter().filter(is_before).max_by_key(|append| places.get(&append.id));
            let is_missed = |last: &&Append| places.get(&last.id) > Some(seen);
            found.extend(last.filter(is_missed).map(|last| Anomaly::StaleRead(last.id)));
        }
    }
}

/// Two lists: 1, 2, 3 in the first one, 4 in the second. The append of 3 was not acknowledged.
fn right_history() -> HistoryOfLists {
    let append = |list, id, begun, acknowledged| Append { list, id, begun, acknowledged };
    let entry = |id, before, version| ListEntry { id, before, version };
    HistoryOfLists {
        appends: vec![
            append(0, 1, 1, Some((2, 1))),
            append(0, 2, 3, Some((6, 2))),
            append(1, 4, 5, Some((7, 3))),
            append(0, 3, 8, None),
        ],
        reads: vec![LastRead { list: 0, begun: 7, id: 2 }, LastRead { list: 1, begun: 4, id: 0 }],
        lists: BTreeMap::from([
            (0, vec![entry(1, 0, 1), entry(2, 1, 2), entry(3, 2, 4)]),
            (1, vec![entry(4, 0, 3)]),
        ]),
    }
}

#[test]
fn each_kind_of_anomaly_is_found() {
    use Anomaly::{BrokenChain, Doubled, Invented, Lost, OutOfOrder, StaleRead, Vanished, WrongVersion};
    type Change = fn(&mut HistoryOfLists);
    fn list(history: &mut HistoryOfLists) -> &mut Vec<ListEntry> {
        history.lists.entry(0).or_default()
    }
    let cases: [(&str, Change, &[Anomaly]); 14] = [
        ("nothing is changed", |_| {}, &[]),
        ("what was not acknowledged is not there", |h| list(h).truncate(2), &[]),
        ("acknowledged ones are gone at the end", |h| list(h).truncate(1), &[Lost(2), Vanished(2)]),
        (
            "an acknowledged one was overwritten",
            |h| list(h).retain(|entry| entry.id != 2),
            &[Lost(2), BrokenChain(3), Vanished(2)],
        ),
        ("one is there twice", |h| list(h).push(ListEntry { id: 3, before: 3, version: 5 }), &[Doubled(3)]),
        (
            "one comes from nowhere",
            |h| list(h).push(ListEntry { id: 9, before: 3, version: 5 }),
            &[Invented(9)],
        ),
        ("one is in another list", |h| h.appends[3].list = 1, &[Invented(3)]),
        ("two wrote behind the same one", |h| list(h)[2].before = 1, &[BrokenChain(3)]),
        ("another version was acknowledged", |h| list(h)[1].version = 3, &[WrongVersion(2)]),
        ("versions fall", |h| list(h)[2].version = 2, &[WrongVersion(3)]),
        (
            "two have one version",
            |h| h.appends[2].acknowledged = Some((7, 2)),
            &[WrongVersion(4), WrongVersion(4)],
        ),
        ("a read is behind", |h| h.reads[0].id = 1, &[StaleRead(2)]),
        ("one was read and is gone", |h| (list(h).truncate(2), h.reads[0].id = 3).1, &[Vanished(3)]),
        ("a later one has an earlier version", swap_versions, &[OutOfOrder(4, 2)]),
    ];
    for (name, change, wrong) in cases {
        let mut history = right_history();
        change(&mut history);
        assert_eq!(history.anomalies(), wrong, "{name}");
    }
}

/// The append of 2 is acknowledged before that of 4 begins, and has the later version.
fn swap_versions(history: &mut HistoryOfLists) {
    history.appends[1].acknowledged = Some((4, 3));
    history.appends[2].acknowledged = Some((7, 2));
    history.lists.entry(0).or_default()[1].version = 3;
    history.lists.entry(1).or_default()[0].version = 2;
}
