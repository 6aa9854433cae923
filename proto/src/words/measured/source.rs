//! Sources of a need that may be below the true peak, and the words that all output uses for them.
//!
//! A cgroup counts every page of a build. Two other sources do not, and a build whose processes were paused needs less at once than it would
//! have needed:
//!
//! | source | what it misses |
//! |---|---|
//! | Prometheus | peaks between two scrapes, 15 to 60 seconds apart |
//! | the sum over the processes of a build | files in shared memory and other tmpfs, memory of the kernel |
//! | a build that rescue paused | processes that did not run at the same time |

use super::{need, need_cell};
use crate::{
    shown::clean,
    v1::{Source, Summary},
};

/// A source of needs that are lower bounds of the peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncompleteNeed {
    /// Prometheus, which reads at intervals.
    Prometheus,
    /// The sum over the processes of a build that has no cgroup of its own.
    Processes,
    /// A cgroup, while rescue paused processes of the build, or ended it.
    Paused,
}

/// The note next to a need that is a sum over processes.
pub const BY_PROCESSES: &str = "measured by processes";

/// The line below a list that explains its [`mark`].
pub const MARK_NOTE: &str = "* measured by processes: the need may be higher";

/// The mark that a list prints after a need: `*` if it was [`BY_PROCESSES`], else nothing.
pub fn mark(source: Source) -> &'static str {
    if IncompleteNeed::of(source) == Some(IncompleteNeed::Processes) { "*" } else { "" }
}

/// The need of an attempt for a cell of a table, with its [`mark`].
pub fn marked_need_cell(summary: &Summary) -> String {
    let mark = need_note(summary).map_or("", |_| mark(summary.source()));
    format!("{}{mark}", need_cell(summary))
}

impl IncompleteNeed {
    /// All sources.
    pub const ALL: [Self; 3] = [Self::Prometheus, Self::Processes, Self::Paused];

    /// `source` as a source of lower bounds; `None` if needs from it are complete.
    pub fn of(source: Source) -> Option<Self> {
        Self::ALL.into_iter().find(|need| need.source() == Some(source))
    }

    /// The source on the wire; `None` if the source does not make the need incomplete.
    pub fn source(self) -> Option<Source> {
        match self {
            Self::Prometheus => Some(Source::Prometheus),
            Self::Processes => Some(Source::ProcessTree),
            Self::Paused => None,
        }
    }

    /// The note next to a need from this source.
    pub fn note(self) -> &'static str {
        match self {
            Self::Prometheus => "read by Prometheus",
            Self::Processes => BY_PROCESSES,
            Self::Paused => "paused by rescue",
        }
    }

    /// Needs from this source as the subject of a sentence, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prometheus => "peaks from Prometheus",
            Self::Processes => "needs measured by processes",
            Self::Paused => "needs of paused builds",
        }
    }
}

/// Words for a source; `None` if nothing was measured.
pub fn source_words(source: Source) -> Option<&'static str> {
    match source {
        Source::Unspecified => None,
        Source::CgroupV2 => Some("cgroup v2"),
        Source::CgroupV1 => Some("cgroup v1"),
        Source::ProcessTree => Some("process tree"),
        Source::Prometheus => Some("Prometheus (peaks are at least this)"),
    }
}

/// The note next to the need of an attempt that was [`BY_PROCESSES`]; `None` for other attempts, and if the need is not known.
pub fn need_note(summary: &Summary) -> Option<&'static str> {
    let is_by_processes = IncompleteNeed::of(summary.source()) == Some(IncompleteNeed::Processes);
    (is_by_processes && need(summary).is_some()).then_some(BY_PROCESSES)
}

/// A sentence that says what an incomplete need leaves out; `None` if the need is complete.
pub fn unseen_note(summary: &Summary) -> Option<&'static str> {
    need_note(summary)?;
    Some(
        "Measured by processes, which do not show files in /dev/shm and other tmpfs: the need may be higher.",
    )
}

/// What keeps the numbers of an attempt from being exact, apart from a service that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartlyMeasured {
    /// A part of the build ran in a cgroup that the agent could not measure.
    AnotherCgroup,
    /// Other processes ran in the cgroup that the build was measured by.
    SharedCgroup,
    /// A process may be a daemon of the build, and was not measured.
    LostDaemon,
    /// The build did almost nothing where it was measured, and held a connection to another program.
    OpenConnection,
    /// Nothing names the build, so other builds without a name are no builds of the same kind.
    Unnamed,
}

impl PartlyMeasured {
    const ALL: [Self; 5] =
        [Self::AnotherCgroup, Self::SharedCgroup, Self::LostDaemon, Self::OpenConnection, Self::Unnamed];

    /// The value of `offloaded_to` for such an attempt.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// The name, and a clause about the attempt.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::AnotherCgroup => {
                ("another-cgroup", "a part of the build ran in another cgroup, which was not measured")
            }
            Self::SharedCgroup => (
                "shared-cgroup",
                "its cgroup was shared with other processes, so this is at most what it used",
            ),
            Self::LostDaemon => ("lost-daemon", "a daemon that it may have started was not measured"),
            Self::OpenConnection => (
                "open-connection",
                "it used under 1 % of a core and held a connection open, so its work was probably done outside what was measured",
            ),
            Self::Unnamed => (
                "unnamed-build",
                "nothing names the build in this CI system (name it: --key project=GROUP/NAME --key package=NAME)",
            ),
        }
    }
}

/// Words for where the work of an attempt was done, if not where it was measured: `docker ran the work outside what was measured`.
pub fn offloaded_note(summary: &Summary) -> Option<String> {
    let name = clean(&summary.offloaded_to);
    if let Some((_name, clause)) =
        PartlyMeasured::ALL.map(PartlyMeasured::words).into_iter().find(|(own, _)| *own == name)
    {
        return Some(clause.to_owned());
    }
    (!name.is_empty()).then(|| format!("{name} ran the work outside what was measured"))
}

/// A sentence that names the service that did the work, and what follows from that.
pub fn offloaded_sentence(summary: &Summary) -> Option<String> {
    offloaded_note(summary).map(|clause| format!("{clause}: nothing is learnt from what this attempt used."))
}

/// Words, after a number of attempts, for how many of them were [`BY_PROCESSES`]: `measured by processes`, `3 of them measured by
/// processes`; `None` if none was.
pub fn attempts_note(by_processes: u32, attempts: u32) -> Option<String> {
    match by_processes {
        0 => None,
        some if some < attempts => Some(format!("{some} of them {BY_PROCESSES}")),
        _ => Some(BY_PROCESSES.to_owned()),
    }
}
