//! Delivery over a simulated network with simulated time: the real code of the agent, a collector that keeps the rules of the
//! wire, and between them whatever a network and an operating system can do. Hours pass in moments, and a seed repeats a run.

mod server;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io, mem,
    net::SocketAddr,
    path::PathBuf,
    rc::Rc,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use plimsoll_proto::v1::{Exit, Hello, Sample};
use plimsoll_support::collector::CollectorState;
use server::{Leader, PORT, serve};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, sleep_until};
use turmoil::{Builder, Sim, net};

use crate::{
    delivery::{Delivery, DeliveryReport, Settings, Trust, backlog::MEMORY_SAMPLES, quota::list_files},
    servers::Network,
};

const TICK: Duration = Duration::from_millis(50);

/// The simulated network.
const SIMULATED: Network = Network {
    resolve: |host, port| Box::pin(async move { Ok(vec![SocketAddr::new(turmoil::lookup(host), port)]) }),
    connect: |endpoint, address| {
        let connect =
            move |_uri| async move { io::Result::Ok(TokioIo::new(net::TcpStream::connect(address).await?)) };
        Box::pin(async move { endpoint.connect_with_connector(tower::service_fn(connect)).await })
    },
};

/// What the agent's machine ran, as its builds saw it.
#[derive(Debug, Default)]
struct Runs {
    /// Samples that were measured, by run.
    pushed: BTreeMap<u64, u64>,
    reports: BTreeMap<u64, DeliveryReport>,
}

fn sample(number: u64) -> Sample {
    Sample { elapsed_ms: number * 1000, need_bytes: number << 20, cpu_usec: number, ..Sample::default() }
}

/// Where builds deliver, what they may keep, and how long they take.
#[derive(Debug, Clone)]
struct Plan {
    servers: &'static [&'static str],
    spool_dir: PathBuf,
    spool_bytes: u64,
    seconds: u64,
}

/// The next run of the agent: a build of so many seconds with a sample in each, whatever the network does.
async fn build(plan: &Plan, runs: &RefCell<Runs>) {
    let Plan { servers, spool_dir, spool_bytes, seconds } = plan.clone();
    let run = runs.borrow().pushed.len() as u64 + 1;
    runs.borrow_mut().pushed.insert(run, 0);
    let servers: Vec<String> = servers.iter().map(|host| format!("http://{host}:{PORT}")).collect();
    let server = Some(servers.join(","));
    let settings = Settings { server, trust: Trust::default(), spool_dir, spool_bytes };
    let attempt = format!("run-{run}");
    let hello = Hello { session: format!("session-{run}"), attempt, ..Hello::default() };
    let mut delivery = Delivery::start_over(SIMULATED, &settings, hello);
    let start = Instant::now();
    for number in 1..=seconds {
        sleep_until(start + Duration::from_secs(number)).await;
        let due = Instant::now();
        delivery.push(sample(number));
        assert_eq!(Instant::now(), due, "the build waits for nothing");
        runs.borrow_mut().pushed.insert(run, number);
    }
    let exit = Some(Exit { code: Some(0), signal: None });
    let ended = Instant::now();
    let patience = Duration::from_secs(20);
    let report = delivery.finish_with(crate::delivery::tests::ended(seconds * 1000, exit), patience).await;
    assert!(ended.elapsed() <= patience + TICK, "the build's end waits no longer than its patience");
    runs.borrow_mut().reports.insert(run, report);
}

/// One build after the other.
async fn builds(plan: Plan, runs: Rc<RefCell<Runs>>) -> turmoil::Result {
    loop {
        build(&plan, &runs).await;
        sleep(Duration::from_secs(1)).await;
    }
}

/// One server, as on one machine.
const ALONE: &[&str] = &["server"];
/// Three servers over one store.
const THREE: &[&str] = &["a", "b", "c"];

/// A world with servers over one store and one machine on which builds run one after the other.
struct World {
    sim: Sim<'static>,
    servers: &'static [&'static str],
    leader: Leader,
    state: Arc<Mutex<CollectorState>>,
    runs: Rc<RefCell<Runs>>,
    dir: TempDir,
    random: u64,
}

