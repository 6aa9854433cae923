//! A fleet of agents at one sample a second each, on loopback and for a bounded time: what the server acknowledges, how long
//! it takes, how long its queue gets, what it uses, and what Predict takes beside it. Before it the same fleet streams to a
//! bare server, which only answers; during it the standard health check stands for an empty call.
//!
//! `cargo run --release --locked --bin fleet -- [AGENTS] [CONNECTIONS] [SECONDS]`; as many connections as agents is the real
//! case. The fleet's threads are nicer than all others. Attempts end and begin all the time. The figures of every tenth second
//! are printed.

#![expect(clippy::print_stdout, reason = "figures go to stdout")]

mod agents;
mod asking;
mod watching;

use std::{env, time::Duration};

use plimsoll_tests::{Profile, Programs, Server, allow_open_files, bare, figures::Usage};
use tokio::sync::watch;

use crate::agents::{Fleet, Run};

const AGENTS: u64 = 10_000;
const CONNECTIONS: u64 = 100;
const SECONDS: u64 = 30;
/// Calls of each kind a second, at a fixed rate.
const CALLS: u32 = 200;
/// Added to the niceness of the threads of the fleet.
const NICER: i32 = 5;

fn main() -> anyhow::Result<()> {
    let (mut builder, bare) = (tokio::runtime::Builder::new_multi_thread(), bare::is_asked());
    if !bare {
        // agents run on machines of their own: here they leave the cores to the server, and to what measures
        builder.on_thread_start(|| _ = rustix::process::nice(NICER));
    }
    builder.enable_all().build()?.block_on(async { if bare { bare::serve().await } else { measure().await } })
}

async fn measure() -> anyhow::Result<()> {
    let mut words = env::args().skip(1);
    let mut number = |default| words.next().map_or(Ok(default), |word| word.parse::<u64>());
    let (agents, connections, seconds) = (number(AGENTS)?, number(CONNECTIONS)?, number(SECONDS)?);
    let fleet = Fleet { agents, connections, time: Duration::from_secs(seconds) };
    println!("{} files may be open", allow_open_files()?);
    against_nothing(&fleet).await?;
    against_the_server(&fleet).await
}

async fn against_nothing(fleet: &Fleet) -> anyhow::Result<()> {
    let bare = bare::BareServer::start()?;
    let run = fleet.run(&bare.url).await?;
    tell("a bare stream", fleet, run, Usage::of(bare.pid())?);
    Ok(())
}

async fn against_the_server(fleet: &Fleet) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let server = Server::start(&Programs::build(Profile::Release)?, &dir.path().join("data"))?;
    let (url, (stop, stops)) = (server.url(), watch::channel(false));
    let bare = bare::BareServer::start()?;
    let asking = asking::start(url.clone(), bare.url.clone(), CALLS, stops.clone());
    let watching = watching::look(&server, stops);
    let running = async {
        let run = fleet.run(&url).await;
        stop.send_replace(true);
        run
    };
    let (run, most) = tokio::try_join!(running, watching)?;
    let asked = asking.join().map_err(|_panic| anyhow::anyhow!("asking ended badly"))??;
    tell("plimsoll-server", fleet, run, Usage::of(server.pid())?);
    println!("  queue at most {} requests, {} MiB resident at most", most.queue, most.resident_kib / 1024);
    println!("{CALLS} calls a second of each kind meanwhile, from when each was due:\n{asked}");
    Ok(())
}

fn tell(what: &str, fleet: &Fleet, run: Run, usage: Usage) {
    let Run { acknowledged, broken, times, took } = run;
    let took = took.as_secs_f64().max(1.0);
    #[expect(clippy::cast_precision_loss, reason = "printed without digits after the point")]
    let (rate, cpu) = (acknowledged as f64 / took, usage.cpu_ms as f64 / took / 10.0);
    let Fleet { agents, connections, time } = fleet;
    println!(
        "{what}: {agents} agents on {connections} connections for {} s, which took {took:.1} s:",
        time.as_secs()
    );
    println!("  {rate:.0} samples acknowledged a second, {broken} streams broken");
    println!("  from sending to acknowledgement: {times}");
    println!("  the server: {cpu:.0} % of a core, {} MiB resident at the end", usage.resident_kib / 1024);
}
