//! Others who watch: each is a process of its own, and what it saw is a list of bytes in use.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::anyhow;

/// Reads the memory of a process tree again and again, as people do it with psutil.
const LOOP: &str = "
import sys, time, psutil
root, pause = psutil.Process(int(sys.argv[1])), float(sys.argv[2])
try:
    while True:
        rss = sum(p.memory_info().rss for p in [root] + root.children(recursive=True))
        cpu = root.cpu_times()
        print(rss, flush=True)
        time.sleep(pause)
except psutil.Error:
    pass
";

/// What one of them saw: bytes in use, in the order of time.
#[derive(Debug)]
pub(super) struct Seen(pub(super) Vec<u64>);

impl Seen {
    /// How often it rose above its lowest value by more than `bytes`.
    pub(super) fn rises(&self, bytes: u64) -> usize {
        let least = self.0.iter().min().copied().unwrap_or_default();
        let high: Vec<bool> = self.0.iter().map(|seen| *seen > least + bytes).collect();
        high.windows(2).filter(|pair| matches!(pair, [false, true])).count()
    }
}

/// One who watches.
pub(super) struct Peer {
    name: &'static str,
    child: Child,
    reading: JoinHandle<Vec<u64>>,
    stop: Arc<AtomicBool>,
}

impl Peer {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it, and says what it saw.
    pub(super) fn stop(mut self) -> anyhow::Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.child.kill()?;
        self.child.wait()?;
        self.reading.join().map(Seen).map_err(|_panic| anyhow!("{} was not read", self.name))
    }
}

/// Starts all that are installed. Says which are not.
pub(super) fn start(build: u32) -> anyhow::Result<(Vec<Peer>, Vec<String>)> {
    let (mut peers, mut absent) = (Vec::new(), Vec::new());
    if ["import psutil"].iter().any(|code| python().args(["-c", code]).status().is_ok_and(|s| s.success())) {
        for (name, pause) in [("psutil loop, 10 Hz", "0.1"), ("psutil loop, 1 Hz", "1")] {
            peers.push(psutil(name, build, pause)?);
        }
    } else {
        absent
            .push("psutil: left out, python3 has no such module (apt-get install python3-psutil)".to_owned());
    }
    match ["node_exporter", "prometheus-node-exporter"].iter().find_map(|program| exporter(program).ok()) {
        Some(peer) => peers.push(peer),
        None => absent.push(
            "node_exporter: left out, it is not on the path (apt-get install prometheus-node-exporter)"
                .to_owned(),
        ),
    }
    Ok((peers, absent))
}

fn python() -> Command {
    let mut python = Command::new("python3");
    python.stdin(Stdio::null()).stderr(Stdio::null());
    python
}

fn psutil(name: &'static str, build: u32, pause: &str) -> anyhow::Result<Peer> {
    let mut child = python().args(["-c", LOOP, &build.to_string(), pause]).stdout(Stdio::piped()).spawn()?;
    let lines = child.stdout.take().map(BufReader::new);
    let reading = thread::spawn(move || {
        let lines = lines.into_iter().flat_map(BufReader::lines).map_while(Result::ok);
        lines.filter_map(|line| line.parse().ok()).collect()
    });
    Ok(Peer { name, child, reading, stop: Arc::default() })
}

fn exporter(program: &str) -> anyhow::Result<Peer> {
    // a port that was free a moment ago
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut exporter = Command::new(program);
    exporter.arg(format!("--web.listen-address={address}")).stdout(Stdio::null()).stderr(Stdio::null());
    let (child, stop) = (exporter.spawn()?, Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let reading = thread::spawn(move || {
        let mut seen = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            seen.extend(TcpStream::connect(address).ok().and_then(scrape));
            thread::sleep(Duration::from_secs(1));
        }
        seen
    });
    Ok(Peer { name: "node_exporter, scraped 1 Hz", child, reading, stop })
}

/// Memory in use on the whole machine.
fn scrape(mut stream: TcpStream) -> Option<u64> {
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let value = |name: &str| -> Option<u64> {
        let number: f64 = text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()?;
        format!("{number:.0}").parse().ok()
    };
    Some(value("node_memory_MemTotal_bytes ")?.saturating_sub(value("node_memory_MemAvailable_bytes ")?))
}
