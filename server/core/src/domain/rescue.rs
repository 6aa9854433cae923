//! What an agent saw of the processes of a build: the largest one, and what rescue did with them.

use serde::{Deserialize, Serialize};

use super::{Bytes, Millis, Summary};

/// The process of a build that used most memory, of those without a process below them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestProcess {
    /// Name of its program: 1 to 64 bytes without control characters.
    pub program: String,
    /// The file that it worked on, without its folder: at most 256 bytes without control characters; empty if it is not known.
    pub file: String,
    /// Its own memory when it was largest, above 0.
    pub memory: Bytes,
    /// When that was, from the start of the attempt.
    pub elapsed: Millis,
}

/// What rescue did for a build that came near its memory limit, or would have done. All times are within the attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescue {
    /// When rescue would first have paused processes, from the start of the attempt; `None` unless it only watched.
    pub would_pause: Option<Millis>,
    /// How many processes it would then have paused.
    pub would_pause_processes: u32,
    /// Number of times that a process was paused.
    pub pauses: u32,
    /// Time in which at least one process was paused.
    pub paused: Millis,
    /// Sum of the times for which each process was paused.
    pub paused_process_time: Millis,
    /// Highest need of the running processes, with what the paused ones had reached before. 0 if it is not known.
    pub together_peak: Bytes,
    /// Why rescue stopped acting before the build ended: at most 256 bytes without control characters; empty if it did not.
    pub gave_up: String,
    /// Number of times that the memory limit of the build's own group was raised.
    pub raises: u32,
    /// When the build was ended because it hung at its memory limit, from its start; `None` if it was not.
    pub ended: Option<Millis>,
}

impl Rescue {
    /// Whether the build ran otherwise than without rescue: processes were paused, or the build was ended. Then its time shows nothing, and
    /// its need may have been higher.
    pub fn interfered(&self) -> bool {
        self.pauses > 0 || self.paused.0 > 0 || self.ended.is_some()
    }
}

impl Summary {
    /// Whether rescue paused processes of the build, or ended it: see [`Rescue::interfered`].
    pub fn was_rescued(&self) -> bool {
        self.rescue.as_ref().is_some_and(Rescue::interfered)
    }

    /// The time of the build without that in which something was paused.
    pub fn unpaused_wall(&self) -> Millis {
        let paused = self.rescue.as_ref().map_or(Millis(0), |rescue| rescue.paused);
        Millis(self.wall.0.saturating_sub(paused.0))
    }

    /// The need that the build would at least have had without pauses; 0 if rescue did not pause or end it.
    pub fn need_without_rescue(&self) -> Bytes {
        let rescue = self.rescue.as_ref().filter(|rescue| rescue.interfered());
        rescue.map_or(Bytes(0), |rescue| rescue.together_peak)
    }
}
