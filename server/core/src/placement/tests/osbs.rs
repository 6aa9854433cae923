//! The example of OSBS (osbs-docs, "Priority of Container Image Builds"): five nodes, and which of them take scratch, explicit and auto
//! builds. Five thousand builds go through tickets, then through a scheduler that places pods as Kubernetes does.

use std::collections::{BTreeSet, VecDeque};

use super::*;
use crate::{
    dice::Dice,
    domain::{Resources, TicketClaim, TicketId},
    placement::tickets::{ClockReading, TicketChange, Tickets},
};

/// The document's table as the operator gets it, with priorities.
fn text() -> String {
    let shipped = include_str!("../../../../../deploy/osbs.toml");
    let with = |text: &str, kind: &str, more: &str| {
        let head = format!("[kind.{kind}]\n");
        assert!(text.contains(&head), "{kind}");
        text.replace(&head, &format!("{head}{more}"))
    };
    let text = with(shipped, "explicit", "priority_class = \"normal\"\n");
    with(&text, "auto", "priority_class = \"low\"\nraised_priority_class = \"high\"\n")
}

/// The kinds that have nodes in the document.
const WORKERS: [BuildKind; 3] = [BuildKind::Scratch, BuildKind::Explicit, BuildKind::Auto];

fn osbs() -> Placement {
    Placement::parse(&text()).unwrap()
}

fn labelled(labels: &[(&str, &str)]) -> Key {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Key { labels, ..Key::default() }
}

/// A worker build: its kind, when it came and how long it runs, minutes.
struct Build {
    kind: BuildKind,
    at: u64,
    minutes: u64,
}

/// What became of a build: when it started, and on which node.
type Started = (u64, usize);

/// Explicit and scratch builds every few minutes, and auto rebuilds in bursts of hundreds when a base image changes.
fn builds(count: usize, seed: u64) -> Vec<Build> {
    let mut dice = Dice(seed);
    let mut whole = |most: f64| Bytes::from_f64(dice.uniform() * most).0;
    let (mut all, mut at) = (Vec::new(), 0);
    while all.len() < count {
        at += whole(20.0);
        let (kind, many) = match whole(200.0) {
            0 => (BuildKind::Auto, 100 + whole(300.0)),
            1..60 => (BuildKind::Scratch, 1),
            60..70 => (BuildKind::Auto, 1),
            _ => (BuildKind::Explicit, 1),
        };
        all.extend((0..many).map(|_| Build { kind, at, minutes: 3 + whole(25.0) }));
    }
    all.truncate(count);
    all
}

/// Runs builds to their ends. A granted ticket becomes a pod; the first pod in the queue that a free node takes is bound to it.
fn schedule(placement: &Placement, builds: &[Build]) -> Vec<Started> {
    let mut tickets = Tickets::new(placement.terms().clone());
    let id = |number: usize| TicketId::parse(&number.to_string()).unwrap();
    let mut started: Vec<Option<Started>> = builds.iter().map(|_| None).collect();
    let mut running: Vec<Option<(usize, u64)>> = placement.nodes().iter().map(|_| None).collect();
    let place =
        |kind: BuildKind| placement.place(&RuleSubject::of(&labelled(&[("kind", kind.as_str())])), None);
    let places = BTreeMap::from(WORKERS.map(|kind| (kind.as_str(), place(kind))));
    let (mut pods, mut next, mut now) = (VecDeque::new(), 0, 0);
    while started.iter().any(Option::is_none) || running.iter().any(Option::is_some) {
        let mut changes = Vec::new();
        for slot in &mut running {
            if let Some((build, _)) = slot.take_if(|(_, end)| *end <= now) {
                changes.extend(tickets.close(&id(build), ClockReading::default()).unwrap());
            }
        }
        while builds.get(next).is_some_and(|build| build.at <= now) {
            let kind = builds[next].kind.as_str().to_owned();
            let claim = TicketClaim { owner: "osbs".to_owned(), kind, ..TicketClaim::default() };
            changes.extend(tickets.open(&id(next), claim, ClockReading::default()).unwrap());
            next += 1;
        }
        let granted = changes.into_iter().filter_map(|change| match change {
            TicketChange::Granted(id) => Some(id.as_str().parse::<usize>().unwrap()),
            TicketChange::Ended(..) => None,
        });
        pods.extend(granted);
        pods.retain(|build: &usize| {
            let place = &places[builds[*build].kind.as_str()];
            let mut nodes = placement.nodes().iter().zip(&mut running).enumerate();
            let free = nodes.find(|(_, (node, slot))| slot.is_none() && node.suits(place));
            let Some((node, (_, slot))) = free else { return true };
            *slot = Some((*build, now + builds[*build].minutes));
            started[*build] = Some((now, node));
            false
        });
        now += 1;
    }
    started.into_iter().flatten().collect()
}

