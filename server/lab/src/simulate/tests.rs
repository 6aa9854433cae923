//! Days small enough to reckon by hand.

use std::fmt::Write as _;

use plimsoll_core::{
    domain::{Bytes, Millis},
    placement::{Placement, PoolPrice},
    predict::Settings,
};

use super::{
    nodes::{BuildSize, Nodes},
    *,
};
use crate::{
    import::Reader,
    replay::{PolicyKind, ReplayTape},
};

const GIB: u64 = 1 << 30;
const MINUTE: u64 = 60_000;
const START: u64 = 1_700_000_000_000;
/// What a build holds whose row names no cores, thousandths.
const CORE: u64 = 1000;
const ALL: RowWindow = RowWindow { from_ms: 0, until_ms: u64::MAX };

mod bounds;

/// Arrival and wall time in minutes, cores, GiB needed, GiB asked for.
type Row = (&'static str, [u64; 5]);

fn tape(rows: &[Row]) -> ReplayTape {
    let mut text = "package,submitted_ms,wall_ms,cores,peak_bytes,requested_bytes\n".to_owned();
    for (package, [arrival, wall, cores, needs, asks]) in rows {
        let (arrival, wall) = (START + arrival * MINUTE, wall * MINUTE);
        writeln!(text, "{package},{arrival},{wall},{cores},{},{}", needs * GIB, asks * GIB).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("day.csv");
    std::fs::write(&path, text).unwrap();
    ReplayTape::read(Reader::open(&path).unwrap(), |_| {}).unwrap()
}

fn fleet(text: &str) -> Fleet {
    Fleet::parse(text, &Placement::default(), PoolPrice { gib_hour: 0.0, core_hour: 1.0 }).unwrap()
}

fn terms() -> SimulationTerms {
    let idle = Some(Millis(10 * MINUTE));
    SimulationTerms { memory: None, boot: Millis(0), idle, settings: Settings::default() }
}

fn simulated(rows: &[Row], nodes: &str, kind: PolicyKind, terms: &SimulationTerms) -> FleetOutcome {
    in_window(&tape(rows), ALL, &fleet(nodes), SimulatedSizes { kind, spread: None }, terms)
}

fn in_window(
    tape: &ReplayTape,
    window: RowWindow,
    fleet: &Fleet,
    sizes: SimulatedSizes,
    terms: &SimulationTerms,
) -> FleetOutcome {
    let cores = SimulatedCores::asked(tape, CORE);
    run(SimulatedRows { tape, window, cores: &cores }, fleet, sizes, terms, |_| {})
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

#[test]
fn builds_share_a_node_while_cores_and_memory_last_and_open_another_after_that() {
    let rows =
        [("a", [0, 60, 4, 1, 8]), ("b", [0, 60, 4, 1, 8]), ("c", [0, 60, 1, 1, 8]), ("d", [0, 60, 4, 1, 24])];
    let outcome = simulated(&rows, "8x32GiB", PolicyKind::Preset, &terms());
    // a and b hold all cores of the first; c and d are on the second
    assert_eq!((outcome.used.peak, outcome.wait(1.0)), (2, Millis(0)));
    // both are open for the hour
    assert!(near(outcome.used.core_hours, 16.0) && near(outcome.used.money, 16.0), "{outcome:?}");
    // the second has 3 cores and no memory left: all of them are stranded
    assert!(near(outcome.used.free_core_hours, 3.0), "{outcome:?}");
    assert!(near(outcome.used.stranded_core_hours, 3.0), "{outcome:?}");
}

#[test]
fn who_finds_no_room_waits_and_a_small_build_may_pass_a_large_one() {
    let rows = [("a", [0, 60, 6, 1, 8]), ("large", [1, 30, 8, 1, 8]), ("small", [2, 10, 2, 1, 8])];
    let outcome = simulated(&rows, "8x32GiB:1", PolicyKind::Preset, &terms());
    // the large one waits from minute 1 to 60, the small one not at all
    assert_eq!(outcome.waits_ms, [0, 0, 59 * MINUTE]);
    assert_eq!((outcome.used.peak, outcome.span_ms), (1, 90 * MINUTE));
    assert_eq!((outcome.wait(0.5), outcome.wait(0.95)), (Millis(0), Millis(59 * MINUTE)));
}

#[test]
fn a_build_with_too_little_memory_is_lost_for_its_whole_time_and_comes_back_with_more() {
    let rows = [("a", [0, 60, 1, 3, 1])];
    let outcome = simulated(&rows, "8x32GiB", PolicyKind::Preset, &terms());
    // with 1 and 2 GiB in vain, then 4
    assert_eq!((outcome.lost, outcome.given_up, outcome.span_ms), (2, 0, 180 * MINUTE));
    assert!(near(outcome.lost_hours, 2.0));
    // 1 GiB for an hour, and 2
    assert!(near(outcome.lost_gib_hours, 3.0), "{outcome:?}");
    // 32 GiB for three hours, of which 1 + 2 + 4 are held
    assert!(near(outcome.used.free_gib_hours, 96.0 - 7.0), "{outcome:?}");
}

#[test]
fn a_build_that_no_node_can_take_is_given_up_after_the_largest() {
    let rows = [("a", [0, 60, 1, 64, 20]), ("b", [0, 60, 1, 1, 64])];
    let outcome = simulated(&rows, "8x32GiB", PolicyKind::Preset, &terms());
    // a is tried with 20 and 32 GiB; b asks for 64 and gets 32
    assert_eq!((outcome.builds, outcome.lost, outcome.given_up, outcome.clamped), (2, 2, 1, 2));
}

#[test]
fn an_empty_node_is_closed_after_its_time_and_a_new_one_must_boot() {
    let rows = [("a", [0, 10, 1, 1, 1]), ("b", [15, 10, 1, 1, 1]), ("c", [60, 10, 1, 1, 1])];
    let boot = SimulationTerms { boot: Millis(2 * MINUTE), ..terms() };
    let outcome = simulated(&rows, "8x32GiB", PolicyKind::Preset, &boot);
    // from 0 to 35 with a at 2 and b at 15, and from 60 to 72: the end of the day closes it
    assert!(near(outcome.used.node_hours, 47.0 / 60.0), "{outcome:?}");
    assert_eq!((outcome.waits_ms, outcome.used.peak), (vec![0, 2 * MINUTE, 2 * MINUTE], 1));
    let stays = SimulationTerms { idle: None, ..terms() };
    let outcome = simulated(&rows, "8x32GiB", PolicyKind::Preset, &stays);
    assert!(near(outcome.used.node_hours, 70.0 / 60.0), "{outcome:?}");
}

#[test]
fn a_policy_hears_of_a_build_when_it_has_ended_after_all_waiting() {
    // the second waits for the first; the third comes when the second would have ended without waiting
    let rows = |third| [("z", [0, 60, 8, 8, 8]), ("a", [0, 10, 8, 2, 16]), ("a", [third, 10, 8, 4, 16])];
    let lost = |third| simulated(&rows(third), "8x32GiB:1", PolicyKind::MaxSeen, &terms()).lost;
    // before it has ended: by the preset; after: by what it had, and that is too little
    assert_eq!((lost(20), lost(71)), (0, 1));
}

#[test]
fn rows_before_the_day_teach_and_take_no_node() {
    let rows = [("a", [0, 10, 1, 2, 16]), ("a", [60, 10, 1, 2, 16]), ("a", [500, 10, 1, 2, 16])];
    let window = RowWindow { from_ms: START + 30 * MINUTE, until_ms: START + 400 * MINUTE };
    let sizes = SimulatedSizes { kind: PolicyKind::MaxSeen, spread: None };
    let outcome = in_window(&tape(&rows), window, &fleet("8x32GiB"), sizes, &terms());
    assert_eq!((outcome.builds, outcome.span_ms), (1, 10 * MINUTE));
    // it holds the 2 GiB that the first was seen with, not the 16 of the preset
    assert!(near(outcome.used.free_gib_hours, 30.0 / 6.0), "{outcome:?}");
}

#[test]
fn with_the_spread_hint_a_long_build_keeps_no_node_of_short_ones_open() {
    let mut rows = Vec::new();
    // both are known well
    for n in 0..20 {
        rows.push(("long", [n * 400, 300, 4, 2, 2]));
        rows.push(("short", [n * 400, 5, 4, 2, 2]));
    }
    let day = 20 * 400;
    // two short ones fill the first node, and a long one opens the second; when the next long one comes, the first is empty
    rows.extend([("short", [day, 5, 4, 2, 2]), ("short", [day, 5, 4, 2, 2])]);
    rows.extend([("long", [day, 300, 4, 2, 2]), ("long", [day + 6, 300, 4, 2, 2])]);
    let tape = tape(&rows);
    let window = RowWindow { from_ms: START + day * MINUTE, until_ms: u64::MAX };
    let hours = |spread| {
        let sizes = SimulatedSizes { kind: PolicyKind::Plimsoll, spread };
        in_window(&tape, window, &fleet("8x32GiB"), sizes, &terms()).used.node_hours
    };
    let (without, with) = (hours(None), hours(Some(Millis(60 * MINUTE))));
    // the two long ones keep two nodes open without, and one with
    assert!(without > 9.9 && with < 5.5, "{without} {with}");
}

#[test]
fn the_same_day_has_the_same_outcome() {
    let rows: Vec<Row> = (0..300)
        .zip(["a", "b", "c"].into_iter().cycle())
        .map(|(n, package)| (package, [n * 7 % 200, 1 + n * 13 % 90, 1 + n % 8, 1 + n * 5 % 20, 16]))
        .collect();
    let once = || {
        let fleet = fleet("8x32GiB:3,16x64GiB");
        let outcomes = [PolicyKind::Preset, PolicyKind::Plimsoll, PolicyKind::Oracle]
            .map(|kind| (kind.as_str().to_owned(), simulated(&rows, &fleet.name, kind, &terms())));
        json(&[FleetReport { fleet: &fleet, cpu: CpuRule::Asked, outcomes: outcomes.to_vec() }], "EUR")
    };
    assert_eq!(once(), once());
    assert!(once().contains("\"builds\":300"), "{}", once());
}

#[test]
fn a_node_never_holds_more_than_it_has_and_a_fleet_never_more_nodes_than_it_may() {
    use proptest::prelude::*;
    let ask = (1_u64..9000, 1_u64..40, any::<bool>(), 0_usize..4);
    proptest!(|(asks in prop::collection::vec(ask, 1..80))| {
        let fleet = fleet("4x16GiB:2,8x32GiB:1");
        let mut nodes = Nodes::new(&fleet, 0, Some(3 * MINUTE), true);
        let mut held: Vec<((usize, usize), BuildSize, usize)> = Vec::new();
        for (number, (now, (milli, gib, is_long, ends))) in (0_u64..).step_by(60_000).zip(asks).enumerate() {
            nodes.close_idle(now);
            for _ in 0..ends.min(held.len()) {
                let (slot, size, number) = held.remove(0);
                nodes.release_build(number, (slot, size), now);
            }
            let memory = gib * GIB;
            let size = BuildSize { millicores: milli, memory, limit: memory, peak_use: memory, is_long };
            if let Some(placed) = nodes.assign_node(number, size, now) {
                prop_assert!(placed.evicted.is_empty());
                held.push((placed.slot, size, number));
            } else {
                // it is refused only if no node that may be there has room for it
                for (kind, of_kind) in fleet.kinds.iter().enumerate() {
                    for number in 0..of_kind.most_open {
                        let on = |part: fn(&BuildSize) -> u64| held.iter().filter(|(slot, ..)| *slot == (kind, number))
                            .map(|(_, size, _)| part(size)).sum::<u64>();
                        prop_assert!(
                            on(|size| size.millicores) + milli > of_kind.millicores
                                || on(|size| size.memory) + size.memory > of_kind.memory.0
                        );
                    }
                }
            }
            for (slot, ..) in &held {
                let of_kind = &fleet.kinds[slot.0];
                let on = |part: fn(&BuildSize) -> u64| held.iter().filter(|(other, ..)| other == slot)
                    .map(|(_, size, _)| part(size)).sum::<u64>();
                prop_assert!(slot.1 < of_kind.most_open);
                prop_assert!(on(|size| size.millicores) <= of_kind.millicores);
                prop_assert!(on(|size| size.memory) <= of_kind.memory.0);
            }
        }
    });
}

#[test]
fn a_hundred_thousand_builds_that_come_to_a_single_node_are_all_done_in_the_end() {
    // all but the first wait, of 1,000 sizes; a look at each of them for each end would be a day's work
    let rows: Vec<Row> = (0..100_000).map(|n| ("a", [n / 1000, 10, 1 + n % 8, 1, 1 + n % 125])).collect();
    let outcome = simulated(&rows, "8x128GiB:1", PolicyKind::Preset, &terms());
    assert_eq!((outcome.builds, outcome.lost, outcome.used.peak), (100_000, 0, 1));
    let hours = |minutes: u64| Bytes(minutes).as_f64() / 60.0;
    let held: u64 = rows.iter().map(|(_, [_, wall, cores, _, _])| wall * cores).sum();
    let used = &outcome.used;
    assert!(near((used.core_hours - used.free_core_hours) / hours(held), 1.0), "{used:?}");
}

#[test]
fn a_table_shows_which_sizes_take_how_many_nodes() {
    let rows = [("a", [0, 60, 4, 1, 8]), ("b", [0, 60, 4, 1, 24])];
    let fleet = fleet("8x32GiB");
    let outcomes = vec![("preset".to_owned(), simulated(&rows, "8x32GiB", PolicyKind::Preset, &terms()))];
    let table = text(&[FleetReport { fleet: &fleet, cpu: CpuRule::Asked, outcomes }], "EUR");
    let line = table.lines().nth(2).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        cells,
        ["preset", "1", "1.0", "8.0", "0.0", "0.0", "0", "s", "0", "s", "0", "0.0", "0.0", "0", "8.00"]
    );
    assert!(
        table.starts_with("nodes 8x32GiB, 2 builds, cores as asked for\n") && table.contains("EUR"),
        "{table}"
    );
    assert_eq!(Bytes::GIB.0, GIB);
}

#[test]
fn without_prices_there_is_no_money_and_the_way_to_it_is_shown() {
    let rows = [("a", [0, 60, 1, 3, 1])];
    let free = Fleet::parse("8x32GiB", &Placement::default(), PoolPrice::default()).unwrap();
    let outcomes = |fleet: &Fleet| {
        let sizes = SimulatedSizes { kind: PolicyKind::Preset, spread: None };
        vec![("preset".to_owned(), in_window(&tape(&rows), ALL, fleet, sizes, &terms()))]
    };
    let report = [FleetReport { fleet: &free, cpu: CpuRule::Asked, outcomes: outcomes(&free) }];
    let table = text(&report, "EUR");
    assert!(
        !table.contains("EUR") && table.contains("No money: no prices are given. Give --prices"),
        "{table}"
    );
    assert!(json(&report, "EUR").contains("\"money\":null"), "{}", json(&report, "EUR"));
    // what the lost attempts took is in the table all the same: two of an hour, with 1 and 2 GiB
    let cells: Vec<&str> = table.lines().nth(2).unwrap().split_whitespace().rev().take(4).collect();
    assert_eq!(cells, ["0", "3.0", "2.0", "2"], "{table}");
    let priced = fleet("8x32GiB");
    let report = [FleetReport { fleet: &priced, cpu: CpuRule::Asked, outcomes: outcomes(&priced) }];
    assert!(text(&report, "EUR").contains("EUR") && !text(&report, "EUR").contains("No money"));
}

/// Builds of one package whose needs vary without a pattern, 1 to 3 GiB; all ask for 16.
fn varied() -> Vec<Row> {
    (0..120).map(|n| ("a", [n * 70, 60, 1, 1 + n * 7919 % 3, 16])).collect()
}

#[test]
fn with_request_and_limit_in_force_a_build_holds_its_request_and_is_stopped_at_its_limit() {
    let outcome = |kind| simulated(&varied(), "1x64GiB", kind, &terms());
    let [request, limit, pod] =
        [PolicyKind::Plimsoll, PolicyKind::PlimsollLimit, PolicyKind::PlimsollPod].map(outcome);
    let held = |outcome: &FleetOutcome| outcome.used.gib_hours - outcome.used.free_gib_hours;
    assert!(request.lost > limit.lost, "the day tells them apart: {} {}", request.lost, limit.lost);
    // lost as often as with the limit alone, and its lost attempts had as much
    assert_eq!((pod.lost, pod.given_up), (limit.lost, 0));
    assert!(near(pod.lost_gib_hours, limit.lost_gib_hours));
    assert!(held(&pod) < held(&limit), "{} {}", held(&pod), held(&limit));
    // one build on each node: none takes what another one needs
    assert_eq!([request.evicted, pod.evicted], [0, 0]);
    let fleet = fleet("1x64GiB");
    let outcomes = vec![("plimsoll-pod".to_owned(), pod)];
    let table = text(&[FleetReport { fleet: &fleet, cpu: CpuRule::Asked, outcomes }], "");
    assert!(
        table.contains("given up  evicted") && table.contains("Evicted: of the lost attempts"),
        "{table}"
    );
}

#[test]
fn a_node_stops_those_that_are_most_above_their_requests_until_the_others_fit() {
    let fleet = fleet("8x16GiB:1");
    let mut nodes = Nodes::new(&fleet, 0, None, false);
    let size = |needs| BuildSize {
        millicores: 1000,
        memory: 4 * GIB,
        limit: 10 * GIB,
        peak_use: needs * GIB,
        is_long: false,
    };
    let mut assign = |build, needs| nodes.assign_node(build, size(needs), 0).unwrap();
    // 8 GiB, and 3 that the request covers: 11 in all
    let first = assign(0, 8);
    assert_eq!((first.evicted, assign(1, 3).evicted), (vec![], vec![]));
    // 6 more are too many: the first is 4 above its request, this one 2; without those 4 it is 13 of 16
    assert_eq!(assign(2, 6).evicted, [0]);
    // as much as its limit lets it use, 10: without the 6 above its request it is 17, and the next one goes, too
    assert_eq!(assign(3, 12).evicted, [3, 2]);
    nodes.release_build(0, (first.slot, size(8)), 0);
    // the requests of the two that are still evicted and 3 are 11: there is room for 3 more
    assert_eq!(nodes.assign_node(4, size(3), 0).unwrap().evicted, Vec::<usize>::new());
}
