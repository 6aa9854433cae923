//! Suggestions on made histories whose answer is known.

mod pools;

use std::{collections::BTreeSet, fmt::Write as _};

use plimsoll_core::placement::{CoprEntry, CoprTable, Placement};

use super::*;
use crate::import::Reader;

const TAG: &str = "extra_powerful";
/// An hour, milliseconds.
const HOUR: f64 = 3_600_000.0;
/// 2026-01-01, milliseconds since 1970.
const START: u64 = 1_767_225_600_000;

/// Seeded numbers: the same in every run (Knuth's multiplier for MMIX, upper bits of the product).
struct Dice(u64);

impl Dice {
    fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
    }

    /// Between two numbers.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.even()
    }
}

/// A package of a made history.
struct MadePackage {
    name: String,
    /// Time on four cores, milliseconds.
    wall: f64,
    /// Serial part of the work, 0 to 1.
    serial: f64,
    /// How often it is built, relative to others.
    weight: f64,
}

/// `profiting` packages that a builder with 64 cores would finish four times as fast, and others that are short, serial, rare or faster by
/// less than half.
fn packages(profiting: usize, dice: &mut Dice) -> Vec<MadePackage> {
    let mut all = Vec::new();
    let mut add = |name: String, wall, serial, weight| all.push(MadePackage { name, wall, serial, weight });
    for n in 0..profiting {
        add(format!("big-{n}"), dice.between(3.0, 9.0), dice.between(0.01, 0.05), 1.0);
    }
    for n in 0..40 {
        add(format!("short-{n}"), dice.between(0.05, 1.2), dice.between(0.0, 0.3), 1.5);
    }
    for n in 0..20 {
        add(format!("serial-{n}"), dice.between(2.5, 9.0), dice.between(0.4, 0.95), 1.0);
    }
    all
}

/// A CSV of so many builds. With noise, times differ by a quarter, one in thirty takes three times as long, and some fail.
fn history(count: usize, packages: &[MadePackage], dice: &mut Dice) -> String {
    let mut text =
        "attempt,owner,project,package,arch,build_jobs,submitted_ms,wall_ms,peak_bytes,cpu_usec,outcome,untrusted\n".to_owned();
    let weights: f64 = packages.iter().map(|package| package.weight).sum();
    for n in 0..count {
        let mut at = dice.even() * weights;
        let package = packages.iter().find(|package| {
            at -= package.weight;
            at <= 0.0
        });
        let package = package.unwrap_or(&packages[0]);
        let jobs = [2.0, 4.0, 4.0, 8.0][n % 4];
        let single = package.wall * HOUR / (package.serial + (1.0 - package.serial) / 4.0);
        let outlier = if dice.even() < 1.0 / 30.0 { 3.0 } else { 1.0 };
        let wall =
            single * (package.serial + (1.0 - package.serial) / jobs) * dice.between(0.8, 1.25) * outlier;
        let cpu = single * dice.between(0.9, 1.1);
        let outcome = if dice.even() < 0.05 { "failed" } else { "success" };
        let chroot = ["fedora-42-x86_64", "fedora-rawhide-x86_64"][n % 2];
        let submitted = START + u64::try_from(n).unwrap() * 900_000;
        writeln!(
            text,
            "b{n},@team,apps,{},{chroot},{jobs:.0},{submitted},{wall:.0},1000000000,{:.0},{outcome},",
            package.name,
            cpu * 1000.0
        )
        .unwrap();
    }
    // a rare package that would profit, were more known of it, and one of strangers
    for n in 0..4 {
        writeln!(
            text,
            "r{n},@team,apps,rare,fedora-42-x86_64,4,{START},20000000,1000000000,79000000000,success,"
        )
        .unwrap();
    }
    for n in 0..50 {
        writeln!(
            text,
            "u{n},eve,apps,miner,fedora-42-x86_64,4,{START},20000000,1000000000,79000000000,success,true"
        )
        .unwrap();
    }
    text
}

fn read(text: &str) -> RecordedBuilds {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let builds = RecordedBuilds::read(Reader::open(file.path()).unwrap(), |_| ()).unwrap();
    assert_eq!(builds.refusals.count, 0, "{}", builds.refusals);
    builds
}