#[test]
fn builds_run_on_their_kinds_nodes_in_order() {
    let (placement, builds) = (osbs(), builds(5000, 42));
    let started = schedule(&placement, &builds);
    assert_eq!(started.len(), 5000, "every build ran");
    let of = |kind: BuildKind| builds.iter().zip(&started).filter(move |(build, _)| build.kind == kind);
    let nodes = |kind| of(kind).map(|(_, (_, node))| node + 1).collect::<BTreeSet<_>>().into_iter().collect();
    let (scratch, explicit, auto): (Vec<_>, Vec<_>, Vec<_>) =
        (nodes(BuildKind::Scratch), nodes(BuildKind::Explicit), nodes(BuildKind::Auto));
    assert_eq!((scratch, explicit, auto), (vec![1], vec![1, 2, 4, 5], vec![1, 3, 4, 5]));
    for kind in WORKERS {
        let starts: Vec<u64> = of(kind).map(|(_, (start, _))| *start).collect();
        assert!(starts.len() > 500, "{kind:?}: {}", starts.len());
        assert!(starts.is_sorted(), "{kind:?} in the order they came");
    }
}

#[test]
fn auto_rebuilds_are_throttled_and_do_not_starve() {
    let (placement, builds) = (osbs(), builds(5000, 7));
    let started = schedule(&placement, &builds);
    let ran: Vec<(&Build, u64)> = builds.iter().zip(started.iter().map(|(start, _)| *start)).collect();
    let autos: Vec<(u64, u64)> = ran
        .iter()
        .filter(|(build, _)| build.kind == BuildKind::Auto)
        .map(|(build, start)| (*start, start + build.minutes))
        .collect();
    let at_once = |minute: u64| autos.iter().filter(|(start, end)| (*start..*end).contains(&minute)).count();
    let most = autos.iter().map(|(start, _)| at_once(*start)).max();
    assert_eq!(most, Some(2), "the throttle, reached and never passed");
    // a burst of hundreds does not delay what people wait for: three of their four nodes stay free of it, or all four
    let longest = |kind: BuildKind| {
        ran.iter()
            .filter(|(build, _)| build.kind == kind)
            .map(|(build, start)| start - build.at)
            .max()
            .unwrap()
    };
    assert!(longest(BuildKind::Explicit) <= 60, "{} minutes", longest(BuildKind::Explicit));
    // while auto rebuilds wait, the next starts at the latest when both that run have ended
    for (earlier, (build, start)) in
        autos.iter().zip(ran.iter().filter(|(build, _)| build.kind == BuildKind::Auto).skip(1))
    {
        let waited_from = build.at.max(earlier.0);
        let waited = start - waited_from;
        assert!(waited <= 28, "an auto rebuild waited {waited} minutes for its turn");
    }
}

#[test]
fn auto_rebuilds_are_not_starved_by_explicit_builds() {
    let placement = osbs();
    let explicit = (0..2000).map(|n| Build { kind: BuildKind::Explicit, at: n, minutes: 20 });
    let auto = (0..80).map(|n| Build { kind: BuildKind::Auto, at: 10 + n, minutes: 20 });
    let mut builds: Vec<Build> = explicit.chain(auto).collect();
    builds.sort_by_key(|build| build.at);
    let started = schedule(&placement, &builds);
    let autos = builds.iter().zip(&started).filter(|(build, _)| build.kind == BuildKind::Auto);
    let last = autos.map(|(_, (start, _))| *start).max().unwrap();
    // node 3 alone runs one each 20 minutes; explicit builds keep the other nodes busy for 10,000 minutes
    assert!(last <= 90 + 80 * 20, "the last auto rebuild started at {last}");
}

