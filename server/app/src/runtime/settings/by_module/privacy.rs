//! Settings for what is shown only to callers with access to an attempt's project.

/// Which data is private.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivacySettings {
    /// Names of private labels; `customer*` matches all names that start with `customer`.
    pub labels: Vec<String>,
    /// Whether lines of logs are private.
    pub logs: bool,
}
