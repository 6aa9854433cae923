//! Mixed load for as long as one likes: agents come and go, break off and come back, and meanwhile everything is asked. What
//! the server uses is read again and again: memory must not grow, and the disk must stay within what is to be kept. Samples get old
//! within seconds here, so that they become fewer and go all the time.

use std::{
    collections::VecDeque,
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use plimsoll_proto::v1 as pb;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, interval},
};
use tonic::{Status, transport::Endpoint};

use super::{Dice, asking};
use crate::{
    Programs, QUIET, Sender, Server,
    figures::{Usage, bytes_below, median, metric},
    finish, hello, sample,
};

/// Samples of one message.
const BATCH: u64 = 20;
/// Most messages of one attempt.
const BATCHES: u64 = 60;
/// Packages that are built.
const PACKAGES: u64 = 50;
/// Bound on the bytes of sealed samples: little, so that old ones go all the time.
const SERIES_BYTES: u64 = 256 << 10;
/// Time after which samples become fewer, and after which they go.
const FULL_FOR: &str = "1s";
const KEEP_FOR: &str = "5s";
/// Time after which an ended attempt goes as a whole: without such a time they are kept for ever, and so is what is held of each.
const SUMMARIES_FOR: Duration = Duration::from_mins(2);
/// At most so long after it: a rest of a tenth of that time and a walk, on a machine that is busy.
const FORGOTTEN_WITHIN: Duration = Duration::from_mins(2);
/// Longer than the load, if nothing got old within it: on a machine that stands still for seconds.
const PATIENCE: Duration = Duration::from_mins(2);
/// Attempts that the server learns from: a bound that is reached soon.
const HISTORY: &str = "2000";
/// What the engine takes at most of what it holds (measured: 1.6 to 2.6), and what it takes for itself.
const ENGINE_FACTOR: u64 = 4;
const ENGINE_BYTES: u64 = 48 << 20;
/// A summary, its keys and a verdict.
const SUMMARY_BYTES: u64 = 1024;
/// Memory that is no growth, KiB: what an allocator gives back late.
const SLACK_KIB: f64 = 12.0 * 1024.0;
/// Growth between the second and the last quarter, and no more than noise.
const SLACK: f64 = 1.10;

/// How much load, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// Time of the load.
    pub time: Duration,
    /// Agents at once.
    pub agents: u64,
    /// Between two messages of an agent, milliseconds, at most.
    pub pause_ms: u64,
    /// Between two looks at the server.
    pub look_every: Duration,
    /// Of the dice.
    pub seed: u64,
}

/// What happened.
#[derive(Debug, Clone, Default)]
pub struct Soaked {
    /// Attempts that were ended.
    pub attempts: u64,
    /// Samples that were acknowledged.
    pub samples: u64,
    /// Answers of the other services.
    pub answers: u64,
    /// Blocks of old samples that the server made smaller.
    pub thinned: u64,
    /// Blocks of old samples that the server removed.
    pub removed: u64,
    /// Ended attempts that went as a whole.
    pub forgotten: u64,
    /// Resident memory at each look, KiB.
    pub resident_kib: Vec<f64>,
    /// Bytes of the data directory at each look, and the bound at that time.
    pub disk: Vec<(u64, u64)>,
}

/// What agents count.
#[derive(Debug, Default)]
struct Done {
    attempts: AtomicU64,
    samples: AtomicU64,
}

