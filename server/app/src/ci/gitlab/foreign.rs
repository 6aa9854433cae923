//! Answers of GitLab as unchecked bytes, for fuzzing.

use plimsoll_core::domain::JobHook;

use super::{answers, stored_hooks, trace};

/// Reads the bytes as the record of a hook.
pub(crate) fn kept(bytes: &[u8]) {
    let Ok(record) = serde_json::from_slice::<JobHook>(bytes) else { return };
    let _ended = stored_hooks::ended(&record);
    assert!(serde_json::to_vec(&record).is_ok(), "a record that was read can be written");
}

/// Reads the bytes as a job, as a list of runs, and as a log.
pub(crate) fn read(bytes: &[u8]) {
    let _job = answers::parse_job(bytes).is_ok();
    let mut runs = Vec::new();
    let _runs = answers::add_runs(bytes, "build", &mut runs).is_ok();
    let log = trace::text(bytes, 4096);
    assert!(log.len() <= 4096 + 3, "no more of a log than is asked for");
    let _end = trace::end_of_build(&log);
    let _unneeded = trace::is_unneeded(&log);
}
