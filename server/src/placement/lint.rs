//! Rules that can never match, and rules behind others that take everything first. What is said is certain; what is not said
//! may still be so.

use std::fmt;

use plimsoll_proto::limits;

use super::{
    Placement,
    kind::Kind,
    pattern::Pattern,
    pool::Pool,
    rule::{Field, Rule, Wanted},
    subject::REF_CLASSES,
};

/// Something that is allowed and surely not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Line of the file, from 1.
    pub line: usize,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl Placement {
    /// What is surely not meant, in the order of the file.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut found = Vec::new();
        for (at, rule) in self.rules.iter().enumerate() {
            let dead = rule.fields.iter().find(|(field, pattern)| is_dead(field, pattern));
            if let Some((field, pattern)) = dead {
                let text =
                    format!("rule {}: no {} can match '{}'", rule.name, field.name(), pattern.as_str());
                found.push(Warning { line: rule.line, text });
                continue;
            }
            let mut before = self.rules.iter().take(at);
            if let Some(first) = before.find(|first| self.takes_all_of(first, rule)) {
                let text = format!(
                    "rule {}: never reached, {} takes all that it would",
                    rule.name,
                    first.describe()
                );
                found.push(Warning { line: rule.line, text });
            }
        }
        found
    }

    /// Whether `first` takes whatever `rule` would.
    fn takes_all_of(&self, first: &Rule, rule: &Rule) -> bool {
        let fields = first.fields.iter().all(|(field, pattern)| {
            rule.fields.iter().any(|(other, narrow)| other == field && pattern.covers(narrow))
        });
        let over = first.over.iter().all(|over| rule.over.iter().any(|other| over.covers(*other)));
        fields && over && first.copr.is_none() && self.lets_in_all_of(first, rule)
    }

    /// Whether one of the pools of `first` takes every attempt for which `rule` has a pool: it asks nobody who they are, and
    /// has the same processors.
    fn lets_in_all_of(&self, first: &Rule, rule: &Rule) -> bool {
        let of = |rule: &Rule| -> Vec<&Pool> {
            match &rule.wanted {
                Wanted::Pool(name) => self.pool(name).into_iter().collect(),
                Wanted::Tags(tags) => {
                    self.pools.iter().filter(|pool| tags.iter().all(|tag| pool.tags.contains(tag))).collect()
                }
            }
        };
        let narrow = of(rule);
        of(first)
            .into_iter()
            .filter(|pool| pool.allowed.is_empty())
            .any(|pool| pool.arch.is_empty() || narrow.iter().all(|other| other.arch == pool.arch))
    }
}

/// Whether no value of a field can match.
fn is_dead(field: &Field, pattern: &Pattern) -> bool {
    let most = limits::KEY_FIELD_BYTES;
    match field {
        Field::RefClass => REF_CLASSES.into_iter().all(|class| !pattern.is_match(class)),
        Field::Kind => Kind::ALL.into_iter().all(|kind| !pattern.is_match(kind.as_str())),
        Field::Label(_) => pattern.never_within(limits::LABEL_BYTES),
        // owner, project, arch and package with their slashes
        Field::Key => pattern.never_within(4 * most + 3),
        Field::Project => pattern.never_within(2 * most + 1),
        _ => pattern.never_within(most),
    }
}
