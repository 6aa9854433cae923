//! Settings of sizes and verdicts.

use super::super::{
    checks, parse,
    setting::{Setting, settings},
};

pub(super) const PREDICTIONS: &[Setting] = settings! {
    /// Memory request for a key without history.
    "default_memory_request" => predict.memory_request, "SIZE";
    /// Memory limit for a key without history.
    "default_memory_limit" => predict.memory_limit, "SIZE";
    /// Largest memory that a prediction may ask for, for example the runner's maximum.
    "memory_cap" => predict.memory_cap, "SIZE";
    /// Price of one attempt that runs out of memory, in GiB·h of held memory.
    "failure_price" => predict.failure_price, "NUMBER", number 0.0_f64..=1_000_000.0, unset "what an average build holds";
    /// Largest share of attempts that may need more than their limit, for example 1%; at most 50%.
    "max_failures" => predict.failure_ceiling, "SHARE", read parse::share;
    /// Largest share by which a predicted memory size may shrink at once, for example 25%. Changes below 5% are not made.
    "max_decrease" => predict.max_decrease, "SHARE", read parse::up_to_all, unset "sizes follow at once";
    /// on: predictions are made and shown, but only in force for the builds of --shadow-apply.
    "shadow" => shadow.is_on, "on|off";
    /// Shares of builds, by stack or project, for which predictions are in force in shadow mode, for example `e4s=10%,group/app=0%,*=1%`. If
    /// both are named, the smaller share counts.
    "shadow_apply" => shadow.apply, "LIST";
    /// File that replaces shadow and shadow_apply while it exists, read again when it changes: `shadow = "on"` in it takes all sizes back.
    "shadow_file" => shadow_file, "FILE", read parse::file;
};

pub(super) const RULES: &[Setting] = settings! {
    /// Attempts of one job that verdicts allow, the first included.
    "max_attempts" => retry.max_attempts, "N", number 1_u32..=20;
    /// Least chance to pass for which a retry is worth what it costs. At 25 % the look of a person at a failed job costs as much as four
    /// builds.
    "retry_least_chance" => retry.least_chance, "SHARE", read parse::up_to_all;
    /// File with retry terms for some projects, stacks or causes ([[terms]] tables). Changes take effect while the server runs; SIGHUP
    /// reads it at once.
    "retry_policy" => retry_policy, "FILE", set checks::set_retry_policy, get checks::written_retry_policy;
    /// Directory with more rules for log lines (*.toml, or Spack's taxonomy as *.yaml). Changes take effect as with --retry-policy.
    "rules_dir" => rules_dir, "DIR", read parse::directory;
    /// File with the pools that builds run in and the rules that choose one ([[pool]], [[rule]] and [kind.NAME] tables). Changes take
    /// effect as with --retry-policy.
    "pools_file" => pools_file, "FILE";
};
