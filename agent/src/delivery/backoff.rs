//! How long to wait before the next try.

use std::time::Duration;

use ulid::Ulid;

/// The first wait.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest wait that the agent chooses itself.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest wait that a server may ask for.
const LONGEST_ASKED: Duration = Duration::from_mins(2);

/// Waits that double from try to try, with jitter, so that a thousand agents do not come back in the same moment.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next wait: what the server asked for, if it did, else the next step.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let step = step(self.tries);
        self.tries = self.tries.saturating_add(1);
        let random = u32::try_from(Ulid::new().random() & 0xffff).unwrap_or(0);
        match asked {
            // later than asked by up to a step, never earlier
            Some(asked) => asked.min(LONGEST_ASKED) + jitter(SHORTEST, random),
            None => jitter(step, random),
        }
    }

    /// Something worked: the next wait is the shortest again.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }
}

fn step(tries: u32) -> Duration {
    SHORTEST.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST)
}

/// Half to all of `step`, by a random number below 2^16.
fn jitter(step: Duration, random: u32) -> Duration {
    let half = step / 2;
    half + half.saturating_mul(random) / 0x1_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let steps: Vec<u128> = [0, 1, 2, 7, 8, 40].map(|tries| step(tries).as_millis()).to_vec();
        assert_eq!(steps, [200, 400, 800, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn jitter_keeps_at_least_half_and_never_adds() {
        for random in [0, 1, 0x8000, 0xffff] {
            let wait = jitter(LONGEST, random);
            assert!(wait >= LONGEST / 2 && wait < LONGEST, "{wait:?}");
        }
    }

    #[test]
    fn a_server_is_never_called_earlier_than_it_asked() {
        let mut backoff = Backoff::default();
        let asked = Duration::from_secs(7);
        assert!(backoff.next(Some(asked)) >= asked);
        assert!(backoff.next(Some(Duration::MAX)) <= LONGEST_ASKED + SHORTEST);
    }
}