#[test]
fn orchestrators_are_small_and_avoid_worker_nodes() {
    let placement = osbs();
    let key = labelled(&[("kind", "orchestrator"), ("security", "true")]);
    let subject = RuleSubject::of(&key);
    let big = needs(8, 4.0, 0);
    let choice = placement.choose(&subject, &big, &|_| 0);
    let pool = choice.pool.unwrap();
    assert_eq!((pool.name.as_str(), choice.clamped), ("orchestrators", true));
    let sizes = Resources {
        memory_request: Some(big.memory_request),
        cpu_request: Some(big.cpu_request),
        ..Resources::default()
    };
    let lowered = pool.lowered_to_maximums(&sizes);
    assert_eq!((lowered.memory_request, lowered.cpu_request), (Some(Bytes(512 << 20)), Some(Cores(0.25))));
    let place = placement.place(&subject, Some(pool));
    assert_eq!(place.node_selector, BTreeMap::from([("orchestrators".to_owned(), "true".to_owned())]));
    assert!(placement.nodes().iter().all(|node| !node.suits(&place)), "no node of the workers");
    // however many run, workers get their slots
    let mut tickets = Tickets::new(placement.terms().clone());
    let mut open = |name: String, kind: &str| {
        let id = TicketId::parse(&name).unwrap();
        let claim = TicketClaim { owner: "osbs".to_owned(), kind: kind.to_owned(), ..TicketClaim::default() };
        tickets.open(&id, claim, ClockReading::default()).unwrap().contains(&TicketChange::Granted(id))
    };
    assert!((0..500).all(|n| open(format!("o{n}"), "orchestrator")));
    assert!(open("a".to_owned(), "auto") && open("b".to_owned(), "auto") && !open("c".to_owned(), "auto"));
    let shared = text().replace("{ orchestrators = \"true\" }", "{ builds_auto = \"true\" }");
    let error = Placement::parse(&shared).unwrap_err();
    let both = "node node-3 takes kinds auto, orchestrator: give orchestrators nodes of their own";
    assert!(error.contains(both), "{error}");
    assert!(error.contains("node node-1 takes kinds auto, explicit, orchestrator, scratch"), "{error}");
    assert!(!error.contains("node-2"), "{error}");
}

#[test]
fn orchestrators_are_refused_only_where_they_share_nodes() {
    let wrong = |orchestrators: &str, auto: &str, nodes: &[&str]| {
        let kinds = format!("[kind.orchestrator]\n{orchestrators}\n[kind.auto]\n{auto}\n");
        let nodes = nodes.iter().enumerate();
        let nodes = nodes.map(|(at, labels)| format!("[[node]]\nname = \"n{at}\"\nlabels = {labels}\n"));
        let text: String = std::iter::once(kinds).chain(nodes).collect();
        Placement::parse(&text).err()
    };
    let small = r#"node_selector = { os = "linux", small = "true" }"#;
    let large = r#"node_selector = { os = "linux", large = "true" }"#;
    let linux = r#"node_selector = { os = "linux" }"#;
    let [of_small, of_large, of_both] = [
        r#"{ os = "linux", small = "true" }"#,
        r#"{ os = "linux", large = "true" }"#,
        r#"{ os = "linux", small = "true", large = "true" }"#,
    ];
    // a label that all nodes have is shared without harm
    for nodes in [&[][..], &[of_small, of_large]] {
        assert_eq!(wrong(small, large, nodes), None, "{nodes:?}");
    }
    let named = "line 9: node n1 takes kinds auto, orchestrator: give orchestrators nodes of their own";
    assert_eq!(wrong(small, large, &[of_small, of_both]).as_deref(), Some(named));
    assert_eq!(wrong("", large, &[of_small, of_large]).as_deref(), Some(named));
    let same = "kinds orchestrator and auto select the same nodes: give orchestrators a label of their own";
    for (orchestrators, auto) in [(linux, large), (small, linux), (large, large), ("", large)] {
        let why = wrong(orchestrators, auto, &[]);
        assert!(why.is_some_and(|why| why.contains(same)), "{orchestrators} {auto}");
    }
    for (orchestrators, auto) in [("", ""), (small, "at_once = 2")] {
        assert_eq!(wrong(orchestrators, auto, &[]), None, "{orchestrators} {auto}");
    }
}

