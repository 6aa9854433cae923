//! Roles that the access file grants to callers.

use plimsoll_base::named_enum;

named_enum! {
    /// A role that the access file grants to callers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Role {
        /// Delivers attempts and their samples.
        Agent => "agent",
        /// May ask for sizes and verdicts.
        Caller => "caller",
        /// Sees statistics, attempts and metrics.
        Reader => "reader",
        /// Delivers webhooks of the CI system.
        Hook => "hook",
        /// May take backups, correct causes, and watch and close tickets of others.
        Operator => "operator",
    }
}

impl Role {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of roles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Roles(u8);

impl Roles {
    /// Whether `role` is included.
    pub(crate) fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// Whether the two sets have a role in common.
    pub(crate) fn has_one_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Names of the roles, for messages.
    pub(crate) fn words(self) -> String {
        let names: Vec<&str> =
            Role::ALL.into_iter().filter(|role| self.has(*role)).map(Role::as_str).collect();
        names.join(" or ")
    }
}

impl From<Role> for Roles {
    fn from(role: Role) -> Self {
        Self(role.bit())
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |bits, role| bits | role.bit()))
    }
}
