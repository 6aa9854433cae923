//! What is said while little is known: a default is not knowledge, and one package does not speak for all others.

use super::super::{similar::FEWEST_PACKAGES, *};
use crate::domain::{Cores, CpuMicros, Millis, Rung, Summary, test_history as history, test_summary};

const MIB: u64 = Bytes::MIB.0;

/// `count` builds of each of so many packages, with eight cores and twenty GiB.
fn measured(packages: usize, count: usize) -> Vec<Summary> {
    let of = |n: usize| {
        let mut summary = test_summary(&n.to_string(), &format!("known-{}", n / count), "1", 20_000);
        summary.key.build_system = "cmake".to_owned();
        (summary.cpu, summary.cpu_peak) = (CpuMicros(summary.wall.0 * 8000), Cores(10.0));
        summary
    };
    (0..packages * count).map(of).collect()
}

fn unknown() -> Key {
    Key { package: "unknown".into(), version: "1".into(), build_system: "cmake".into(), ..Key::default() }
}

#[test]
fn few_packages_do_not_predict_unknown_ones() {
    let settings = Settings::default();
    let default = predict(&history([]), &unknown(), &settings);
    for (packages, count) in [(1, 5), (1, 500), (FEWEST_PACKAGES - 1, 5)] {
        let history = history(measured(packages, count));
        assert_eq!(predict(&history, &unknown(), &settings), default, "{packages} packages");
        assert_eq!(default, defaults(&unknown(), &settings));
    }
    assert_eq!((default.confidence.to_bits(), default.cpu_request.value), (0, 1000));
}

#[test]
fn enough_different_packages_say_what_builds_are_like() {
    let history = history(measured(FEWEST_PACKAGES, 5));
    let prediction = predict(&history, &unknown(), &Settings::default());
    assert_eq!(prediction.memory_limit.basis.rung, Rung::BuildSystem);
    assert!(prediction.memory_limit.value > 20_000 * MIB && prediction.attempts == 50, "{prediction:?}");
    // of another build system nothing is known, but of the fleet
    let other = Key { build_system: "bazel".into(), ..unknown() };
    let prediction = predict(&history, &other, &Settings::default());
    assert_eq!((prediction.memory_limit.basis.rung, prediction.attempts), (Rung::Fleet, 50));
}

#[test]
fn small_build_systems_count_with_the_fleet() {
    let mut all = measured(FEWEST_PACKAGES + 1, 2);
    for summary in all.iter_mut().filter(|summary| summary.key.package != "known-0") {
        summary.key.build_system = "meson".to_owned();
    }
    let prediction = predict(&history(all), &unknown(), &Settings::default());
    assert_eq!(prediction.memory_limit.basis.rung, Rung::Fleet);
    assert_eq!(prediction.attempts, 22, "those of cmake, too");
}

#[test]
fn other_packages_do_not_set_the_next_step() {
    for packages in [1, FEWEST_PACKAGES] {
        let known = history(measured(packages, 5));
        let next = predict_above(&known, &unknown(), &Settings::default(), Bytes(128 << 20));
        assert_eq!(next, Bytes(228 << 20), "{packages} packages");
    }
}

#[test]
fn a_package_is_sized_from_its_first_build() {
    let first = test_summary("1", "unknown", "1", 9000);
    let prediction = predict(&history([first]), &unknown(), &Settings::default());
    assert!(prediction.memory_limit.value > 9000 * MIB, "{}", prediction.reason);
}

#[test]
fn unmeasured_cpu_stays_at_the_default() {
    // as recorded history often is: memory and time, and no CPU
    let silent = |n: usize| Summary {
        cpu: CpuMicros(0),
        cpu_peak: Cores(0.0),
        ..test_summary(&n.to_string(), "unknown", "1", 9000 + n as u64)
    };
    for count in [1, 2, 10, 200] {
        let prediction = predict(&history((0..count).map(silent)), &unknown(), &Settings::default());
        let cpu = [&prediction.cpu_request, &prediction.cpu_limit];
        assert_eq!(cpu.map(|size| size.value), [1000, 2000], "after {count} attempts");
        for size in cpu {
            let bound = size.basis.bound.to_string();
            let basis = (size.basis.rung, size.basis.attempts, &*bound);
            assert_eq!((basis, size.basis.quantile.to_bits()), ((Rung::Default, 0, "default"), 0));
        }
        assert!(prediction.attempts as usize == count.min(History::PER_RUNG), "the memory is known");
    }
}

#[test]
fn the_cpu_default_raises_no_measured_limit() {
    let idle = |n: usize| {
        let mut summary = test_summary(&n.to_string(), "unknown", "1", 100);
        (summary.cpu, summary.cpu_peak, summary.wall) = (CpuMicros(0), Cores(0.5), Millis(1000));
        summary
    };
    let prediction = predict(&history((0..9).map(idle)), &unknown(), &Settings::default());
    assert!((500..520).contains(&prediction.cpu_limit.value), "{:?}", prediction.cpu_limit);
    assert_eq!(prediction.cpu_limit.basis.bound.to_string(), "");
    assert!(prediction.cpu_request.value <= prediction.cpu_limit.value);
    assert_eq!(prediction.cpu_request.basis.rung, Rung::Default);
}
