//! Parts of a parallel job say what another part needs, as long as little is known of that one.

use super::*;

fn part(history: &mut History, id: &str, package: &str, mib: u64) {
    let mut summary = test_summary(id, package, "1", mib);
    summary.key.project = "g/a".into();
    history.learn(Arc::new(summary));
}

fn asked(package: &str) -> Key {
    Key { project: "g/a".into(), ..key(package, "1") }
}

#[test]
fn a_new_part_is_sized_like_its_siblings() {
    for (parts, new) in [
        (["test 1/3", "test 2/3", "test 3/3"], "test 2/4"),
        (["build: [a, x]", "build: [b, x]", "build: [c, x]"], "build: [d, y]"),
    ] {
        let mut history = History::new(100);
        for (n, name) in (0..12).zip(parts.iter().cycle()) {
            part(&mut history, &n.to_string(), name, 60);
        }
        let prediction = predict(&history, &asked(new), &Settings::default());
        let basis = &prediction.memory_request.basis;
        assert_eq!((basis.rung, prediction.attempts), (Rung::Siblings, 12), "{}", prediction.reason);
        assert!(prediction.memory_request.value < 100 * MIB, "{}", prediction.reason);
        assert!(prediction.reason.contains("other parts of this job"), "{}", prediction.reason);
        // another job, another project, and the job as a whole are other builds
        for other in [asked("lint 2/4"), asked("test"), Key { project: "g/b".into(), ..asked(new) }] {
            let prediction = predict(&history, &other, &Settings::default());
            assert_eq!(prediction.memory_request.basis.rung, Rung::Default, "{}", prediction.reason);
        }
    }
}

#[test]
fn a_known_part_is_not_sized_by_siblings() {
    let mut history = History::new(100);
    for n in 0..20 {
        part(&mut history, &format!("large{n}"), "build: [release]", 6000);
    }
    for n in 0..4 {
        part(&mut history, &format!("small{n}"), "build: [debug]", 60);
    }
    let prediction = predict(&history, &asked("build: [debug]"), &Settings::default());
    assert_eq!(prediction.memory_limit.basis.rung, Rung::Exact);
    assert!(prediction.memory_limit.value < 500 * MIB, "{}", prediction.reason);
}
