//! Which attempt a caller means: one resolver for all questions about an attempt.
//!
//! | what the caller writes | what is meant |
//! |---|---|
//! | `gitlab.com:9003` | that attempt |
//! | `9003` | that attempt if the caller may see one, else the only one that a host named so |
//! | the id of a CI job, and asks for its newest run | the last of `ID`, `ID.2`, `ID.3` and so on that the caller may see |

use std::sync::Arc;

use plimsoll_core::domain::AttemptId;
use plimsoll_proto::job;

use super::Refusal;
use crate::{access::identity::Identity, sessions::Ingest};

/// Running attempts among which one is looked for that a host named.
const RUNNING: usize = 10_000;
/// Attempts of several hosts that are named at most.
const NAMED: usize = 10;
/// Numbers in a row that no run has, behind which none is looked for: a run whose agent never reached the server leaves such a gap.
const GAP: u32 = 3;

/// Finds attempts by what callers write.
#[derive(Debug)]
pub(crate) struct AttemptNames<'a> {
    pub(crate) ingest: &'a Ingest,
    pub(crate) caller: &'a Arc<Identity>,
}

impl AttemptNames<'_> {
    /// The full id; what is asked if none is known.
    ///
    /// # Errors
    /// Several hosts named one so: names them. The writer has stopped.
    pub(crate) async fn full(&self, asked: &AttemptId) -> Result<AttemptId, Refusal> {
        if asked.as_str().contains(':') || self.is_seen(asked).await? == Some(true) {
            return Ok(asked.clone());
        }
        let of_hosts = self.of_hosts(asked).await?;
        match of_hosts.as_slice() {
            [] => Ok(asked.clone()),
            [only] => Ok(only.clone()),
            several => {
                let names: Vec<&str> = several.iter().take(NAMED).map(AttemptId::as_str).collect();
                let names = names.join(", ");
                Err(Refusal::NotFound(format!("no attempt {asked} is known here; name its host: {names}")))
            }
        }
    }

    /// The newest run of a CI job that the caller may see; the job's own id if there is none.
    ///
    /// # Errors
    /// The writer has stopped.
    pub(crate) async fn newest_run(&self, of: &AttemptId) -> Result<AttemptId, Refusal> {
        let (mut newest, mut missing) = (of.clone(), 0);
        for number in 2..=job::RUNS {
            let Ok(run) = AttemptId::parse(&job::run_id(of.as_str(), number)) else { break };
            match self.is_seen(&run).await? {
                Some(true) => (newest, missing) = (run, 0),
                Some(false) => missing = 0,
                None => missing += 1,
            }
            if missing == GAP {
                break;
            }
        }
        Ok(newest)
    }

    /// Whether the caller may see an attempt that was measured or judged; `None` if there is none.
    async fn is_seen(&self, id: &AttemptId) -> Result<Option<bool>, Refusal> {
        if let Some((summary, _running)) = self.ingest.find(id).await? {
            return Ok(Some(self.caller.sees(&summary.key.project)));
        }
        let projects = self.ingest.judged_projects(id).await?;
        let is_judged = !projects.is_empty();
        Ok(is_judged.then(|| projects.iter().any(|project| self.caller.sees(project))))
    }

    /// Attempts that hosts named so, among those that run and those that predictions learn from, as far as the caller may see them.
    async fn of_hosts(&self, id: &AttemptId) -> Result<Vec<AttemptId>, Refusal> {
        let is_named = |full: &AttemptId| {
            full.as_str().strip_suffix(id.as_str()).is_some_and(|host| host.ends_with(':'))
        };
        let mut found = self.ingest.ids_in_history(|brief| {
            is_named(&brief.attempt) && self.caller.may_see("attempt", &brief.key.project).is_ok()
        });
        let (running, _) = self.ingest.highest(RUNNING, Arc::clone(self.caller)).await?;
        found.extend(running.iter().map(|running| running.attempt.id.clone()).filter(is_named));
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}
