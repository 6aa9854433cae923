//! Random and broken logs, evidence and files of rules: nothing breaks, and what a log says stays without power.
//!
//! A short run is part of the tests. The long one is asked for, and says how far it came:
//!
//! ```text
//! PLIMSOLL_FUZZ=10000000 cargo test --release -p plimsoll-core --lib retry::tests::fuzz -- --ignored --nocapture
//! ```

use std::time::Instant;

use super::*;
use crate::retry::{rules, signature};

/// Numbers that look random and can be repeated (xorshift64*, Vigna 2016).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % most.max(1)
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn of<'t, T>(&mut self, list: &'t [T]) -> &'t T {
        &list[self.below(list.len())]
    }
}

/// What logs are put together from: the examples of all rules, and what is known to be nasty.
fn pieces() -> Vec<Vec<u8>> {
    let rules = rules::built_in().unwrap();
    let examples = rules.into_iter().flat_map(|rule| rule.matches.into_iter().chain(rule.spares));
    let mut pieces: Vec<Vec<u8>> = examples.map(String::into_bytes).collect();
    let nasty: [&[u8]; 20] = [
        b"\x1b[31m",
        b"\x1b[",
        b"\x1b]0;title\x07",
        b"\r",
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xf0\x9f\x98",
        b"2024-05-22T12:43:46.962646Z 01O ",
        b"2024-05-22T12:43:46.962646Z 01O+",
        b"  >> 12    ",
        b"     12    ",
        b"  File \"x.py\", line 3",
        b"    ",
        b"   12 | ",
        b"+ ",
        b"$ ",
        b"ok 1 - ",
        b" ... ok",
        b"section_start:1:x\r\x1b[0K",
    ];
    pieces.extend(nasty.map(<[u8]>::to_vec));
    pieces
}

fn log(chance: &mut Chance, pieces: &[Vec<u8>]) -> String {
    let mut log: Vec<u8> = Vec::new();
    for _ in 0..chance.below(6) {
        let piece: &Vec<u8> = chance.of(pieces);
        log.extend_from_slice(piece);
        if !chance.one_in(4) {
            log.push(b'\n');
        }
    }
    for _ in 0..chance.below(4) {
        mutate(chance, &mut log);
    }
    if chance.one_in(2000) {
        log = log.iter().copied().cycle().take(log.len() * chance.below(500)).collect();
    }
    if chance.one_in(50) {
        log = log.iter().flat_map(|byte| [*byte, 0]).collect();
    }
    String::from_utf8_lossy(&log).into_owned()
}

fn mutate(chance: &mut Chance, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = chance.below(bytes.len());
    match chance.below(4) {
        0 => bytes[at] = chance.next().to_le_bytes()[0],
        1 => bytes.truncate(at),
        2 => drop(bytes.remove(at)),
        _ => bytes.insert(at, *chance.of(b"\n\r\x1b\0\xff:*|[](){}'\"\\ 0")),
    }
}

/// An attempt of which the kernel counted nothing that proves anything.
fn asked(chance: &mut Chance, log: &str) -> Evidence {
    let (kills, code) = (*chance.of(&[None, Some(0)]), i32::try_from(chance.below(300)).unwrap() - 20);
    let exit = if chance.one_in(5) { Exit::Signal(code) } else { Exit::Code(code) };
    let measured = (!chance.one_in(3)).then(|| Summary {
        throttled: chance.one_in(3).then(|| Micros(chance.next())),
        wall: Millis(chance.next() >> chance.below(64)),
        cpu: CpuMicros(chance.next() >> chance.below(64)),
        outcome: *chance.of(&[Outcome::Failed, Outcome::Lost]),
        exit: chance.one_in(2).then_some(exit),
        memory_peak: Bytes(0),
        ..failed(kills)
    });
    let listed = (0..chance.below(4)).map(|_| ListedRun {
        id: chance.below(12).to_string(),
        name: "build".into(),
        status: (*chance.of(&["failed", "success", "running", "odd"])).to_owned(),
        ..ListedRun::default()
    });
    let listed = listed.collect();
    let number = u32::try_from(chance.below(6)).unwrap();
    let exit = (!chance.one_in(10)).then_some(exit);
    Evidence { number, exit, listed, ..evidence(measured, Exit::Code(1), log) }
}

