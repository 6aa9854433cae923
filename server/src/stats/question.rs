//! What may be asked: which attempts count, and what they are grouped by.

use std::collections::BTreeMap;

use crate::domain::{Cause, Key, Outcome};

/// Which attempts count. Empty and `None` mean all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) project: String,
    pub(crate) stack: String,
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) compiler: String,
    pub(crate) arch: String,
    pub(crate) pool: String,
    /// Name of a class of refs.
    pub(crate) ref_class: String,
    pub(crate) owner: String,
    /// Ended at or after.
    pub(crate) from_unix_ms: Option<u64>,
    /// Ended before.
    pub(crate) to_unix_ms: Option<u64>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) cause: Option<Cause>,
    /// All of these, each with this value.
    pub(crate) labels: BTreeMap<String, String>,
}

impl Filter {
    /// Whether attempts of this key count as far as the key says.
    pub(super) fn takes_key(&self, key: &Key) -> bool {
        let same = |asked: &str, is: &str| asked.is_empty() || asked == is;
        same(&self.project, &key.project)
            && same(&self.stack, &key.stack)
            && same(&self.package, &key.package)
            && same(&self.version, &key.version)
            && same(&self.compiler, &key.compiler)
            && same(&self.arch, &key.arch)
    }

    /// Whether it leaves out keys.
    pub(super) fn asks_for_keys(&self) -> bool {
        let texts = [&self.project, &self.stack, &self.package, &self.version, &self.compiler, &self.arch];
        texts.iter().any(|text| !text.is_empty())
    }

    /// Whether an attempt that ended then counts as far as time says.
    pub(super) fn takes_time(&self, ended_unix_ms: u64) -> bool {
        self.from_unix_ms.is_none_or(|from| ended_unix_ms >= from)
            && self.to_unix_ms.is_none_or(|to| ended_unix_ms < to)
    }
}

/// What attempts are grouped by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum GroupBy {
    #[default]
    Nothing,
    Package,
    Stack,
    Project,
    Version,
    Compiler,
    Arch,
    Pool,
    RefClass,
    Owner,
    Cause,
    Outcome,
    /// By the value of the label of this name.
    Label(String),
}

impl GroupBy {
    /// The name of a key's group, if keys decide it.
    pub(super) fn of_key<'k>(&self, key: &'k Key) -> Option<&'k str> {
        Some(match self {
            Self::Package => &key.package,
            Self::Stack => &key.stack,
            Self::Project => &key.project,
            Self::Version => &key.version,
            Self::Compiler => &key.compiler,
            Self::Arch => &key.arch,
            _ => return None,
        })
    }
}

/// A question about finished attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) filter: Filter,
    pub(crate) group_by: GroupBy,
    /// Width of a step of time; 0 for no steps.
    pub(crate) step_ms: u64,
    /// Who asks may not know of other projects than the filter's: nothing is said of them, not even beside the numbers.
    pub(crate) confined: bool,
}
