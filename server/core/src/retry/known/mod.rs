//! Compares with earlier failures.
//!
//! | module | content |
//! |---|---|
//! | `signature`, `failure_groups` | equal failures |
//! | `known_failures`, `lineage` | earlier failures and their retries; earlier attempts of the job |
//! | `rule_cases`, `rule_experience`, `rule_records` | how often each rule was right here, and whether it may name a cause |

pub(super) mod failure_groups;
pub(super) mod known_failures;
pub(super) mod lineage;
pub(super) mod rule_cases;
pub(super) mod rule_experience;
pub(super) mod rule_records;
pub(super) mod signature;
