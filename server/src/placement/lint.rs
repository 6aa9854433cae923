//! Rules that can never match or lead nowhere, rules behind others that take everything first, and pools that nothing goes to. What
//! is said is certain; what is not said may still be so.

mod pools;

use std::fmt;

use plimsoll_proto::limits;

use super::{
    Placement,
    kind::Kind,
    pattern::Pattern,
    rule::{Field, Rule},
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
        // those that may take something: no other one hides a rule
        let mut alive: Vec<&Rule> = Vec::new();
        for rule in &self.rules {
            let dead = rule.fields.iter().find(|(field, pattern)| is_dead(field, pattern));
            let dead =
                dead.map(|(field, pattern)| format!("no {} can match '{}'", field.name(), pattern.as_str()));
            let hidden = || {
                let first = alive.iter().find(|first| self.takes_all_of(first, rule))?;
                Some(format!("never reached, {} takes all that it would", first.describe()))
            };
            match dead.or_else(|| self.leads_nowhere(rule)).or_else(hidden) {
                Some(why) => {
                    let text = format!("rule {}: {why}", rule.name);
                    found.push(Warning { line: rule.line, text });
                }
                None => {
                    found.extend(self.dead_entries(rule));
                    alive.push(rule);
                }
            }
        }
        found.extend(self.odd_pools(&alive));
        found.sort_by_key(|warning| warning.line);
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
        let narrow = self.meant(rule);
        self.meant(first)
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
        // what has no name has no value
        Field::Label(name) if name.is_empty() => !pattern.is_match(""),
        Field::Label(_) => pattern.never_within(limits::LABEL_BYTES),
        // owner, project, arch and package with their slashes
        Field::Key => pattern.never_within(4 * most + 3),
        Field::Project => pattern.never_within(2 * most + 1),
        _ => pattern.never_within(most),
    }
}
