//! What of an attempt only those see who are named for its project.

/// What is private.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Private {
    /// Names of labels; one that ends in `*` stands for all that begin so.
    pub labels: Vec<String>,
    /// Lines of logs.
    pub logs: bool,
}
