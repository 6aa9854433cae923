//! What the charts of a package draw and say.

use plimsoll_proto::v1::{JobsPoint, Resources};

use super::*;

#[test]
fn attempts_are_drawn_in_time_order() {
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
    assert_eq!(chart.layers[0].shape, Shape::Dots(vec![(1_000_000.0, 1.0), (5_000_000.0, 2.0)]));
    assert!(matches!(chart.layers[1].shape, Shape::Crosses(_)), "{:?}", chart.layers);
}

#[test]
fn the_jobs_curve_shows_limit_and_numbers() {
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
    let used = [(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)].to_vec();
    let waste = [(1.0, 2.0), (2.0, 3.0), (4.0, 6.0)].to_vec();
    let expected = [
        Layer::new(Tone::Used, "half of the builds need", Shape::Line(used)),
        Layer::new(Tone::Waste, "95 % need at most", Shape::Line(waste)),
        Layer::new(Tone::Limit, "limit", Shape::Level(5.0)),
    ];
    assert_eq!(chart.legend(), expected.iter().collect::<Vec<_>>());
    assert_eq!(chart.description, "1 GiB for each job.");
    let drawn = chart.figure().into_string();
    for part in ["<svg", "1,200", "6.00 GiB", "1 min 30 s", ">–</td>"] {
        assert!(drawn.contains(part), "{part} is not in {drawn}");
    }
    let far = JobsCurve { memory_limit_bytes: Some(500 << 30), ..curve };
    let chart = jobs_chart(&far, &ReaderChoice::default());
    assert_eq!(chart.legend().len(), 2);
    assert_eq!(chart.y, Axis::from_zero(6.0, "GiB"), "a limit far above presses nothing flat");
}

#[test]
fn an_outlier_request_is_clipped_and_named() {
    let one = |ask: u64| {
        let resources = Resources { memory_request_bytes: Some(ask << 30), ..Resources::default() };
        Summary { need_peak_bytes: Some(300 << 20), resources: Some(resources), ..Summary::default() }
    };
    let newest = [one(2), one(100), one(3), one(2)];
    let chart = need_chart(&newest, &ReaderChoice::default());
    assert_eq!(chart.y, Axis::from_zero(3.0, "GiB"));
    let description = chart.description;
    assert!(description.ends_with(" One ask, 100.00 GiB, is far above the chart."), "{description}");
    assert!(matches!(&chart.layers[0].shape, Shape::Ticks(ticks) if ticks.len() == 3), "{:?}", chart.layers);
}
