//! SIGKILL of a server and of the Resalloc server upstream, again and again, while clients take and close tickets.

use std::{
    collections::BTreeSet,
    fmt, fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use plimsoll_support::KilledChild;

use super::Dice;
use crate::{Programs, Server, http};

/// Clients, each with one ticket at a time. The pool has fewer slots.
const CLIENTS: u64 = 6;
/// Longest time between two kills, milliseconds: a pause after a failure is 1 s.
const LIFE_MS: u64 = 1200;
/// Longest time for which a client uses its machine, milliseconds.
const USE_MS: u64 = 100;
/// Between two looks of a client, and of the check.
const LOOK: Duration = Duration::from_millis(50);
/// What is lost is found within the longest pause, a minute; some more for a machine that is busy.
const SETTLED_WITHIN: Duration = Duration::from_mins(4);
/// The same at a shared upstream, where nothing is searched.
const SHARED_SETTLED_WITHIN: Duration = Duration::from_mins(1);

/// How often.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamKills {
    /// Rounds, each with a kill of both servers.
    pub rounds: u64,
    /// Of the dice.
    pub seed: u64,
    /// Whether the pools file says that others use the upstream, too. Then tickets of lost answers stay open.
    pub shared: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamKilled {
    /// Machines that clients got.
    pub machines: u64,
    /// Tickets that were taken upstream.
    pub taken: u64,
    /// Tickets upstream that were in use at the end.
    pub in_use: usize,
    /// Tickets upstream that were open at the end and not in use; 0 unless the upstream is shared.
    pub left_open: usize,
}

impl fmt::Display for UpstreamKilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machines, taken, in_use, left_open } = self;
        write!(
            f,
            "{machines} machines used, {taken} tickets taken upstream: {in_use} were in use at the end, {left_open} left open, all others closed"
        )
    }
}

/// What clients share.
#[derive(Debug, Default)]
struct Clients {
    /// Where the server is, if it runs.
    address: Mutex<Option<SocketAddr>>,
    stop: AtomicBool,
    machines: AtomicU64,
    /// Machines in use by clients.
    in_use: Mutex<BTreeSet<u64>>,
}

impl UpstreamKills {
    /// Kills both servers again and again; then checks that each ticket upstream is in use or closed.
    pub fn run(&self, programs: &Programs) -> anyhow::Result<UpstreamKilled> {
        let dir = tempfile::tempdir()?;
        let mut dice = Dice::new(self.seed);
        let upstream = Resalloc::start(dir.path(), 0)?;
        let pools = dir.path().join("pools.toml");
        fs::write(
            &pools,
            format!(
                "[[pool]]\nname = \"u\"\nat_once = 4\ntags = [\"x\"]\nupstream = \"http://127.0.0.1:{}\"\nupstream_shared = {}\n[tickets]\nask_within = \"3s\"\n",
                upstream.port, self.shared
            ),
        )?;
        let options = ["--pools-file", pools.to_str().context("a path in UTF-8")?];
        let start = || Server::start_with(programs, &dir.path().join("data"), &options);
        let (clients, server) = (Clients::default(), start()?);
        clients.set(Some(server.http));
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| dice.below(u64::MAX)).collect();
        let clients = &clients;
        thread::scope(|scope| {
            let used: Vec<_> = seeds
                .into_iter()
                .map(|seed| scope.spawn(move || clients.use_machines(Dice::new(seed))))
                .collect();
            let killed = self.kill(clients, (server, upstream), &mut dice, start);
            clients.stop.store(true, Relaxed);
            for one in used {
                one.join().map_err(|_panic| anyhow::anyhow!("a client panicked"))??;
            }
            let (server, upstream) = killed?;
            self.check(clients, &server, &upstream)
        })
    }

    /// Kills both servers again and again; gives those that run in the end.
    fn kill(
        &self,
        clients: &Clients,
        (mut server, mut upstream): (Server, Resalloc),
        dice: &mut Dice,
        start: impl Fn() -> anyhow::Result<Server>,
    ) -> anyhow::Result<(Server, Resalloc)> {
        for _round in 0..self.rounds {
            thread::sleep(Duration::from_millis(dice.below(LIFE_MS)));
            upstream = upstream.killed()?;
            thread::sleep(Duration::from_millis(dice.below(LIFE_MS)));
            clients.set(None);
            server.kill()?;
            server = start()?;
            clients.set(Some(server.http));
        }
        Ok((server, upstream))
    }

    /// Waits until what is open upstream is what clients use.
    fn check(
        &self,
        clients: &Clients,
        server: &Server,
        upstream: &Resalloc,
    ) -> anyhow::Result<UpstreamKilled> {
        let in_use = clients.in_use.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let end = Instant::now() + if self.shared { SHARED_SETTLED_WITHIN } else { SETTLED_WITHIN };
        let left_open = loop {
            let open = upstream.open()?;
            if open == in_use || (self.shared && Instant::now() > end && open.is_superset(&in_use)) {
                break open.len() - in_use.len();
            }
            if Instant::now() > end {
                bail!(
                    "seed {}: open upstream {open:?}, in use {in_use:?}; the server says\n{}",
                    self.seed,
                    server.log()?
                );
            }
            thread::sleep(LOOK);
        };
        let taken = upstream.last()?;
        Ok(UpstreamKilled {
            machines: clients.machines.load(Relaxed),
            taken,
            in_use: in_use.len(),
            left_open,
        })
    }
}

