//! The short run over every parser of foreign bytes: its corpus as it is, and a number of inputs that are nearly that.

mod mutate;

use mutate::{Chance, corpus};
use plimsoll_server::fuzz::TARGETS;

/// Changed inputs for each parser.
const INPUTS: u64 = 300;

#[test]
fn no_parser_breaks_on_its_corpus_or_near_it() {
    for target in TARGETS {
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
