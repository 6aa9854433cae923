//! Matches lines by rules.
//!
//! | module | content |
//! |---|---|
//! | `log_rules`, `rule`, `extend`, `taxonomy` | the rules: those of `rules/*.toml`, the operator's files, Spack's taxonomy |
//! | `keyword_prefilter`, `rule_match` | which rules match a line |
//! | `explain`, `rule_files` | for people: which rules match a log; checks of rule files |

pub(super) mod explain;
pub(super) mod extend;
pub(super) mod keyword_prefilter;
pub(super) mod log_rules;
pub(super) mod rule;
pub(super) mod rule_files;
pub(super) mod rule_match;
pub(super) mod taxonomy;
