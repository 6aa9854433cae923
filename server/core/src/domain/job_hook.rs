//! What a CI system says about the end of a job, as the server keeps it until it is applied to an attempt.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cause, Reporter, stored_record::stored_record};

stored_record! {
    /// An accepted hook about the end of a job.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct JobHook {
        /// Hash of job, end and reporter, 16 hexadecimal digits: the same for hooks about the same end.
        pub name: String,
        /// When it was accepted, milliseconds since 1970.
        pub accepted_unix_ms: u64,
        /// Host of the CI system that sent it, if known.
        pub host: Option<String> = default,
        /// Key that the sender repeats if it sends the hook again, if it had one.
        pub delivery: Option<String> = default,
        /// The hook as it came, reduced to the fields that are read, secrets masked; at most 10 KiB.
        pub hook: Value,
        /// Who sent it.
        pub by: Reporter,
        /// What it reports, once it was processed. Since then it waits for its attempt.
        pub applied: Option<AppliedHook> = default,
    }
}

stored_record! {
    /// What the CI system's answers added to a hook.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AppliedHook {
        /// When it was processed, milliseconds since 1970.
        pub at_unix_ms: u64,
        /// A proven cause of the failure.
        pub cause: Option<Cause> = default,
        /// Whether the job found its work done already.
        pub unneeded: bool = default,
    }
}
