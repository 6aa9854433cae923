//! What disk and database do without Plimsoll.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::figures::median;

use crate::ROUNDS;

/// Clients of pgbench: one, and as many as fill the machine.
const CLIENTS: [u8; 2] = [1, 16];

pub(super) fn measure(database: &PostgresServer, dir: &Path) -> anyhow::Result<()> {
    let mut syncs = Vec::new();
    for _round in 0..ROUNDS {
        syncs.push(synced_a_second(database, &dir.join("synced-by-postgres"))?);
    }
    println!("pg_test_fsync, fdatasync of 8 KiB: {:.0}/s", median(&mut syncs));
    let url = database.url(&database.new_database());
    output(database.client("pgbench").args(["-i", "-q", "-s", "10", &url]))?;
    for clients in CLIENTS {
        let clients = clients.to_string();
        let (mut rates, mut latencies) = (Vec::new(), Vec::new());
        for _round in 0..ROUNDS {
            let text =
                output(database.client("pgbench").args(["-n", "-N", "-T", "2", "-c", &clients, &url]))?;
            rates.push(number_after(&text, "tps = ")?);
            latencies.push(number_after(&text, "latency average = ")?);
        }
        let (rate, latency) = (median(&mut rates), median(&mut latencies));
        println!(
            "pgbench, simple updates of {clients} clients: {rate:.0} transactions/s, {latency:.2} ms each"
        );
    }
    Ok(())
}

/// The first result for fdatasync. The program goes on for a quarter of a minute: it is ended before.
fn synced_a_second(database: &PostgresServer, file: &Path) -> anyhow::Result<f64> {
    let mut program = database.client("pg_test_fsync");
    program.args(["-s", "1", "-f"]).arg(file).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = program.spawn()?;
    let lines = BufReader::new(running.stdout.take().context("no output")?).lines();
    let found = lines.map_while(Result::ok).find_map(|line| {
        let figures = line.trim().strip_prefix("fdatasync")?.trim();
        figures.split_whitespace().next()?.parse().ok()
    });
    running.kill()?;
    running.wait()?;
    found.context("pg_test_fsync does not say how long fdatasync takes")
}

fn output(program: &mut Command) -> anyhow::Result<String> {
    let ended = program.output()?;
    ensure!(ended.status.success(), "{program:?}: {}", String::from_utf8_lossy(&ended.stderr));
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

fn number_after(text: &str, name: &str) -> anyhow::Result<f64> {
    let (_, rest) = text.split_once(name).with_context(|| format!("no {name:?} in {text}"))?;
    Ok(rest.split_whitespace().next().unwrap_or_default().parse()?)
}
