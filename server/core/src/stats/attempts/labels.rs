//! Replaces labels by numbers: for the first names seen, and for a limited number of values.

use std::{collections::BTreeMap, sync::Arc};

use crate::stats::attempts::interner::Interner;

/// Most label names that are counted; each takes two bytes for each attempt.
pub(in crate::stats) const MAX_NAMES: usize = 16;
/// Most different values of one label.
const MAX_VALUES: usize = 32_768;
/// Most different values of all labels together: about 12 MB.
const MAX_VALUES_TOTAL: usize = 131_072;
/// Untrusted attempts may use each of these limits only up to its value divided by this, so that pull requests do not displace other
/// labels.
const UNTRUSTED_PART: usize = 2;

/// A label of an attempt: number of the name, and number of the value.
pub(in crate::stats) type Label = (u8, u16);

/// The labels of all attempts.
#[derive(Debug, Default)]
pub(in crate::stats) struct LabelTable {
    names: Vec<(Arc<str>, Interner)>,
    /// Whether a label name did not fit so far.
    overflowed: bool,
}

impl LabelTable {
    /// The labels of an attempt as numbers; counts one more use of each.
    pub(in crate::stats) fn acquire(
        &mut self,
        labels: &BTreeMap<String, String>,
        untrusted: bool,
    ) -> Vec<Label> {
        let share = if untrusted { UNTRUSTED_PART } else { 1 };
        let mut held = Vec::new();
        for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            let Some(label) = self.name(name, MAX_NAMES / share) else { continue };
            let of_all = self.names.iter().map(|(_, values)| values.len()).sum::<usize>();
            let of_this = self.values(label).map_or(0, Interner::len);
            let room = of_all < MAX_VALUES_TOTAL / share && (!untrusted || of_this < MAX_VALUES / share);
            if let Some((_, values)) = self.names.get_mut(usize::from(label)) {
                held.push((label, values.acquire(value, room)));
            }
        }
        held
    }

    /// The number of a label name; a new number if fewer than `most` are in use.
    fn name(&mut self, name: &str, most: usize) -> Option<u8> {
        if let Some(known) = self.find(name) {
            return Some(known);
        }
        if self.names.len() >= most {
            self.overflowed = true;
            return None;
        }
        self.names.push((name.into(), Interner::new(MAX_VALUES)));
        u8::try_from(self.names.len() - 1).ok()
    }

    /// Counts one use fewer of these labels.
    pub(in crate::stats) fn release(&mut self, labels: &[Label]) {
        for (label, value) in labels {
            if let Some((_, values)) = self.names.get_mut(usize::from(*label)) {
                values.release(*value);
            }
        }
    }

    /// The number of a label name, if it is counted.
    pub(in crate::stats) fn find(&self, name: &str) -> Option<u8> {
        let place = self.names.iter().position(|(known, _)| &**known == name)?;
        u8::try_from(place).ok()
    }

    pub(in crate::stats) fn values(&self, label: u8) -> Option<&Interner> {
        self.names.get(usize::from(label)).map(|(_, values)| values)
    }

    /// Whether a label name did not fit so far.
    pub(in crate::stats) fn overflowed(&self) -> bool {
        self.overflowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_bounded_in_their_names() {
        let mut labels = LabelTable::default();
        let all = (0..40).map(|n| (format!("{n:02}"), "x".to_owned())).collect();
        assert_eq!(labels.acquire(&all, false).len(), MAX_NAMES);
        assert!(labels.overflowed() && labels.find("15").is_some() && labels.find("16").is_none());
    }

    #[test]
    fn untrusted_attempts_cannot_exhaust_names_and_values() {
        let mut labels = LabelTable::default();
        let junk = (0..40).map(|n| (format!("junk-{n:02}"), "x".to_owned())).collect();
        assert_eq!(labels.acquire(&junk, true).len(), MAX_NAMES / 2);
        let ours = [("stage".to_owned(), "build".to_owned())].into();
        assert_eq!(labels.acquire(&ours, false).len(), 1, "there is room for what trusted ones count by");
        assert_eq!(labels.acquire(&ours, true).len(), 1, "what is known is known");
        let mut value = |n: usize, untrusted| {
            let one = [("stage".to_owned(), n.to_string())].into();
            labels.acquire(&one, untrusted)[0].1
        };
        for n in 0..MAX_VALUES / 2 + 10 {
            value(n, true);
        }
        assert_eq!(value(MAX_VALUES, true), crate::stats::attempts::interner::OTHERS);
        assert_ne!(value(MAX_VALUES, false), crate::stats::attempts::interner::OTHERS);
    }
}
