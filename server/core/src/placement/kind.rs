//! Kinds of builds, after OSBS: each has nodes and a priority of its own, so that rebuilds in the background do not starve
//! those that a person waits for.

use plimsoll_proto::job;

use super::node::NodePlacement;
use crate::domain::Key;

/// Why something is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BuildKind {
    /// To try it: the result is thrown away.
    Scratch,
    /// A person asked for it.
    Explicit,
    /// Something that it stands on has changed.
    Auto,
    /// A fix for one release, apart from the others.
    Isolated,
}

/// What a kind of build gets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KindPolicy {
    /// Nodes and priority.
    pub place: NodePlacement,
    /// Priority class of a security fix; empty for that of the kind.
    pub raised_priority_class: String,
    /// Attempts of this kind that may run at once, wherever they run; of those with a ticket.
    pub at_once: Option<u32>,
}

/// The label of a key that names the kind.
pub const LABEL: &str = "kind";
/// Labels that decide what a build gets, and say nothing about what it needs: the author of a job sets them.
pub const RAISING: [&str; 2] = [LABEL, SECURITY];
/// The label that says that it mends a hole: `true`, `1` or `yes`, in any case.
const SECURITY: &str = "security";

impl BuildKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Scratch, Self::Explicit, Self::Auto, Self::Isolated];

    /// The word in the file, on the wire and in the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scratch => "scratch",
            Self::Explicit => "explicit",
            Self::Auto => "auto",
            Self::Isolated => "isolated",
        }
    }

    /// The kind with this name, in any case.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(word.trim()))
    }

    /// What the label `kind` says. Without a known word, a person asked for it.
    pub fn of(key: &Key) -> Self {
        key.labels.get(LABEL).and_then(|word| Self::parse(word)).unwrap_or(Self::Explicit)
    }
}

/// Whether the label `security` says that this is a security fix.
pub(super) fn is_security(key: &Key) -> bool {
    key.labels.get(SECURITY).and_then(|word| job::is_yes(word)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_flags_are_heeded_in_any_case() {
        let of = |kind: &str, security: &str| {
            let labels = [(LABEL, kind), (SECURITY, security)];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            let key = Key { labels, ..Key::default() };
            (BuildKind::of(&key), is_security(&key))
        };
        assert_eq!(of("AUTO", "TRUE"), (BuildKind::Auto, true));
        assert_eq!(of("bogus", "ja"), (BuildKind::Explicit, false));
        assert_eq!(BuildKind::ALL.map(BuildKind::as_str), job::KINDS);
    }
}
