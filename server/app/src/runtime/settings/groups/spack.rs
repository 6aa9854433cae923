//! Settings of the answers to stock Spack clients (`/v1/allocation`).

use super::super::{
    checks, parse,
    setting::{Setting, settings},
};

pub(super) const ALLOCATION: &[Setting] = settings! {
    /// Project of the specs that stock Spack asks about.
    "allocation_project" => gantry.project, "PATH", read checks::project, unset "that of the newest attempt";
    /// Values sent beside the two requests: any of `memory_limit,cpu_limit,build_jobs,ephemeral_storage`.
    "allocation_extras" => gantry.extras, "LIST";
    /// The runner's `memory_request_overwrite_max_allowed`. A job that asks for more fails.
    "allocation_max_memory_request" => gantry.max_memory_request, "SIZE";
    /// The runner's `memory_limit_overwrite_max_allowed`.
    "allocation_max_memory_limit" => gantry.max_memory_limit, "SIZE";
    /// The runner's `cpu_request_overwrite_max_allowed`.
    "allocation_max_cpu_request" => gantry.max_cpu_request, "CORES";
    /// The runner's `cpu_limit_overwrite_max_allowed`.
    "allocation_max_cpu_limit" => gantry.max_cpu_limit, "CORES";
    /// Disk that jobs ask for, by stack, since disk use is not measured: `e4s=40GiB,*=20GiB`, `*` for all others. Needed for
    /// `ephemeral_storage` in `allocation_extras`.
    "allocation_ephemeral_storage" => gantry.ephemeral_storage, "LIST";
    /// The runner's `ephemeral_storage_request_overwrite_max_allowed`.
    "allocation_max_ephemeral_storage" => gantry.max_ephemeral_storage, "SIZE";
    /// Exit codes at which GitLab retries a job, sent as `retry`.
    "allocation_retry_exit_codes" => gantry.retry_exit_codes, "LIST", read checks::exit_codes;
    /// Least confidence of a prediction that stock Spack is sent. Below it, it is sent the defaults.
    "allocation_confidence" => gantry.confidence, "SHARE", read parse::up_to_all;
    /// Longest time for an answer. After it, stock Spack is sent the defaults.
    "allocation_within" => gantry.answer_within, "TIME";
};
