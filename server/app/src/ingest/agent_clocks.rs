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

use super::session::{LastMessage, Session};
use crate::runtime::clock_check::WRONG_BY_MS;

/// Agents that must agree. They must also be more than half of all.
const AGREEING_AGENTS: usize = 3;
/// How far the differences of agents that agree may be apart, milliseconds.
const AGREEMENT_MS: i64 = 60_000;
/// How long the last message of an agent counts.
const KEPT_FOR: Duration = Duration::from_mins(10);
/// How long agents must seem to be behind: after an outage they deliver what they kept within this time.
const LATE_DELIVERY: Duration = Duration::from_secs(30);
/// Most agents that are compared; more do not change what the first ones show.
const MOST_AGENTS: usize = 1024;

/// How far the server's clock was ahead of each agent's, milliseconds, at the agent's last message.
#[derive(Debug, Default)]
pub(super) struct AgentClocks {
    ahead_of: HashMap<SessionId, (i64, Instant)>,
    /// Since when agents seem to be behind.
    late_since: Option<Instant>,
}

impl AgentClocks {
    /// Notes the time of the last message of an open attempt.
    pub(super) fn note(&mut self, session: &Session) {
        let Session { attempt, progress, last_message: LastMessage { unix_ms, moment }, .. } = session;
        let is_new = !self.ahead_of.contains_key(&attempt.session);
        if attempt.opening.untrusted || (is_new && self.ahead_of.len() >= MOST_AGENTS) {
            return;
        }
        let elapsed_ms = progress.last.map_or(0, |last| last.elapsed.0);
        let theirs = attempt.started_unix_ms.saturating_add(elapsed_ms);
        let ahead_ms = unix_ms.cast_signed().saturating_sub(theirs.cast_signed());
        // no attempt is that old: the agent said no start, or has no clock
        if ahead_ms > limits::ELAPSED_MS.cast_signed() {
            return;
        }
        self.ahead_of.insert(attempt.session.clone(), (ahead_ms, *moment));
    }

    /// Notes that an attempt has ended: it may have ended long ago, and was delivered now.
    pub(super) fn note_end(&mut self, agent: &SessionId) {
        if self.ahead_of.get(agent).is_some_and(|(ahead_ms, _)| *ahead_ms > 0) {
            self.ahead_of.remove(agent);
        }
    }

    /// How far the server's clock is ahead of the agents', milliseconds. 0 where they do not agree on that.
    pub(super) fn ahead_ms(&mut self, now: Instant) -> i64 {
        self.ahead_of.retain(|_agent, (_, at)| now.saturating_duration_since(*at) < KEPT_FOR);
        let mut all: Vec<i64> = self.ahead_of.values().map(|(ahead_ms, _)| *ahead_ms).collect();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_core::domain::{Millis, Sample};

    use super::*;
    use crate::ingest::fixture;

    const NOW: u64 = 1_800_000_000_000;
    const HOUR: i64 = 3_600_000;

    /// An attempt in which `agent` sends a message when it is `ahead_ms` behind the server.
    fn session(agent: usize, ahead_ms: i64) -> Session {
        let mut attempt = fixture::attempt("a");
        attempt.session = SessionId::parse(&format!("agent-{agent}")).unwrap();
        attempt.started_unix_ms = NOW.saturating_add_signed(-ahead_ms) - 500;
        let mut session =
            Session::new(Arc::new(attempt), LastMessage { unix_ms: NOW, moment: Instant::now() });
        session.progress.last = Some(Sample { elapsed: Millis(500), ..Sample::default() });
        session
    }

    fn note_all(clocks: &mut AgentClocks, agents: &[i64]) {
        for (agent, ahead_ms) in agents.iter().enumerate() {
            clocks.note(&session(agent, *ahead_ms));
        }
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
            note_all(&mut clocks, agents);
            assert_eq!(clocks.ahead_ms(Instant::now()), at_once, "{agents:?}");
            tokio::time::advance(Duration::from_mins(1)).await;
            note_all(&mut clocks, agents);
            assert_eq!(clocks.ahead_ms(Instant::now()), after_a_minute, "{agents:?}");
            agents
                .iter()
                .enumerate()
                .for_each(|(agent, ahead)| clocks.note_end(&session(agent, *ahead).attempt.session));
            assert_eq!(clocks.ahead_ms(Instant::now()), after_a_minute.min(0), "{agents:?}: they ended");
            tokio::time::advance(KEPT_FOR).await;
            assert_eq!(clocks.ahead_ms(Instant::now()), 0, "{agents:?}: long ago");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn late_and_untrusted_agents_raise_no_alarm() {
        let mut clocks = AgentClocks::default();
        for agent in 0..9 {
            let mut untrusted = session(agent, -HOUR);
            Arc::make_mut(&mut untrusted.attempt).opening.untrusted = true;
            clocks.note(&untrusted);
        }
        assert_eq!(clocks.ahead_ms(Instant::now()), 0);
        // they kept an hour of samples, and deliver it
        (0..9).for_each(|agent| clocks.note(&session(agent, HOUR)));
        assert_eq!(clocks.ahead_ms(Instant::now()), 0);
        tokio::time::advance(LATE_DELIVERY * 2).await;
        (0..9).for_each(|agent| clocks.note(&session(agent, 100)));
        assert_eq!(clocks.ahead_ms(Instant::now()), 100);
    }
}
