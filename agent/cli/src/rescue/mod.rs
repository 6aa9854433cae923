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
    processes::{ProcessId, watcher_of_this_process},
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

/// How often the list is sent to the guardian again: it takes an agent that is silent for longer for stuck.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Acts on the processes of one build.
#[derive(Debug)]
pub(crate) struct Rescuer {
    /// The build's first process, if the agent may signal it.
    top: Option<ProcessId>,
    /// When a hung build gets SIGKILL.
    kill_at: Option<Instant>,
    /// What is stopped now, or may be.
    stopped: Vec<ProcessId>,
    /// The part of `stopped` that shall go on. It is empty but for a moment, or if the machine is short of something.
    going: Vec<ProcessId>,
    means: Option<PauseMeans>,
    has_paused: bool,
}

/// What a pause needs.
#[derive(Debug)]
struct PauseMeans {
    guardian: Guardian,
    list: PausedList,
    /// When the list was written and sent last.
    noted: Instant,
    /// No other agent pauses this build.
    _lock: BuildLock,
}

impl Rescuer {
    /// Acts on the build that begins with process `top`. Continues what agents left paused that used the same folder `spool` and are gone.
    pub(crate) fn new(top: Option<i32>, spool: &Path) -> Self {
        let continued = paused_list::continue_left_behind(spool);
        if continued > 0 {
            let processes = figures::counted_as(continued as u64, "process", "processes");
            write_line(&format!("plimsoll: continued {processes} that an agent had paused which is gone"));
        }
        let top = top.and_then(ProcessId::of_running);
        Self { top, kill_at: None, stopped: Vec::new(), going: Vec::new(), means: None, has_paused: false }
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
        if end && self.signal_build(sampler, Signal::TERM) {
            sampler.note_ended();
            write_line("plimsoll: rescue ends the build");
        } else if end {
            write_line("plimsoll: rescue cannot end the build: the agent may not signal its processes");
        }
        if self.kill_at.is_some_and(|at| Instant::now() >= at) {
            self.signal_build(sampler, Signal::KILL);
        }
    }

    fn pause(&mut self, sampler: &mut Sampler, acts: PauseActs) {
        self.going.extend(acts.go);
        let goes = self.continue_going();
        let is_due = !self.stopped.is_empty() && self.means.as_ref().is_some_and(PauseMeans::is_due);
        self.stopped.extend(&acts.stop);
        if (goes || is_due || !acts.stop.is_empty()) && !self.note(sampler) {
            return;
        }
        let mut count = 0;
        for id in acts.stop {
            // its unit may go on by now, because another process of it has ended
            if !self.stopped.contains(&id) {
                continue;
            }
            match send(id, Signal::STOP) {
                Ok(true) => count += 1,
                not_stopped => {
                    tracing::debug!(?not_stopped, pid = id.pid, "cannot pause a process");
                    self.going.extend(sampler.not_paused(id).into_iter().chain([id]));
                    self.continue_going();
                }
            }
        }
        if count > 0 && !std::mem::replace(&mut self.has_paused, true) {
            let processes = figures::counted_as(count, "process", "processes");
            write_line(&format!(
                "plimsoll: the build is near its memory limit: rescue pauses {processes} of it for a while"
            ));
        }
    }

    /// Continues what shall go on; what cannot be continued now is tried again at the next tick. Returns whether something was to be done.
    fn continue_going(&mut self) -> bool {
        let going = std::mem::take(&mut self.going);
        let has_any = !going.is_empty();
        for id in going {
            match send(id, Signal::CONT) {
                Ok(_ended_or_not) => self.stopped.retain(|stopped| *stopped != id),
                Err(error) => {
                    tracing::debug!(%error, pid = id.pid, "cannot continue a process yet");
                    self.going.push(id);
                }
            }
        }
        has_any
    }

    /// Writes down what is stopped, or will be. If that fails, everything goes on and nothing is paused any more.
    fn note(&mut self, sampler: &mut Sampler) -> bool {
        let noted = match &mut self.means {
            Some(means) => means.note(&self.stopped),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        if let Err(error) = &noted {
            tracing::debug!(%error, "rescue cannot keep a list of what is paused");
            self.release(sampler, Some("the list of paused processes cannot be kept"));
        }
        noted.is_ok()
    }

    /// Lets everything go on. With a reason, in words for the attempt, nothing is paused any more.
    pub(crate) fn release(&mut self, sampler: &mut Sampler, for_good: Option<&'static str>) {
        sampler.release_paused(for_good);
        self.continue_all();
    }

    /// Lets everything go on.
    fn continue_all(&mut self) {
        self.going = self.stopped.clone();
        self.continue_going();
        if let Some(means) = &mut self.means {
            // both may be gone, and then know nothing that is still stopped
            let _noted = means.note(&self.stopped);
        }
    }

    /// Signals all processes of the build. Returns whether one of them got the signal.
    fn signal_build(&mut self, sampler: &mut Sampler, signal: Signal) -> bool {
        let Some(top) = self.top else { return false };
        self.release(sampler, Some("the build hung at its memory limit"));
        self.kill_at = Some(Instant::now() + if signal == Signal::KILL { KILL_INTERVAL } else { TERM_TIME });
        let own = std::process::id().cast_signed();
        let mut count = 0;
        for id in sampler.build_processes(top).into_iter().filter(|id| id.pid != own) {
            match send(id, signal) {
                Ok(is_there) => count += usize::from(is_there),
                Err(error) => {
                    tracing::debug!(%error, pid = id.pid, ?signal, "cannot signal a process of the build");
                }
            }
        }
        if count == 0 {
            self.kill_at = None;
        }
        count > 0
    }
}

impl Drop for Rescuer {
    fn drop(&mut self) {
        self.continue_all();
    }
}

impl PauseMeans {
    fn prepare(sampler: &Sampler, spool: &Path) -> Result<Self, String> {
        let (dir, is_own) = sampler.build_group()?;
        if let Some(name) = watcher_of_this_process() {
            return Err(format!("{name} started the agent, and would not wait for a paused build"));
        }
        let lock = BuildLock::take(dir, is_own)?;
        let list = PausedList::of_this_process(spool).ok_or("the agent cannot see itself in /proc")?;
        // a list that cannot be written must be known before something is paused
        list.probe().map_err(|error| format!("{}: {error}", spool.display()))?;
        let guardian =
            Guardian::start().map_err(|error| format!("the agent cannot start its guardian: {error}"))?;
        Ok(Self { guardian, list, noted: Instant::now(), _lock: lock })
    }

    fn note(&mut self, stopped: &[ProcessId]) -> io::Result<()> {
        self.noted = Instant::now();
        self.list.replace(stopped)?;
        self.guardian.keep(stopped)
    }

    fn is_due(&self) -> bool {
        self.noted.elapsed() >= HEARTBEAT
    }
}

#[cfg(test)]
mod tests;
