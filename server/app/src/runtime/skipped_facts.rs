//! Collects invalid values ("facts") of a message. Each is skipped and reported, and the rest of
//! the message is used.

use plimsoll_core::{domain::FieldViolation, validated::Validated};

use super::metrics::{KindLabel, Metrics};

/// The invalid values of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct SkippedFacts(Vec<FieldViolation>);

impl SkippedFacts {
    /// The value if it is valid; else records the violation and returns `None`.
    pub(crate) fn keep<T>(&mut self, fact: Validated<T>) -> Option<T> {
        fact.map_err(|fault| self.push(fault)).ok()
    }

    /// Records one more violation.
    pub(crate) fn push(&mut self, fault: FieldViolation) {
        self.0.push(fault);
    }

    /// A view for the values of one part of the message, for example `hello.resources`.
    pub(crate) fn part(&mut self, name: &'static str) -> MessagePart<'_> {
        MessagePart { skipped: self, name }
    }

    /// Whether all values were valid.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All violations as `field: what is wrong`.
    pub(crate) fn words(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// Logs and counts the violations. `kind` is the kind of message, `about` names the attempt or
    /// the pod.
    pub(crate) fn note(&self, metrics: &Metrics, kind: &'static str, about: &str) {
        for FieldViolation { field, description } in &self.0 {
            tracing::warn!(kind, about, field, why = description, "left out a fact that cannot be used");
            metrics.facts_skipped.get_or_create(&KindLabel::of(kind)).inc();
        }
    }

    /// The fields of the violations, in the order in which they were read.
    #[cfg(test)]
    pub(crate) fn fields(&self) -> Vec<&str> {
        self.0.iter().map(|fault| fault.field.as_str()).collect()
    }
}

/// Collects the invalid values of one part of a message.
#[derive(Debug)]
pub(crate) struct MessagePart<'m> {
    skipped: &'m mut SkippedFacts,
    name: &'static str,
}

impl MessagePart<'_> {
    /// The value of a field if it exists and is valid; records a violation if it is invalid.
    pub(crate) fn usable<V, T>(
        &mut self,
        field: &str,
        value: Option<V>,
        check: impl Fn(&str, V) -> Validated<T>,
    ) -> Option<T> {
        check(field, value?).map_err(|fault| self.leave_out(fault)).ok()
    }

    /// Records one more violation, unless one of the same field is recorded already, as for a list
    /// of samples.
    pub(crate) fn leave_out(&mut self, fault: FieldViolation) {
        let fault = fault.within(self.name);
        if self.skipped.0.iter().all(|known| known.field != fault.field) {
            self.skipped.push(fault);
        }
    }
}
