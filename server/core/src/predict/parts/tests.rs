//! What parts of keys add, in whole histories.

use super::*;
use crate::{
    domain::{History, Prediction, Summary, test_history as history, test_summary},
    predict::{self, Settings},
};

/// An attempt of `zlib` with these variants, which needed `mib` MiB.
fn built(n: usize, variants: &str, mib: u64) -> Summary {
    let mut summary = test_summary(&n.to_string(), "zlib", "1", mib + n as u64 % 7);
    summary.key.variants = variants.to_owned();
    summary
}

fn predicted(history: &History, variants: &str) -> Prediction {
    predict::predict(history, &built(0, variants, 0).key, &Settings::default())
}

/// One of 64 combinations of six variants.
fn combination(n: usize) -> String {
    let variant = |(bit, name): (usize, &str)| format!("{}{name}", if n >> bit & 1 == 1 { '+' } else { '~' });
    ["blosc", "cuda", "hdf5", "mpi", "png", "python"].into_iter().enumerate().map(variant).collect()
}

/// Forty combinations, of which `+cuda` alone decides.
fn forty() -> Vec<Summary> {
    let of =
        |n| built(n, &combination(n * 11 % 64), if (n * 11) >> 1 & 1 == 1 { 41 << 10 } else { 17 << 10 });
    (0..40).map(of).collect()
}

fn parts(prediction: &Prediction) -> Vec<&str> {
    prediction.parts.iter().map(|effect| effect.part.as_str()).collect()
}

#[test]
fn new_combinations_need_what_their_variants_add() {
    let history = history(forty());
    for n in 40..50 {
        let asked = predicted(&history, &combination(n * 11 % 64));
        let cuda = (n * 11) >> 1 & 1 == 1;
        let (part, sizes) = if cuda { ("+cuda", 41..49) } else { ("~cuda", 17..21) };
        let gib = asked.memory_request.value >> 30;
        assert!(sizes.contains(&gib), "{n}: {gib} GiB, {}", asked.reason);
        assert_eq!(parts(&asked), [part], "{}", asked.reason);
        let change = &asked.parts[0];
        assert_eq!(change.needs_more, cuda);
        assert!((21..=26).contains(&(change.change.0 >> 30)), "{}", asked.reason);
        assert!(asked.reason.contains(&change.describe()), "{}", asked.reason);
    }
}

#[test]
fn values_of_single_configurations_add_nothing() {
    let alone = |of: &dyn Fn(usize) -> Summary, count| {
        let history = history((0..count).map(of));
        let asked = predicted(&history, "+new");
        assert_eq!(parts(&asked), Vec::<&str>::new(), "{}", asked.reason);
    };
    let spread = |n: usize| 1000 + 700 * (n as u64 * 37 % 41);
    alone(&|n| built(n, &format!("commit={n} +new"), spread(n)), 60);
    alone(&|n| built(n, &combination(n % 64), 16_000), 60);
    alone(&|n| built(n, ["+new", "~new"][n], [1000, 9000][n]), 2);
    alone(&|n| built(n, &combination(n), spread(n % 64)), 6);
}

#[test]
fn untrusted_attempts_choose_no_part() {
    let mut all = forty();
    for summary in all.iter_mut().filter(|summary| summary.key.variants.contains("+cuda")) {
        summary.opening.untrusted = true;
    }
    let asked = predicted(&history(all), &combination(40 * 11 % 64));
    assert!(!parts(&asked).contains(&"~cuda"), "{}", asked.reason);
    assert!(asked.memory_request.value >> 30 >= 17, "{}", asked.reason);
}

#[test]
fn enough_attempts_of_the_key_stay_as_they_are() {
    let exact = |n| built(100 + n, "+cuda", 30_000);
    let asked = predicted(&history(forty().into_iter().chain((0..ENOUGH_EXACT).map(exact))), "+cuda");
    assert_eq!(parts(&asked), Vec::<&str>::new());
}

#[test]
fn effects_do_not_depend_on_order_of_arrival() {
    let backwards = |summary: Summary| {
        let started_unix_ms = 1_700_000_000_000 - summary.started_unix_ms % 1000;
        Summary { started_unix_ms, ..summary }
    };
    let all: Vec<Summary> = forty().into_iter().map(backwards).collect();
    let asked = combination(40 * 11 % 64);
    let forwards = predicted(&history(all.clone()), &asked);
    assert_eq!(predicted(&history(all.into_iter().rev()), &asked), forwards);
    assert!(!forwards.parts.is_empty());
}

#[test]
fn absurd_keys_are_cut() {
    let long = |n: usize| match n % 4 {
        0 => "x".repeat(10_000),
        1 => "\u{fc}+".repeat(5_000),
        2 => (0..5_000).map(|label| format!("l{label}={n} ")).collect::<Vec<_>>().concat(),
        _ => "+~=+=~ = =".repeat(1_000),
    };
    let absurd = |n: usize| {
        let mut summary = built(n, &(long(n) + &combination(n)), 1000 << (n % 3));
        summary.key.version = "1.".repeat(5_000 + n);
        summary.key.arch = "-".repeat(10_000);
        summary
    };
    let history = history((0..40).map(absurd));
    for n in 40..44 {
        let asked = predict::predict(&history, &absurd(n).key, &Settings::default());
        assert!(asked.reason.len() < 4_000, "{}", asked.reason.len());
    }
}

#[test]
fn keys_are_cut_into_parts() {
    let (mut table, key) = (PartTable::default(), |version: &str, variants: &str| Key {
        version: version.into(),
        variants: variants.into(),
        package: "build: [arm64, debug]".into(),
        ..Key::default()
    });
    let keys = [
        key("1.2.3", "+cuda~mpi cuda_arch=80 cflags=-O2+x --release"),
        key("1.2.4", "~cuda+mpi cuda_arch=80 cflags=-O2+y"),
    ];
    let rows = keys.each_ref().map(|key| table.row(key));
    let differs = |at: usize| rows[0].get(at) != rows[1].get(at);
    assert_eq!(
        table.parts(&keys[0]).map(|(at, part)| (part.describe(), differs(at))).collect::<Vec<_>>(),
        [
            ("+cuda", true),
            ("~mpi", true),
            ("cuda_arch=80", false),
            ("cflags=-O2+x", true),
            ("--release", true),
            ("part arm64, debug", false),
            ("part arm64, debug", false),
            ("part arm64, debug", false),
            ("version 1.2.3", true),
            ("version 1.2.3", false),
            ("version 1.2.3", false),
        ]
        .map(|(text, differs)| (text.to_owned(), differs))
    );
}
