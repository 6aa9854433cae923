//! What the charts of a package draw and say.

use plimsoll_proto::v1::{JobsPoint, Resources};

use super::*;

#[test]
fn attempts_are_drawn_in_order_of_time_whatever_order_they_come_in() {
    let one = |started_unix_ms, need: u64, outcome: Outcome| Summary {
        started_unix_ms,
        need_peak_bytes: Some(need),
        outcome: outcome.into(),
        ..Summary::default()
    };
    let newest = [
        one(9_000_000, 5 << 30, Outcome::Failed),
        one(1_000_000, 1 << 30, Outcome::Succeeded),
        one(5_000_000, 2 << 30, Outcome::Succeeded),
    ];
    let chart = need_chart(&newest, &ReaderChoice::default());
    let [Layer::Dots { points, .. }, Layer::Crosses { .. }] = chart.layers.as_slice() else {
        panic!("{:?}", chart.layers);
    };
    assert_eq!(points, &[(1_000_000.0, 1.0), (5_000_000.0, 2.0)]);
}

#[test]
fn a_curve_over_build_jobs_is_drawn_with_its_limit_beside_its_numbers() {
    let point = |jobs: u32, attempts: u32, half: u64, most: u64, wall_p50_ms| JobsPoint {
        jobs,
        attempts,
        need_p50_bytes: half << 30,
        need_p95_bytes: most << 30,
        wall_p50_ms,
        ..JobsPoint::default()
    };
    let curve = JobsCurve {
        points: vec![point(1, 3, 1, 2, 90_000), point(2, 0, 2, 3, 0), point(4, 1200, 4, 6, 30_000)],
        memory_limit_bytes: Some(5 << 30),
        reason: "1 GiB for each job".to_owned(),
        ..JobsCurve::default()
    };
    let chart = jobs_chart(&curve, &ReaderChoice::default());
    assert_eq!((&chart.x, &chart.y), (&Axis::whole(1, 4), &Axis::from_zero(6.0, "GiB")));
    let lines = chart.layers.iter().filter_map(|layer| match layer {
        Layer::Line { tone, points } => Some((*tone, points.clone())),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    let expected = [
        (Tone::Used, vec![(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)]),
        (Tone::Waste, vec![(1.0, 2.0), (2.0, 3.0), (4.0, 6.0)]),
    ];
    assert_eq!(lines, expected);
    assert!(
        chart.layers.iter().any(|layer| matches!(layer, Layer::Level { at, .. } if (at - 5.0).abs() < 1e-9))
    );
    let legend: Vec<&str> = chart.legend.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(legend, ["half of the builds need", "95 % need at most", "limit"]);
    assert_eq!(chart.description, "1 GiB for each job.");
    let drawn = chart.figure().into_string();
    for part in ["<svg", "1,200", "6.00 GiB", "1 min 30 s", "class=\"n\">–</td>"] {
        assert!(drawn.contains(part), "{part} is not in {drawn}");
    }
    let far = JobsCurve { memory_limit_bytes: Some(500 << 30), ..curve };
    let chart = jobs_chart(&far, &ReaderChoice::default());
    assert_eq!(
        (chart.legend.len(), &chart.y),
        (2, &Axis::from_zero(6.0, "GiB")),
        "a limit far above presses nothing flat"
    );
}

#[test]
fn one_huge_ask_does_not_press_all_others_flat_and_is_named() {
    let one = |ask: u64| {
        let resources = Resources { memory_request_bytes: Some(ask << 30), ..Resources::default() };
        Summary { need_peak_bytes: Some(300 << 20), resources: Some(resources), ..Summary::default() }
    };
    let newest = [one(2), one(100), one(3), one(2)];
    let chart = need_chart(&newest, &ReaderChoice::default());
    assert_eq!(chart.y, Axis::from_zero(3.0, "GiB"));
    assert!(
        chart.description.ends_with(" One ask, 100.00 GiB, is far above the chart."),
        "{}",
        chart.description
    );
    let ticks = chart.layers.iter().find_map(|layer| match layer {
        Layer::Ticks { points, .. } => Some(points.len()),
        _ => None,
    });
    assert_eq!(ticks, Some(3));
}
