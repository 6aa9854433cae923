//! Decides when the memory limit of a build's own cgroup is raised, and to what.
//!
//! What counts is the need, not the charged memory: the kernel reclaims page cache by itself. The kernel kills at the limit without a warning,
//! and one process was seen to grow by 1.27 GB/s. So the limit is raised before the need reaches it: as soon as the growth that is expected
//! before the next reading could take the need there. A limit is never lowered: the kernel would kill at once.

use std::{collections::VecDeque, time::Duration};

/// Expected need from which the limit is raised, in percent of the limit. The kernel charges in batches, and the code of the programs needs
/// some room, so a build is killed or starved a little below its limit.
const TRIGGER_PERCENT: u64 = 95;
/// Need from which a build is near its limit, in percent of the limit.
const NEAR_PERCENT: u64 = 80;
/// Least step, in percent of the limit. Only the last step, to the ceiling, may be smaller.
const STEP_PERCENT: u64 = 10;
/// Least step to what the machine or the groups above leave, in percent of the limit. This bounds the number of steps where that changes
/// all the time.
const LEAST_STEP_PERCENT: u64 = 1;
/// How far back growth counts.
const RECENT: Duration = Duration::from_secs(2);
/// Time for which growth is expected: two readings, because the next one may be late by one.
const AHEAD_MS: u128 = 200;
/// Shortest time between two readings from which a rate is computed: in a shorter one, a single large allocation looks like a fast growth.
const SHORTEST_MS: u128 = 50;
/// Most readings that are kept: those of [`RECENT`] at the shortest interval, 10 ms, and some more.
const READINGS: usize = 256;
/// Limits are multiples of this, bytes: the largest page of any machine. The kernel rounds other limits down to its pages, and a limit that
/// the kernel changed would look like one that others set.
const LIMIT_UNIT: u64 = 64 << 10;

/// What a reading says about the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitState {
    /// The limit is enough until the next reading.
    Enough,
    /// The build may need more than the limit before the next reading.
    Short,
    /// The limit is not the one that the agent set, so it is not the agent's to raise.
    SetByOthers,
}

/// What the groups above the build's own and the machine leave, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoomAbove {
    /// The most that the limits of the groups above allow; `None` if they have none.
    pub(crate) groups: Option<u64>,
    /// Memory that the machine has left, which the build may have in addition to its need.
    pub(crate) machine: u64,
}

/// The rule for one build.
#[derive(Debug)]
pub(crate) struct RaiseRule {
    /// The limit that the agent set last, bytes.
    limit: u64,
    ceiling: u64,
    /// Times and needs of the last readings, oldest first; at least two, whatever their age.
    recent: VecDeque<(Duration, u64)>,
}

impl RaiseRule {
    /// A rule for a build with the limit `limit`, which may be raised up to `ceiling`; both in bytes.
    pub(crate) fn new(limit: u64, ceiling: u64) -> Self {
        Self { limit, ceiling: ceiling - ceiling % LIMIT_UNIT, recent: VecDeque::new() }
    }

    /// The limit that the agent set last, bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The highest limit that the rule sets, bytes.
    pub(crate) fn ceiling(&self) -> u64 {
        self.ceiling
    }

    /// Adds a reading at `at`: the need, and the limit of the build's own group (`None` if there is none), both in bytes.
    pub(crate) fn add(&mut self, at: Duration, need: u64, limit: Option<u64>) -> LimitState {
        if self.recent.back().is_some_and(|&(last, _need)| at < last) {
            self.recent.clear();
        }
        self.recent.push_back((at, need));
        let is_old = |&(then, _need): &(Duration, u64)| at.saturating_sub(then) > RECENT;
        while self.recent.len() > READINGS
            || (self.recent.len() > 2 && self.recent.front().is_some_and(is_old))
        {
            self.recent.pop_front();
        }
        match limit {
            Some(limit) if limit == self.limit => {}
            _other => return LimitState::SetByOthers,
        }
        let expected = need.saturating_add(self.expected_growth());
        let is_short = self.limit < self.ceiling && reaches(expected, TRIGGER_PERCENT, self.limit);
        if is_short { LimitState::Short } else { LimitState::Enough }
    }

    /// Whether the need is near the limit, so that no reading may be left out.
    pub(crate) fn is_near(&self) -> bool {
        reaches(self.need(), NEAR_PERCENT, self.limit)
    }

    /// The new limit for a build that is [`LimitState::Short`], in bytes; `None` if there is no room for a higher one.
    pub(crate) fn next_limit(&self, room: RoomAbove) -> Option<u64> {
        let step = percent_of(STEP_PERCENT, self.limit).max(self.recent_growth());
        let wanted = self.limit.saturating_add(step).min(self.ceiling);
        let least = self.limit.saturating_add(percent_of(LEAST_STEP_PERCENT, self.limit)).min(wanted);
        let allowed =
            room.groups.unwrap_or(u64::MAX).min(self.need().saturating_add(room.machine)).min(wanted);
        let next = allowed - allowed % LIMIT_UNIT;
        (allowed >= least && next > self.limit).then_some(next)
    }

    /// Takes note that the kernel has the limit `limit` now.
    pub(crate) fn note_raised(&mut self, limit: u64) {
        self.limit = limit;
    }

    fn need(&self) -> u64 {
        self.recent.back().map_or(0, |&(_at, need)| need)
    }

    /// Growth of the need since it was lowest in the last two seconds, bytes.
    fn recent_growth(&self) -> u64 {
        let lowest = self.recent.iter().map(|&(_at, need)| need).min();
        self.need().saturating_sub(lowest.unwrap_or(0))
    }

