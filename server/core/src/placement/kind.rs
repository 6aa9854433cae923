//! Kinds of builds, after OSBS: each kind has its own nodes and priority, so that rebuilds in the background do not delay builds that a
//! person waits for.

use plimsoll_base::named_enum;
use plimsoll_proto::job;

use super::node::NodePlacement;
use crate::domain::Key;

named_enum! {
    /// Why a package is built.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum BuildKind {
        /// A trial build; the result is thrown away.
        Scratch => "scratch",
        /// A person requested the build.
        Explicit => "explicit",
        /// A dependency of the package has changed.
        Auto => "auto",
        /// A fix for one release, kept apart from other releases.
        Isolated => "isolated",
        /// The build starts and watches the builds of an image, one for each architecture, and builds nothing itself.
        Orchestrator => "orchestrator",
    }
}

/// Placement and limits of one kind of build.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KindPolicy {
    /// Node selector, tolerations and priority class for builds of this kind.
    pub place: NodePlacement,
    /// Priority class for a security fix of this kind; empty: the kind's usual class.
    pub raised_priority_class: String,
    /// Most attempts with a ticket of this kind that run at once, over all pools.
    pub at_once: Option<u32>,
}

/// The label of a key that names the kind.
pub const KIND_LABEL: &str = "kind";
/// Labels that affect priority and do not describe what the build needs: the author of a job sets them.
pub const PRIORITY_LABELS: [&str; 2] = [KIND_LABEL, SECURITY_LABEL];
/// The label of a security fix: its value is `true`, `1` or `yes`, in any case.
const SECURITY_LABEL: &str = "security";

impl BuildKind {
    /// The kind with this name; case is ignored.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(word.trim()))
    }

    /// The kind that the label `kind` names; `Explicit` if there is no such label or its value is unknown.
    pub fn of(key: &Key) -> Self {
        key.labels.get(KIND_LABEL).and_then(|word| Self::parse(word)).unwrap_or(Self::Explicit)
    }
}

/// Whether the label `security` says that the build is a security fix.
pub(super) fn is_security(key: &Key) -> bool {
    key.labels.get(SECURITY_LABEL).and_then(|word| job::parse_yes_or_no(word)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_flags_are_heeded_in_any_case() {
        let of = |kind: &str, security: &str| {
            let labels = [(KIND_LABEL, kind), (SECURITY_LABEL, security)];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            let key = Key { labels, ..Key::default() };
            (BuildKind::of(&key), is_security(&key))
        };
        assert_eq!(of("AUTO", "TRUE"), (BuildKind::Auto, true));
        assert_eq!(of("bogus", "ja"), (BuildKind::Explicit, false));
        assert_eq!(BuildKind::ALL.map(BuildKind::as_str), job::BUILD_KINDS);
    }
}
