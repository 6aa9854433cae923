//! Short forms of what the program `endurance` runs.

use std::time::Duration;

use plimsoll_tests::{
    Programs,
    endure::{DatabaseCrashes, Dice, Disk, Kills, Much, Soak, Takeovers, UpstreamKills, power_cuts},
};

use crate::tools::has_python;

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_is_there_once_however_often_the_server_is_killed() {
    let kills = Kills { rounds: 5, agents: 20, work: 8000, seed: 7 };
    let killed = kills.run(Programs::for_tests()).await.unwrap();
    assert!(killed.checked >= killed.attempts && killed.attempts > 0, "{killed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_is_there_once_and_no_build_fails_however_often_the_database_crashes() {
    let crashes = DatabaseCrashes { rounds: 6, agents: 20, work: 8000, seed: 7 };
    let Some(killed) = crashes.run(Programs::for_tests()).await.unwrap() else { return };
    assert!(killed.checked >= killed.attempts && killed.attempts > 0, "{killed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_is_there_once_while_servers_over_one_database_take_over_from_each_other() {
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
async fn an_endless_attempt_and_many_idle_ones_are_taken_up_after_a_kill_and_harm_no_other() {
    let cost = Much { samples: 20_000, idle: 1500 }.run(Programs::for_tests()).await.unwrap();
    println!("{cost}");
}

#[test]
fn each_ticket_upstream_is_in_use_or_closed_however_often_either_server_is_killed() {
    if !has_python() {
        return;
    }
    let killed = UpstreamKills { rounds: 6, seed: 7, shared: false }.run(Programs::for_tests()).unwrap();
    assert!(killed.machines > 0, "{killed}");
}
