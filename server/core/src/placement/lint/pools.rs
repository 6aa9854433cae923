//! Warnings about combinations of rules and pools: rules without a usable pool, and pools that get no builds.

use super::{Placement, PoolFileWarning};
use crate::placement::{
    copr::CoprTable,
    pattern::Pattern,
    pool::{Pool, PoolPrice},
    rule::{PlacementRule, RuleField},
};

impl Placement {
    /// Says why a rule never puts a build anywhere: its pools refuse all projects that the rule matches.
    pub(super) fn pools_refuse_all(&self, rule: &PlacementRule) -> Option<String> {
        let pools = self.pools_of(rule);
        let bars = |pattern: &Pattern| pools.iter().all(|pool| refuses_all(pool, pattern));
        let (field, pattern) =
            rule.fields.iter().find(|(field, pattern)| *field == RuleField::Project && bars(pattern))?;
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        let text = pattern.as_str();
        Some(format!(
            "{} '{text}' matches no project that its pools allow ({})",
            field.name(),
            names.join(", ")
        ))
    }

    /// Warnings about entries of a Copr table with tags that no single pool has: builds that match such an entry get no pool from the rule.
    pub(super) fn entries_without_pool(&self, rule: &PlacementRule) -> Vec<PoolFileWarning> {
        let pools = self.pools_of(rule);
        let of_copr = |copr: &CoprTable| -> Vec<PoolFileWarning> {
            let without =
                copr.entries.iter().filter(|entry| !pools.iter().any(|pool| has_tags(pool, &entry.tags)));
            let warnings = without.map(|entry| PoolFileWarning {
                line: copr.lines_before + entry.line,
                text: format!(
                    "rule {}: copr: no pool has all of the tags {}",
                    rule.name,
                    entry.tags.join(", ")
                ),
            });
            warnings.collect()
        };
        rule.copr.as_ref().map(of_copr).unwrap_or_default()
    }

    /// Warnings about pools that get no builds, and about pools with a price that is probably incomplete. `rules`: the rules that can
    /// match.
    pub(super) fn pool_warnings(&self, rules: &[&PlacementRule]) -> Vec<PoolFileWarning> {
        let free = |pool: &Pool| pool.price == PoolPrice::default();
        let is_mixed = self.pools.iter().any(free) && !self.pools.iter().all(free);
        let mut found = Vec::new();
        for pool in &self.pools {
            let mut tell = |why: &str| {
                found.push(PoolFileWarning { line: pool.line, text: format!("pool {}: {why}", pool.name) });
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

    fn may_put(&self, rule: &PlacementRule, pool: &Pool) -> bool {
        let instead = rule.when_busy.as_ref().is_some_and(|busy| busy.pool == pool.name);
        let of_copr = rule
            .copr
            .as_ref()
            .is_none_or(|copr| copr.entries.iter().any(|entry| has_tags(pool, &entry.tags)));
        instead || (of_copr && self.pools_of(rule).iter().any(|one| one.name == pool.name))
    }
}

/// Whether a pool refuses every project that the expression matches.
fn refuses_all(pool: &Pool, pattern: &Pattern) -> bool {
    !pool.allowed.is_empty() && pool.allowed.iter().all(|allowed| allowed.never_overlaps(pattern))
}

fn has_tags(pool: &Pool, tags: &[String]) -> bool {
    tags.iter().all(|tag| pool.tags.contains(tag))
}
