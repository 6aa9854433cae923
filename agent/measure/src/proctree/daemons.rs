//! Keeps the daemons of a build that the agent did not start. When the parent of a process ends, the kernel gives the process to init, or to
//! a process above the build that asked for it, and nothing shows any more that it came from the build.
//!
//! | a process with such a parent | counts as the build's |
//! |---|---|
//! | it was seen below the build before, with the same start time | yes |
//! | it is new, in a session that the build opened | yes |
//! | it is new, and has the id of the build's CI job in its environment | yes |
//! | there is no such id; it is new, in the cgroup of the build, with all of the environment of a process of the build | yes |
//! | it is new, in the cgroup and of the user of the build, and its environment shows no other job | not known: a notice says so if it is large |

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use plimsoll_base::ci;
use procfs::process::Stat;

use super::{OTHER_PROCESSES_BYTES, OwnEntry, descendants, ticks};
use crate::kernel;

/// Variables whose value differs between all jobs of a batch system on a machine; those of CI systems are in their rows.
const BATCH_VARIABLES: [&str; 3] = ["SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID"];
/// Variables that a shell changes for each command.
const SHELL_VARIABLES: [&str; 4] = ["_", "SHLVL", "PWD", "OLDPWD"];
/// Most processes of the build whose environments are compared with that of a new daemon.
const MAX_COMPARED: usize = 64;
/// Most bytes of an environment that are compared.
const MAX_ENVIRONMENT: u64 = 1 << 20;

/// What shows where a process came from.
#[derive(Debug, Default)]
struct Origin {
    environment: HashMap<Vec<u8>, Vec<u8>>,
    cgroup: String,
    user: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinship {
    Build,
    NotKnown,
    Stranger,
}

impl Origin {
    fn read(proc: &Path, pid: i32) -> Self {
        let folder = proc.join(pid.to_string());
        let bytes = kernel::read_regular(&folder.join("environ"), MAX_ENVIRONMENT).unwrap_or_default();
        let pair = |entry: &[u8]| {
            let equals = entry.iter().position(|&byte| byte == b'=')?;
            Some((entry.get(..equals)?.to_vec(), entry.get(equals + 1..)?.to_vec()))
        };
        Self {
            environment: bytes.split(|&byte| byte == 0).filter_map(pair).collect(),
            cgroup: kernel::read(&folder.join("cgroup")).ok().flatten().unwrap_or_default(),
            user: fs::metadata(&folder).ok().map(|folder| folder.uid()),
        }
    }

    fn kinship(&self, other: &Self) -> Kinship {
        let is_near = self.cgroup == other.cgroup && self.user == other.user;
        let of_systems = ci::SYSTEMS.iter().map(|system| system.job_variable);
        let jobs = BATCH_VARIABLES.into_iter().chain(of_systems);
        let jobs = jobs.filter_map(|name| Some((name, self.environment.get(name.as_bytes())?)));
        let same = jobs.map(|(name, id)| other.environment.get(name.as_bytes()).map(|found| found == id));
        let same: Vec<Option<bool>> = same.collect();
        let has_all = || {
            let mut kept = self.environment.iter();
            let is_shells = |name: &[u8]| SHELL_VARIABLES.iter().any(|shells| shells.as_bytes() == name);
            !self.environment.is_empty()
                && kept.all(|(name, value)| is_shells(name) || other.environment.get(name) == Some(value))
        };
        match (same.is_empty(), is_near) {
            (false, _) if same.contains(&Some(false)) => Kinship::Stranger,
            (false, _) if same.contains(&Some(true)) => Kinship::Build,
            (true, true) if has_all() => Kinship::Build,
            (_, true) => Kinship::NotKnown,
            (_, false) => Kinship::Stranger,
        }
    }
}

/// The daemons of one build.
#[derive(Debug)]
pub(super) struct Daemons {
    proc: PathBuf,
    root: Stat,
    origin: Origin,
    /// The agent, which is no part of the build, even if the build started it.
    agent: Option<i32>,
    /// Start times of the build's processes at the last reading, by their ids; and of all others, which are decided.
    known: HashMap<i32, u64>,
    others: HashMap<i32, (u64, Kinship)>,
    /// Sessions that the build opened.
    sessions: HashSet<i32>,
    /// CPU time of daemons without a parent in the build, at the last reading, clock ticks.
    running_ticks: HashMap<(i32, u64), u64>,
    /// CPU time of such daemons that have ended, clock ticks.
    ended_ticks: u64,
    /// Why a part of the build may not be measured.
    pub(super) notice: Option<String>,
}

impl Daemons {
    /// Daemons of the build that began with the process `root`.
    pub(super) fn of(proc: &Path, root: Stat) -> Self {
        Self {
            proc: proc.to_owned(),
            origin: Origin::read(proc, root.pid),
            root,
            agent: OwnEntry::find(proc).id(),
            known: HashMap::new(),
            others: HashMap::new(),
            sessions: HashSet::new(),
            running_ticks: HashMap::new(),
            ended_ticks: 0,
            notice: None,
        }
    }