impl Soak {
    /// Runs the load against a server on a fresh directory, and judges.
    pub async fn run(&self, programs: &Programs, tell: impl Fn(String)) -> anyhow::Result<Soaked> {
        let dir = tempfile::tempdir()?;
        let series = format!("{SERIES_BYTES}B");
        let options = ["--series-max-bytes", &series, "--history-attempts", HISTORY, "--store-cache", "8MiB"];
        let summaries_for = format!("{}s", SUMMARIES_FOR.as_secs());
        let old = ["--series-full-for", FULL_FOR, "--series-keep-for", KEEP_FOR];
        let options = [&options[..], &["--summaries-keep-for", &summaries_for]].concat();
        let options = [&options[..], &old[..], &["--log", QUIET]].concat();
        let server = Server::start_with(programs, dir.path(), &options)?;
        let (stop, stops) = watch::channel(false);
        let done = Arc::new(Done::default());
        let mut agents = JoinSet::new();
        for agent in 0..self.agents {
            let dice = Dice::new(self.seed.wrapping_add(agent).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            agents.spawn(stream(server.url(), *self, (agent, dice), Arc::clone(&done), stops.clone()));
        }
        let mut asking = JoinSet::new();
        asking.spawn(asking::ask(server.url(), stops.clone()));
        let mut soaked = self.watch(&server, dir.path(), &done, tell).await?;
        stop.send_replace(true);
        while let Some(ended) = agents.join_next().await {
            ended?.context("an agent")?;
        }
        while let Some(ended) = asking.join_next().await {
            soaked.answers += ended?.context("a question")?;
        }
        (soaked.attempts, soaked.samples) = (done.attempts.load(Relaxed), done.samples.load(Relaxed));
        ensure!(server.stop()?.success(), "the server does not stop");
        soaked.judge()?;
        let forgets = self.time > SUMMARIES_FOR + FORGOTTEN_WITHIN;
        ensure!(!forgets || soaked.forgotten > 0, "no old attempts went: {soaked}");
        Ok(soaked)
    }

    async fn watch(
        &self,
        server: &Server,
        dir: &Path,
        done: &Done,
        tell: impl Fn(String),
    ) -> anyhow::Result<Soaked> {
        let (mut soaked, end) = (Soaked::default(), Instant::now() + self.time);
        let mut ended = VecDeque::new();
        let mut tick = interval(self.look_every);
        loop {
            let (now, aged) = (tick.tick().await, soaked.thinned > 0 && soaked.removed > 0);
            if now >= end && (aged || now >= end + PATIENCE) {
                break;
            }
            let usage = Usage::of(server.pid()).context("the server has ended")?;
            let disk = bytes_below(dir)?;
            let attempts = done.attempts.load(Relaxed);
            let kept = attempts - ended_before(&mut ended, now, attempts);
            let bound = ENGINE_BYTES + ENGINE_FACTOR * (SERIES_BYTES + kept * SUMMARY_BYTES);
            #[expect(clippy::cast_precision_loss, reason = "memory in KiB")]
            soaked.resident_kib.push(usage.resident_kib as f64);
            soaked.disk.push((disk, bound));
            let metrics = tokio::task::block_in_place(|| server.get("/metrics"))?.1;
            let old = |kind| metric(&metrics, &format!("plimsoll_store_old_blocks_total{{kind=\"{kind}\"}}"));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let count = |kind| old(kind).unwrap_or(0.0) as u64;
            (soaked.thinned, soaked.removed) = (count("thinned"), count("removed"));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let forgotten = metric(&metrics, "plimsoll_summaries_removed_total").unwrap_or(0.0) as u64;
            soaked.forgotten = forgotten;
            tell(format!(
                "{attempts} attempts, {} samples, {} MiB resident, {} MiB on disk (bound {}), {} old blocks thinned, {} removed, {forgotten} attempts gone",
                done.samples.load(Relaxed),
                usage.resident_kib / 1024,
                disk >> 20,
                bound >> 20,
                soaked.thinned,
                soaked.removed,
            ));
        }
        Ok(soaked)
    }
}

impl Soaked {
    /// The second and the last quarter of what was resident, medians, KiB.
    pub fn resident(&self) -> (f64, f64) {
        let quarter = self.resident_kib.len() / 4;
        let part = |n: usize| self.resident_kib.iter().skip(n * quarter).take(quarter).copied();
        (median(&mut part(1).collect::<Vec<_>>()), median(&mut part(3).collect::<Vec<_>>()))
    }

