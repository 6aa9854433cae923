//! Plans a group of commits: which version each commit gets, and which writes the engine applies.

use super::{
    engine::{Engine, EngineWrite},
    engine_state::EngineState,
};
use crate::{
    committing::CommitJob,
    errors::CommitError,
    keys,
    kv::{CommitReceipt, WriteOp},
};

/// The plan for a group of commits.
pub(crate) struct CommitPlan<'a> {
    /// The writes of all accepted commits, in order.
    pub(crate) changes: Vec<EngineWrite<'a>>,
    /// The result of each commit, valid once the writes are on disk.
    pub(crate) outcomes: Vec<Result<CommitReceipt, CommitError>>,
    /// Number of the last commit of the group.
    pub(crate) sequence: u64,
}

/// Plans the commits of a group in order.
///
/// In a damaged store, a commit that writes into an unreadable range of keys is refused: the engine would fail
/// in the middle of the group, after it had applied the earlier writes.
pub(crate) fn plan_group<'a>(
    engine: &Engine,
    sequence: u64,
    group: &'a [CommitJob],
    state: &EngineState,
) -> CommitPlan<'a> {
    let mut plan = CommitPlan { changes: Vec::new(), outcomes: Vec::with_capacity(group.len()), sequence };
    for job in group {
        let refusal = state.is_damaged().then(|| refusal_of(engine, &job.batch.writes, state)).flatten();
        if let Some(refusal) = refusal {
            plan.outcomes.push(Err(refusal));
            continue;
        }
        plan.sequence += 1;
        let version = plan.sequence;
        for write in &job.batch.writes {
            let change = matches!(write, WriteOp::Put { .. }).then_some((version, write.value()));
            plan.changes.push((write.key().as_slice(), change));
        }
        plan.outcomes.push(Ok(CommitReceipt { version }));
    }
    plan
}

/// Why the commit is refused, if one of its keys lies in an unreadable range.
fn refusal_of(engine: &Engine, writes: &[WriteOp], state: &EngineState) -> Option<CommitError> {
    let unreadable =
        |write: &WriteOp| engine.get(write.key()).err().map(|error| (keys::text(write.key()), error));
    let (key, error) = writes.iter().find_map(unreadable)?;
    let reason = state.note_read_error(&error);
    Some(CommitError::Unavailable(format!(
        "nothing can be written at key {key}, which cannot be read: {reason}"
    )))
}
