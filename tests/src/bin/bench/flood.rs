//! A good client beside hostile ones: its times alone and during each attack, and what the attack costs the server.

use std::{
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use plimsoll_tests::{
    Programs, QUIET, Server,
    figures::{Times, Usage},
    flood::Attack,
};
use tonic::transport::{Channel, Endpoint};

use super::asking::{Call, once};

/// How long each attack lasts.
const TIME: Duration = Duration::from_secs(5);
/// Hostile connections at once.
const ATTACKERS: usize = 4;
/// Added to the niceness of the attackers' threads.
const ATTACKER_NICENESS: i32 = 19;
/// Turns of one connection, at most; then another one is opened.
const TURNS: u32 = 50_000;
/// Between two questions of the good client: it asks as one does, not as fast as it can.
const PAUSE: Duration = Duration::from_millis(2);
/// Connections that say nothing.
const SILENT: usize = 10_000;

/// Prints a line for each attack.
pub(crate) async fn beside_good_clients(programs: &Programs, dir: &Path) -> anyhow::Result<()> {
    let server = Server::start_with(programs, &dir.join("flood"), &["--log", QUIET])?;
    let channel = Endpoint::new(server.url())?.connect().await?;
    println!("a good client's Predict, {ATTACKERS} hostile connections at a time, {} s each", TIME.as_secs());
    println!("  alone: {}", good(&channel, TIME).await?);
    for attack in Attack::ALL {
        let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|_| {
                let (address, stop, turns) = (server.grpc, Arc::clone(&stop), Arc::clone(&turns));
                std::thread::spawn(move || assail(attack, address, &stop, &turns))
            })
            .collect();
        let figures = measured(&server, &channel).await;
        stop.store(true, Relaxed);
        for attacker in attackers {
            drop(attacker.join());
        }
        println!("  {}: {}, {} turns", attack.as_str(), figures?, turns.load(Relaxed));
    }
    let silent: Vec<_> = (0..SILENT).filter_map(|_| TcpStream::connect(server.grpc).ok()).collect();
    println!("  {} silent connections: {}", silent.len(), measured(&server, &channel).await?);
    Ok(())
}

/// The good client's times, and what the server used meanwhile.
async fn measured(server: &Server, channel: &Channel) -> anyhow::Result<String> {
    let before = Usage::of(server.pid())?;
    let times = good(channel, TIME).await?;
    let after = Usage::of(server.pid())?;
    let cpu = (after.cpu_ms - before.cpu_ms) as f64 / TIME.as_millis() as f64;
    let [from, to] = [before, after].map(|usage| usage.resident_kib / 1024);
    Ok(format!("{times}, {cpu:.2} cores, {from} to {to} MiB"))
}

/// Asks again and again; an attack that shuts a good client out ends the measurement with its error.
async fn good(channel: &Channel, time: Duration) -> anyhow::Result<Times> {
    let (mut times, began) = (Times::default(), Instant::now());
    let mut n = 0;
    while began.elapsed() < time {
        let asked = Instant::now();
        once(channel, Call::Predict, n).await?;
        times.add(asked.elapsed());
        n += 1;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(times)
}

/// Attacks until `stop`. The thread is nice: real attackers take no CPU time from the server by computing, only by what they send.
fn assail(attack: Attack, address: SocketAddr, stop: &AtomicBool, turns: &AtomicU64) {
    _ = rustix::process::nice(ATTACKER_NICENESS);
    while !stop.load(Relaxed) {
        // a server that takes no connection is seen in the good client's figures
        let played = attack.play(address, TURNS).unwrap_or(0);
        turns.fetch_add(u64::from(played), Relaxed);
    }
}