fn terms() -> SuggestTerms {
    let pools = Placement::parse(
        "[[pool]]\nname = \"x86\"\ncores = 4\nmemory = \"16GiB\"\nprice_core_hour = 0.05\n\
         [[pool]]\nname = \"powerful\"\ncores = 64\nmemory = \"256GiB\"\nprice_core_hour = 0.03\n",
    )
    .unwrap();
    let [normal, powerful] = ["x86", "powerful"].map(|name| Builder::of(pools.pool(name).unwrap()).unwrap());
    SuggestTerms { normal, powerful, at_least: Millis(2 * 3_600_000), speedup: 2.0, hour_worth: None }
}

fn named(all: &[Suggestion<'_>], verdict: ListVerdict) -> BTreeSet<String> {
    all.iter().filter(|one| one.verdict == verdict).map(|one| one.group.package.clone()).collect()
}

#[test]
fn suggestions_name_exactly_the_packages_that_profit() {
    for (seed, profiting) in [(1, 12), (2, 12), (3, 12), (2026, 12), (77, 0), (78, 0)] {
        let mut dice = Dice(seed);
        let packages = packages(profiting, &mut dice);
        let builds = read(&history(2000, &packages, &mut dice));
        let all = suggest(&builds, &CoprTable::default(), TAG, &terms());
        let expected = (0..profiting).map(|n| format!("big-{n}")).collect();
        assert_eq!(named(&all, ListVerdict::Add), expected, "seed {seed}\n{}", text(&all, &terms(), ""));
    }
}

const LIST: &str = r#"EXTRA_BUILDCHROOT_TAGS = [
    {"pattern": "@team/apps/.*/serial-1$", "tags": ["extra_powerful"]},
    {"pattern": "@team/apps/.*/big-1$", "tags": ["extra_powerful"]},
    {"pattern": "@team/apps/.*/(big-2|serial-2)$", "tags": ["extra_powerful"]},
    {"pattern": "@other/.*", "tags": ["extra_powerful"]},
    {"pattern": "@team/apps/.*/short-1$", "tags": ["big_disk"]},
]"#;

#[test]
fn the_new_list_drops_only_packages_without_profit() {
    let mut dice = Dice(5);
    let packages = packages(12, &mut dice);
    let builds = read(&history(2000, &packages, &mut dice));
    let old = CoprTable::parse(LIST).unwrap();
    let all = suggest(&builds, &old, TAG, &terms());
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(named(&all, ListVerdict::Keep), of(&["big-1", "big-2"]));
    assert_eq!(named(&all, ListVerdict::Remove), of(&["serial-1", "serial-2"]));
    let new = new_list(&old, &all, TAG).unwrap();
    let printed = new.to_string();
    // what is printed is read back as the same list
    let read_back = CoprTable::parse(&printed).unwrap();
    assert_eq!(read_back.to_string(), printed);
    let patterns: Vec<&str> = read_back.entries().iter().map(CoprEntry::pattern).collect();
    assert_eq!(patterns.len(), 4 + 10, "{printed}");
    assert!(!printed.contains("/serial-1$"), "{printed}");
    assert!(printed.contains("big_disk"), "{printed}");
    assert!(printed.contains("@other/"), "{printed}");
    assert!(patterns.contains(&"@team/apps(:[^/]*)?/[^/]*x86_64[^/]*/big-0$"), "{printed}");
    for package in (0..12).map(|n| format!("big-{n}")) {
        for name in [
            format!("@team/apps/fedora-42-x86_64/{package}"),
            format!("@team/apps:custom/epel-9-x86_64/{package}"),
        ] {
            let is_old = ["big-1", "big-2"].contains(&package.as_str());
            assert!(new.tags(&name).is_some() || is_old, "{name}\n{printed}");
        }
        assert_eq!(new.tags(&format!("@team/apps/fedora-42-x86_64/{package}-extra")), None);
        assert!(is_old_or_none(&new, &package), "{package} of another architecture");
    }
    // with the new list nothing is left to change
    let again = suggest(&builds, &new, TAG, &terms());
    assert_eq!(named(&again, ListVerdict::Add), BTreeSet::new());
}

/// Entries of the old list match every architecture.
fn is_old_or_none(new: &CoprTable, package: &str) -> bool {
    ["big-1", "big-2"].contains(&package)
        || new.tags(&format!("@team/apps/fedora-42-aarch64/{package}")).is_none()
}