impl World {
    fn new(seed: u64, tick: Duration, spool_bytes: u64, seconds: u64) -> Self {
        Self::over(ALONE, seed, tick, (spool_bytes, seconds))
    }

    fn over(
        servers: &'static [&'static str],
        seed: u64,
        tick: Duration,
        (spool_bytes, seconds): (u64, u64),
    ) -> Self {
        let leader = Leader::default();
        let state = Arc::<Mutex<CollectorState>>::default();
        let runs = Rc::<RefCell<Runs>>::default();
        let dir = TempDir::new().unwrap();
        let mut sim = Builder::new()
            .rng_seed(seed)
            .tick_duration(tick)
            .simulation_duration(Duration::from_hours(1000))
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(200))
            .tcp_capacity(100_000)
            .enable_random_order()
            .build();
        for (own, host) in servers.iter().enumerate() {
            let (disk, leader) = (Arc::clone(&state), Arc::clone(&leader));
            sim.host(*host, move || serve(Arc::clone(&disk), Arc::clone(&leader), own));
        }
        let plan = Plan { servers, spool_dir: dir.path().join("spool"), spool_bytes, seconds };
        let seen = Rc::clone(&runs);
        sim.host("agent", move || builds(plan.clone(), Rc::clone(&seen)));
        Self { sim, servers, leader, state, runs, dir, random: seed }
    }

    fn random(&mut self, below: u64) -> u64 {
        // Knuth's MMIX generator (TAOCP 2, 3.3.4)
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn pass(&mut self, time: Duration) {
        let until = self.sim.elapsed() + time;
        while self.sim.elapsed() < until {
            self.sim.step().unwrap();
        }
    }

    fn pass_up_to(&mut self, seconds: u64) {
        let time = Duration::from_millis(self.random(seconds * 1000));
        self.pass(time);
    }

    /// One thing goes wrong, for a while.
    fn misfortune(&mut self) {
        match self.random(7) {
            0 => {
                self.sim.partition("agent", "server");
                self.pass_up_to(90);
                self.sim.repair("agent", "server");
            }
            1 => {
                self.sim.partition_oneway("server", "agent");
                self.pass_up_to(60);
                self.sim.repair_oneway("server", "agent");
            }
            2 => {
                self.sim.hold("agent", "server");
                self.pass_up_to(20);
                self.sim.release("agent", "server");
            }
            3 => {
                self.sim.crash("server");
                self.pass_up_to(40);
                self.sim.bounce("server");
            }
            4 => {
                self.sim.crash("agent");
                self.pass_up_to(5);
                self.sim.bounce("agent");
            }
            5 => {
                self.sim.set_link_fail_rate("agent", "server", 0.02);
                self.pass_up_to(60);
                self.sim.set_link_fail_rate("agent", "server", 0.0);
                self.sim.repair("agent", "server");
            }
            _ => self.sim.set_link_max_message_latency("agent", "server", Duration::from_secs(2)),
        }
        self.pass_up_to(30);
    }

    /// The server that serves dies, is stopped or freezes; another takes over; the old one comes back as a standby.
    fn takeover(&mut self) {
        let old = self.leader.load(Relaxed);
        let other = (old + 1 + usize::try_from(self.random(2)).unwrap()) % self.servers.len();
        let name = self.servers[old];
        match self.random(3) {
            0 => {
                self.sim.crash(name);
                self.pass_up_to(10);
                self.leader.store(other, Relaxed);
            }
            1 => {
                self.leader.store(other, Relaxed);
                self.sim.crash(name);
            }
            _ => {
                self.sim.hold("agent", name);
                self.pass_up_to(10);
                self.leader.store(other, Relaxed);
                self.pass_up_to(30);
                self.sim.crash(name);
                self.sim.release("agent", name);
            }
        }
        self.pass_up_to(10);
        self.sim.bounce(name);
        self.pass_up_to(30);
    }

    /// Nothing goes wrong any more, until everything of the runs so far has arrived.
    fn settle(&mut self) {
        for server in self.servers {
            self.sim.set_link_max_message_latency("agent", *server, Duration::from_millis(100));
        }
        let runs = self.runs.borrow().pushed.len() as u64;
        let arrived = |state: &CollectorState| {
            (1..=runs).all(|run| {
                state.attempts.get(&format!("run-{run}")).is_some_and(|held| held.finish.is_some())
            })
        };
        for _ in 0..100 {
            if arrived(&self.state.lock().unwrap()) {
                self.sim.crash("agent");
                self.runs.borrow_mut().pushed.retain(|run, _| *run <= runs);
                return;
            }
            self.pass(Duration::from_secs(30));
        }
        let left = list_files(&self.dir.path().join("spool"), "spool");
        panic!("not everything arrived: {:?}, {left:?}", self.runs.borrow());
    }

    /// Each sample is there once or counted as lost, in order, with its value; nothing was set aside.
    fn check(&self) {
        let attempts = mem::take(&mut self.state.lock().unwrap().attempts);
        for (run, pushed) in &self.runs.borrow().pushed {
            let held = &attempts[&format!("run-{run}")];
            assert_eq!(held.samples.len() as u64 + held.lost, *pushed, "run {run}");
            let numbers: Vec<u64> = held.samples.iter().map(|(number, _)| *number).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "run {run}: {numbers:?}");
            assert!(held.samples.iter().all(|(number, got)| *got == sample(*number)), "run {run}");
        }
        assert!(list_files(&self.dir.path().join("spool"), "refused").is_empty());
    }

    fn lost(&self) -> u64 {
        self.state.lock().unwrap().attempts.values().map(|held| held.lost).sum()
    }
}

