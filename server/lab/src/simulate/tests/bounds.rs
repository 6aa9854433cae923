//! What holds for every row of a table: the same cores, a price for too few of them, and nothing below the oracle.

use proptest::prelude::*;

use super::*;

/// Arrival in seconds, wall time in seconds, cores asked for, CPU used in thousandths of a core, MiB needed, GiB asked for.
type Build = (usize, [u64; 6]);

fn history(builds: &[Build]) -> ReplayTape {
    let mut text = "package,submitted_ms,wall_ms,cores,cpu_usec,peak_bytes,requested_bytes\n".to_owned();
    for (package, [arrival, wall, cores, milli, mib, asks]) in builds {
        let cores = if *cores > 0 { cores.to_string() } else { String::new() };
        let (arrival, peak, asks) = (START + arrival * 1000, mib << 20, asks * GIB);
        writeln!(text, "p{package},{arrival},{},{cores},{},{peak},{asks}", wall * 1000, milli * wall * 1000)
            .unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.csv");
    std::fs::write(&path, text).unwrap();
    ReplayTape::read(Reader::open(&path).unwrap(), |_| {}).unwrap()
}

fn outcome(tape: &ReplayTape, cores: &SimulatedCores, nodes: &str, kind: PolicyKind) -> FleetOutcome {
    let rows = SimulatedRows { tape, window: ALL, cores };
    run(rows, &fleet(nodes), SimulatedSizes { kind, spread: None }, &terms(), |_| {})
}

/// Core hours that builds held.
fn held(outcome: &FleetOutcome) -> f64 {
    outcome.used.core_hours - outcome.used.free_core_hours
}

/// Builds whose sizes vary enough that requests and limits differ, and that share nodes.
fn crowd() -> ReplayTape {
    let build = |n: u64| [n * 40, 900, 1 + n % 3, 500 + n * 7919 % 4000, 200 + n * 104_729 % 7000, 8];
    history(
        &(0..150)
            .zip([0, 1, 2, 1].into_iter().cycle())
            .map(|(n, package)| (package, build(n)))
            .collect::<Vec<_>>(),
    )
}

fn builds() -> impl Strategy<Value = Vec<Build>> {
    let numbers = (0..9000_u64, 1..4000_u64, 0..10_u64, 0..20_000_u64, 1..40_000_u64, 1..40_u64);
    let build = (0..3_usize, numbers.prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f]));
    prop::collection::vec(build, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_sizes_take_less_than_the_oracle(
        builds in builds(),
        nodes in prop::sample::select(vec!["8x32GiB", "4x16GiB:2,16x32GiB", "2x32GiB:1,8x16GiB@1,16x128GiB@9"]),
        is_predicted in any::<bool>(),
    ) {
        let tape = history(&builds);
        let cores = if is_predicted {
            SimulatedCores::predicted(&tape, &Settings::default(), |_| {})
        } else {
            SimulatedCores::asked(&tape, CORE)
        };
        let least = outcome(&tape, &cores, nodes, PolicyKind::Oracle);
        prop_assert_eq!((least.lost, least.builds), (0, builds.len() as u64));
        for kind in PolicyKind::ALL {
            let other = outcome(&tape, &cores, nodes, kind);
            prop_assert_eq!((other.given_up, other.builds), (least.given_up, least.builds));
            let numbers = |used: &outcome::NodeUsage| [used.node_hours, used.core_hours, used.gib_hours, used.money];
            for (other, least) in numbers(&other.used).into_iter().zip(numbers(&least.used)) {
                prop_assert!(least <= other * (1.0 + 1e-9), "{}: {least} {other}", kind.as_str());
            }
        }
    }
}

#[test]
fn the_oracle_needs_the_scarcer_of_cores_and_memory_and_mixes_kinds_of_nodes_for_both() {
    // an hour each: 6 cores and 10 GiB together
    let tape = history(&[(0, [0, 3600, 2, 0, 2048, 8]), (1, [0, 3600, 4, 0, 8192, 8])]);
    let cores = SimulatedCores::asked(&tape, CORE);
    let least = |nodes| outcome(&tape, &cores, nodes, PolicyKind::Oracle).used;
    // three quarters of a node for the cores, less for the memory
    assert!(near(least("8x32GiB").node_hours, 0.75), "{:?}", least("8x32GiB"));
    assert!(near(least("32x20GiB").node_hours, 0.5));
    // half an hour of the first has 4 cores and 4 GiB, a quarter of the second 2 and 6
    let both = least("8x8GiB@2,8x24GiB@3");
    assert!(near(both.money, 1.75), "{both:?}");
    assert!(near(both.free_core_hours, 0.0) && near(both.free_gib_hours, 0.0), "{both:?}");
}

