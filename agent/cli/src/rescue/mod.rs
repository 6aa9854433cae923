//! Carries out what rescue decides: pauses and continues compilers, ends a build that hangs at its memory limit.
//!
//! Each signal goes to a process whose start time was checked after the kernel gave a handle to it, so that a process with a reused id is
//! never signalled. Whatever is paused is known to the [`guardian`] and is on a list in the spool directory ([`paused_list`]) before it is
//! stopped, so that it goes on even if the agent is killed.

pub(crate) mod guardian;
mod handle;
mod lock;
mod paused_list;

use std::{io, path::Path, time::Duration};

use plimsoll_measure::{
    processes::ProcessId,
    rescue::pause::PauseActs,
    sampler::{RescueActs, Sampler},
};
use plimsoll_proto::figures;
use rustix::process::Signal;
use tokio::time::Instant;

use self::{guardian::Guardian, handle::send, lock::BuildLock, paused_list::PausedList};
use crate::standard_error::write_line;

/// Time that a hung build has to end after SIGTERM, before it gets SIGKILL.
const TERM_TIME: Duration = Duration::from_secs(5);
/// Time between two SIGKILLs: a process may have started another one meanwhile.
const KILL_INTERVAL: Duration = Duration::from_secs(1);

/// Acts on the processes of one build.
#[derive(Debug)]
pub(crate) struct Rescuer {
    /// The build's first process, if the agent may signal it.
    top: Option<ProcessId>,
    /// When a hung build gets SIGKILL.
    kill_at: Option<Instant>,
    /// What is paused now.
    paused: Vec<ProcessId>,
    means: Option<PauseMeans>,
    has_paused: bool,
}

/// What a pause needs.
#[derive(Debug)]
struct PauseMeans {
    guardian: Guardian,
    list: PausedList,
    /// No other agent pauses this build.
    _lock: BuildLock,
}

impl Rescuer {
    /// Acts on the build that begins with process `top`. Continues what agents left paused that used the same folder `spool` and are gone.
    pub(crate) fn new(top: Option<i32>, spool: &Path) -> Self {
        let top = top.and_then(ProcessId::of_running);
        let continued = paused_list::continue_left_behind(spool);
        if continued > 0 {
            let processes = figures::counted_as(continued as u64, "process", "processes");
            write_line(&format!("plimsoll: continued {processes} that an agent had paused which is gone"));
        }
        Self { top, kill_at: None, paused: Vec::new(), means: None, has_paused: false }
    }

    /// Prepares to pause processes of the build that `sampler` measures. If that is not possible, nothing is paused.
    pub(crate) fn prepare_pauses(&mut self, sampler: &mut Sampler, spool: &Path) {
        match PauseMeans::prepare(sampler, spool) {
            Ok(means) => self.means = Some(means),
            Err(why) => {
                write_line(&format!("plimsoll: rescue pauses nothing: {why}"));
                sampler.watch_only();
            }
        }
    }

    /// Does what the sampler's rescue wants now.
    pub(crate) fn act(&mut self, sampler: &mut Sampler) {
        let RescueActs { pause, end } = sampler.take_rescue_acts();
        self.pause(sampler, pause);
        if end {
            match self.top {
                Some(top) => self.signal_build(sampler, top, Signal::TERM),
                None => write_line("plimsoll: rescue cannot end the build: its first process is not known"),
            }
        }
        if let Some(top) = self.top
            && self.kill_at.is_some_and(|at| Instant::now() >= at)
        {
            self.signal_build(sampler, top, Signal::KILL);
        }
    }

    fn pause(&mut self, sampler: &mut Sampler, acts: PauseActs) {
        if !acts.go.is_empty() {
            self.paused.retain(|id| !acts.go.contains(id));
            continue_each(&acts.go);
            self.note(sampler);
        }
        if acts.stop.is_empty() {
            return;
        }
        self.paused.extend(&acts.stop);
        if !self.note(sampler) {
            return;
        }
        let mut stopped = 0;
        for id in acts.stop {
            match send(id, Signal::STOP) {
                Ok(()) => stopped += 1,
                Err(error) => {
                    tracing::debug!(%error, pid = id.pid, "cannot pause a process");
                    // its driver's other processes would wait for nothing
                    let rest = sampler.not_paused(id);
                    continue_each(&rest);
                    self.paused.retain(|paused| *paused != id && !rest.contains(paused));
                }
            }
        }
        if stopped > 0 && !std::mem::replace(&mut self.has_paused, true) {
            let processes = figures::counted_as(stopped, "process", "processes");
            write_line(&format!(
                "plimsoll: the build is near its memory limit: rescue pauses {processes} of it for a while"
            ));
        }
    }

    /// Writes down what is paused, or will be. If that fails, everything goes on and nothing is paused any more.
    fn note(&mut self, sampler: &mut Sampler) -> bool {
        let noted = match &mut self.means {
            Some(means) => means.note(&self.paused),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        if let Err(error) = &noted {
            tracing::debug!(%error, "rescue cannot keep a list of what is paused");
            self.release(sampler, "the list of paused processes cannot be kept");
        }
        noted.is_ok()
    }

    /// Lets everything go on, and pauses nothing any more; `why`: in words for the attempt.
    pub(crate) fn release(&mut self, sampler: &mut Sampler, why: &'static str) {
        let more = sampler.give_up_rescue(why);
        continue_each(&more);
        continue_each(&std::mem::take(&mut self.paused));
        if let Some(means) = &mut self.means {
            // both may be gone, and then know nothing that is still paused
            let _noted = means.note(&[]);
        }
    }

    fn signal_build(&mut self, sampler: &mut Sampler, top: ProcessId, signal: Signal) {
        self.release(sampler, "the build hung at its memory limit");
        self.kill_at = Some(Instant::now() + if signal == Signal::KILL { KILL_INTERVAL } else { TERM_TIME });
        let own = std::process::id().cast_signed();
        for id in sampler.build_processes(top).into_iter().filter(|id| id.pid != own) {
            if let Err(error) = send(id, signal) {
                tracing::debug!(%error, pid = id.pid, ?signal, "cannot signal a process of the build");
            }
        }
    }
}

impl Drop for Rescuer {
    fn drop(&mut self) {
        continue_each(&self.paused);
        if let Some(means) = &self.means {
            let _removed = means.list.replace(&[]);
        }
    }
}

impl PauseMeans {
    fn prepare(sampler: &Sampler, spool: &Path) -> Result<Self, String> {
        let group = sampler.build_group();
        let (dir, is_own) =
            group.ok_or("no cgroup measures the build alone, or its processes are not visible")?;
        let lock = BuildLock::take(dir, is_own)?;
        let list = PausedList::of_this_process(spool).ok_or("the agent cannot see itself in /proc")?;
        // a list that cannot be written must be known before something is paused
        list.probe().map_err(|error| format!("{}: {error}", spool.display()))?;
        let guardian =
            Guardian::start().map_err(|error| format!("the agent cannot start its guardian: {error}"))?;
        Ok(Self { guardian, list, _lock: lock })
    }

    fn note(&mut self, paused: &[ProcessId]) -> io::Result<()> {
        self.list.replace(paused)?;
        self.guardian.keep(paused)
    }
}

fn continue_each(processes: &[ProcessId]) {
    for id in processes {
        if let Err(error) = send(*id, Signal::CONT) {
            tracing::debug!(%error, pid = id.pid, "cannot continue a process");
        }
    }
}

#[cfg(test)]
mod tests;
