//! What becomes of a group of commits: which of them hold, which version each gets, what is written.

use std::collections::HashMap;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::engine::{Engine, EngineError, EngineWrite};
use crate::{
    errors::CommitError,
    keys,
    kv::{Batch, CommitReceipt, ExpectedVersion, Precondition, WriteOp},
};

/// A commit that waits for its answer.
#[derive(Debug)]
pub(crate) struct CommitJob {
    pub(crate) batch: Batch,
    pub(crate) answer: oneshot::Sender<Result<CommitReceipt, CommitError>>,
    /// Its share of the queue's bound; given back with the answer.
    pub(crate) _room: OwnedSemaphorePermit,
}

/// What a group comes to.
pub(crate) struct CommitPlan<'a> {
    /// The writes of the commits that happen, in their order.
    pub(crate) changes: Vec<EngineWrite<'a>>,
    /// The answer to each commit, true once the changes are on the disk.
    pub(crate) outcomes: Vec<Result<CommitReceipt, CommitError>>,
    /// Number of the last commit.
    pub(crate) sequence: u64,
}

/// Decides each commit in its turn: it sees the ones before it in the group as if they were stored.
///
/// In a store that is `damaged`, a commit that writes where nothing can be read does not happen: the engine would break off in the
/// middle of the group, and what it had written until then would stay.
pub(crate) fn plan<'a>(
    engine: &Engine,
    sequence: u64,
    group: &'a [CommitJob],
    damaged: bool,
) -> Result<CommitPlan<'a>, EngineError> {
    let mut plan = CommitPlan { changes: Vec::new(), outcomes: Vec::with_capacity(group.len()), sequence };
    let mut written: HashMap<&[u8], Option<u64>> = HashMap::new();
    for job in group {
        if let Some(key) = first_broken(engine, &written, &job.batch.checks)? {
            plan.outcomes.push(Err(CommitError::Conflict { key: keys::text(key) }));
            continue;
        }
        if let Some(refusal) = damaged.then(|| refusal_of(engine, &job.batch.writes)).flatten() {
            plan.outcomes.push(Err(refusal));
            continue;
        }
        plan.sequence += 1;
        let version = plan.sequence;
        for write in &job.batch.writes {
            let key = write.key().as_slice();
            let change = matches!(write, WriteOp::Put { .. }).then_some((version, write.value()));
            plan.changes.push((key, change));
            written.insert(key, change.map(|(version, _)| version));
        }
        plan.outcomes.push(Ok(CommitReceipt { version }));
    }
    Ok(plan)
}

/// Why a commit cannot write all that it wants to, if the keys around it cannot be read.
fn refusal_of(engine: &Engine, writes: &[WriteOp]) -> Option<CommitError> {
    let unreadable =
        |write: &WriteOp| engine.get(write.key()).err().map(|error| (keys::text(write.key()), error));
    let (key, error) = writes.iter().find_map(unreadable)?;
    Some(CommitError::Unavailable(format!(
        "what lies around key {key} is damaged ({error}), so nothing is written there; stop the server and save what is left with \
         plimsoll-server repair"
    )))
}

fn first_broken<'a>(
    engine: &Engine,
    written: &HashMap<&[u8], Option<u64>>,
    checks: &'a [Precondition],
) -> Result<Option<&'a [u8]>, EngineError> {
    for check in checks {
        let found = match written.get(check.key.as_slice()) {
            Some(version) => *version,
            None => engine.get(&check.key)?.map(|value| value.version),
        };
        let holds = match check.expect {
            ExpectedVersion::Absent => found.is_none(),
            ExpectedVersion::Version(version) => found == Some(version),
        };
        if !holds {
            return Ok(Some(&check.key));
        }
    }
    Ok(None)
}
