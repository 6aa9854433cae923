//! Raises the memory limit of a build that needs more, while it runs. [`crate::rescue`] decides, the meter does it.

use std::time::Duration;

use plimsoll_proto::figures::bytes;

use super::Sampler;
use crate::{
    meter::Meter,
    rescue::raise::{LimitState, RaiseRule},
};

/// The raises of one build's limit.
#[derive(Debug)]
pub(super) struct LimitRaising {
    rule: RaiseRule,
    /// The smallest limit above the build's own group at which the kernel kills, bytes.
    above: Option<u64>,
    raises: u32,
    /// How far the limit is above the one at the start, bytes, and since when.
    above_start: (u64, Duration),
    /// `above_start` multiplied by time up to its own: bytes x ms.
    raised_byte_ms: u128,
    /// Whether no more is tried, because of an error or because others set the limit.
    has_ended: bool,
    /// Whether there was no room for a higher limit at the last try. It is tried again all the same.
    lacks_room: bool,
    /// Whether a lack of room was reported.
    is_lack_known: bool,
    /// A line for the job's log.
    notice: Option<String>,
}

impl LimitRaising {
    /// Raises the limit up to `most`, bytes. `None` if no limit is in force that the agent set.
    fn new(meter: &Meter, most: u64) -> Option<Self> {
        let limit = meter.own_limit().ok()??;
        Some(Self::with_rule(RaiseRule::new(limit, most), meter.limit_above()))
    }

    /// With nothing raised yet. `above`: the smallest limit of the groups above, bytes.
    fn with_rule(rule: RaiseRule, above: Option<u64>) -> Self {
        Self {
            rule,
            above,
            raises: 0,
            above_start: (0, Duration::ZERO),
            raised_byte_ms: 0,
            has_ended: false,
            lacks_room: false,
            is_lack_known: false,
            notice: None,
        }
    }

    /// The limit that the agent may still reach, bytes; `None` if it raises no more, or cannot at present.
    fn reachable(&self) -> Option<u64> {
        let most = self.rule.ceiling().max(self.rule.limit()).min(self.above.unwrap_or(u64::MAX));
        (!self.has_ended && !self.lacks_room).then_some(most)
    }

    /// Whether the build is so near its limit that no reading may be left out.
    pub(super) fn needs_readings(&self) -> bool {
        !self.has_ended && self.rule.is_near()
    }

    /// How often the limit was raised.
    pub(super) fn raises(&self) -> u32 {
        self.raises
    }

    /// How much more memory than at the start the raises allowed up to `now`, multiplied by time: bytes x seconds.
    pub(super) fn raised_byte_seconds(&self, now: Duration) -> u64 {
        u64::try_from(self.raised_byte_ms_at(now) / 1000).unwrap_or(u64::MAX)
    }

    fn raised_byte_ms_at(&self, now: Duration) -> u128 {
        let (above, since) = self.above_start;
        let added = u128::from(above).saturating_mul(now.saturating_sub(since).as_millis());
        self.raised_byte_ms.saturating_add(added)
    }

    fn note_raised(&mut self, now: Duration, from: u64, to: u64) {
        self.rule.note_raised(to);
        self.lacks_room = false;
        self.raises = self.raises.saturating_add(1);
        self.raised_byte_ms = self.raised_byte_ms_at(now);
        self.above_start = (self.above_start.0.saturating_add(to.saturating_sub(from)), now);
    }

    /// The line about the last change, once.
    pub(super) fn take_line(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// Raises the limit if the meter's last reading, at `now`, says so. Returns a problem that ends all raising.
    fn act(&mut self, now: Duration, meter: &mut Meter) -> Option<String> {
        let need = meter.take_charged_need().filter(|_need| !self.has_ended)?;
        match self.raise(now, need, meter) {
            Ok(line) => {
                self.notice = line.or_else(|| self.notice.take());
                None
            }
            Err(problem) => {
                self.has_ended = true;
                self.notice = Some(format!("the build's memory limit is raised no more: {problem}"));
                Some(problem)
            }
        }
    }

    fn raise(&mut self, now: Duration, need: u64, meter: &mut Meter) -> Result<Option<String>, String> {
        let (limit, from) = (meter.own_limit()?, self.rule.limit());
        match self.rule.add(now, need, limit) {
            LimitState::Enough => return Ok(None),
            LimitState::SetByOthers => {
                (self.raised_byte_ms, self.above_start) = (self.raised_byte_ms_at(now), (0, now));
                let limit = limit.map_or_else(|| "none".to_owned(), bytes);
                return Err(format!("others changed it from {} to {limit}", bytes(from)));
            }
            LimitState::Short => {}
        }
        let room = meter.room_above(need).map_err(|error| error.to_string())?;
        let Some(to) = self.rule.next_limit(room) else {
            self.lacks_room = true;
            let is_new = !std::mem::replace(&mut self.is_lack_known, true);
            let left = room.groups.map(|most| format!(" {} in the groups above, and", bytes(most)));
            let (left, machine) = (left.unwrap_or_default(), bytes(need.saturating_add(room.machine)));
            let limit = bytes(from);
            return Ok(is_new.then(|| {
                format!("the build's memory limit stays at {limit} for now: it could have{left} {machine} on this machine")
            }));
        };
        meter.raise_own_limit(from, to).map_err(|error| error.to_string())?;
        self.note_raised(now, from, to);
        let [from, to, need, most] = [from, to, need, self.rule.ceiling()].map(bytes);
        Ok(Some(format!(
            "raised the build's memory limit from {from} to {to} (it needs {need}; at most {most})"
        )))
    }
}

impl Sampler {
    /// Raises the memory limit that the agent set, up to `most` bytes, while the build needs more; does nothing if none is in force.
    #[must_use]
    pub fn with_limit_most(mut self, most: Option<u64>) -> Self {
        self.raising = most.and_then(|most| LimitRaising::new(&self.meter, most));
        self
    }

    /// Raises the limit if the reading at `now` says so. Returns the smallest limit at which the kernel kills, or the one up to which this
    /// limit may still be raised; bytes.
    pub(super) fn raise_limit(&mut self, now: Duration) -> Option<u64> {
        if let Some(problem) = self.raising.as_mut().and_then(|raising| raising.act(now, &mut self.meter)) {
            self.looks.note_raising_ended(&problem);
        }
        let reachable = self.raising.as_ref().and_then(LimitRaising::reachable);
        reachable.or_else(|| self.meter.limits().killing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_memory_is_counted_over_the_time_that_it_was_allowed() {
        const GIB: u64 = 1 << 30;
        let mut raising =
            LimitRaising { lacks_room: true, ..LimitRaising::with_rule(RaiseRule::new(GIB, 8 * GIB), None) };
        let after = |seconds: u64| Duration::from_secs(seconds);
        assert_eq!(raising.raised_byte_seconds(after(9)), 0);
        raising.note_raised(after(10), GIB, 2 * GIB);
        raising.note_raised(after(15), 2 * GIB, 5 * GIB);
        // one more GiB for 5 s, then four more for 2 s
        assert_eq!((raising.raised_byte_seconds(after(17)), raising.raises()), (13 * GIB, 2));
        assert!(!raising.lacks_room);
        assert_eq!(raising.raised_byte_seconds(after(16)), 9 * GIB, "asking changes nothing");
        raising.note_raised(after(20), 5 * GIB, u64::MAX);
        assert_eq!(raising.raised_byte_seconds(Duration::MAX), u64::MAX);
    }
}