#[test]
fn patterns_with_exponential_backtracking_are_refused() {
    let mut dice = Dice(5);
    let builds = read(&history(20, &packages(1, &mut dice), &mut dice));
    for (pattern, is_refused) in [
        ("(a+)+$", true),
        ("(.*a)*x", true),
        ("(a|aa)+$", true),
        ("(a|a)*b", true),
        ("(a|[ab])*b", true),
        ("(ab|ab)*c", true),
        ("((?i)a|A)*b", true),
        ("(.|a)*b", true),
        ("(a|)*b", true),
        ("([^/]|/)*b", false),
        ("(a?){30}x", true),
        ("([^/]*/)*x", true),
        (".*(x86_64|aarch64)/kernel.*", false),
        ("(ab|cd)*x", false),
        ("[^/]*/[^/]*/a{3}", false),
        ("(a{3})*", false),
        (&"a?".repeat(26), true),
        (&"(a|ab)".repeat(26), true),
        (&"[^/]*/".repeat(8), false),
        ("@a/b(:[^/]*)?/[^/]*x86_64[^/]*/gcc$", false),
    ] {
        let old =
            CoprTable::parse(&format!("[{{'pattern': r'{pattern}', 'tags': ['extra_powerful']}}]")).unwrap();
        let all = suggest(&builds, &old, TAG, &terms());
        let new = new_list(&old, &all, TAG);
        assert_eq!(new.is_err(), is_refused, "{pattern}: {new:?}");
        if let Err(refusal) = new {
            assert!(refusal.contains(pattern) && refusal.contains("exponential"), "{refusal}");
        }
    }
}

#[test]
fn measured_speedups_take_precedence_over_estimates() {
    let run = |pool: &str, jobs, wall: f64| groups::RecordedRun {
        jobs,
        wall: Millis::from_f64(wall * HOUR),
        cpu: Millis::from_f64(16.0 * HOUR),
        pool: pool.to_owned(),
    };
    let of = |runs: Vec<groups::RecordedRun>| {
        speed::times_of(&BuildGroup { runs, ..BuildGroup::default() }, &terms())
    };
    let on_normal = || (0..4).map(|_| run("x86", 4, 4.0));
    // from the CPU time: all four cores were busy, so 64 would take a quarter of an hour
    let times = of((0..6).map(|_| run("", 4, 4.0)).collect()).unwrap();
    assert_eq!(times.basis, SpeedBasis::CpuTime);
    assert_eq!(times.normal, Millis(4 * 3_600_000));
    assert_eq!(times.powerful, Millis(900_000));
    // but on the powerful builder it took three
    let times = of(on_normal().chain((0..3).map(|_| run("powerful", 64, 3.0))).collect()).unwrap();
    assert_eq!((times.basis, times.powerful), (SpeedBasis::Measured, Millis(3 * 3_600_000)));
    // without CPU time, and with many attempts beside it, the curve counts: twice the jobs saved little
    let timed = |count: usize| (0..count).map(|n| run("", [4, 8][n % 2], [4.0, 3.6][n % 2]));
    let times = of(timed(8).map(|run| groups::RecordedRun { cpu: Millis(0), ..run }).collect()).unwrap();
    assert!(times.basis == SpeedBasis::Curve && times.speedup() < 1.4, "{times:?}");
    let [few, many] = [8, 20].map(|count| of(timed(count).collect()).unwrap());
    assert_eq!((few.basis, many.basis), (SpeedBasis::CpuTime, SpeedBasis::Curve));
    assert!(many.speedup() < few.speedup(), "{many:?} {few:?}");
    assert_eq!(of(on_normal().collect()), None, "four builds are too few");
    assert_eq!(of((0..9).map(|_| groups::RecordedRun { jobs: 0, ..run("", 0, 4.0) }).collect()), None);
}

#[test]
fn builders_costing_more_than_time_saved_are_omitted() {
    let mut dice = Dice(11);
    let packages = packages(12, &mut dice);
    let builds = read(&history(2000, &packages, &mut dice));
    let with = |worth| {
        let mut terms = SuggestTerms { hour_worth: worth, ..terms() };
        // dearer than any speed-up makes up for: 64 cores are at most 16 times as fast as 4
        terms.powerful.price_hour = 20.0 * terms.normal.price_hour;
        named(&suggest(&builds, &CoprTable::default(), TAG, &terms), ListVerdict::Add).len()
    };
    assert_eq!((with(Some(0.0)), with(Some(100.0)), with(None)), (0, 12, 12));
}
