//! Resolves the attempt that a caller names, for all questions about an attempt.
//!
//! | the caller writes | meaning |
//! |---|---|
//! | `gitlab.com:9003` | that attempt |
//! | `9003` | that attempt if the caller may see it, else the only one with this id on any host |
//! | an id that an attempt of another project has | the newest run with this id that the caller may see |
//! | the id of a CI job, for its newest run | the last of `ID`, `ID.2`, `ID.3` and so on that the caller may see |

use std::sync::Arc;

use plimsoll_core::domain::{AttemptBrief, AttemptId};
use plimsoll_proto::job;

use super::{FoundAttempt, Verdicts};
use crate::access::{Refusal, Reply, identity::Identity};

/// Most running attempts that are searched for an id without host.
const MAX_RUNNING: usize = 10_000;
/// Most attempts that the error names if several hosts have the id.
const MAX_NAMED: usize = 10;
/// Number of missing run numbers in a row after which the search stops. A run whose agent never
/// reached the server leaves a gap.
const LARGEST_GAP: u32 = 3;

/// An attempt that a caller means, and what is known of it.
#[derive(Debug)]
pub(crate) struct MeantAttempt {
    pub(crate) id: AttemptId,
    pub(crate) found: FoundAttempt,
}

impl Verdicts {
    /// The attempt that a caller names; the id is unchanged if no attempt is known.
    /// Errors: several hosts have an attempt with this id (the error names them), or the writer has stopped.
    pub(crate) async fn meant(&self, caller: &Arc<Identity>, asked: &AttemptId) -> Reply<MeantAttempt> {
        let named = self.find(asked.clone()).await?;
        match self.is_visible(caller, &named).await? {
            Some(true) => return Ok(named),
            Some(false) => {
                if let Some(own) = self.newest_run(caller, asked).await? {
                    return Ok(own);
                }
            }
            None => {}
        }
        if asked.as_str().contains(':') {
            return Ok(named);
        }
        let of_hosts = self.on_any_host(caller, asked).await?;
        match of_hosts.as_slice() {
            [] => Ok(named),
            [only] => self.find(only.clone()).await,
            several => {
                let names: Vec<&str> = several.iter().take(MAX_NAMED).map(AttemptId::as_str).collect();
                let names = names.join(", ");
                Err(Refusal::NotFound(format!("no attempt {asked} is known here; name its host: {names}")))
            }
        }
    }

    /// The newest run of a CI job after the first that the caller may see; `None` if there is none.
    /// Errors: the writer has stopped.
    pub(super) async fn newest_run(&self, caller: &Identity, of: &AttemptId) -> Reply<Option<MeantAttempt>> {
        let (mut newest, mut missing) = (None, 0);
        for number in 2..=job::MAX_RUNS {
            let Ok(run) = AttemptId::parse(&job::run_id(of.as_str(), number)) else { break };
            let run = self.find(run).await?;
            match self.is_visible(caller, &run).await? {
                Some(true) => (newest, missing) = (Some(run), 0),
                Some(false) => missing = 0,
                None => missing += 1,
            }
            if missing == LARGEST_GAP {
                break;
            }
        }
        Ok(newest)
    }

    /// What is known of the attempt with this id.
    /// Errors: the writer has stopped.
    pub(super) async fn find(&self, id: AttemptId) -> Reply<MeantAttempt> {
        Ok(MeantAttempt { found: self.ingest.find(&id).await?, id })
    }

    /// Whether the caller may see the attempt, which is known if it was measured or has a verdict;
    /// `None` if it is not known.
    async fn is_visible(&self, caller: &Identity, meant: &MeantAttempt) -> Reply<Option<bool>> {
        if let Some((summary, _running)) = &meant.found {
            return Ok(Some(caller.sees(&summary.key.project)));
        }
        let projects = self.judged_projects(&meant.id).await?;
        let is_judged = !projects.is_empty();
        Ok(is_judged.then(|| projects.iter().any(|project| caller.sees(project))))
    }

    /// Attempts with this id on any host that the caller may see, among running attempts and the
    /// history.
    async fn on_any_host(&self, caller: &Arc<Identity>, id: &AttemptId) -> Reply<Vec<AttemptId>> {
        let is_named = |full: &AttemptId| {
            full.as_str().strip_suffix(id.as_str()).is_some_and(|host| host.ends_with(':'))
        };
        let is_meant = |brief: &AttemptBrief| is_named(&brief.attempt) && caller.sees(&brief.key.project);
        let mut found: Vec<AttemptId> = self.parts.history.read(|history| {
            history
                .newest_first()
                .filter(|brief| is_meant(brief))
                .map(|brief| brief.attempt.clone())
                .collect()
        });
        let (running, _) = self.ingest.highest(MAX_RUNNING, Arc::clone(caller)).await?;
        found.extend(running.iter().map(|running| running.attempt.id.clone()).filter(is_named));
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}
