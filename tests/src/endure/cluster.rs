//! Several servers over one PostgreSQL while agents stream: the server that serves is killed, stopped or frozen, and another takes over.

use std::{fmt, sync::atomic::Ordering::Relaxed, time::Duration};

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::Signal;
use plimsoll_proto::v1::server_message::Message as Answer;
use plimsoll_support::postgres::PostgresServer;
use tempfile::TempDir;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    Dice,
    agents::{self, Ledger, SAMPLES, World},
    kill::live,
};
use crate::{Programs, Sender, Server, batch, finish, hello};

/// Most time between the end of a life's work and its death, milliseconds: a commit, and some.
const DEATH_MS: u64 = 40;
/// Between two looks for the server that serves.
const LOOK: Duration = Duration::from_millis(20);
/// Without a server that serves within this time the run has failed. The report says how long it took.
const SERVES_WITHIN: Duration = Duration::from_mins(2);
/// Time limit for a server that has lost the lease to end by itself.
const ENDS_WITHIN: Duration = Duration::from_mins(1);
/// Samples that the frozen server acknowledged before, and samples that wait in its socket while it is frozen.
const BATCH: u64 = 20;
/// One stop for so many kills.
const KILLS_PER_STOP: u64 = 6;

/// How often, with how many servers and agents.
#[derive(Debug, Clone, Copy)]
pub struct Takeovers {
    /// Servers over the database.
    pub servers: usize,
    /// Kills of the server that serves. After every sixth it is also stopped once.
    pub kills: u64,
    /// How often the server that serves is frozen.
    pub freezes: u64,
    /// For how long it is frozen.
    pub frozen_for: Duration,
    /// Agents that stream.
    pub agents: u64,
    /// Most samples that are acknowledged between two takeovers; half of it on average.
    pub work: u64,
    /// Of the dice.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct TakenOver {
    /// Samples that were acknowledged, those that were sent again included.
    pub acknowledged: u64,
    /// Attempts that were checked.
    pub attempts: u64,
    /// Samples that were checked, each of which was there once.
    pub checked: u64,
    /// Time from each kill until another server was ready.
    pub after_kill: Vec<Duration>,
    /// The same after each stop.
    pub after_stop: Vec<Duration>,
    /// The same after each freeze.
    pub after_freeze: Vec<Duration>,
}

impl fmt::Display for TakenOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, attempts, checked, .. } = self;
        write!(
            f,
            "{acknowledged} samples acknowledged; {checked} samples of {attempts} attempts checked: each there once, all summaries as \
             undisturbed"
        )?;
        let after = [("kill", &self.after_kill), ("stop", &self.after_stop), ("freeze", &self.after_freeze)];
        for (event, times) in after.into_iter().filter(|(_, times)| !times.is_empty()) {
            let mut times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
            times.sort_unstable_by(f64::total_cmp);
            let (median, longest) = (times.get(times.len() / 2), times.last());
            let (median, longest) = (median.copied().unwrap_or(0.0), longest.copied().unwrap_or(0.0));
            let count = times.len();
            write!(f, "\n{count} takeovers after a {event}: median {median:.1} s, longest {longest:.1} s")?;
        }
        Ok(())
    }
}

impl Takeovers {
    /// Makes servers take over from each other while agents stream; then delivers the rest and checks everything. `None` where there is no
    /// PostgreSQL.
    pub async fn run(&self, programs: &Programs) -> anyhow::Result<Option<TakenOver>> {
        let Some(database) = PostgresServer::start(|_folder| Vec::new()) else { return Ok(None) };
        let cluster = Cluster::start(programs, self.servers, &database)?;
        let mut dice = Dice::new(self.seed);
        let (place, places) = watch::channel(None);
        let (stop, stops) = watch::channel(false);
        let world = World::new(places, stops);
        let mut agents = agents::start(self.agents, self.seed, &world);
        let (serving, _time) = cluster.wait_for_other(None).await?;
        let mut run = Run { cluster, place, serving, found: TakenOver::default(), ledger: Ledger::new() };
        for round in 0..self.kills + self.freezes {
            run.place.send_replace(Some(run.cluster.url(run.serving)?));
            live(&world, dice.below(self.work)).await;
            sleep(Duration::from_millis(dice.below(DEATH_MS))).await;
            if round >= self.kills {
                run.freeze(&format!("frozen-{round}"), self.frozen_for).await?;
            } else if round % KILLS_PER_STOP == KILLS_PER_STOP - 1 {
                let time = run.end(Signal::SIGTERM).await?;
                run.found.after_stop.push(time);
            } else {
                let time = run.end(Signal::SIGKILL).await?;
                run.found.after_kill.push(time);
            }
            check_agents(&mut agents)?;
        }
        let Run { cluster, place, serving, mut found, mut ledger } = run;
        let url = cluster.url(serving)?;
        place.send_replace(Some(url.clone()));
        stop.send_replace(true);
        ledger.extend(agents::ended(agents).await?);
        found.checked = agents::complete(&url, &mut ledger).await?;
        found.acknowledged = world.acknowledged.load(Relaxed);
        found.attempts = ledger.len() as u64;
        Ok(Some(found))
    }
}

