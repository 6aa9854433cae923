//! Compares the server's clock with those of agents.
//!
//! | what an agent's last message shows | why |
//! |---|---|
//! | its clock is ahead of the server's | a message does not arrive before it is sent |
//! | its clock is behind the server's | or it was delivered late; so this counts only while the attempt is open, and only after [`LATE_DELIVERY`] |
//!
//! An agent may be wrong alone. Only trusted agents count, because others could cause an alarm.

use std::{collections::HashMap, time::Duration};

use plimsoll_core::domain::SessionId;
use plimsoll_proto::limits;
use tokio::time::Instant;

use super::session::Session;
use crate::runtime::clock_check::WRONG_BY_MS;

/// Agents that must agree. They must also be more than half of all.
const AGREEING_AGENTS: usize = 3;
/// How far the differences of agents that agree may be apart, milliseconds.
const AGREEMENT_MS: i64 = 60_000;
/// How long the last message of an agent counts.
const KEPT_FOR: Duration = Duration::from_mins(10);
/// How long agents must seem to be behind: after an outage they deliver what they kept within this time.
const LATE_DELIVERY: Duration = Duration::from_secs(30);
/// How often they are compared.
pub(super) const COMPARED_EVERY: Duration = Duration::from_secs(5);
/// Most agents that are compared; more do not change what the first ones show.
const MOST_AGENTS: usize = 1024;

/// Compares the clocks of agents whose attempts are open.
#[derive(Debug, Default)]
pub(super) struct AgentClocks {
    /// Since when agents seem to be behind.
    late_since: Option<Instant>,
}

impl AgentClocks {
    /// How far the server's clock is ahead of the agents', milliseconds. 0 where they do not agree on that.
    pub(super) fn ahead_ms<'s>(&mut self, open: impl Iterator<Item = &'s Session>, now: Instant) -> i64 {
        // one that a start restored has sent nothing since, until its agent connects again
        let recent = |session: &&Session| {
            session.holder.is_some() && now.saturating_duration_since(session.last_message.moment) < KEPT_FOR
        };
        let of_agents = open.filter(recent).filter_map(|session| {
            let ahead_ms = ahead_of_agent_ms(session)?;
            Some((&session.attempt.session, ahead_ms))
        });
        // one agent may have several attempts
        let of_agents: HashMap<&SessionId, i64> = of_agents.take(MOST_AGENTS).collect();
        let mut all: Vec<i64> = of_agents.into_values().collect();
        all.sort_unstable();
        let median = all.get(all.len() / 2).copied().unwrap_or(0);
        let agreeing =
            all.iter().filter(|one| one.saturating_sub(median).saturating_abs() <= AGREEMENT_MS).count();
        let do_agree = agreeing >= AGREEING_AGENTS && agreeing * 2 > all.len();
        if !do_agree || median < WRONG_BY_MS {
            self.late_since = None;
            return if do_agree { median } else { 0 };
        }
        let since = *self.late_since.get_or_insert(now);
        if now.saturating_duration_since(since) < LATE_DELIVERY { 0 } else { median }
    }
}

/// How far the server's clock was ahead of the agent's at the agent's last message, milliseconds. `None` if it does not count.
fn ahead_of_agent_ms(session: &Session) -> Option<i64> {
    let Session { attempt, progress, last_message, .. } = session;
    let elapsed_ms = progress.last.map_or(0, |last| last.elapsed.0);
    let theirs = attempt.started_unix_ms.saturating_add(elapsed_ms);
    let ahead_ms = last_message.unix_ms.cast_signed().saturating_sub(theirs.cast_signed());
    // no attempt is that old: the agent said no start, or has no clock
    (!attempt.opening.untrusted && ahead_ms <= limits::ELAPSED_MS.cast_signed()).then_some(ahead_ms)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_core::domain::{Millis, Sample};

    use super::*;
    use crate::ingest::{StreamHandle, fixture, session::LastMessage};

    const NOW: u64 = 1_800_000_000_000;
    const HOUR: i64 = 3_600_000;

    /// An attempt in which `agent` sends a message when it is `ahead_ms` behind the server.
    fn session(agent: usize, ahead_ms: i64) -> Session {
        let mut attempt = fixture::attempt("a");
        attempt.session = SessionId::parse(&format!("agent-{agent}")).unwrap();
        attempt.started_unix_ms = NOW.saturating_add_signed(-ahead_ms) - 500;
        let mut session =
            Session::new(Arc::new(attempt), LastMessage { unix_ms: NOW, moment: Instant::now() });
        session.holder = Some(StreamHandle::new());
        session.progress.last = Some(Sample { elapsed: Millis(500), ..Sample::default() });
        session
    }

    fn sessions(agents: &[i64]) -> Vec<Session> {
        agents.iter().enumerate().map(|(agent, ahead_ms)| session(agent, *ahead_ms)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn several_agents_must_agree_on_a_wrong_clock() {
        let table: [(&[i64], i64, i64); 8] = [
            (&[], 0, 0),
            (&[-HOUR, -HOUR], 0, 0),
            (&[-HOUR, -HOUR - 2000, -HOUR + 3000], -HOUR, -HOUR),
            (&[-HOUR, -HOUR, -HOUR, 0, 0, 0], 0, 0),
            (&[-HOUR, -HOUR, -HOUR, 100, 50], -HOUR, -HOUR),
            (&[-HOUR, -2 * HOUR, -3 * HOUR, -4 * HOUR], 0, 0),
            (&[HOUR, HOUR, HOUR], 0, HOUR),
            (&[800, 900, 100], 800, 800),
        ];
        for (agents, at_once, after_a_minute) in table {
            let mut clocks = AgentClocks::default();
            let ahead_ms =
                |clocks: &mut AgentClocks, open: &[Session]| clocks.ahead_ms(open.iter(), Instant::now());
            assert_eq!(ahead_ms(&mut clocks, &sessions(agents)), at_once, "{agents:?}");
            tokio::time::advance(Duration::from_mins(1)).await;
            let open = sessions(agents);
            assert_eq!(ahead_ms(&mut clocks, &open), after_a_minute, "{agents:?}");
            tokio::time::advance(KEPT_FOR).await;
            assert_eq!(ahead_ms(&mut clocks, &open), 0, "{agents:?}: long ago");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn late_and_untrusted_agents_raise_no_alarm() {
        let mut clocks = AgentClocks::default();
        let mut untrusted = sessions(&[-HOUR; 9]);
        for session in &mut untrusted {
            Arc::make_mut(&mut session.attempt).opening.untrusted = true;
        }
        assert_eq!(clocks.ahead_ms(untrusted.iter(), Instant::now()), 0);
        let mut restored = sessions(&[-HOUR; 9]);
        for session in &mut restored {
            session.holder = None;
        }
        assert_eq!(clocks.ahead_ms(restored.iter(), Instant::now()), 0);
        let of_one_agent: Vec<Session> = (0..9).map(|_| session(1, -HOUR)).collect();
        assert_eq!(clocks.ahead_ms(of_one_agent.iter(), Instant::now()), 0);
        // they kept an hour of samples, and deliver it
        assert_eq!(clocks.ahead_ms(sessions(&[HOUR; 9]).iter(), Instant::now()), 0);
        tokio::time::advance(LATE_DELIVERY * 2).await;
        assert_eq!(clocks.ahead_ms(sessions(&[100; 9]).iter(), Instant::now()), 100);
    }
}
