//! The sentences, to be read by people, and the list of bounds.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::{examples::examples, *};
use crate::{
    fixtures::recorded,
    v1::{self, Basis},
};

/// All sentences, one in a line.
const SENTENCES: &str = include_str!("sentences.txt");

fn sentence(kind: SizeKind, quantity: &Quantity) -> String {
    reason_of_quantity(kind, quantity).sentence()
}

fn rendered() -> String {
    let mut text = String::new();
    for (kind, quantity) in examples() {
        let number = kind.shown(quantity.value);
        let _written = writeln!(text, "{:<15}{number:<11} {}", kind.as_str(), sentence(kind, &quantity));
    }
    text
}

#[test]
fn the_table_of_sentences_is_what_people_read() {
    let rendered = rendered();
    let first = rendered.lines().zip(SENTENCES.lines()).find(|(now, table)| now != table);
    assert!(
        rendered == SENTENCES,
        "read these, then put them into sentences.txt (first: {first:?}):\n{rendered}"
    );
}

#[test]
fn a_default_beside_kills_says_what_they_prove() {
    let default = example_default();
    let of = |attempts| {
        let bound = LowerBound { above_bytes: 250 << 20, attempts, least_bytes: 375 << 20 };
        let memory = Prediction { memory_request_bytes: Some(default.clone()), ..Prediction::default() };
        let rows = rows(&Prediction {
            memory_limit_bytes: Some(default.clone()),
            cpu_limit_millicores: Some(default.clone()),
            lower_bound: Some(bound),
            ..memory
        });
        assert_eq!(rows[0].2, rows[1].2);
        assert_eq!(rows[2].2, "the default: nothing is known about it yet");
        rows[0].2.clone()
    };
    let one = "the default; more than 250 MiB: 1 attempt was killed there; try at least 375 MiB";
    assert_eq!(of(1), one);
    assert!(of(3).contains("3 attempts were killed there or below"), "{}", of(3));
}

#[test]
fn many_jobs_beside_few_cores_are_explained() {
    let predicted = |jobs, millicores, rung: Rung, bound: &SizeBound| {
        let sized = |value, rung: Rung, bound: &SizeBound| {
            let basis =
                Basis { rung: rung.into(), attempts: 3, size_bound: bound.to_wire(), ..Basis::default() };
            Some(Quantity { value, basis: Some(basis) })
        };
        more_jobs_than_cores_note(&Prediction {
            build_jobs: sized(jobs, Rung::Exact, bound),
            cpu_request_millicores: sized(millicores, rung, bound),
            ..Prediction::default()
        })
    };
    let of = |jobs, millicores, rung| predicted(jobs, millicores, rung, &SizeBound::None);
    assert_eq!(predicted(12, 1000, Rung::Exact, &SizeBound::LastAttempt), None, "the verdict says why");
    let shown = "-j12 is how many jobs the builds ran with, not how many ran at once; the cpu request is what builds used on average";
    assert_eq!(of(12, 1000, Rung::Exact).as_deref(), Some(shown));
    assert!(of(12, 1000, Rung::Default).unwrap().ends_with("the cpu request is the default"));
    assert_eq!([of(4, 3500, Rung::Exact), of(2, 1000, Rung::Exact)], [None, None]);
}

fn example_default() -> Quantity {
    let bound = SizeBound::Default.to_string();
    Quantity { value: 4 << 30, basis: Some(Basis { rung: Rung::Default.into(), bound, ..Basis::default() }) }
}

#[test]
fn the_file_page_margin_is_shown_in_bytes() {
    // a need of 20 MiB and the least room
    let shown = reason_of_size(SizeKind::MemoryLimit, 84 << 20, 0.99, 4.2, &SizeBound::None);
    assert_eq!(shown, "covers 99 % of similar builds, with 64 MiB more for file pages");
    for (request, clause) in [
        (20, "with 64 MiB more for file pages"),
        (24, "with 60 MiB more for file pages"),
        (12, "with 72 MiB more than the request, 64 MiB of it for file pages"),
        (99, "with 64 MiB more for file pages"),
    ] {
        let beside = beside_request(&shown, 84 << 20, 4.2, request << 20);
        assert_eq!(beside, format!("covers 99 % of similar builds, {clause}"), "a request of {request} MiB");
    }
}