/// A run under way.
struct Run<'a> {
    cluster: Cluster<'a>,
    /// Where agents find the server.
    place: watch::Sender<Option<String>>,
    serving: usize,
    found: TakenOver,
    ledger: Ledger,
}

impl Run<'_> {
    /// Ends the server that serves, waits for another, and starts the first again; returns the time until the other was ready.
    async fn end(&mut self, signal: Signal) -> anyhow::Result<Duration> {
        self.place.send_replace(None);
        self.cluster.signal(self.serving, signal)?;
        let (other, time) = self.cluster.wait_for_other(Some(self.serving)).await?;
        self.cluster.restart(self.serving)?;
        self.serving = other;
        Ok(time)
    }

    /// Freezes the server that serves until another has taken over, and then for the rest of its time.
    async fn freeze(&mut self, attempt: &str, frozen_for: Duration) -> anyhow::Result<()> {
        let frozen = Frozen::freeze(&self.cluster, self.serving, attempt).await?;
        self.place.send_replace(None);
        let (other, time) = self.cluster.wait_for_other(Some(self.serving)).await?;
        self.place.send_replace(Some(self.cluster.url(other)?));
        frozen.wake_and_check(&mut self.cluster, other, frozen_for).await?;
        self.ledger.insert(attempt.to_owned(), None);
        self.serving = other;
        self.found.after_freeze.push(time);
        Ok(())
    }
}

/// An agent that found something missing has ended.
fn check_agents(agents: &mut JoinSet<anyhow::Result<Ledger>>) -> anyhow::Result<()> {
    match agents.try_join_next() {
        Some(ended) => bail!("an agent has ended: {:?}", ended?),
        None => Ok(()),
    }
}

/// Servers over one database, each with a directory of its own.
struct Cluster<'a> {
    programs: &'a Programs,
    database: &'a PostgresServer,
    name: String,
    dir: TempDir,
    servers: Vec<Option<Server>>,
}

impl<'a> Cluster<'a> {
    fn start(programs: &'a Programs, count: usize, database: &'a PostgresServer) -> anyhow::Result<Self> {
        let (name, dir) = (database.new_database(), tempfile::tempdir()?);
        let url = database.url(&name);
        let first = Server::start_with(programs, &dir.path().join("data-0"), &["--store-url", &url])?;
        let servers = std::iter::once(Some(first)).chain((1..count).map(|_standby| None)).collect();
        let mut cluster = Self { programs, database, name, dir, servers };
        (1..count).try_for_each(|at| cluster.restart(at))?;
        Ok(cluster)
    }

    /// Starts a server while another serves; if it still runs, waits for its end first.
    fn restart(&mut self, at: usize) -> anyhow::Result<()> {
        let slot = self.servers.get_mut(at).context("no such server")?;
        if let Some(server) = slot.take() {
            let _status = server.wait()?;
        }
        let (data, url) = (self.dir.path().join(format!("data-{at}")), self.database.url(&self.name));
        *slot = Some(Server::start_standby(self.programs, &data, &["--store-url", &url])?);
        Ok(())
    }

    fn server(&self, at: usize) -> anyhow::Result<&Server> {
        self.servers.get(at).and_then(Option::as_ref).context("no such server")
    }

    fn url(&self, at: usize) -> anyhow::Result<String> {
        Ok(self.server(at)?.url())
    }