    /// How much the need may grow before the next reading, at the fastest rate of the last two seconds, bytes.
    fn expected_growth(&self) -> u64 {
        let pairs = self.recent.iter().zip(self.recent.iter().skip(1));
        let growths = pairs.map(|(&(from, before), &(to, after))| {
            let elapsed = to.saturating_sub(from).as_millis().max(SHORTEST_MS);
            u128::from(after.saturating_sub(before)) * AHEAD_MS / elapsed
        });
        growths.max().map_or(0, |growth| u64::try_from(growth).unwrap_or(u64::MAX))
    }
}

fn reaches(bytes: u64, percent: u64, of: u64) -> bool {
    u128::from(bytes) * 100 >= u128::from(of) * u128::from(percent)
}

fn percent_of(percent: u64, bytes: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const MS: fn(u64) -> Duration = Duration::from_millis;
    const PLENTY: RoomAbove = RoomAbove { groups: None, machine: 1 << 40 };

    /// Adds readings each 100 ms; returns the last state.
    fn add_all(rule: &mut RaiseRule, needs_mib: &[u64]) -> LimitState {
        let limit = Some(rule.limit());
        let states = (0..).zip(needs_mib).map(|(tick, need)| rule.add(MS(tick * 100), need * MIB, limit));
        states.last().unwrap()
    }

    #[test]
    fn a_need_near_the_limit_raises_it() {
        let mut rule = RaiseRule::new(1000 * MIB, 3000 * MIB);
        assert_eq!(add_all(&mut rule, &[949, 949]), LimitState::Enough);
        assert_eq!(add_all(&mut rule, &[950, 950]), LimitState::Short);
        assert_eq!(rule.next_limit(PLENTY), Some(1100 * MIB), "by 10 %");
        assert_eq!(add_all(&mut rule, &[100, 700]), LimitState::Short, "the next reading may be too late");
        assert_eq!(rule.next_limit(PLENTY), Some(1600 * MIB), "by as much as it grew");
        assert_eq!((add_all(&mut rule, &[500, 600]), rule.is_near()), (LimitState::Enough, false));
        assert_eq!((add_all(&mut rule, &[800]), rule.is_near()), (LimitState::Enough, true));
        rule.note_raised(3000 * MIB);
        assert_eq!(add_all(&mut rule, &[2999, 2999]), LimitState::Enough, "at the ceiling");
    }

    #[test]
    fn growth_counts_for_two_seconds() {
        let mut rule = RaiseRule::new(1000 * MIB, 3000 * MIB);
        let mut at = |ms, need| rule.add(MS(ms), need * MIB, Some(1000 * MIB));
        at(0, 100);
        assert_eq!(at(100, 600), LimitState::Short);
        assert_eq!(at(2_000, 600), LimitState::Short);
        assert_eq!(at(2_300, 600), LimitState::Enough);
        // after a standstill of the agent the growth is that of the whole time
        assert_eq!(at(600_000, 900), LimitState::Enough);
    }

    #[test]
    fn limits_stay_within_groups_above_and_machine() {
        let mut rule = RaiseRule::new(1000 * MIB, 3000 * MIB);
        add_all(&mut rule, &[990, 990]);
        let within = |groups: Option<u64>, machine| {
            rule.next_limit(RoomAbove { groups: groups.map(|mib| mib * MIB), machine: machine * MIB })
        };
        assert_eq!(within(Some(1050), 500), Some(1050 * MIB));
        assert_eq!(within(None, 40), Some(1030 * MIB), "the need and what is left");
        assert_eq!((within(Some(1000), 500), within(Some(900), 500), within(None, 15)), (None, None, None));
    }

    #[test]
    fn a_limit_that_others_set_is_not_raised() {
        let mut rule = RaiseRule::new(1000 * MIB, 3000 * MIB);
        for limit in [Some(0), Some(900 * MIB), Some(2000 * MIB), None] {
            assert_eq!(rule.add(MS(100), 999 * MIB, limit), LimitState::SetByOthers, "{limit:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bound_is_ever_exceeded(
            start in prop_oneof![Just(0_u64), 0..1_u64 << 42, Just(1 << 63)],
            ceiling in prop_oneof![0..1_u64 << 42, Just(1 << 63), Just(u64::MAX)],
            readings in proptest::collection::vec(
                (
                    prop_oneof![9 => 0..300_u64, 1 => any::<u64>()],
                    prop_oneof![0..1_u64 << 42, any::<u64>()],
                    proptest::option::of(0..1_u64 << 43),
                    prop_oneof![0..1_u64 << 40, any::<u64>()],
                ),
                1..60,
            ),
        ) {
            let mut rule = RaiseRule::new(start, ceiling);
            let (mut before, mut fastest, mut now) = (None::<u64>, 0, 0_u64);
            for (pause, need, groups, machine) in readings {
                // a clock that jumps forward, and wraps to the past
                now = now.wrapping_add(pause);
                let limit = rule.limit();
                fastest = fastest.max(before.map_or(0, |before| need.saturating_sub(before)));
                before = Some(need);
                let state = rule.add(MS(now), need, Some(limit));
                let trigger = u128::from(need) + u128::from(fastest) * 4;
                let may_be_short = trigger * 100 >= u128::from(limit) * 95;
                prop_assert!(state != LimitState::Short || may_be_short, "{need} of {limit}");
                let next = rule.next_limit(RoomAbove { groups, machine });
                if let Some(next) = next.filter(|_| state == LimitState::Short) {
                    prop_assert!(next > limit && next <= ceiling, "{limit} {next} {ceiling}");
                    prop_assert!(groups.is_none_or(|groups| next <= groups), "{next} {groups:?}");
                    prop_assert!(next <= need.saturating_add(machine), "{next} {need} {machine}");
                    rule.note_raised(next);
                }
            }
        }
    }
}
