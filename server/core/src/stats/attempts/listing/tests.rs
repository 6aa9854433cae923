//! Pages of a list, in every order.

use plimsoll_proto::WireEnum as _;

use super::*;
use crate::domain::{Bytes, Millis, Outcome, Resources, Summary, test_summary};

/// Attempts whose ends, needs and lengths go different ways.
fn attempts(count: u64) -> Vec<Arc<AttemptBrief>> {
    let one = |n: u64| {
        let mut summary = test_summary(&n.to_string(), "zlib", "1", 1 + n * 7919 % 1009);
        summary.wall = Millis(1000 + n * 104_729 % 9973);
        summary.started_unix_ms += n * 1000 / 3;
        Arc::new(AttemptBrief::from(&summary))
    };
    (0..count).map(one).collect()
}

fn pages(attempts: &[Arc<AttemptBrief>], order: AttemptOrder, size: usize) -> Vec<String> {
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let mut listing = PageBuilder::new(order, size, after);
        for brief in attempts {
            listing.consider(brief);
        }
        let chosen = listing.finish();
        assert!(chosen.cursors.len() <= size);
        seen.extend(chosen.cursors.iter().map(|place| place.attempt.to_string()));
        after = chosen.cursors.last().cloned();
        if !chosen.has_more {
            return seen;
        }
    }
}

#[test]
fn pages_in_any_order_cover_everything_once() {
    let mut all = attempts(5000);
    for order in AttemptOrder::all().chain([AttemptOrder::Unspecified]) {
        let seen = pages(&all, order, 700);
        let mut places: Vec<_> =
            all.iter().map(|b| (rank(order, b), b.ended_unix_ms(), b.attempt.clone())).collect();
        places.sort_by(|a, b| b.cmp(a));
        let expected: Vec<String> = places.iter().map(|(_, _, id)| id.to_string()).collect();
        assert!(seen == expected, "{order:?}");
        all.reverse();
        assert!(pages(&all, order, 999) == expected, "{order:?} the other way");
    }
}

#[test]
fn new_attempts_do_not_shift_later_pages() {
    let all = attempts(40);
    let page = |attempts: &[Arc<AttemptBrief>], after| {
        let mut listing = PageBuilder::new(AttemptOrder::Wall, 10, after);
        for brief in attempts {
            listing.consider(brief);
        }
        listing.finish().cursors
    };
    // ten more come between the first page and the second
    let first = page(&all[..30], None);
    let second = page(&all, first.last().cloned());
    let mut behind = page(&all, None);
    behind.extend(page(&all, behind.last().cloned()));
    behind.extend(page(&all, behind.last().cloned()));
    behind.retain(|place| Some(place) < first.last());
    assert_eq!(second, behind[..10]);
}

#[test]
fn waste_includes_all_that_failed_attempts_held() {
    let resources = Resources { memory_limit: Some(Bytes(4 << 30)), ..Resources::default() };
    let good = Summary { resources, ..test_summary("good", "zlib", "1", 2048) };
    let failed =
        Summary { outcome: Outcome::Failed, attempt: AttemptId::parse("bad").unwrap(), ..good.clone() };
    let silent = Summary { resources: Resources::default(), ..test_summary("silent", "zlib", "1", 9) };
    let wasted = |summary: Summary| wasted_gib_hours(&AttemptBrief::from(&summary)) * 60.0;
    assert!((wasted(good) - 3.0).abs() < 1e-9);
    assert!((wasted(failed) - 4.0).abs() < 1e-9);
    assert_eq!(rank(AttemptOrder::Waste, &AttemptBrief::from(&silent)), 0);
}