#[test]
fn every_bound_is_read_by_both_releases() {
    for bound in SizeKind::ALL.into_iter().flat_map(examples::bounds) {
        let text = Basis { bound: bound.to_string(), ..Basis::default() };
        let typed = Basis { size_bound: bound.to_wire(), ..Basis::default() };
        assert_eq!(SizeBound::of(&text), bound, "a server of 0.2.0 sends its text");
        let known = !matches!(bound, SizeBound::None | SizeBound::Other(_));
        assert!(!known || SizeBound::of(&typed) == bound, "{bound:?}");
        let newer = v1::SizeBound { kind: 99, ..v1::SizeBound::default() };
        assert_eq!(SizeBound::of(&Basis { size_bound: Some(newer), ..text }), bound);
    }
}

#[test]
fn an_answer_of_0_2_0_is_explained() {
    // recorded from a server of 0.2.0
    let hex = "0a98030a30088080802012290807100119fdffffffffffef3f21000000000000f03f2a0f666c6f6f72206f66203634204d69423001121f\
        088080c02012180807100119fdffffffffffef3f21989417d46dbf434030011a300864122c0807100119718dc53516d7e83f2100000000\
        0000f03f2a12666c6f6f72206f6620302e3120636f7265733001221b08d00f12160801100121000000000000f03f2a0764656661756c74\
        2a1808021214080121000000000000f03f2a0764656661756c74321c080312180807100119000000000000e03f21000000000000f03f30\
        013a1c080312180807100119666666666666ee3f21000000000000f03f300141f608d923648fe03f480152793120617474656d7074206f\
        662074686973206b6579206e656564656420313136204b69423b206d656d6f7279206c696d69743a20636f76657273206f766572203939\
        2e392025206f662073696d696c6172206275696c64732c2077697468203633204d6942206d6f726520666f722066696c65207061676573\
        8a01176f6e6c79203120617474656d7074206973206b6e6f776e";
    let answer = recorded::<v1::PredictResponse>(hex).prediction.unwrap();
    let shown: Vec<String> = rows(&answer).into_iter().map(|(_, _, why)| why).collect();
    let expected = [
        "covers over 99.9 % of similar builds, raised to the floor of 64 MiB",
        "covers over 99.9 % of similar builds, with 1 MiB more for file pages",
        "78 % of similar builds use no more on average, raised to the floor of 0.1 cores",
        "the default: 1 attempt says too little about it",
        "the default: nothing is known about it yet",
    ];
    assert_eq!(shown[..5], expected);
}

proptest! {
    #[test]
    fn any_bound_text_round_trips_and_stays_readable(text in "[a-z0-9 ,.]{0,60}", value in any::<u64>(), quantile in any::<f64>(), margin in any::<f64>(), rung in 0..9_i32, attempts in any::<u32>()) {
        let bound = SizeBound::parse(&text);
        prop_assert_eq!(SizeBound::parse(&bound.to_string()), bound);
        let basis = crate::v1::Basis { rung, attempts, quantile, margin, bound: text, size_bound: None, all_of_rung: value % 2 == 0, by_processes: attempts / 2 };
        for kind in SizeKind::ALL {
            let shown = sentence(kind, &Quantity { value, basis: Some(basis.clone()) });
            prop_assert!(shown.len() < 400 && !kind.shown(value).is_empty());
        }
    }
}

#[test]
fn what_all_sizes_share_is_shown_once() {
    let default = || {
        let basis =
            Basis { rung: Rung::Default.into(), bound: SizeBound::Default.to_string(), ..Basis::default() };
        Some(Quantity { value: 1 << 30, basis: Some(basis) })
    };
    let unknown = Prediction {
        memory_request_bytes: default(),
        memory_limit_bytes: default(),
        ..Prediction::default()
    };
    let why = |rows: &[(&str, String, String)]| rows[..3].iter().map(|row| row.2.clone()).collect::<Vec<_>>();
    let shared = rows(&unknown);
    assert_eq!(why(&shared), vec![String::new(); 3]);
    assert_eq!(shared[2].1.as_str(), "the default: nothing is known about it yet");
    let one = rows(&Prediction { memory_limit_bytes: None, ..unknown });
    assert_eq!(one[0].2.as_str(), "the default: nothing is known about it yet");
    assert_eq!(one[1].1.as_str(), "0 attempts");
}
