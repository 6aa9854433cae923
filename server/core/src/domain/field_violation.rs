//! An error in one field of the input.

/// A field that breaks a rule, with a description that helps to correct the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {description}")]
pub struct FieldViolation {
    /// Path of the field as the sender spells it, for example `batch.samples[3].elapsed_ms`.
    pub field: String,
    /// What is wrong and what would be valid.
    pub description: String,
}

impl FieldViolation {
    /// A violation of a rule by one field.
    pub fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }

    /// The same violation, with the parent message's name put before the field.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Self {
        self.field = format!("{parent}.{}", self.field);
        self
    }
}
