//! The short run over every parser of foreign bytes: its corpus as it is, and a number of inputs that are nearly that.

mod mutate;
mod targets;

use mutate::{Chance, corpus};
use targets::targets;

/// Changed inputs for each parser.
const INPUTS: u64 = 300;

/// By how much one parser may raise what the process held at most, bytes. The longest input has 96 KiB, and what takes most raises it by
/// 6 MiB, its tables of rules and expressions among them, which are made once.
const HELD: u64 = 64 << 20;

/// The most memory that the process has held so far, bytes; `None` if the kernel does not tell.
fn held_at_most() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

#[test]
fn no_parser_panics_or_holds_excess_memory() {
    for target in targets() {
        let before = held_at_most().unwrap();
        let corpus = corpus(target.name).unwrap();
        for input in &corpus {
            (target.run)(input);
        }
        let mut chance = Chance::new(1);
        for _ in 0..INPUTS {
            let input = chance.input(&corpus);
            // what it broke on is in the output of a test that fails
            let shown = String::from_utf8_lossy(input.get(..input.len().min(2000)).unwrap_or_default());
            let broke = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(broke.is_ok(), "{} broke on {shown:?}", target.name);
        }
        let raised = held_at_most().unwrap().saturating_sub(before);
        assert!(raised <= HELD, "{} held {raised} bytes more", target.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_inputs() {
    let corpus = vec![b"one".to_vec(), b"another".to_vec()];
    let inputs = |seed| {
        let mut chance = Chance::new(seed);
        (0..50).map(|_| chance.input(&corpus)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
}
