//! What is wrong with an input.

/// A field that breaks a rule, and the rule in words that help to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {description}")]
pub struct FieldViolation {
    /// Path of the field as the sender spells it, for example `batch.samples[3].elapsed_ms`.
    pub field: String,
    /// What is wrong and what would be right.
    pub description: String,
}

impl FieldViolation {
    /// A fault of one field.
    pub fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }

    /// The same fault, seen from the message that holds the field.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Self {
        self.field = format!("{parent}.{}", self.field);
        self
    }
}
