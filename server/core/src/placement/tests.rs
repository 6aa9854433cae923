//! What an operator may expect of a file of pools.

mod osbs;
mod reading;

use std::collections::BTreeMap;

use super::*;
use crate::{
    domain::{Bytes, Cores, History, Key, Millis, Prediction},
    predict,
};

const GIB: u64 = 1 << 30;

/// A small and a big pool of the same processors, one of others, and a powerful one for a few.
const POOLS: &str = r#"
currency = "EUR"

[[pool]]
name = "big"
arch = "x86_64"
cores = 64
memory = "256GiB"
price_gib_hour = 0.01
price_core_hour = 0.05
at_once = 2
tags = ["x86", "large"]

[[pool]]
name = "small"
arch = "x86_64"
cores = "16"
memory = "64GiB"
price_gib_hour = 0.004
price_core_hour = 0.03
tags = ["x86"]
overwrite_max = { memory_limit = "48GiB", cpu_limit = 24 }

[[pool]]
name = "arm"
arch = "aarch64"
memory = "32GiB"

[[pool]]
name = "powerful"
by_rule = true
on_demand = true
at_once = 2
tags = ["powerful"]
allowed = ['@asahi/.*', 'team/heavy']
"#;

fn parse(more: &str) -> Placement {
    Placement::parse(&format!("{POOLS}{more}")).unwrap()
}

fn mistakes(more: &str) -> String {
    Placement::parse(&format!("{POOLS}{more}")).unwrap_err()
}

fn key(project: &str, arch: &str, package: &str) -> Key {
    Key { project: project.into(), arch: arch.into(), package: package.into(), ..Key::default() }
}

fn needs(gib: u64, cores: f64, hours: u64) -> ResourceNeeds {
    ResourceNeeds {
        memory_request: Bytes(gib * GIB),
        memory_limit: Bytes(gib * GIB),
        cpu_request: Cores(cores),
        disk: Bytes(0),
        wall_p50: Millis(hours * 3_600_000),
        wall_p95: Millis(hours * 7_200_000),
    }
}

/// Name of the pool and whether it is too small.
fn chosen(placement: &Placement, key: &Key, needs: &ResourceNeeds) -> (String, bool) {
    let choice = placement.choose(&RuleSubject::of(key), needs, &|_| 0);
    (choice.pool.map_or_else(String::new, |pool| pool.name.clone()), choice.clamped)
}

#[test]
fn the_cheapest_fitting_pool_wins_else_the_largest() {
    let pools = parse("");
    let x86 = key("a/b", "linux-x86_64_v3", "gcc");
    assert_eq!(chosen(&pools, &x86, &needs(4, 2.0, 1)), ("small".into(), false));
    // above the runner's maximum, though not above the builder's memory
    assert_eq!(chosen(&pools, &x86, &needs(50, 2.0, 1)), ("big".into(), false));
    assert_eq!(chosen(&pools, &x86, &needs(4, 32.0, 1)), ("big".into(), false));
    assert_eq!(chosen(&pools, &x86, &needs(300, 2.0, 1)), ("big".into(), true));
    let arm = key("a/b", "linux-neoverse_v1", "gcc");
    assert_eq!(chosen(&pools, &arm, &needs(64, 2.0, 1)), ("arm".into(), true));
    let other = pools.choose(&RuleSubject::of(&key("a/b", "fedora-s390x", "x")), &needs(1, 1.0, 1), &|_| 0);
    assert!(other.pool.is_none() && other.reason.contains("no pool has s390x"), "{other:?}");
    // what is named and not known runs nowhere, and not anywhere
    let strange = pools.choose(&RuleSubject::of(&key("a/b", "linux-mars", "x")), &needs(1, 1.0, 1), &|_| 0);
    assert!(strange.pool.is_none() && strange.reason.contains("no pool has linux-mars"), "{strange:?}");
}

