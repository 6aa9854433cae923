//! Pools: every prediction names one, what is open in each is counted through restarts, and the file changes while the server
//! runs.

use std::fs;

use nix::sys::signal::Signal;

use plimsoll_proto::v1::{self as pb, placement_client::PlacementClient};
use plimsoll_tests::{Answer, Sender, Server, Site, assert_has, eventually, finish, hello};

const POOLS: &str = r#"
currency = "EUR"
[[pool]]
name = "normal"
memory = "3GiB"
cores = 2
price_gib_hour = 0.5
[[pool]]
name = "powerful"
memory = "64GiB"
tags = ["beefy"]
at_once = 1
by_rule = true
allowed = ['team/.*']
[[rule]]
name = "kernels"
package = 'kernel.*'
pool = "powerful"
when_busy = "normal"
"#;

fn start() -> Site {
    // a build of which nothing is known fits into either pool
    let sizes = ["--default-memory-request", "1GiB", "--default-memory-limit", "2GiB"];
    Site::start_with(&[("--pools-file", POOLS)], &sizes).unwrap()
}

async fn predict(server: &Server, package: &str) -> pb::Prediction {
    let key = pb::Key { package: package.into(), project: "team/x".into(), ..pb::Key::default() };
    server.predict(key).await.unwrap()
}

/// Open attempts in the powerful pool.
async fn open(server: &Server) -> u32 {
    let mut client = PlacementClient::connect(server.url()).await.unwrap();
    let pools = client.get_pools(pb::GetPoolsRequest {}).await.unwrap().into_inner();
    assert_eq!((pools.currency.as_str(), pools.pools.len()), ("EUR", 2));
    let powerful = pools.pools.iter().find(|pool| pool.name == "powerful").unwrap();
    assert_eq!((powerful.max_memory_limit_bytes, powerful.at_once), (Some(64 << 30), Some(1)));
    powerful.open_attempts
}

fn in_pool(attempt: &str, pool: &str, tags: &[&str]) -> pb::Hello {
    let runner_tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    pb::Hello { pool: pool.into(), runner_tags, ..hello(attempt, "kernel") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_pool_stays_busy_through_a_kill() {
    let site = start();
    let server = &site.server;
    let (other, kernel) = (predict(server, "zlib").await, predict(server, "kernel").await);
    assert_eq!((other.pool.as_str(), kernel.pool.as_str()), ("normal", "powerful"));
    assert!(!other.clamped, "{other:?}");
    assert!(!kernel.clamped && kernel.pool_reason.contains("rule kernels"), "{kernel:?}");
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(in_pool("one", "", &["docker", "beefy"])).await.unwrap();
    assert_eq!(open(server).await, 1);
    // the same agent again is the same attempt
    let mut again = Sender::connect(&server.url()).await.unwrap();
    again.exchange(in_pool("one", "powerful", &[])).await.unwrap();
    assert_eq!(open(server).await, 1);
    let kernel = predict(server, "kernel").await;
    assert_eq!(kernel.pool, "normal", "{kernel:?}");
    assert!(kernel.pool_reason.contains("1 builds run or wait there"), "{kernel:?}");
    let site = site.killed().unwrap();
    let server = &site.server;
    assert_eq!(open(server).await, 1, "also after a kill");
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(in_pool("one", "powerful", &[])).await.unwrap();
    stream.exchange(finish("one", 0, Some(0))).await.unwrap();
    eventually("the place is free", async || open(server).await, |open: &u32| *open == 0).await;
    assert_eq!(predict(server, "kernel").await.pool, "powerful");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_valid_pools_file_is_loaded() {
    let Site { server, dir, .. } = start();
    let file = dir.path().join("pools-file");
    fs::write(&file, POOLS.replace("pool = \"powerful\"", "pool = \"moon\"")).unwrap();
    server.signal(Signal::SIGHUP).unwrap();
    server.wait_for_metric("plimsoll_pools_refused 1").await;
    assert_eq!(predict(&server, "kernel").await.pool, "powerful");
    fs::write(&file, POOLS.replace("kernel.*", "zlib")).unwrap();
    server.signal(Signal::SIGHUP).unwrap();
    server.wait_for_metric("plimsoll_pools_refused 0").await;
    assert_eq!(predict(&server, "zlib").await.pool, "powerful");
    assert_eq!(predict(&server, "kernel").await.pool, "normal");
}

fn rules_test(words: &[&str]) -> Answer {
    Server::call(&[&["rules", "test"], words].concat())
}

#[test]
fn the_shipped_pools_file_passes_rules_test() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/pools.toml");
    let checked = rules_test(&[file]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), "3 pools, 2 rules\n"));
    let key = ["--key", "project=spack/packages", "--key", "package=gcc", "--key", "ref=develop"];
    let needs = ["--key", "arch=linux-x86_64_v3", "--wall-p50", "3h", "--memory", "48GiB"];
    let stdout = |more: &[&str]| rules_test(&[&[file], &key[..], &needs, more].concat()).done();
    let text = stdout(&[]);
    assert_has(&text, ["takes  line", "=> pool powerful, rule long builds"]);
    let guide = include_str!("../../deploy/docs/pools-and-tickets.md");
    assert_eq!(text.lines().count(), 4, "not in the guide: {text}");
    assert!(text.lines().all(|line| guide.contains(line)), "not in the guide: {text}");
    let text = stdout(&["--open", "powerful=4", "--key", "label.kind=auto", "--key", "label.security=true"]);
    assert_has(&text, ["4 builds run or wait there: pool normal", "priority class ci-high"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&["--output", "json"])).unwrap();
    assert_eq!((&json["pool"], &json["rules"][0]["takes"]), (&"powerful".into(), &true.into()));
    let (_dir, wrong) =
        plimsoll_support::temporary::file_with("wrong.toml", "[[rule]]\npackage = '('\npool = \"moon\"\n");
    let refused = rules_test(&[wrong.to_str().unwrap()]);
    assert_ne!(refused.code, Some(0));
    assert_has(&refused.stderr, ["line 1: ", "line 2: "]);
}
