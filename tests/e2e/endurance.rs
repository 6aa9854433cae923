//! Short forms of what the program `endurance` runs.

use std::time::Duration;

use plimsoll_tests::{
    Programs,
    endure::{DatabaseCrashes, Dice, Disk, Kills, Much, Soak, Takeovers, UpstreamKills, power_cuts},
};

use crate::tools::has_python;

#[tokio::test(flavor = "multi_thread")]
async fn samples_arrive_exactly_once_across_server_kills() {
    let kills = Kills { rounds: 5, agents: 20, work: 8000, seed: 7 };
    let killed = kills.run(Programs::for_tests()).await.unwrap();
    assert!(killed.checked >= killed.attempts && killed.attempts > 0, "{killed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_arrive_exactly_once_across_database_crashes() {
    let crashes = DatabaseCrashes { rounds: 6, agents: 20, work: 8000, seed: 7 };
    let Some(killed) = crashes.run(Programs::for_tests()).await.unwrap() else { return };
    assert!(killed.checked >= killed.attempts && killed.attempts > 0, "{killed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_arrive_exactly_once_across_database_takeovers() {
    let frozen_for = Duration::from_secs(10);
    let takeovers =
        Takeovers { servers: 3, kills: 2, freezes: 2, frozen_for, agents: 20, work: 8000, seed: 7 };
    if let Some(found) = takeovers.run(Programs::for_tests()).await.unwrap() {
        assert!(found.checked >= found.attempts && found.attempts > 2, "{found}");
        println!("{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_power_cut() {
    let dir = tempfile::tempdir().unwrap();
    match Disk::new(dir.path()) {
        Ok(disk) => {
            power_cuts(Programs::for_tests(), dir.path(), disk, (2, 16), &mut Dice::new(7)).await.unwrap();
        }
        Err(reason) => eprintln!("skipped: no disk to cut: {reason:#}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_disk_stay_bounded_under_mixed_load() {
    let (time, look_every) = (Duration::from_secs(24), Duration::from_millis(500));
    let soak = Soak { time, agents: 20, pause_ms: 50, look_every, seed: 7 };
    let soaked = soak.run(Programs::for_tests(), |line| println!("{line}")).await.unwrap();
    println!("{soaked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_and_idle_attempts_survive_a_kill() {
    let cost = Much { samples: 20_000, idle: 1500 }.run(Programs::for_tests()).await.unwrap();
    println!("{cost}");
}

#[test]
fn upstream_tickets_never_leak_across_kills() {
    if !has_python() {
        return;
    }
    let killed = UpstreamKills { rounds: 6, seed: 7, shared: false }.run(Programs::for_tests()).unwrap();
    assert!(killed.machines > 0, "{killed}");
}
