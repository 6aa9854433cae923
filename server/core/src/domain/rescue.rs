//! What an agent saw of the processes of a build: the largest one, and what rescue did with them.

use serde::{Deserialize, Serialize};

use super::{Bytes, Millis, Outcome, Summary};

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
    /// Why rescue stopped pausing processes, or else raising the limit, before the build ended: at most 256 bytes without control
    /// characters; empty if it did not.
    pub gave_up: String,
    /// Number of times that the memory limit of the build's own group was raised.
    pub raises: u32,
    /// When the build was ended because it hung at its memory limit, from its start; `None` if it was not.
    pub ended: Option<Millis>,
    /// Memory above the limit at the start that raises allowed, multiplied by the time for which they did: bytes x seconds.
    #[serde(default)]
    pub raised_byte_seconds: u64,
}

impl Rescue {
    /// Whether the build ran otherwise than without rescue: processes were paused, or the build was ended. Then its time shows nothing, and
    /// its need may have been higher.
    pub fn interfered(&self) -> bool {
        self.pauses > 0 || self.paused.0 > 0 || self.ended.is_some()
    }
}

/// What rescue saved in attempts in which it acted, and what that cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RescueTotals {
    /// Number of attempts in which processes were paused, the limit was raised, or that were ended.
    pub attempts: u64,
    /// Number of attempts that succeeded after a raise with a need above the limit that they began with: without it, the kernel would have
    /// killed.
    pub saved: u64,
    /// Number of other attempts that succeeded after pauses, where running and paused processes together needed more than the limit that
    /// they began with.
    pub probably_saved: u64,
    /// Number of attempts that were ended because they hung at their limit.
    pub ended: u64,
    /// Sum of the times for which each process was paused, seconds.
    pub paused_process_seconds: f64,
    /// Wall time beyond the median that was predicted when the attempt began, seconds: over the `timed` attempts. Less than the median counts
    /// as 0.
    pub over_median_seconds: f64,
    /// Number of attempts that succeeded after pauses and have such a median.
    pub timed: u64,
    /// Memory above the limit at the start that raises allowed, multiplied by the time for which they did: bytes x seconds.
    pub raised_byte_seconds: f64,
}

impl RescueTotals {
    /// The totals of one attempt; `None` if rescue did not act in it.
    pub fn of(summary: &Summary) -> Option<Self> {
        let rescue = summary.rescue.as_ref().filter(|rescue| rescue.interfered() || rescue.raises > 0)?;
        let succeeded = summary.outcome == Outcome::Succeeded && rescue.ended.is_none();
        let at_start = summary.resources_at_start().memory_limit;
        let is_above =
            |need: Bytes, limit: Option<Bytes>| limit.is_some_and(|limit| limit.0 > 0 && need > limit);
        let is_saved = succeeded && rescue.raises > 0 && is_above(summary.need_peak, at_start);
        let was_paused = succeeded && rescue.pauses > 0;
        let would_exceed = is_above(rescue.together_peak, at_start);
        let median = summary.opening.predicted.map(|predicted| predicted.wall_p50);
        let median = median.filter(|median| was_paused && median.0 > 0);
        let over = median.map_or(0, |median| summary.wall.0.saturating_sub(median.0));
        Some(Self {
            attempts: 1,
            saved: is_saved.into(),
            probably_saved: (was_paused && would_exceed && !is_saved).into(),
            ended: rescue.ended.is_some().into(),
            paused_process_seconds: rescue.paused_process_time.as_f64() / 1000.0,
            over_median_seconds: Millis(over).as_f64() / 1000.0,
            timed: median.is_some().into(),
            raised_byte_seconds: Bytes(rescue.raised_byte_seconds).as_f64(),
        })
    }

    /// Adds the totals of other attempts.
    pub fn merge(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.saved += other.saved;
        self.probably_saved += other.probably_saved;
        self.ended += other.ended;
        self.paused_process_seconds += other.paused_process_seconds;
        self.over_median_seconds += other.over_median_seconds;
        self.timed += other.timed;
        self.raised_byte_seconds += other.raised_byte_seconds;
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