#[test]
fn sizes_are_clamped_to_the_pool_and_explained() {
    let mut asked: Prediction =
        predict::predict(&History::new(1), &Key::default(), &predict::Settings::default());
    (asked.memory_request.value, asked.memory_limit.value) = (100 * GIB, 300 * GIB);
    (asked.cpu_request.value, asked.cpu_limit.value) = (4000, 128_000);
    let put = parse("").put_in_pool(&RuleSubject::of(&key("a/b", "x86_64", "gcc")), asked.clone(), &|_| 0);
    assert_eq!((put.placed.pool.as_str(), put.placed.clamped), ("big", true));
    assert!(put.placed.reason.contains("memory limit of 300.00 GiB is above its 256.00 GiB"), "{put:?}");
    assert_eq!((put.memory_request.value, put.memory_limit.value), (100 * GIB, 256 * GIB));
    assert_eq!(put.memory_limit.basis.bound.to_string(), "pool big takes 256.00 GiB at most");
    assert!(put.memory_limit.basis.quantile <= 0.0, "it covers another share than the size that was wanted");
    assert_eq!((put.cpu_request.value, put.cpu_limit.value), (4000, 64_000));
    // the runner's maximum in its own spelling: rounded up to whole MiB it would be above that
    let pools = Placement::parse("[[pool]]\nname = \"a\"\nmemory = \"64G\"\n").unwrap();
    let put = pools.put_in_pool(&RuleSubject::of(&Key::default()), asked.clone(), &|_| 0);
    assert_eq!(put.memory_limit.value, 64_000_000_000 / (1 << 20) * (1 << 20));
    // without pools nothing is said and nothing changes
    let key = Key::default();
    let placed = Placement::default().put_in_pool(&RuleSubject::of(&key), asked.clone(), &|_| 0);
    assert_eq!(placed, asked);
}

const RULES: &str = r#"
[[rule]]
name = "kernels"
project = '@asahi/.*'
package = 'kernel.*'
pool = "powerful"

[[rule]]
name = "long"
wall_p50_over = "2h"
memory_over = "32GiB"
tags = ["large"]

[[rule]]
name = "powerful for all who may"
labels = { stage = "stage-[0-9]" }
pool = "powerful"
"#;

#[test]
fn the_first_rule_that_takes_a_key_decides() {
    let pools = parse(RULES);
    let asahi = key("@asahi/kernel", "fedora-40-x86_64", "kernel-16k");
    assert_eq!(chosen(&pools, &asahi, &needs(1, 1.0, 0)).0, "powerful");
    let other = key("a/b", "x86_64", "kernel-16k");
    assert_eq!(chosen(&pools, &other, &needs(40, 1.0, 3)).0, "big");
    assert_eq!(chosen(&pools, &other, &needs(40, 1.0, 2)).0, "small");
    assert_eq!(chosen(&pools, &other, &needs(32, 1.0, 3)).0, "small");
    // who may not use a pool is not taken by a rule for it
    let staged = |project: &str| {
        let labels = BTreeMap::from([("stage".to_owned(), "stage-3".to_owned())]);
        Key { labels, ..key(project, "x86_64", "x") }
    };
    assert_eq!(chosen(&pools, &staged("team/heavy"), &needs(1, 1.0, 0)).0, "powerful");
    assert_eq!(chosen(&pools, &staged("team/heavy-2"), &needs(1, 1.0, 0)).0, "small");
}

#[test]
fn the_trace_explains_each_rules_match() {
    let pools = parse(RULES);
    let labels = BTreeMap::from([("stage".to_owned(), "stage-3".to_owned())]);
    let key = Key { labels, ..key("team/heavy", "x86_64", "gcc") };
    let looked = pools.trace_rules(&RuleSubject::of(&key), &needs(40, 1.0, 3), &|_| 0);
    let reasons: Vec<(bool, &str)> = looked.iter().map(|rule| (rule.decides, rule.why.as_str())).collect();
    assert_eq!(reasons[0], (false, "project \"team/heavy\" does not match '@asahi/.*'"));
    assert_eq!(reasons[1], (true, "pool big, rule long (line 43)"));
    assert_eq!(reasons[2], (false, "would take it, but one before it does"));
}

#[test]
fn a_pasted_copr_table_is_accepted() {
    let pools = parse(
        r#"
[[rule]]
name = "as in Copr"
copr = '''
EXTRA_BUILDCHROOT_TAGS = [{
    "pattern": "@asahi/kernel/.*(x86_64|aarch64)/kernel.*",
    "tags": ["powerful"],
}, {
    "pattern": ".*/.*/.*/chromium",
    "tags": ["large", "x86"],
}]
'''
"#,
    );
    let of = |key: &Key| chosen(&pools, key, &needs(1, 1.0, 0)).0;
    assert_eq!(of(&key("@asahi/kernel", "fedora-40-aarch64", "kernel-16k")), "powerful");
    assert_eq!(of(&key("u/p", "fedora-40-x86_64", "chromium")), "big");
    assert_eq!(of(&key("u/p", "fedora-40-aarch64", "chromium")), "arm");
    assert_eq!(of(&key("u/p", "fedora-40-x86_64", "gcc")), "small");
}