/// Judges so many logs.
fn judge_many(seed: u64, many: u64) {
    let (pieces, mut chance) = (pieces(), Chance(seed));
    let (rules, seen, policy, settings) =
        (LogRules::built_in(), KnownFailures::new(1), RetryPolicy::default(), Settings::default());
    let history = History::new(1);
    for done in 0..many {
        let before = chance.0;
        let log = log(&mut chance, &pieces);
        let asked = asked(&mut chance, &log);
        let known = VerdictInputs { history: &history, seen: &seen, settings: &settings, policy: &policy };
        let verdict = judge(&asked, &rules, &known);
        let context = || format!("seed {before:#x}: {asked:?} -> {verdict:?}");
        assert!((0.0..=1.0).contains(&verdict.confidence), "{}", context());
        assert!(verdict.next.is_some() || verdict.action == Action::No, "{}", context());
        if let Some(next) = verdict.next.as_ref().filter(|_| asked.measured.is_some()) {
            assert!(next.memory_limit.value <= 280 * MIB, "{}", context());
        }
        if let Some(signature) = &verdict.outlook.signature {
            assert!(!signature.line.chars().any(|c| c.is_ascii_digit() && c != '0'), "{}", context());
            assert!(signature.line.len() < 4 << 10 && signature.id.len() == 16, "{}", context());
        }
        if done % 64 == 0 {
            assert_eq!(verdict, judge(&asked, &rules, &known), "the same question, another answer");
            assert!(signature::normalise(&asked.log_tail).len() < 4 << 10);
        }
    }
}

/// Reads so many broken files of rules.
fn load_many(seed: u64, many: u64) {
    let mut chance = Chance(seed);
    let files = [
        (
            "x.toml",
            "[[rule]]\nid = \"x\"\ncause = \"oom\"\nsign = \"kill\"\npattern = '(a|b)+c{2,5}'\nmatches = ['acc']\n",
        ),
        (
            "x.toml",
            "[[rule]]\nid = \"y\"\ncause = \"infra\"\nweak = true\npattern = '^x: \\d+$'\nspares = ['']\n",
        ),
        (
            "x.yaml",
            "taxonomy:\n  error_classes:\n    killed:\n      grep_for:\n        - 'Killed'\n        - \"a\\\\b\"\n",
        ),
        (
            "terms",
            "[[terms]]\nproject = \"a\"\ncause = \"infra\"\nretries = 3\nwait_s = 5\njitter = 0.5\ncounts = true\n",
        ),
    ];
    for _ in 0..many {
        let (name, text) = *chance.of(&files);
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=chance.below(5) {
            mutate(&mut chance, &mut bytes);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if name == "terms" {
            let wrong = RetryPolicy::parse_terms(&text).err();
            assert!(wrong.is_none_or(|wrong| !wrong.is_empty()), "{text:?}");
        } else if let Err(wrong) = LogRules::extended(&[(name.to_owned(), text.clone())]) {
            assert!(wrong.iter().all(|wrong| wrong.len() > name.len()), "{text:?}: {wrong:?}");
        }
    }
}

#[test]
fn random_logs_break_nothing_and_grow_nothing() {
    judge_many(0x9e37_79b9_7f4a_7c15, 1000);
}

#[test]
fn broken_files_of_rules_are_refused_and_break_nothing() {
    load_many(0xd1b5_4a32_d192_ed03, 60);
}

#[test]
#[ignore = "ten million inputs take long, also in a release build"]
fn millions_of_random_logs_and_files_break_nothing() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the person who starts the long run says how many, and from where"
    )]
    let asked = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let (many, seed) =
        (asked("PLIMSOLL_FUZZ").unwrap_or(10_000_000), asked("PLIMSOLL_FUZZ_SEED").unwrap_or(1));
    let seed = 0x5851_f42d_4c95_7f2d_u64.wrapping_mul(2 * seed + 1);
    let began = Instant::now();
    judge_many(seed, many);
    println!("{many} logs in {:?}", began.elapsed());
    let began = Instant::now();
    load_many(seed, many / 1000);
    println!("{} files in {:?}", many / 1000, began.elapsed());
}
