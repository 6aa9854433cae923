//! What rules and pools say of each other: rules for which there is no pool, and pools that nothing goes to.

use super::{Placement, Warning};
use crate::placement::{
    copr::Entry,
    pattern::Pattern,
    pool::{Pool, Price},
    rule::{Field, Rule, Wanted},
};

impl Placement {
    /// The pools that a rule may mean, whoever asks. Copr's table only leaves fewer of them.
    pub(super) fn meant(&self, rule: &Rule) -> Vec<&Pool> {
        match &rule.wanted {
            Wanted::Pool(name) => self.pool(name).into_iter().collect(),
            Wanted::Tags(tags) => self.pools.iter().filter(|pool| has(pool, tags)).collect(),
        }
    }

    /// Why a rule puts nothing anywhere, whatever its expressions match; `None` if it may.
    pub(super) fn leads_nowhere(&self, rule: &Rule) -> Option<String> {
        let meant = self.meant(rule);
        if let (Wanted::Tags(tags), true) = (&rule.wanted, meant.is_empty()) {
            return Some(format!("no pool has all of the tags {}", tags.join(", ")));
        }
        let all_without = |entry: &Entry| meant.iter().all(|pool| !has(pool, &entry.tags));
        if rule.copr.as_ref().is_some_and(|copr| copr.entries.iter().all(all_without)) {
            return Some("no pool has all of the tags of one entry of copr".to_owned());
        }
        rule.fields.iter().find_map(|(field, pattern)| {
            let why = if meant.iter().all(|pool| is_of_others(pool, field, pattern)) {
                "no processors of its pools"
            } else if meant.iter().all(|pool| bars_all(pool, field, pattern)) {
                "nobody whom its pools allow"
            } else {
                return None;
            };
            let names: Vec<&str> = meant.iter().map(|pool| pool.name.as_str()).collect();
            Some(format!("{} '{}' matches {why} ({})", field.name(), pattern.as_str(), names.join(", ")))
        })
    }

    /// Entries of Copr's tables whose tags no pool has together: whom they match the rule does not take.
    pub(super) fn dead_entries(&self, rule: &Rule) -> Vec<Warning> {
        let meant = self.meant(rule);
        let entries = rule.copr.iter().flat_map(|copr| &copr.entries);
        let dead = entries.filter(|entry| meant.iter().all(|pool| !has(pool, &entry.tags)));
        let told = dead.map(|entry| {
            let (name, line, tags) = (&rule.name, entry.line, entry.tags.join(", "));
            let text =
                format!("rule {name}: copr, line {line} of the table: no pool has all of the tags {tags}");
            Warning { line: rule.line, text }
        });
        told.collect()
    }

    /// Pools that nothing goes to, and those that look cheaper than they are. `rules` are those that may take something.
    pub(super) fn odd_pools(&self, rules: &[&Rule]) -> Vec<Warning> {
        let free = |pool: &Pool| pool.price == Price::default();
        let is_mixed = self.pools.iter().any(free) && !self.pools.iter().all(free);
        let mut found = Vec::new();
        for pool in &self.pools {
            let mut tell = |why: &str| {
                found.push(Warning { line: pool.line, text: format!("pool {}: {why}", pool.name) });
            };
            if is_mixed && free(pool) {
                tell("has no price, and others have: it counts as the cheapest");
            }
            if pool.by_rule && !rules.iter().any(|rule| self.may_put(rule, pool)) {
                tell("only a rule puts builds there (by_rule), and none does");
            }
        }
        found
    }

    fn may_put(&self, rule: &Rule, pool: &Pool) -> bool {
        let instead = rule.when_busy.as_ref().is_some_and(|busy| busy.pool == pool.name);
        let of_copr =
            rule.copr.as_ref().is_none_or(|copr| copr.entries.iter().any(|entry| has(pool, &entry.tags)));
        instead || (of_copr && self.meant(rule).iter().any(|meant| meant.name == pool.name))
    }
}

/// Whether a pool runs no processors that match.
fn is_of_others(pool: &Pool, field: &Field, pattern: &Pattern) -> bool {
    let families = Some(pattern).filter(|_| *field == Field::Arch).and_then(Pattern::families);
    families.is_some_and(|families| !pool.arch.is_empty() && !families.contains(&pool.arch.as_str()))
}

/// Whether a pool lets nobody in whose project matches.
fn bars_all(pool: &Pool, field: &Field, pattern: &Pattern) -> bool {
    *field == Field::Project
        && !pool.allowed.is_empty()
        && pool.allowed.iter().all(|allowed| allowed.is_apart(pattern))
}

fn has(pool: &Pool, tags: &[String]) -> bool {
    tags.iter().all(|tag| pool.tags.contains(tag))
}
