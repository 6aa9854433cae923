//! Settings for what is shown only to callers with access to an attempt's project.

/// Settings of what is private.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Private {
    /// Names of private labels; `*` at the end matches every continuation.
    pub labels: Vec<String>,
    /// Lines of logs.
    pub logs: bool,
}