impl Clients {
    fn set(&self, address: Option<SocketAddr>) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// The answer to a call, which is repeated until there is one, as the stock client does.
    fn call(&self, method: &str, argument: &str) -> anyhow::Result<String> {
        loop {
            let address = *self.address.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Ok(answer)) = address.map(|address| call(address, method, argument)) {
                return Ok(answer);
            }
            ensure!(address.is_some() || !self.stop.load(Relaxed), "no server runs");
            thread::sleep(LOOK);
        }
    }

    /// Takes tickets, uses their machines and closes them. The last one of each client that ends with an odd die stays open.
    fn use_machines(&self, mut dice: Dice) -> anyhow::Result<()> {
        loop {
            let taken =
                self.call("takeTicket", "<array><data><value><string>x</string></value></data></array>")?;
            let ticket = text_of(&taken);
            let id = format!("<int>{ticket}</int>");
            let machine = self.machine(&id)?;
            if machine.is_none() && self.stop.load(Relaxed) {
                return Ok(());
            }
            let Some(machine) = machine else { continue };
            self.machines.fetch_add(1, Relaxed);
            let is_new = self.in_use.lock().unwrap_or_else(PoisonError::into_inner).insert(machine);
            ensure!(is_new, "machine {machine} is in use by another client");
            thread::sleep(Duration::from_millis(dice.below(USE_MS)));
            let still = self.machine(&id)?;
            ensure!(still == Some(machine), "ticket {ticket} had machine {machine}, and has {still:?}");
            let stops = self.stop.load(Relaxed);
            if stops && dice.below(2) == 1 {
                return Ok(());
            }
            self.in_use.lock().unwrap_or_else(PoisonError::into_inner).remove(&machine);
            self.call("closeTicket", &id)?;
            if stops {
                return Ok(());
            }
        }
    }

    /// The machine of a ticket, once it is there; `None` if the ticket has ended.
    fn machine(&self, id: &str) -> anyhow::Result<Option<u64>> {
        loop {
            let collected = self.call("collectTicket", id)?;
            if member(&collected, "closed") != "0" {
                return Ok(None);
            }
            if member(&collected, "ready") == "1" {
                let output = member(&collected, "output");
                let (_, number) = output.trim().rsplit_once('-').context("no machine's output")?;
                return Ok(Some(number.parse()?));
            }
            if self.stop.load(Relaxed) {
                self.call("closeTicket", id)?;
            }
            thread::sleep(LOOK);
        }
    }
}

/// A server upstream, in Python.
#[derive(Debug)]
struct Resalloc {
    child: KilledChild,
    dir: PathBuf,
    port: u16,
}

impl Resalloc {
    fn start(dir: &Path, port: u16) -> anyhow::Result<Self> {
        let script = include_str!("../../data/resalloc.py");
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(dir.join("upstream.db")).arg(port.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().context("python3 cannot be started")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let port = line.trim().parse().context("the server upstream did not start")?;
        Ok(Self { child: KilledChild(child), dir: dir.to_owned(), port })
    }

    fn killed(mut self) -> anyhow::Result<Self> {
        self.child.0.kill()?;
        self.child.0.wait()?;
        Self::start(&self.dir, self.port)
    }

    fn ask(&self, method: &str, argument: &str) -> anyhow::Result<String> {
        call(SocketAddr::from(([127, 0, 0, 1], self.port)), method, argument)
    }

    /// The open tickets.
    fn open(&self) -> anyhow::Result<BTreeSet<u64>> {
        let answer = self.ask("openTickets", "")?;
        let numbers = answer.split("<int>").skip(1).filter_map(|rest| rest.split('<').next());
        numbers.map(|number| Ok(number.parse()?)).collect()
    }

    /// How many tickets were taken: one more is.
    fn last(&self) -> anyhow::Result<u64> {
        let number: u64 = text_of(&self.ask("takeTicket", "<array><data></data></array>")?).parse()?;
        Ok(number - 1)
    }
}

/// The answer to a call with at most one argument.
fn call(address: SocketAddr, method: &str, argument: &str) -> anyhow::Result<String> {
    let params = match argument {
        "" => String::new(),
        value => format!("<param><value>{value}</value></param>"),
    };
    let body = format!(
        "<?xml version='1.0'?><methodCall><methodName>{method}</methodName><params>{params}</params></methodCall>"
    );
    let answer = http::request(address, "POST", "/RPC2", "Content-Type: text/xml\r\n", &body)?;
    ensure!(answer.status == 200 && !answer.body.contains("<fault>"), "{}", answer.text());
    ensure!(answer.body.contains("</methodResponse>"), "cut: {}", answer.text());
    Ok(answer.body)
}

/// A text without its tags.
fn text_of(xml: &str) -> String {
    let body = xml.split_once("<methodResponse>").map_or(xml, |(_, body)| body);
    let parts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_tag, text)| text));
    parts.collect::<String>().trim().to_owned()
}

/// A field of the struct in an answer.
fn member(answer: &str, name: &str) -> String {
    let name = format!("<name>{name}</name>");
    let value = answer.split_once(&name).and_then(|(_, rest)| rest.split_once("</value>"));
    value.map(|(value, _)| text_of(value)).unwrap_or_default()
}