#[test]
fn every_row_holds_the_same_cores() {
    let tape = crowd();
    for cores in
        [SimulatedCores::asked(&tape, CORE), SimulatedCores::predicted(&tape, &Settings::default(), |_| {})]
    {
        let of = |kind| outcome(&tape, &cores, "16x64GiB", kind);
        let preset = of(PolicyKind::Preset);
        assert_eq!(preset.lost, 0);
        for kind in [PolicyKind::PlimsollPod, PolicyKind::Vpa, PolicyKind::Oracle] {
            let outcome = of(kind);
            // lost attempts alone hold more; times are whole milliseconds
            let more = held(&outcome) - held(&preset);
            assert!(more > -1e-3 && (outcome.lost > 0 || more < 1e-3), "{}: {more}", kind.as_str());
        }
    }
}

#[test]
fn a_build_with_fewer_cores_than_it_used_takes_longer_in_that_proportion() {
    let wall = |cores, milli| {
        let tape = history(&[(0, [0, 3600, cores, milli, 1024, 2])]);
        let cores = SimulatedCores::asked(&tape, CORE);
        let outcome = outcome(&tape, &cores, "16x64GiB", PolicyKind::Preset);
        (outcome.span_ms / MINUTE, outcome.slower_hours)
    };
    // it used three, and holds the one that --cores gives it
    let (minutes, slower) = wall(0, 3000);
    assert!(minutes == 180 && near(slower, 2.0), "{minutes} {slower}");
    // it asked for two, and used three: the recorded time is that of two
    assert_eq!(wall(2, 3000), (60, 0.0));
    assert_eq!(wall(2, 500), (60, 0.0));
    assert_eq!(wall(0, 0), (60, 0.0));
}

#[test]
fn an_evicted_build_is_lost_and_comes_back_with_a_request_that_holds() {
    let tape = crowd();
    let cores = SimulatedCores::asked(&tape, CORE);
    let one_node = outcome(&tape, &cores, "64x16GiB:1", PolicyKind::PlimsollPod);
    assert!(one_node.evicted > 0 && one_node.evicted <= one_node.lost, "{one_node:?}");
    assert_eq!(one_node.given_up, 0);
    assert!(one_node.evicted <= 150, "no build is evicted twice: {one_node:?}");
    let table = text(
        &[FleetReport {
            fleet: &fleet("64x16GiB:1"),
            cpu: CpuRule::Asked,
            outcomes: vec![("plimsoll-pod".to_owned(), one_node)],
        }],
        "",
    );
    assert!(
        table.contains("given up  evicted ") && table.contains("Evicted: of the lost attempts"),
        "{table}"
    );
}

#[test]
fn requests_and_limits_of_ours_pack_no_dearer_than_sizes_by_hand_but_for_needs_anywhere_on_small_nodes() {
    // three packages whose needs vary by 15 %, and three whose needs lie anywhere below 7 GiB; by hand each build asks for 8 GiB
    let needs = [1000, 3000, 6000];
    let build = |n: u64, mib: u64| [n * 40, 900, 1 + n % 3, 500, mib * (85 + n * 7919 % 31) / 100, 8];
    let close: Vec<Build> = (0..240)
        .zip([0_usize, 1, 2].into_iter().cycle())
        .map(|(n, package)| (package, build(n, needs[package])))
        .collect();
    let alike = ["8x16GiB", "8x32GiB", "16x16GiB", "16x64GiB"];
    let mixed = ["4x8GiB:3,16x32GiB"];
    for (name, tape, fleets) in
        [("close", history(&close), [&alike[..], &mixed].concat()), ("apart", crowd(), alike.to_vec())]
    {
        let cores = SimulatedCores::asked(&tape, CORE);
        for nodes in fleets {
            let money = |kind| outcome(&tape, &cores, nodes, kind).used.money;
            let (ours, by_hand) = (money(PolicyKind::PlimsollPod), money(PolicyKind::Preset));
            // needs that lie anywhere, on nodes that hold two builds by hand: 0.16 % dearer
            let most = if name == "apart" && nodes.ends_with("x16GiB") { 1.002 } else { 1.0 + 1e-9 };
            assert!(ours <= by_hand * most, "{name}, {nodes}: {ours} {by_hand}");
        }
    }
}
