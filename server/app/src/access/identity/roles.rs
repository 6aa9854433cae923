//! Roles that the access file grants to callers.

/// A role that the access file grants to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Delivers attempts and their samples.
    Agent,
    /// May ask for sizes and verdicts.
    Caller,
    /// Sees statistics, attempts and metrics.
    Reader,
    /// Delivers webhooks of the CI system.
    Hook,
    /// May take backups, correct causes, and watch and close tickets of others.
    Operator,
}

impl Role {
    pub(crate) const ALL: [Self; 5] = [Self::Agent, Self::Caller, Self::Reader, Self::Hook, Self::Operator];

    /// Name of the role in the access file.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Caller => "caller",
            Self::Reader => "reader",
            Self::Hook => "hook",
            Self::Operator => "operator",
        }
    }

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