#[test]
fn samples_arrive_exactly_once_despite_failures() {
    for seed in 1..=8 {
        // shown only if the test fails
        println!("seed {seed}");
        let mut world = World::new(seed, TICK, 64 << 20, 150);
        for _ in 0..10 {
            world.misfortune();
        }
        world.settle();
        assert_eq!(world.lost(), 0, "the spool had room for all");
        world.check();
    }
}

#[test]
fn samples_arrive_exactly_once_across_server_takeovers() {
    for seed in 1..=8 {
        // shown only if the test fails
        println!("seed {seed}");
        let mut world = World::over(THREE, seed, TICK, (64 << 20, 150));
        for _ in 0..10 {
            world.takeover();
        }
        world.settle();
        assert_eq!(world.lost(), 0, "the spool had room for all");
        world.check();
    }
}

/// One build of many hours, of which the server is away for all but the first minutes and the last hour.
fn hours(away: u64, spool_bytes: u64) -> World {
    let mut world = World::new(1, Duration::from_secs(1), spool_bytes, (away + 1) * 3600);
    world.pass(Duration::from_mins(2));
    world.sim.partition("agent", "server");
    world.pass(Duration::from_hours(away));
    world.sim.repair("agent", "server");
    while world.runs.borrow().reports.is_empty() {
        world.pass(Duration::from_mins(1));
    }
    world.sim.crash("agent");
    world.runs.borrow_mut().pushed.retain(|run, _| *run == 1);
    world
}

#[test]
fn a_long_outage_loses_nothing_within_the_spool() {
    let world = hours(3, 64 << 20);
    let delivered = DeliveryReport { delivered: true, ..DeliveryReport::default() };
    assert_eq!(world.runs.borrow().reports[&1], delivered);
    assert_eq!(world.lost(), 0);
    world.check();
}

#[test]
fn a_long_outage_beyond_the_spool_counts_losses() {
    let world = hours(4, 16 << 10);
    let lost = world.lost();
    assert!(lost > 1000 && lost < 4 * 3600 - MEMORY_SAMPLES as u64 + 100, "{lost}");
    assert_eq!(world.runs.borrow().reports[&1].lost, lost, "the report tells it");
    world.check();
}
