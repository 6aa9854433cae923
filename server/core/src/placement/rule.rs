//! One rule: what it matches, and which pool it chooses.

use super::{
    copr::CoprTable,
    pattern::Pattern,
    pool::Pool,
    subject::{ResourceNeeds, RuleSubject},
};
use crate::domain::{Bytes, Cores, Millis};

/// A rule of the operator.
#[derive(Debug, Clone)]
pub(super) struct PlacementRule {
    pub(super) name: String,
    /// Line of the rule in the file, from 1.
    pub(super) line: usize,
    pub(super) fields: Vec<(RuleField, Pattern)>,
    pub(super) thresholds: Vec<NeedThreshold>,
    /// Copr's table: the rule matches if an entry's pattern matches, and all matching entries add their tags.
    pub(super) copr: Option<CoprTable>,
    pub(super) target: RuleTarget,
    pub(super) when_busy: Option<WhenBusy>,
}

/// The pool that a rule chooses.
#[derive(Debug, Clone)]
pub(super) enum RuleTarget {
    /// The pool with this name.
    Pool(String),
    /// The cheapest pool that fits and has all of these tags and those from Copr's table.
    Tags(Vec<String>),
}

/// What a rule does when its pool is busy.
#[derive(Debug, Clone)]
pub(super) struct WhenBusy {
    /// The pool to take instead.
    pub(super) pool: String,
    /// Number of running or waiting builds from which the wanted pool counts as busy; `None`: the pool's `at_once`.
    pub(super) from: Option<u32>,
}

/// The field that a pattern is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RuleField {
    Project,
    Owner,
    Stack,
    Package,
    Version,
    Arch,
    Ref,
    RefClass,
    Kind,
    /// The text `owner/project/arch/package`.
    Key,
    Label(String),
}

/// A threshold that the predicted need must exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NeedThreshold {
    Memory(Bytes),
    Cores(Cores),
    WallP50(Millis),
    WallP95(Millis),
}

/// Why a rule does not match. The text is formatted only on demand, because every prediction evaluates the rules and only people read the
/// text.
#[derive(Debug)]
pub(super) enum RuleMismatch<'r> {
    /// The value of a field does not match the expression for it.
    Field(&'r RuleField, &'r Pattern),
    /// A predicted need is not above the rule's threshold.
    Need(NeedThreshold),
    /// No pattern of Copr's table matches.
    Copr,
    /// The rule matches, but no pool has all of the tags in this list.
    NoPool(Vec<String>),
    /// The rule matches, but the attempt cannot run in the pool or is not allowed to.
    Pool(&'r Pool),
}

impl RuleMismatch<'_> {
    /// Describes the mismatch in a sentence.
    pub(super) fn reason_words(&self, subject: &RuleSubject<'_>, needs: &ResourceNeeds) -> String {
        match self {
            Self::Field(field, pattern) => {
                format!(
                    "{} {:?} does not match '{}'",
                    field.name(),
                    field.value_of(subject),
                    pattern.as_str()
                )
            }
            Self::Need(over) => over.not_exceeded_reason(needs),
            Self::Copr => format!("no pattern of copr matches {:?}", subject.copr_path),
            Self::NoPool(tags) => format!("takes it, but no pool has all of the tags {}", tags.join(", ")),
            Self::Pool(pool) if pool.suits(subject) => {
                format!("takes it, but pool {} does not let {:?} in", pool.name, subject.owner_project)
            }
            Self::Pool(pool) => {
                format!("takes it, but {}", pool.mismatch_reason(subject))
            }
        }
    }
}

impl RuleField {
    /// The field's name in the file.
    pub(super) fn name(&self) -> String {
        let word = match self {
            Self::Project => "project",
            Self::Owner => "owner",
            Self::Stack => "stack",
            Self::Package => "package",
            Self::Version => "version",
            Self::Arch => "arch",
            Self::Ref => "ref",
            Self::RefClass => "ref_class",
            Self::Kind => "kind",
            Self::Key => "key",
            Self::Label(name) => return format!("labels.{name}"),
        };
        word.to_owned()
    }

    fn value_of<'s>(&self, subject: &'s RuleSubject<'_>) -> &'s str {
        let key = subject.key;
        match self {
            Self::Project => &subject.owner_project,
            Self::Owner => &key.owner,
            Self::Stack => &key.stack,
            Self::Package => &key.package,
            Self::Version => &key.version,
            Self::Arch => &key.arch,
            Self::Ref => &key.git_ref,
            Self::RefClass => subject.ref_class,
            Self::Kind => subject.kind.as_str(),
            Self::Key => &subject.copr_path,
            Self::Label(name) => key.labels.get(name).map_or("", String::as_str),
        }
    }
}

impl NeedThreshold {
    fn is_exceeded(self, needs: &ResourceNeeds) -> bool {
        match self {
            Self::Memory(most) => needs.memory_limit > most,
            Self::Cores(most) => needs.cpu_request.0 > most.0,
            Self::WallP50(most) => needs.wall_p50 > most,
            Self::WallP95(most) => needs.wall_p95 > most,
        }
    }

    /// Describes the need, and the threshold that it does not exceed.
    fn not_exceeded_reason(self, needs: &ResourceNeeds) -> String {
        match self {
            Self::Memory(most) => format!("memory of {} is not over {most}", needs.memory_limit),
            Self::Cores(most) => format!("{} cores are not over {most}", needs.cpu_request),
            Self::WallP50(most) => format!("wall time p50 of {} is not over {most}", needs.wall_p50),
            Self::WallP95(most) => format!("wall time p95 of {} is not over {most}", needs.wall_p95),
        }
    }

    /// Whether every need above the threshold `other` is above this one too. A median time above a threshold implies a 95th percentile
    /// above it.
    pub(super) fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Memory(one), Self::Memory(other)) => one <= other,
            (Self::Cores(one), Self::Cores(other)) => one.0 <= other.0,
            (Self::WallP50(one), Self::WallP50(other))
            | (Self::WallP95(one), Self::WallP95(other) | Self::WallP50(other)) => one <= other,
            _ => false,
        }
    }
}

impl PlacementRule {
    /// The tags from Copr's table for a key that the rule matches.
    /// Errors: the first reason why the rule does not match.
    pub(super) fn matching_tags(
        &self,
        subject: &RuleSubject<'_>,
        needs: &ResourceNeeds,
    ) -> Result<Vec<String>, RuleMismatch<'_>> {
        for (field, pattern) in &self.fields {
            if !pattern.is_match(field.value_of(subject)) {
                return Err(RuleMismatch::Field(field, pattern));
            }
        }
        if let Some(over) = self.thresholds.iter().find(|over| !over.is_exceeded(needs)) {
            return Err(RuleMismatch::Need(*over));
        }
        let Some(copr) = &self.copr else { return Ok(Vec::new()) };
        copr.tags(&subject.copr_path).ok_or(RuleMismatch::Copr)
    }

    /// The tags that the pool must have: those of the rule, and `more` from Copr's table.
    pub(super) fn pool_tags(&self, mut more: Vec<String>) -> Vec<String> {
        if let RuleTarget::Tags(tags) = &self.target {
            more.splice(0..0, tags.iter().cloned());
        }
        more
    }

    /// The rule's name in texts for people.
    pub(super) fn describe(&self) -> String {
        format!("rule {} (line {})", self.name, self.line)
    }
}