    /// Ids of the processes that have no parent in the build: its first one and daemons.
    pub(super) fn tops(&mut self, stats: &[Stat]) -> Vec<i32> {
        let root = self.root.pid;
        let below: HashSet<i32> =
            descendants(stats, &[root]).iter().map(|stat| stat.pid).chain([root]).collect();
        let is_kept = |stat: &Stat| self.known.get(&stat.pid) == Some(&stat.starttime);
        let build = stats.iter().filter(|stat| below.contains(&stat.pid) || is_kept(stat));
        let build: HashSet<i32> = build.map(|stat| stat.pid).collect();
        let (mut tops, mut others) = (vec![root], HashMap::new());
        for stat in stats.iter().filter(|stat| !below.contains(&stat.pid) && !build.contains(&stat.ppid)) {
            let decided = self.others.get(&stat.pid).filter(|(started, _)| *started == stat.starttime);
            let kinship = match decided {
                _ if build.contains(&stat.pid) => Kinship::Build,
                Some((_started, kinship)) => *kinship,
                None => self.kinship(stat, stats, &build),
            };
            if kinship == Kinship::Build {
                tops.push(stat.pid);
                continue;
            }
            if kinship == Kinship::NotKnown
                && stat.rss.saturating_mul(procfs::page_size()) > OTHER_PROCESSES_BYTES
            {
                self.note(stat);
            }
            others.insert(stat.pid, (stat.starttime, kinship));
        }
        self.others = others;
        tops
    }

    /// Whether a process that was not seen before belongs to the build.
    fn kinship(&self, stat: &Stat, stats: &[Stat], build: &HashSet<i32>) -> Kinship {
        let of = |pid: i32| stats.iter().find(|stat| stat.pid == pid);
        let mut above =
            std::iter::successors(of(self.root.ppid), |stat| of(stat.ppid)).take(super::MAX_PARENTS);
        let is_adopted = stat.ppid == 1 || above.any(|parent| parent.pid == stat.ppid);
        // a process above the build in its session is the script that started it; its children are no daemons, unless it is init
        let is_of_script = of(stat.ppid).is_some_and(|parent| parent.session == self.root.session)
            && (stat.ppid != 1 || stat.session == self.root.session);
        if !is_adopted || is_of_script || self.is_agent(stat) || stat.starttime < self.root.starttime {
            return Kinship::Stranger;
        }
        if self.sessions.contains(&stat.session) {
            return Kinship::Build;
        }
        let origin = Origin::read(&self.proc, stat.pid);
        // a build changes its environment on the way; a process that began with an almost empty one is like any other
        let most = self.origin.environment.len().div_ceil(2);
        let of_build = build.iter().take(MAX_COMPARED).map(|pid| Origin::read(&self.proc, *pid));
        let mut of_build = of_build.filter(|origin| origin.environment.len() >= most);
        match self.origin.kinship(&origin) {
            Kinship::NotKnown if of_build.any(|near| near.kinship(&origin) == Kinship::Build) => {
                Kinship::Build
            }
            kinship => kinship,
        }
    }

    pub(super) fn is_agent(&self, stat: &Stat) -> bool {
        self.agent == Some(stat.pid)
    }

    /// Records the processes of the build at this reading, and returns the CPU time of daemons that have ended, in clock ticks.
    pub(super) fn record(&mut self, build: &[&Stat], tops: &[i32]) -> u64 {
        self.known = build.iter().map(|stat| (stat.pid, stat.starttime)).collect();
        let is_own = |session: i32| session != self.root.session || session == self.root.pid;
        self.sessions.extend(build.iter().map(|stat| stat.session).filter(|&session| is_own(session)));
        let daemons = build.iter().filter(|stat| stat.pid != self.root.pid && tops.contains(&stat.pid));
        let running = daemons.map(|stat| ((stat.pid, stat.starttime), ticks(stat))).collect();
        for (daemon, last) in std::mem::replace(&mut self.running_ticks, running) {
            if !self.running_ticks.contains_key(&daemon) {
                self.ended_ticks = self.ended_ticks.saturating_add(last);
            }
        }
        self.ended_ticks
    }

    fn note(&mut self, stat: &Stat) {
        let Stat { pid, comm, .. } = stat;
        self.notice.get_or_insert_with(|| {
            format!("process {pid} ({comm}) may be a daemon of the build: its memory and CPU time are not measured")
        });
    }
}
