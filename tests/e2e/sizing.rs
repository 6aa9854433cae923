//! `plimsoll-server size` against a real server: bytes on its disk.

use std::process::Command;

use plimsoll_proto::v1 as pb;
use plimsoll_tests::{Programs, Sender, Server, figures::bytes_below, finish, sample};
use serde_json::Value;

/// Builds that are sent.
const BUILDS: u64 = 150;
/// Samples of each: 20 minutes, a second apart.
const SAMPLES: u64 = 1200;
/// Samples of one message.
const BATCH: u64 = 100;

/// A sample as a compiler's: memory comes and goes in pages, CPU is nearly a core.
fn uneven(build: u64, number: u64) -> pb::Sample {
    let mixed = |n: u64| (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
    let phase = mixed(build * 100 + number / 40) % 300;
    let need_bytes = ((100 + phase) << 20) + ((mixed((build << 20) | number) % 64) << 12);
    let cpu_usec = number * 900_000 + mixed(number) % 10_000;
    pb::Sample { need_bytes, memory_bytes: need_bytes + (1 << 26), cpu_usec, ..sample(number) }
}

async fn run_builds(server: &Server) {
    for build in 0..BUILDS {
        let name = format!("build-{build}");
        let mut stream =
            Sender::opened(&server.url(), &name, &format!("package-{}", build % 10)).await.unwrap();
        for first in (1..=SAMPLES).step_by(100) {
            let samples = (first..first + BATCH).map(|number| uneven(build, number)).collect();
            let batch = pb::Batch { attempt: name.clone(), first_sequence: first, lost: 0, samples };
            stream.exchange(batch).await.unwrap();
        }
        stream.close(finish(&name, SAMPLES, Some(0))).await.unwrap();
    }
}

/// What the command says of so many builds a month, bytes of disk.
fn modelled(builds_a_day: &str) -> f64 {
    let mut size = Command::new(&Programs::for_tests().server);
    size.env_clear().args(["size", "--builds-per-day", builds_a_day, "--mean-minutes", "20", "-o", "json"]);
    let answer = size.output().unwrap();
    assert!(answer.status.success(), "{answer:?}");
    let json: Value = serde_json::from_slice(&answer.stdout).unwrap();
    json["disk_month_bytes"].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_that_size_names_is_within_a_factor_of_two_of_a_real_store() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    run_builds(&server).await;
    assert!(server.stop().unwrap().success());
    let real = f64::from(u32::try_from(bytes_below(dir.path()).unwrap()).unwrap());
    // 150 builds in 30 days
    let model = modelled("5");

    assert!(model > real / 2.0 && model < real * 2.0, "{real} bytes on disk, {model} by the model");
}
