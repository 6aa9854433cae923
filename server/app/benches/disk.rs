//! How many bytes of disk a byte in the store takes: in a server that works for long, and after `compact`.
//!
//! Limits: 2.5 times the payload (keys, versions and values) while old samples become fewer and go, 1.6 times after `compact`.
//!
//! `cargo bench -p plimsoll-server --bench disk [-- steady ATTEMPTS | compact MIB | endless SAMPLES]`; without words 6,000 attempts
//! (a few minutes) and 10 MiB.

#[path = "parts/mix.rs"]
mod mix;
#[path = "parts/series.rs"]
mod series;
#[path = "parts/weigh.rs"]
mod weigh;

use std::{
    fs,
    io::{self, Write as _},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use mix::mix;
use plimsoll_core::domain::{
    Attempt, AttemptId, Exit, FinalTotals, Key, Millis, Sample, SampleAccumulator, Summary, test_attempt,
};
use plimsoll_store::{
    self as store, Batch, KeyValue, Store, StoreFiller, StoreIdentity, VersionedValue, bytes_below,
};
use weigh::{compacted, payload, settings, size, times};

const LIMIT_STEADY: f64 = 2.5;
/// Attempts that run at once; each sends a fragment of ten samples to every commit.
const OPEN: usize = 200;
const FRAGMENT: usize = 10;
/// Loose samples of an attempt before they are sealed.
const COMPACT_AFTER: usize = 900;
/// Between two commits: 10,000 samples a second, as of 10,000 builds. The engine cleans its files at a bounded pace, so the ratio
/// depends on how fast they are written.
const PACE: Duration = Duration::from_millis(200);
/// Commits between the beginnings of two passes over the old samples.
const PASS: u64 = 100;
/// Commits between two looks at the disk.
const LOOK: u64 = 10;
/// Time of a row of samples that became fewer.
const ROW: Millis = Millis(15_000);

/// The samples of real builds of 30 seconds and more, a row a second; every fourth attempt is the longest of them.
fn builds() -> Result<Vec<Vec<Sample>>> {
    let mut builds: Vec<Vec<Sample>> = series::builds()?.into_iter().map(|build| build.samples).collect();
    builds.retain(|samples| samples.len() >= 30);
    builds.sort_by_key(Vec::len);
    Ok(builds)
}

/// An attempt that runs.
struct Running {
    attempt: Attempt,
    samples: Vec<Sample>,
    sent: usize,
    loose: usize,
}

impl Running {
    fn new(number: u64, builds: &[Vec<Sample>]) -> Result<Self> {
        let longest = builds.last().context("no builds")?;
        let place = usize::try_from(number)? % builds.len();
        let samples = if number.is_multiple_of(4) { longest } else { builds.get(place).unwrap_or(longest) };
        let key = Key { package: "hdf5".to_owned(), version: "1.14.3".to_owned(), ..Key::default() };
        let started_unix_ms = 1_700_000_000_000 + number;
        let id = format!("gitlab.example.com:{number:09}");
        let attempt = Attempt { key, started_unix_ms, ..test_attempt(&id) };
        Ok(Self { attempt, samples: samples.clone(), sent: 0, loose: 0 })
    }

    /// Adds its next fragment.
    fn send(&mut self, batch: &mut Batch) -> Result<()> {
        let rest = self.samples.get(self.sent..).unwrap_or_default();
        let samples = rest.get(..FRAGMENT).unwrap_or(rest);
        store::append_fragment(batch, &self.attempt.id, self.sent as u64 + 1, 0, samples)?;
        self.sent += samples.len();
        self.loose += samples.len();
        Ok(())
    }

    /// Seals what is loose if it is much, and all of it at the end; true if it has ended.
    async fn settle(&mut self, store: &Store) -> Result<bool> {
        let ended = self.sent == self.samples.len();
        if ended {
            let mut progress = SampleAccumulator::default();
            progress.last = self.samples.last().copied();
            let wall = progress.last.map(|last| last.elapsed).unwrap_or_default();
            let summary =
                Summary::of(&self.attempt, &progress, &FinalTotals::default(), wall, Some(Exit::Code(0)));
            store::seal(store, &self.attempt, &summary).await?;
        } else if self.loose >= COMPACT_AFTER {
            store.commit(store::compact_samples(store, &self.attempt.id).await?.batch).await?;
            self.loose = 0;
        }
        Ok(ended)
    }
}

/// One step of a pass over the sealed samples, as the server takes one between two commits: old ones become fewer, older ones go. Gives
/// where the next step begins; `None` at the end of the pass.
async fn retain(
    store: &Store,
    after: Option<Vec<u8>>,
    newest: u64,
    (full, kept): (u64, u64),
) -> Result<Option<Vec<u8>>> {
    let page = store::blocks_after(store, after.as_deref()).await?;
    let mut batch = Batch::default();
    for (id, block) in page.blocks {
        let number: u64 = id.as_str().rsplit(':').next().unwrap_or_default().parse()?;
        let age = newest.saturating_sub(number);
        if age > kept {
            store::replace_block(&mut batch, block, None);
        } else if age > full
            && let Some(fewer) = store::downsampled(&block, ROW)
        {
            store::replace_block(&mut batch, block, Some(fewer));
        }
    }
    if !batch.is_empty() {
        store.commit(batch).await?;
    }
    Ok(page.next)
}

/// A server's life of this many attempts: a half of them keep samples, a quarter all of them.
async fn steady(attempts: u64, out: &mut impl io::Write) -> Result<bool> {
    let dir = tempfile::tempdir()?;
    let (store, builds) = (Store::open(&settings(dir.path()))?, builds()?);
    let (full, kept) = (attempts / 4, attempts / 2);
    let mut running: Vec<Running> = Vec::new();
    let (mut begun, mut commits, mut worst, mut samples, mut after) = (0, 0_u64, 0.0_f64, 0, None);
    let began = Instant::now();
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while begun < attempts || !running.is_empty() {
        pace.tick().await;
        let mut batch = Batch::default();
        while running.len() < OPEN && begun < attempts {
            let new = Running::new(begun, &builds)?;
            store::put(&mut batch, &new.attempt)?;
            samples += new.samples.len();
            running.push(new);
            begun += 1;
        }
        running.iter_mut().try_for_each(|attempt| attempt.send(&mut batch))?;
        store.commit(batch).await?;
        let mut left = Vec::with_capacity(running.len());
        for mut attempt in running {
            if !attempt.settle(&store).await? {
                left.push(attempt);
            }
        }
        running = left;
        commits += 1;
        // a pass begins every so often
        if after.is_some() || commits.is_multiple_of(PASS) {
            after = retain(&store, after, begun, (full, kept)).await?;
        }
        if commits.is_multiple_of(LOOK) || running.is_empty() {
            let (payload, disk) = (payload(&store).await?, bytes_below(dir.path())?);
            // from then on as much goes as comes
            if begun > kept {
                worst = worst.max(times(disk, payload));
            }
            if commits.is_multiple_of(PASS) {
                let (mib, ratio) = (payload >> 20, times(disk, payload));
                writeln!(
                    out,
                    "steady: {begun:6} attempts, {mib:4} MiB of payload, {ratio:.2} times that on disk"
                )?;
            }
        }
    }
    let seconds = began.elapsed().as_secs();
    writeln!(
        out,
        "steady: at most {worst:.2} times (limit {LIMIT_STEADY}); {samples} samples in {seconds} s"
    )?;
    let payload = payload(&store).await?;
    store.close().await?;
    drop(store);
    Ok(compacted(dir.path(), payload, out)? && worst <= LIMIT_STEADY)
}

/// One attempt that does not end: what its samples take on the disk and in memory, and how long it takes to go over them again.
async fn endless(samples: u64, out: &mut impl io::Write) -> Result<bool> {
    let dir = tempfile::tempdir()?;
    let (store, builds) = (Store::open(&settings(dir.path()))?, builds()?);
    let longest = builds.last().context("no builds")?;
    let id = AttemptId::parse("endless").map_err(anyhow::Error::msg)?;
    let wall = longest.last().map_or(0, |last| last.elapsed.0);
    let (mut next, began) = (0, Instant::now());
    while next < samples {
        let rows = (next..next + COMPACT_AFTER as u64).map(|n| {
            let (round, place) =
                (n / longest.len() as u64, usize::try_from(n).unwrap_or_default() % longest.len());
            let mut row = longest.get(place).copied().unwrap_or_default();
            row.elapsed.0 += round * wall;
            row.cpu.0 += round * 1_200_000_000;
            row
        });
        let rows: Vec<Sample> = rows.collect();
        let mut batch = Batch::default();
        store::append_fragment(&mut batch, &id, next + 1, 0, &*rows)?;
        store.commit(batch).await?;
        store.commit(store::compact_samples(&store, &id).await?.batch).await?;
        next += rows.len() as u64;
    }
    let written = began.elapsed().as_secs();
    store.close().await?;
    drop(store);
    let store = Store::open(&settings(dir.path()))?;
    let (began, mut largest) = (Instant::now(), 0);
    let extent = store::each_run(&store, &id, |run| largest = largest.max(run.samples.len())).await?;
    let read = began.elapsed().as_secs_f64();
    let (disk, payload) = (bytes_below(dir.path())? >> 20, payload(&store).await? >> 20);
    let status = fs::read_to_string("/proc/self/status")?;
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    writeln!(
        out,
        "endless: {} samples: {payload} MiB in {disk} MiB of disk, written in {written} s, read in {read:.1} s, {largest} at a time; {memory}",
        extent.samples
    )?;
    Ok(extent.samples >= samples && extent.lost == 0)
}

/// A store with blocks of long and short builds, summaries and verdicts, filled as a restore fills it, then compacted.
fn compact(mib: u64, out: &mut impl io::Write) -> Result<bool> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let identity =
        StoreIdentity { format: store::FORMAT_VERSION, id: ulid::Ulid::new(), sequence: u64::MAX / 2 };
    let mut filling = StoreFiller::begin(&settings(&data), identity)?;
    let (mut entries, mut payload) = (Vec::new(), 0);
    for n in 0.. {
        let sizes = [('b', 3900), ('b', 3200), ('b', 300), ('s', 900), ('v', 500)];
        let (kind, bytes) = *sizes.iter().cycle().nth(n % sizes.len()).context("no sizes")?;
        let n = n as u64;
        let value = (0..bytes / 8).flat_map(|part| mix(n << 16 | part).to_be_bytes()).collect();
        let key = format!("{kind}gitlab.example.com:{:09}\0{n:08}", mix(n / 5) % 1_000_000_000);
        let entry = KeyValue { key: key.into_bytes(), value: VersionedValue { version: n + 1, value } };
        payload += size(&entry);
        if payload > mib << 20 {
            break;
        }
        entries.push(entry);
    }
    // as a backup has them
    entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    filling.lay_out(&entries)?;
    entries.into_iter().try_for_each(|entry| filling.put(entry))?;
    filling.end()?;
    compacted(&data, payload, out)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let mut out = io::stdout().lock();
    let kept = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compact(10, &mut out)? & steady(6000, &mut out).await?,
        ["steady", attempts] => steady(attempts.parse()?, &mut out).await?,
        ["endless", samples] => endless(samples.parse()?, &mut out).await?,
        ["compact", mib] => compact(mib.parse()?, &mut out)?,
        _ => bail!("say nothing, `steady ATTEMPTS`, `compact MIB` or `endless SAMPLES`"),
    };
    writeln!(out, "{}", if kept { "kept" } else { "NOT KEPT" })?;
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
