//! Invalid facts in a message: each is skipped and reported, and the rest of the message is kept.

use plimsoll_core::{domain::FieldViolation, validated::Validated};

use super::metrics::{Kind, Metrics};

/// The fields of a message that could not be used.
#[derive(Debug, Clone, Default)]
pub(crate) struct SkippedFacts(Vec<FieldViolation>);

impl SkippedFacts {
    /// The fact; if it is invalid, records the violation and returns `None`.
    pub(crate) fn keep<T>(&mut self, fact: Validated<T>) -> Option<T> {
        fact.map_err(|fault| self.push(fault)).ok()
    }

    /// One more fact that is left out.
    pub(crate) fn push(&mut self, fault: FieldViolation) {
        self.0.push(fault);
    }

    /// The facts of one part of a message, for example `hello.resources`.
    pub(crate) fn part(&mut self, name: &'static str) -> Part<'_> {
        Part { skipped: self, name }
    }

    /// Whether everything could be used.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All violations as `field: what is wrong`.
    pub(crate) fn words(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// Logs and counts the skipped fields: `kind` is the kind of message, `about` the attempt or the pod.
    pub(crate) fn note(&self, metrics: &Metrics, kind: &'static str, about: &str) {
        for FieldViolation { field, description } in &self.0 {
            tracing::warn!(kind, about, field, why = description, "left out a fact that cannot be used");
            metrics.facts_skipped.get_or_create(&Kind::of(kind)).inc();
        }
    }

    /// The skipped fields, in the order in which they were read.
    #[cfg(test)]
    pub(crate) fn fields(&self) -> Vec<&str> {
        self.0.iter().map(|fault| fault.field.as_str()).collect()
    }
}

/// Facts of one part of a message.
#[derive(Debug)]
pub(crate) struct Part<'m> {
    skipped: &'m mut SkippedFacts,
    name: &'static str,
}

impl Part<'_> {
    /// The value of a field if it exists and is valid.
    pub(crate) fn usable<V, T>(
        &mut self,
        field: &str,
        value: Option<V>,
        check: impl Fn(&str, V) -> Validated<T>,
    ) -> Option<T> {
        check(field, value?).map_err(|fault| self.leave_out(fault)).ok()
    }

    /// Records one more violation. Of several with the same name, as in a list of samples, the first is named.
    pub(crate) fn leave_out(&mut self, fault: FieldViolation) {
        let fault = fault.within(self.name);
        if self.skipped.0.iter().all(|known| known.field != fault.field) {
            self.skipped.push(fault);
        }
    }
}