    fn signal(&self, at: usize, signal: Signal) -> anyhow::Result<()> {
        self.server(at)?.signal(signal)
    }

    /// Waits until a server other than `but` is ready; returns it, and how long that took.
    async fn wait_for_other(&self, but: Option<usize>) -> anyhow::Result<(usize, Duration)> {
        let begun = Instant::now();
        while begun.elapsed() < SERVES_WITHIN {
            let is_ready = |server: &Server| server.get("/readyz").is_ok_and(|(status, _text)| status == 200);
            let mut others = self.servers.iter().enumerate().filter(|(at, _server)| Some(*at) != but);
            if let Some((at, _)) = others.find(|(_, server)| server.as_ref().is_some_and(is_ready)) {
                return Ok((at, begun.elapsed()));
            }
            sleep(LOOK).await;
        }
        let logs: Vec<String> =
            self.servers.iter().flatten().filter_map(|server| server.log().ok()).collect();
        bail!("no server serves: {}", logs.join("\n---\n"))
    }

    /// Number of the last commit in each epoch, the last epoch first.
    fn last_commits(&self) -> Vec<(String, String)> {
        let query = "SELECT epoch, max(n) FROM plimsoll.feed GROUP BY epoch ORDER BY epoch DESC LIMIT 2";
        let rows = self.database.sql(&self.name, query);
        rows.lines()
            .filter_map(|row| row.split_once('|'))
            .map(|(e, n)| (e.to_owned(), n.to_owned()))
            .collect()
    }
}

/// A frozen server, and a stream to it with samples that it has not read.
struct Frozen {
    at: usize,
    since: Instant,
    stream: Sender,
    attempt: String,
}

impl Frozen {
    async fn freeze(cluster: &Cluster<'_>, at: usize, attempt: &str) -> anyhow::Result<Self> {
        let mut stream = Sender::opened(&cluster.url(at)?, attempt, "zlib").await?;
        stream.exchange(batch(attempt, 1, BATCH)).await?;
        cluster.signal(at, Signal::SIGSTOP)?;
        let since = Instant::now();
        stream.send(batch(attempt, BATCH + 1, BATCH)).await?;
        Ok(Self { at, since, stream, attempt: attempt.to_owned() })
    }

    /// Wakes the server, and checks that it commits and acknowledges nothing more and ends; then starts it again and delivers the attempt
    /// to the server that took over.
    async fn wake_and_check(
        mut self,
        cluster: &mut Cluster<'_>,
        other: usize,
        frozen_for: Duration,
    ) -> anyhow::Result<()> {
        let (url, attempt) = (cluster.url(other)?, &self.attempt);
        let is_there = Sender::connect(&url).await?.exchange(hello(attempt, "zlib")).await?;
        ensure!(is_there == BATCH, "{attempt}: {BATCH} was acknowledged, {is_there} is there");
        let (epoch, last) =
            cluster.last_commits().into_iter().nth(1).context("the epoch before has no commit")?;
        sleep(frozen_for.saturating_sub(self.since.elapsed())).await;
        cluster.signal(self.at, Signal::SIGCONT)?;
        while let Ok(Some(answer)) =
            timeout(ENDS_WITHIN, self.stream.next()).await.context("the server without the lease goes on")?
        {
            let is_late = matches!(&answer, Answer::Ack(ack) if ack.acknowledged > BATCH);
            ensure!(!is_late, "{attempt}: acknowledged after another server had taken over: {answer:?}");
        }
        tokio::task::block_in_place(|| cluster.restart(self.at))?;
        let now = cluster.last_commits().into_iter().find(|(of, _last)| *of == epoch);
        ensure!(now.as_ref().is_some_and(|(_of, now)| *now == last), "committed {now:?} after {last}");
        let mut stream = Sender::connect(&url).await?;
        let is_there = stream.exchange(hello(attempt, "zlib")).await?;
        ensure!(is_there == BATCH, "{attempt}: {BATCH} was acknowledged, {is_there} is there");
        stream.deliver(attempt, (BATCH + 1, SAMPLES), BATCH, |_acknowledged| ()).await?;
        Ok(stream.close(finish(attempt, SAMPLES, Some(0))).await?)
    }
}
