//! What is learnt, where it stands, and what leaves.

use super::*;
use crate::domain::{Bytes, JobMark, Outcome, Summary, test_summary as summary};

#[test]
fn rungs_widen_from_exact_to_fleet() {
    let mut history = History::new(100);
    history.learn(Arc::new(summary("1", "zlib", "1.2", 10)));
    history.learn(Arc::new(summary("2", "zlib", "1.3", 10)));
    history.learn(Arc::new(summary("3", "hdf5", "1.3", 10)));
    let key = summary("x", "zlib", "1.3", 0).key;
    let ids = |rung| {
        history
            .on_rung(rung, &key)
            .map(|observation| observation.brief.attempt.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(Rung::Exact), ["2"]);
    assert_eq!(ids(Rung::NoVersion), ["2", "1"]);
    assert_eq!(ids(Rung::Fleet), ["3", "2", "1"]);
    assert!(ids(Rung::BuildSystem).is_empty(), "an unknown build system has nothing in common with others");
}

#[test]
fn a_key_without_an_arch_asks_for_any() {
    let mut history = History::new(100);
    let of = |id: &str, arch: &str| {
        let known = summary(id, "zlib", if id == "4" { "2" } else { "1" }, 10);
        Summary { key: Key { arch: arch.to_owned(), ..known.key.clone() }, ..known }
    };
    for (id, arch) in [("1", "x86_64"), ("2", ""), ("3", "aarch64"), ("4", "x86_64")] {
        history.learn(Arc::new(of(id, arch)));
    }
    for (arch, rung, expected) in
        [("", Rung::Exact, "321"), ("", Rung::NoVersion, "4321"), ("x86_64", Rung::Exact, "1")]
    {
        let key = of("x", arch).key;
        let found = history.similar_on_rung(rung, &key, true).map(|found| found.brief.attempt.as_str());
        assert_eq!(found.collect::<String>(), expected, "{rung:?} of {arch:?}");
    }
    // newer builds of another key fill the package's list
    let (old, key) = (of("0", ""), of("x", "").key);
    let mut history = History::new(1000);
    history.learn(Arc::new(old.clone()));
    for n in 10..10 + History::PER_RUNG {
        let newer = of(&n.to_string(), "x86_64");
        history.learn(Arc::new(Summary { key: Key { variants: "+x".into(), ..newer.key.clone() }, ..newer }));
    }
    let found: Vec<_> = history.similar_on_rung(Rung::Exact, &key, true).collect();
    assert!(found.len() == 1 && found[0].brief.attempt == old.attempt, "{found:?}");
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
fn an_unlearnt_attempt_is_removed_everywhere() {
    let mut history = History::new(100);
    history.learn(Arc::new(summary("1", "zlib", "1", 10)));
    let (held, highest) = (history.mean_held(), history.highest_need());
    history.learn(Arc::new(summary("2", "zlib", "1", 99)));
    history.learn(Arc::new(summary("3", "zlib", "1", 10)));
    let changes = history.changes();
    let id = AttemptId::parse("2").unwrap();
    history.unlearn(&id);
    assert!(history.changes() > changes && history.get(&id).is_none());
    let key = summary("x", "zlib", "1", 0).key;
    for rung in [Rung::Exact, Rung::Package, Rung::Fleet] {
        let ids: Vec<&str> =
            history.on_rung(rung, &key).map(|observation| observation.brief.attempt.as_str()).collect();
        assert_eq!(ids, ["3", "1"]);
    }
    assert!((history.mean_held() - held).abs() < 1e-12 && history.highest_need() == highest);
    history.unlearn(&id);
    history.learn(Arc::new(summary("2", "zlib", "1", 20)));
    assert_eq!((history.len(), history.highest_need()), (3, Some(Bytes(20 << 20))));
}

#[test]
fn a_replaced_attempt_changes_everywhere_in_place() {
    let mut history = History::new(100);
    for n in 0..3 {
        history.learn(Arc::new(summary(&n.to_string(), "zlib", "1", 10)));
    }
    let settled = Summary { outcome: Outcome::Failed, ..summary("1", "zlib", "1", 10) };
    history.replace_summary(&settled);
    history.replace_summary(summary("unknown", "zlib", "1", 10));
    assert_eq!(history.len(), 3);
    // it names no build system, and is no part of a parallel job
    let has = |rung: &Rung| !matches!(rung, Rung::BuildSystem | Rung::Siblings);
    for rung in Rung::LADDER.into_iter().filter(has) {
        let second = history.on_rung(rung, &settled.key).nth(1).unwrap();
        assert_eq!((&second.brief.attempt, second.brief.outcome), (&settled.attempt, Outcome::Failed));
        assert!(Arc::ptr_eq(&second.brief, history.get(&settled.attempt).unwrap()), "{rung:?}");
    }
    let second = history.newest_first().nth(1).unwrap();
    assert!(Arc::ptr_eq(second, history.get(&settled.attempt).unwrap()));
}

#[test]
fn unneeded_builds_do_not_lower_the_mean_held() {
    let mut history = History::new(10);
    history.learn(summary("1", "zlib", "1", 1024));
    let held = history.mean_held();
    history.learn(Summary { unneeded: true, ..summary("2", "zlib", "1", 8) });
    history.learn(summary("3", "zlib", "1", 8));
    history.replace_summary(Summary { unneeded: true, ..summary("3", "zlib", "1", 8) });
    assert!(held > 0.0 && (history.mean_held() - held).abs() < 1e-12);
}

#[test]
fn the_oldest_leaves_everywhere_at_once() {
    let mut history = History::new(10);
    for n in 0..1000 {
        history.learn(Arc::new(summary(&n.to_string(), &format!("p{n}"), "1", 10)));
    }
    assert_eq!(history.len(), 10);
    assert_eq!(history.trusted.by_id.len(), 10);
    for n in 0..1000 {
        let key = Key { package: format!("p{n}"), version: "1".into(), ..Key::default() };
        assert_eq!(history.on_rung(Rung::Exact, &key).count(), usize::from(n >= 990));
        assert_eq!(history.on_rung(Rung::Fleet, &key).count(), 10);
    }
}

#[test]
fn attempts_share_a_key_across_branches_and_labels() {
    let mut history = History::new(100);
    for n in 0..3 {
        let mut summary = summary(&n.to_string(), "zlib", "1", 10);
        summary.key.git_ref = format!("branch-{n}");
        summary.key.labels =
            [("pipeline".to_owned(), n.to_string()), ("job".to_owned(), "b".to_owned())].into();
        summary.key.hints.input_bytes = Some(n);
        history.learn(summary);
    }
    let keys: Vec<_> = history.newest_first().map(|brief| Arc::as_ptr(&brief.key)).collect();
    assert!(keys.iter().all(|key| *key == keys[0]));
    let mut job = Key::default();
    for (n, brief) in history.newest_first().enumerate() {
        job.labels =
            [("pipeline".to_owned(), (2 - n).to_string()), ("job".to_owned(), "b".to_owned())].into();
        assert_eq!(brief.job, JobMark::of(&job));
    }
}

#[test]
fn memory_is_bounded_by_bytes_for_long_names() {
    let room = HistoryLimits { attempts: 10_000, bytes: 4 << 20 };
    let mut history = History::with_room(room);
    let long = |n: usize| {
        let mut summary = summary(&format!("{n:0>128}"), &"p".repeat(256), &n.to_string(), 10);
        summary.key.variants = "v".repeat(2048);
        summary
    };
    for n in 0..3000 {
        history.learn(long(n));
        // the key of the last one came after room was made
        assert!(history.bytes() <= room.bytes + 4096, "{}", history.bytes());
    }
    let long_ones = history.len();
    assert!((500..1500).contains(&long_ones), "{long_ones}");
    assert_eq!(history.newest_first().next().unwrap().key.version, "2999", "the oldest went");
    for n in 0..20_000 {
        history.learn(summary(&n.to_string(), "zlib", "1", 10));
    }
    assert_eq!(history.len(), room.attempts, "short ones have room again");
    assert!(history.bytes() < room.bytes);
    let mut same = History::with_room(room);
    same.learn_all((0..20_000).map(|n| summary(&n.to_string(), "zlib", "1", 10).into()).collect());
    assert!(same.bytes() <= history.bytes(), "{} {}", same.bytes(), history.bytes());
}

/// Attempts of keys that share some rungs, trusted and not, oldest first.
fn mixed(n: usize) -> Summary {
    let text = |what: &str, of: usize| format!("{what}{}", n / of % 3);
    let mut summary = summary(&n.to_string(), &text("p", 1), &text("v", 3), 10 + n as u64);
    (summary.key.compiler, summary.key.build_system) = (text("c", 9), text("b", 27));
    summary.opening.untrusted = n.is_multiple_of(5);
    summary
}

#[test]
fn bulk_learning_equals_learning_one_by_one() {
    for capacity in [100, 700, 5000] {
        let (mut each, mut all) = (History::new(capacity), History::new(capacity));
        (0..2000).for_each(|n| each.learn(mixed(n)));
        all.learn_all((0..2000).map(|n| mixed(n).into()).collect());
        // and what comes later finds them alike
        for n in 2000..2300 {
            each.learn(mixed(n));
            all.learn_all(vec![mixed(n).into()]);
        }
        let ids = |observations: &mut dyn Iterator<Item = &Arc<AttemptBrief>>| {
            observations.map(|brief| brief.attempt.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&mut all.newest_first()), ids(&mut each.newest_first()));
        for (key, rung) in
            (0..81).map(|n| mixed(n).key).flat_map(|key| Rung::LADDER.map(|rung| (key.clone(), rung)))
        {
            let trusted = |history: &History| {
                ids(&mut history.on_rung(rung, &key).map(|observation| &observation.brief))
            };
            let untrusted = |history: &History| {
                ids(&mut history.untrusted_on_rung(rung, &key).map(|observation| &observation.brief))
            };
            assert_eq!(trusted(&all), trusted(&each), "{rung:?} {key:?}");
            assert_eq!(untrusted(&all), untrusted(&each), "{rung:?} {key:?}");
        }
        assert!((all.mean_held() / each.mean_held() - 1.0).abs() < 1e-9);
        assert!(all.bytes() <= each.bytes() / 10 * 11, "{} {}", all.bytes(), each.bytes());
    }
}

#[test]
fn bulk_learning_evicts_the_oldest() {
    let mut history = History::with_room(HistoryLimits { attempts: 10_000, bytes: 1 << 20 });
    let long = |n: usize| {
        RungObservation::from(summary(&format!("{n:0>128}"), &"p".repeat(256), &n.to_string(), 10))
    };
    // these would find room behind those that do not
    let short = (0..10).map(|n| RungObservation::from(summary(&n.to_string(), &"p".repeat(256), "2999", 10)));
    history.learn_all(short.chain((0..3000).map(long)).collect());
    let versions: Vec<String> = history.newest_first().map(|brief| brief.key.version.clone()).collect();
    let kept = versions.len();
    assert!((100..2000).contains(&kept) && history.bytes() <= (1 << 20) + 4096, "{kept} {}", history.bytes());
    assert_eq!(versions, (0..kept).map(|n| (2999 - n).to_string()).collect::<Vec<_>>());
}

#[test]
fn one_attempt_is_kept_in_any_budget() {
    let mut history = History::with_room(HistoryLimits { attempts: 10, bytes: 0 });
    for n in 0..3 {
        history.learn(summary(&n.to_string(), "zlib", "1", 10));
    }
    assert_eq!(history.newest_first().map(|brief| brief.attempt.to_string()).collect::<Vec<_>>(), ["2"]);
    assert_eq!(history.on_rung(Rung::Package, &summary("x", "zlib", "2", 0).key).count(), 1);
}
