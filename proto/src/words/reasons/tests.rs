//! The sentences, to be read by people, and the list of bounds.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::v1::Basis;

/// All sentences, one in a line.
const SENTENCES: &str = include_str!("sentences.txt");

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
        let explanation = explained(&Prediction {
            memory_limit_bytes: Some(default.clone()),
            cpu_limit_millicores: Some(default.clone()),
            lower_bound: Some(bound),
            ..memory
        });
        assert_eq!(explanation.sizes[0].why, explanation.sizes[1].why);
        assert_eq!(explanation.sizes[2].why, "the default: nothing is known about it yet");
        explanation.sizes[0].why.clone()
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
                Basis { rung: rung.into(), attempts: 3, bound: bound.to_string(), ..Basis::default() };
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
fn room_for_file_pages_is_bytes_and_no_share_of_a_small_need() {
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
fn a_group_of_which_the_request_covers_a_part_is_not_shown_as_above_it() {
    let shown = |request: u64, limit: u64| {
        let (least, most) = (13, 19);
        group_coverage(&NeedGroup {
            within_request: most <= request,
            within_limit: most <= limit,
            begins_within_request: least <= request,
            begins_within_limit: least <= limit,
            ..NeedGroup::default()
        })
    };
    assert_eq!(shown(20, 20), "within the request");
    assert_eq!(shown(18, 95), "partly above the request, within the limit");
    assert_eq!(shown(14, 16), "partly above the request, partly above the limit");
    assert_eq!(shown(10, 95), "above the request, within the limit");
    assert_eq!(shown(10, 14), "above the request, partly above the limit");
    assert_eq!(shown(10, 12), "above the limit");
}

#[test]
fn every_bound_is_read_back_from_its_text() {
    for bound in SizeKind::ALL.into_iter().flat_map(examples::bounds) {
        assert_eq!(SizeBound::parse(&bound.to_string()), bound);
    }
}

proptest! {
    #[test]
    fn any_text_stays_readable_and_no_number_breaks_a_sentence(text in "[a-z0-9 ,.]{0,60}", value in any::<u64>(), quantile in any::<f64>(), margin in any::<f64>(), rung in 0..9_i32, attempts in any::<u32>()) {
        let bound = SizeBound::parse(&text);
        prop_assert_eq!(SizeBound::parse(&bound.to_string()), bound);
        let basis = crate::v1::Basis { rung, attempts, quantile, margin, bound: text, all_of_rung: value % 2 == 0, by_processes: attempts / 2 };
        for kind in SizeKind::ALL {
            let shown = sentence(kind, &Quantity { value, basis: Some(basis.clone()) });
            prop_assert!(shown.len() < 400 && !kind.shown(value).is_empty());
        }
    }
}

#[test]
fn what_all_numbers_have_in_common_is_shown_once() {
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
    let ExplainedPrediction { sizes, based_on } = explained(&unknown);
    assert_eq!(based_on, "the default: nothing is known about it yet");
    assert_eq!(sizes.iter().map(|size| size.why.as_str()).collect::<Vec<_>>(), ["", ""]);
    let one = Prediction { memory_limit_bytes: None, ..unknown };
    let ExplainedPrediction { sizes, based_on } = explained(&one);
    assert_eq!(
        (sizes[0].why.as_str(), based_on.as_str()),
        ("the default: nothing is known about it yet", "")
    );
}