    fn judge(&self) -> anyhow::Result<()> {
        let (early, late) = self.resident();
        ensure!(late <= early * SLACK + SLACK_KIB, "memory grows: {early:.0} KiB, then {late:.0} KiB");
        let over = self.disk.iter().find(|(bytes, bound)| bytes > bound);
        ensure!(over.is_none(), "the disk holds more than it may: {over:?} (bytes, bound)");
        ensure!(self.attempts > 0 && self.answers > 0, "nothing happened: {self}");
        ensure!(self.thinned > 0 && self.removed > 0, "no old samples became fewer and went: {self}");
        Ok(())
    }
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (early, late) = self.resident();
        let most = self.disk.iter().map(|(bytes, _)| bytes >> 20).max().unwrap_or(0);
        let Self { attempts, samples, answers, thinned, removed, forgotten, .. } = self;
        write!(
            f,
            "{attempts} attempts, {samples} samples, {answers} answers, {thinned} old blocks thinned, {removed} removed, {forgotten} attempts gone; resident {early:.0} KiB in the \
             second quarter and {late:.0} KiB in the last; at most {most} MiB on disk"
        )
    }
}

/// How many of the attempts ended so long ago that they are gone; notes how many have ended `now`.
fn ended_before(ended: &mut VecDeque<(Instant, u64)>, now: Instant, attempts: u64) -> u64 {
    ended.push_back((now, attempts));
    let is_gone = |then: Instant| now.duration_since(then) > SUMMARIES_FOR + FORGOTTEN_WITHIN;
    while ended.get(1).is_some_and(|(then, _)| is_gone(*then)) {
        ended.pop_front();
    }
    ended.front().filter(|(then, _)| is_gone(*then)).map_or(0, |(_, attempts)| *attempts)
}

/// Samples of a build whose need cannot be guessed: what repeats itself is small already, and cannot become smaller.
fn noisy(attempt: &str, first: u64) -> pb::Batch {
    let need = |n: u64| (n.wrapping_pow(5) % 10_007) << 12;
    let row = |n| pb::Sample { need_bytes: need(n), memory_bytes: need(n), ..sample(n) };
    let samples = (first..first + BATCH).map(row).collect();
    pb::Batch { attempt: attempt.to_owned(), first_sequence: first, lost: 0, samples }
}

/// Attempt after attempt; between two of them and sometimes within one the agent goes and comes back.
async fn stream(
    url: String,
    soak: Soak,
    (agent, mut dice): (u64, Dice),
    done: Arc<Done>,
    stop: watch::Receiver<bool>,
) -> Result<(), Status> {
    for n in 0_u64.. {
        let attempt = format!("soak-{agent}-{n}");
        let hello = hello(&attempt, &format!("package-{}", dice.below(PACKAGES)));
        let (last, mut sent) = ((dice.below(BATCHES) + 1) * BATCH, 0);
        let endpoint = Endpoint::new(url.clone()).map_err(|error| Status::internal(error.to_string()))?;
        while sent < last {
            let connection =
                endpoint.connect().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let mut stream = Sender::open(connection).await?;
            sent = stream.exchange(hello.clone()).await?;
            let until = if dice.below(4) == 0 { sent + dice.below(10) * BATCH } else { last };
            while sent < until.min(last) && !*stop.borrow() {
                sent = stream.exchange(noisy(&attempt, sent + 1)).await?;
                done.samples.fetch_add(BATCH, Relaxed);
                tokio::time::sleep(Duration::from_millis(dice.below(soak.pause_ms))).await;
            }
            if *stop.borrow() {
                return Ok(());
            }
            if sent >= last {
                stream.exchange(finish(&attempt, last, Some(i32::from(dice.below(5) == 0)))).await?;
                done.attempts.fetch_add(1, Relaxed);
            }
        }
    }
    Ok(())
}
