//! Few attempts far below all others of the package, and one far above, decide little.

use proptest::test_runner::RngSeed;

use super::*;

/// Builds of one job: how many, version, arch, least need in MiB, difference of needs, and what else differs.
type Builds<'c> = (u64, [&'c str; 2], [u64; 2], fn(&mut Summary));

fn same(_: &mut Summary) {}

/// A wall time of 6 s at one core.
fn idle(summary: &mut Summary) {
    (summary.wall, summary.cpu) = (Millis(6000), CpuMicros(6_000_000));
}

/// A wall time of five hours at 64 cores.
fn busy(summary: &mut Summary) {
    (summary.wall, summary.cpu) = (Millis(18_000_000), CpuMicros(18_000_000 * 64_000));
}

fn builds(of: &[Builds<'_>]) -> Vec<Summary> {
    let mut all = Vec::new();
    for (count, [version, arch], [least, spread], change) in of {
        for n in 0..*count {
            let id = all.len() as u64;
            let mut summary = test_summary(&id.to_string(), "job", version, least + n * 7919 % spread);
            summary.key.arch = (*arch).to_owned();
            summary.started_unix_ms = 1_700_000_000_000 + id * 3_600_000;
            (summary.wall, summary.cpu_peak) = (Millis((700 + n % 60) * 1000), Cores(0.0));
            summary.cpu = CpuMicros(summary.wall.0 * 2800);
            change(&mut summary);
            all.push(summary);
        }
    }
    all
}

fn mib(prediction: &Prediction) -> [u64; 2] {
    [prediction.memory_request.value / MIB, prediction.memory_limit.value / MIB]
}

fn rates(of: &Prediction) -> [u64; 4] {
    [&of.cpu_request, &of.cpu_limit, &of.wall_p50, &of.wall_p95].map(|number| number.value)
}

#[test]
fn few_odd_attempts_decide_little() {
    let imported: [Builds<'_>; 1] = [(50, ["", ""], [7475, 1536], same)];
    let versions = ["1.0", "1.1", "1.2", "1.3"]
        .map(|version| (11, [version, "x86_64"], [600, 64], same as fn(&mut Summary)));
    let one: [Builds<'_>; 1] = [(40, ["1", "x86_64"], [1000, 50], same)];
    let known: [&[Builds<'_>]; 3] = [&imported, &versions, &one];
    for (known, key) in known
        .into_iter()
        .flat_map(|known| [["1.5", "x86_64"], ["1", "x86_64"], ["", "arm"]].map(|key| (known, key)))
    {
        for (need, count) in [(12, 1), (87, 1), (12, 2), (90_000, 1)] {
            let change = if need > 1000 { busy } else { idle };
            let all = |odd| builds(&[known, &[(odd, key, [need, 1], change)]].concat());
            let asked = all(1).pop().unwrap().key;
            let [before, after] = [0, count].map(|odd| ask(&history(all(odd)), &asked));
            let what = format!("{key:?}, {count} of {need} MiB: {:?}, then {:?}", mib(&before), mib(&after));
            assert!(
                after.confidence >= before.confidence * 2.0 / 3.0 && !is_guess(&after),
                "{what}: {}, {}",
                before.confidence,
                after.confidence
            );
            let (_, used) = explain(&history(all(count)), &asked, &Settings::default());
            let left_out = used.iter().filter(|used| used.weight <= 0.0).count();
            assert_eq!(left_out, if need < 1000 { usize::try_from(count).unwrap() } else { 0 }, "{what}");
            assert!(mib(&after)[1] >= mib(&before)[1] && mib(&after)[0] >= mib(&before)[0] * 3 / 4, "{what}");
            for (before, after) in rates(&before).into_iter().zip(rates(&after)) {
                assert!(before.abs_diff(after) <= before / 10, "{what}: {before}, then {after}");
            }
        }
    }
}

#[test]
fn builds_that_differ_count_from_the_third_on() {
    fn cuda(summary: &mut Summary) {
        summary.key.variants = "+cuda".to_owned();
    }
    let (one, two) = (["1", "x86_64"], ["2", "x86_64"]);
    let known = (40, one, [1000, 50], same as fn(&mut Summary));
    let of_cuda = (40, one, [20_000, 50], cuda as fn(&mut Summary));
    let cases: [(&str, &[Builds<'_>], [u64; 2]); 5] = [
        ("two idle beside one", &[known, (1, two, [1010, 1], same), (2, two, [12, 1], idle)], [1000, 1200]),
        ("one that needed more", &[known, (1, two, [2600, 1], same)], [2600, 3200]),
        ("two of a small variant", &[of_cuda, (2, two, [2000, 50], same)], [20_000, 22_000]),
        ("ten of a small variant", &[of_cuda, (10, two, [2000, 50], same)], [2000, 2600]),
        ("a smaller version", &[known, (8, two, [200, 10], same)], [200, 250]),
    ];
    for (case, known, [least, most]) in cases {
        let known = builds(known);
        let prediction = ask(&history(known.clone()), &known[known.len() - 1].key);
        let what = format!("{case}: {:?}, {}", mib(&prediction), prediction.reason);
        assert!((least..most).contains(&mib(&prediction)[0]), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(9), ..ProptestConfig::default() })]
    #[test]
    fn one_more_attempt_moves_numbers_by_its_share(
        known in prop::collection::vec((0..4_usize, 0.0..1.0_f64), 20..60),
        (least, spread) in (200..8000_u64, 0.0..0.6_f64),
        (key, within, outside) in (0..4_usize, 0.0..1.0_f64, prop_oneof![0.001..0.5_f64, 3.0..20.0_f64]),
    ) {
        const KEYS: [[&str; 2]; 4] = [["1", ""], ["1", "x86_64"], ["2", "x86_64"], ["2", "arm"]];
        let need = |place: f64| Bytes::from_f64(Bytes(least).as_f64() * (1.0 + place * spread)).0;
        let (key, odd) = (KEYS[key], Bytes::from_f64(Bytes(least).as_f64() * outside).0.max(1));
        let needs = || known.iter().map(|(_, place)| need(*place));
        let within = need(within).clamp(needs().min().unwrap(), needs().max().unwrap());
        let known: Vec<Builds<'_>> =
            known.iter().map(|(key, place)| (1, KEYS[*key], [need(*place), 1], same as fn(&mut Summary))).collect();
        let asked = builds(&[(1, key, [1, 1], same)]).remove(0).key;
        let and = |more: &[Builds<'_>]| ask(&history(builds(&[&known[..], more].concat())), &asked);
        let before = and(&[]);
        let inside = and(&[(1, key, [within, 1], same)]);
        let change = if odd > least { busy } else { idle };
        let outside = and(&[(1, key, [odd, 1], change)]);
        for (before, after) in mib(&before).into_iter().zip(mib(&inside)) {
            prop_assert!(before.abs_diff(after) <= before / 4, "{before} MiB to {after} MiB");
        }
        let [was, within, odd_one] = [&before, &inside, &outside].map(|of| of.confidence);
        prop_assert!(within >= was - 0.15 && within <= was + 0.25, "{was} to {within}");
        prop_assert!(odd_one >= was * 2.0 / 3.0, "{was} to {odd_one} by {odd} MiB");
        let limits = [&before, &outside].map(|of| mib(of)[1]);
        prop_assert!(limits[1] >= limits[0], "{limits:?} by {odd} MiB");
        // the medians
        for number in [0, 2] {
            let [was, now] = [&before, &outside].map(|of| rates(of)[number]);
            prop_assert!(was.abs_diff(now) <= was / 10, "{was} to {now} by {odd} MiB");
        }
    }
}
