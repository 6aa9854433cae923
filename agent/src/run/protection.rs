//! Keeps the agent out of the kernel's choice of whom to kill for memory.
//!
//! In a group with `memory.oom.group` (the kubelet's default on v2) the agent would die with the build and take its word of why with
//! it; in a group that it shares it could even be chosen instead of the build. The kernel spares a process at -1000 in both cases
//! (kernel documentation, cgroup-v2, `memory.oom.group`).

use std::fs;

use crate::kernel::Kernel;

/// `OOM_SCORE_ADJ_MIN`: never killed for memory.
const NEVER: &str = "-1000";

/// Protects the calling process, where it has the right to (`CAP_SYS_RESOURCE`); elsewhere nothing changes. Whatever it starts
/// later would be protected too, so the command is started before.
pub(super) fn protect_from_kills(kernel: &Kernel) {
    if let Err(error) = fs::write(kernel.path("/proc/self/oom_score_adj"), NEVER) {
        tracing::debug!(%error, "the kernel may kill the agent for memory");
    }
}