#[test]
fn build_kinds_get_their_documented_nodes() {
    let placement = osbs();
    let of = |labels: &[(&str, &str)]| placement.place(&RuleSubject::of(&labelled(labels)), None);
    let nodes = |place: &NodePlacement| -> Vec<usize> {
        (1..).zip(placement.nodes()).filter(|(_, node)| node.suits(place)).map(|(number, _)| number).collect()
    };
    assert_eq!(nodes(&of(&[("kind", "scratch")])), [1]);
    assert_eq!(nodes(&of(&[("kind", "explicit")])), [1, 2, 4, 5]);
    assert_eq!(nodes(&of(&[("kind", "auto")])), [1, 3, 4, 5]);
    // no kind is given: then it counts as asked for by a person
    assert_eq!(nodes(&of(&[])), [1, 2, 4, 5]);
    assert_eq!(of(&[("kind", "auto")]).priority_class, "low");
    assert_eq!(of(&[("kind", "auto"), ("security", "true")]).priority_class, "high");
    assert_eq!(of(&[("kind", "explicit"), ("security", "true")]).priority_class, "normal");
    assert_eq!(placement.kind(BuildKind::Auto).unwrap().at_once, Some(2));
}

#[test]
fn capacity_combines_the_kinds_nodes_and_limits() {
    let placement = osbs();
    let capacity = placement.capacity(&[BuildKind::Scratch, BuildKind::Explicit]);
    assert_eq!((capacity.builds, capacity.nodes), (4, vec!["node-1", "node-2", "node-4", "node-5"]));
    let of = |placement: &Placement, kinds: &[BuildKind]| {
        let capacity = placement.capacity(kinds);
        (capacity.builds, capacity.on_nodes)
    };
    assert_eq!(of(&placement, &[BuildKind::Auto]), (2, 4), "its limit");
    assert_eq!(of(&placement, &[BuildKind::Scratch]), (1, 1));
    assert_eq!(of(&placement, &WORKERS), (5, 5), "auto needs two nodes at most, the others four");
    assert_eq!(of(&placement, &[BuildKind::Orchestrator]), (0, 0), "no node of the table has their label");
    assert_eq!(of(&placement, &[]), (0, 0));
    let larger =
        Placement::parse(&text().replace("name = \"node-1\"\n", "name = \"node-1\"\nat_once = 10\n"));
    let kinds = [BuildKind::Scratch, BuildKind::Explicit];
    assert_eq!(of(&larger.unwrap(), &kinds), (13, 13));
    let limited = Placement::parse(&format!("{}[tickets]\nat_once = 3\n", text())).unwrap();
    assert_eq!(of(&limited, &kinds), (3, 4));
}

#[test]
fn node_errors_are_reported_with_their_line() {
    let text = "[[node]]\nname = \"a\"\nat_once = 0\n[[node]]\nname = \"a\"\nlabels = { \"b c\" = \"d e\" }\n[[node]]\nname = \"\"\n";
    let error = Placement::parse(text).unwrap_err();
    for part in [
        "line 2: node a: at_once is 0",
        "line 5: node a is there twice",
        "line 5: node a: labels: \"b c\" is not 1 to 63",
        "line 5: node a: labels: b c: \"d e\" is not 1 to 63",
        "line 8: a node needs a name",
    ] {
        assert!(error.contains(part), "{part} is missing in\n{error}");
    }
    let many = |count: usize| {
        (0..count).map(|n| format!("[[node]]\nname = \"n{n}\"\n")).collect::<Vec<_>>().concat()
    };
    assert!(Placement::parse(&many(1000)).is_ok());
    assert!(Placement::parse(&many(1001)).unwrap_err().contains("1001 nodes, at most 1000 are read"));
}