#[test]
fn a_busy_pool_falls_back_if_allowed() {
    let rule = "[[rule]]\nname = \"k\"\npackage = 'kernel'\npool = \"powerful\"\n";
    let falls = parse(&format!("{rule}when_busy = \"small\"\n"));
    let sooner = parse(&format!("{rule}when_busy = \"small\"\nbusy_from = 1\n"));
    let waits = parse(rule);
    let key = key("team/heavy", "x86_64", "kernel");
    let pool = |pools: &Placement, open: u32| {
        let open = |name: &str| if name == "powerful" { open } else { 0 };
        let choice = pools.choose(&RuleSubject::of(&key), &needs(1, 1.0, 0), &open);
        (choice.pool.unwrap().name.clone(), choice.reason)
    };
    let (small, reason) = pool(&falls, 2);
    assert_eq!((pool(&falls, 1).0.as_str(), small.as_str()), ("powerful", "small"));
    assert!(reason.contains("but 2 builds run or wait there: pool small"), "{reason}");
    assert_eq!((pool(&sooner, 1).0, pool(&waits, 99).0), ("small".to_owned(), "powerful".to_owned()));
    // rather it waits than runs with less memory than it needs
    let large = falls.choose(&RuleSubject::of(&key), &needs(100, 1.0, 0), &|_| 99);
    assert_eq!((large.pool.unwrap().name.as_str(), large.clamped), ("powerful", false), "{large:?}");
}

#[test]
fn tagged_tickets_get_a_matching_unfilled_pool() {
    let pools = Placement::parse(
        r#"
[[pool]]
name = "own"
at_once = 2
tags = ["copr_builder", "arch_x86_64"]
[[pool]]
name = "cloud"
at_once = 10
price_core_hour = 1
tags = ["copr_builder", "arch_x86_64"]
allowed = ['a/.*']
[[pool]]
name = "powerful"
tags = ["copr_builder", "arch_x86_64"]
tags_on_demand = ["extra_powerful"]
[[pool]]
name = "ruled"
by_rule = true
tags = ["copr_builder", "secret"]
[tickets.tag]
licence = 1
"#,
    )
    .unwrap();
    let of = |project: &str, tags: &[&str], busy: [u32; 2]| {
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let there = |pool: &str| match pool {
            "own" => busy[0],
            "cloud" => busy[1],
            _ => 0,
        };
        let key = key(project, "", "");
        let pool = pools.choose_by_tags(&RuleSubject::of(&key), &needs(1, 1.0, 0), &tags, &there);
        pool.map_or_else(String::new, |pool| pool.name.clone())
    };
    let usual = ["copr_builder", "arch_x86_64"];
    assert_eq!(of("a/b", &usual, [1, 0]), "own", "the cheapest");
    assert_eq!(of("a/b", &usual, [2, 9]), "cloud", "the cheapest is full");
    assert_eq!(of("a/b", &usual, [4, 11]), "cloud", "the shortest queue");
    assert_eq!(of("b/b", &usual, [4, 0]), "own", "it may use no other one");
    assert_eq!(of("a/b", &["copr_builder", "extra_powerful"], [0, 0]), "powerful");
    assert_eq!(of("a/b", &["copr_builder", "licence"], [0, 0]), "own", "a tag of no pool is only counted");
    assert_eq!(of("a/b", &["extra_powerful", "secret"], [0, 0]), "", "no pool has both");
    assert_eq!(of("a/b", &["secret"], [0, 0]), "", "only a rule puts anything there");
}

#[test]
fn runner_tags_name_a_pool_only_if_unambiguous() {
    let pools = parse("");
    let named = |tags: &[&str]| {
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        pools.named_by(&tags).map(|pool| pool.name.clone())
    };
    assert_eq!(named(&["spack", "small", "large"]).as_deref(), Some("small"));
    assert_eq!(named(&["large", "docker"]).as_deref(), Some("big"));
    assert_eq!((named(&["x86"]), named(&[])), (None, None));
}

#[test]
fn a_pools_price_comes_from_the_file() {
    let pools = parse("");
    let price = |name: &str| pools.pool(name).map(|pool| pool.price);
    assert_eq!(price("small"), Some(PoolPrice { gib_hour: 0.004, core_hour: 0.03 }));
    assert_eq!((price("moon"), pools.currency()), (None, "EUR"));
}
