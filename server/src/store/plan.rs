//! What becomes of a group of commits: which of them hold, which version each gets, what is written.

use std::collections::HashMap;

use super::{
    engine::{Change, Engine, EngineError},
    errors::CommitError,
    keys,
    kv::{Check, Committed, Expect, Write},
    writer::Job,
};

/// What a group comes to.
pub(super) struct Plan<'a> {
    /// The writes of the commits that happen, in their order.
    pub(super) changes: Vec<Change<'a>>,
    /// The answer to each commit, true once the changes are on the disk.
    pub(super) outcomes: Vec<Result<Committed, CommitError>>,
    /// Number of the last commit.
    pub(super) sequence: u64,
}

/// Decides each commit in its turn: it sees the ones before it in the group as if they were stored.
pub(super) fn plan<'a>(engine: &Engine, sequence: u64, group: &'a [Job]) -> Result<Plan<'a>, EngineError> {
    let mut plan = Plan { changes: Vec::new(), outcomes: Vec::with_capacity(group.len()), sequence };
    let mut written: HashMap<&[u8], Option<u64>> = HashMap::new();
    for job in group {
        if let Some(key) = first_broken(engine, &written, &job.batch.checks)? {
            plan.outcomes.push(Err(CommitError::Conflict { key: keys::text(key) }));
            continue;
        }
        plan.sequence += 1;
        let version = plan.sequence;
        for write in &job.batch.writes {
            let key = write.key().as_slice();
            let change = matches!(write, Write::Put { .. }).then_some((version, write.value()));
            plan.changes.push((key, change));
            written.insert(key, change.map(|(version, _)| version));
        }
        plan.outcomes.push(Ok(Committed { version }));
    }
    Ok(plan)
}

fn first_broken<'a>(
    engine: &Engine,
    written: &HashMap<&[u8], Option<u64>>,
    checks: &'a [Check],
) -> Result<Option<&'a [u8]>, EngineError> {
    for check in checks {
        let found = match written.get(check.key.as_slice()) {
            Some(version) => *version,
            None => engine.get(&check.key)?.map(|value| value.version),
        };
        let holds = match check.expect {
            Expect::Absent => found.is_none(),
            Expect::Version(version) => found == Some(version),
        };
        if !holds {
            return Ok(Some(&check.key));
        }
    }
    Ok(None)
}
