//! Computes how long to wait before the next attempt to connect.
//!
//! Ten thousand agents may lose one server in the same moment. Each waits a random time, so that they do not reconnect all at once: they
//! spread over one second at first, and over half a minute if the server stays unreachable.

use std::time::Duration;

/// The first wait, before it is made random.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait that the agent chooses itself.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait while standbys answer, before it is made random: one of them serves some seconds after the other server's death.
const LONGEST_TAKEOVER_WAIT: Duration = Duration::from_secs(4);
/// Number of waits that are so short, together about 15 s. After them none has taken over, and waits grow as they do without a server.
const TAKEOVER_WAITS: u32 = 8;
/// The longest wait that a server may ask for, before it is made random.
const LONGEST_ASKED_WAIT: Duration = Duration::from_mins(2);

/// Waits that double after each failure, each with a random part.
#[derive(Debug)]
pub(super) struct Backoff {
    tries: u32,
    random: u64,
}

impl Backoff {
    /// Creates the waits of one session. The random numbers are derived from the session's id, so a session always gets the same waits.
    pub(super) fn new(session: &str) -> Self {
        Self { tries: 0, random: u64::from(crc32fast::hash(session.as_bytes())) }
    }

    /// The next wait: the time that the server asked for (`asked`), else twice the last one.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let step = self.step(LONGEST_WAIT);
        match asked {
            // at least the time that the server asked for; it asked all agents for the same time, so a random part of the same length is
            // added
            Some(asked) => {
                let asked = asked.min(LONGEST_ASKED_WAIT);
                asked + self.random_part(asked.max(SHORTEST_WAIT))
            }
            None => self.spread(step),
        }
    }

    /// The next wait while a standby answers and none serves.
    pub(super) fn next_in_takeover(&mut self) -> Duration {
        if self.tries >= TAKEOVER_WAITS {
            return self.next(None);
        }
        let step = self.step(LONGEST_TAKEOVER_WAIT);
        self.spread(step)
    }

    /// Twice the last step, up to a bound.
    fn step(&mut self, longest: Duration) -> Duration {
        let step = SHORTEST_WAIT.saturating_mul(2_u32.saturating_pow(self.tries)).min(longest);
        self.tries = self.tries.saturating_add(1);
        step
    }

    /// A random wait up to a step.
    fn spread(&mut self, step: Duration) -> Duration {
        step / 8 + self.random_part(step / 8 * 7)
    }

    /// A random wait of 15 to 30 s, used for problems that only an operator can solve.
    pub(super) fn longest_wait(&mut self) -> Duration {
        LONGEST_WAIT / 2 + self.random_part(LONGEST_WAIT / 2)
    }

    /// Resets the waits after a success: the next wait is the shortest again.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }

    /// A random part of `time`, between nothing and all of it.
    fn random_part(&mut self, time: Duration) -> Duration {
        // splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014)
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let parts = u32::try_from(mixed & 0xffff).unwrap_or(0);
        time.saturating_mul(parts) / 0x1_0000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents() -> impl Iterator<Item = Backoff> {
        (0..10_000).map(|agent| Backoff::new(&format!("01JD{agent:022}")))
    }

    /// The largest number of waits that end within the same tenth of `over`.
    fn most_at_once(waits: impl Iterator<Item = Duration>, over: Duration) -> usize {
        let mut ends = [0; 64];
        waits.for_each(|wait| ends[(wait.as_millis() * 10 / over.as_millis()) as usize] += 1);
        ends.into_iter().max().unwrap()
    }

    #[test]
    fn waits_double_up_to_a_bound() {
        let mut backoff = Backoff::new("s");
        for step in [1, 2, 4, 8, 16, 30, 30, 30].map(Duration::from_secs) {
            let wait = backoff.next(None);
            assert!(wait >= step / 8 && wait < step, "{wait:?} of {step:?}");
        }
        backoff.reset();
        assert!(backoff.next(None) < SHORTEST_WAIT);
    }

    #[test]
    fn waits_stay_short_while_a_takeover_is_likely() {
        let mut backoff = Backoff::new("s");
        for step in [1, 2, 4, 4, 4, 4, 4, 4, 30, 30].map(Duration::from_secs) {
            let wait = backoff.next_in_takeover();
            assert!(wait >= step / 8 && wait < step, "{wait:?} of {step:?}");
        }
    }

    #[test]
    fn ten_thousand_reconnects_are_spread_out() {
        let at_once = most_at_once(agents().map(|mut agent| agent.next(None)), SHORTEST_WAIT);
        assert!(at_once < 1500, "{at_once} within 100 ms of a cut");
        let asked = Duration::from_secs(2);
        let delays = agents().map(|mut agent| agent.next(Some(asked)));
        let at_once = most_at_once(delays, asked);
        assert!(at_once < 1500, "{at_once} within 200 ms after a restart that was announced");
    }

    #[test]
    fn a_requested_wait_is_always_honoured() {
        let asked = Duration::from_secs(7);
        assert!(agents().all(|mut agent| agent.next(Some(asked)) >= asked));
        assert!(agents().all(|mut agent| agent.next(Some(Duration::MAX)) <= 2 * LONGEST_ASKED_WAIT));
    }
}
