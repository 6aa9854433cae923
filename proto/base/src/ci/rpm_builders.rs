//! Koji and Copr. Their builders set no variables for a build: the agent reads the command (`mock`, `rpmbuild`, `copr-rpmbuild`) and the
//! files that it names.

use super::{CiJob, CiSystem, Columns, Support};

/// The row of Koji.
pub(super) static KOJI: CiSystem =
    row("koji", "Koji", "project: `--key`; package and version of the source package, arch of the chroot");

/// The row of Copr.
pub(super) static COPR: CiSystem =
    row("copr", "Copr", "project and owner, package, version and chroot of the task");

const fn row(name: &'static str, title: &'static str, key: &'static str) -> CiSystem {
    CiSystem {
        name,
        title,
        recognized_by: None,
        needs: &[],
        job_variable: "",
        workspace: "",
        read: |_sources| CiJob::default(),
        phases: None,
        fold: None,
        links: None,
        columns: Columns { key, id: "its own, or `--attempt`", untrusted: "not known: its token decides" },
        support: Support {
            measured: "`plimsoll run` around the builder's command",
            judged: "yes",
            sized: "by [pools and tickets](deploy/docs/copr-koji.md)",
            retried: "in place: `--retry-in-place`",
        },
    }
}
