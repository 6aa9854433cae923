//! Warns about a valid operator's file: rules that can never match or have no pool, rules shadowed by earlier ones, and pools that get no
//! builds. Every warning is certainly right, but a file without warnings may still have such rules and pools.

mod pools;

use std::fmt;

use plimsoll_proto::limits;

use super::{
    Placement,
    kind::BuildKind,
    pattern::Pattern,
    pool::Pool,
    rule::{PlacementRule, RuleField, RuleTarget},
    subject::{self, REF_CLASSES},
};

/// A warning: something that is valid, but certainly a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolFileWarning {
    /// Line of the file, from 1.
    pub line: usize,
    /// What is wrong, as text for people.
    pub text: String,
}

impl fmt::Display for PoolFileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl Placement {
    /// All warnings, in the order of the file.
    pub fn warnings(&self) -> Vec<PoolFileWarning> {
        let mut found = Vec::new();
        // the rules so far that can match, because no earlier rule shadows them
        let mut alive: Vec<&PlacementRule> = Vec::new();
        for rule in &self.rules {
            let dead = rule.fields.iter().find(|(field, pattern)| is_dead(field, pattern));
            let dead = dead.map(|(field, pattern)| no_match_warning(field, pattern));
            if let Some(why) =
                dead.or_else(|| self.no_pool_reason(rule)).or_else(|| self.pools_refuse_all(rule))
            {
                found.push(PoolFileWarning { line: rule.line, text: format!("rule {}: {why}", rule.name) });
                continue;
            }
            found.extend(dead_entries(rule));
            found.extend(self.entries_without_pool(rule));
            let Some(first) = alive.iter().find(|first| self.matches_all_of(first, rule)) else {
                alive.push(rule);
                continue;
            };
            let text =
                format!("rule {}: never reached, {} takes all that it would", rule.name, first.describe());
            found.push(PoolFileWarning { line: rule.line, text });
        }
        found.extend(self.pool_warnings(&alive));
        found.sort_by_key(|warning| warning.line);
        found
    }

    /// Whether `first` matches everything that `rule` matches.
    fn matches_all_of(&self, first: &PlacementRule, rule: &PlacementRule) -> bool {
        let fields = first.fields.iter().all(|(field, pattern)| {
            let narrower =
                || rule.fields.iter().any(|(other, narrow)| other == field && pattern.covers(narrow));
            matches_any(field, pattern) || narrower()
        });
        let over =
            first.thresholds.iter().all(|over| rule.thresholds.iter().any(|other| over.covers(*other)));
        fields && over && first.copr.is_none() && self.accepts_all_of(first, rule)
    }

    /// Says why a rule never puts a build anywhere.
    fn no_pool_reason(&self, rule: &PlacementRule) -> Option<String> {
        if let (RuleTarget::Tags(tags), true) = (&rule.target, self.pools_of(rule).is_empty()) {
            return Some(format!("no pool has all of the tags {}", tags.join(", ")));
        }
        let (_, pattern) = rule.fields.iter().find(|(field, _)| *field == RuleField::Arch)?;
        let named = |archs: Vec<String>| archs.iter().map(|arch| subject::named_family(arch)).collect();
        let texts = pattern.matching_texts().filter(|archs| !archs.is_empty());
        let families: Vec<&str> = texts.map(named).or_else(|| pattern.arch_families())?;
        let runs = |pool: &Pool| families.iter().any(|family| pool.runs_arch(family));
        let pools = self.pools_of(rule);
        let names = || pools.iter().map(|pool| format!("{} ({})", pool.name, pool.arch)).collect::<Vec<_>>();
        (!pools.iter().any(|pool| runs(pool))).then(|| {
            format!("nothing that matches arch '{}' runs in {}", pattern.as_str(), names().join(", "))
        })
    }

    /// The pools that a rule may use. With a Copr table, only those that it certainly may use.
    fn pools_of(&self, rule: &PlacementRule) -> Vec<&Pool> {
        match &rule.target {
            RuleTarget::Pool(name) => self.pool(name).into_iter().collect(),
            RuleTarget::Tags(tags) => {
                self.pools.iter().filter(|pool| tags.iter().all(|tag| pool.tags.contains(tag))).collect()
            }
        }
    }

    /// Whether for every attempt that `rule` has a pool for, one of the pools of `first` accepts it: any owner, and the same architecture.
    fn accepts_all_of(&self, first: &PlacementRule, rule: &PlacementRule) -> bool {
        let narrow = self.pools_of(rule);
        self.pools_of(first).into_iter().filter(|pool| pool.allowed.is_empty()).any(|pool| {
            let same =
                |other: &&Pool| other.os == pool.os && (pool.arch.is_empty() || other.arch == pool.arch);
            narrow.iter().all(same)
        })
    }
}

fn no_match_warning(field: &RuleField, pattern: &Pattern) -> String {
    format!("no {} can match '{}'", field.name(), pattern.as_str())
}

/// Warnings about entries of a Copr table that no key can match.
fn dead_entries(rule: &PlacementRule) -> impl Iterator<Item = PoolFileWarning> {
    rule.copr.iter().flat_map(|copr| {
        let dead = copr.entries.iter().filter(|entry| is_dead(&RuleField::Key, &entry.pattern));
        dead.map(|entry| PoolFileWarning {
            line: copr.lines_before + entry.line,
            text: format!("rule {}: copr: {}", rule.name, no_match_warning(&RuleField::Key, &entry.pattern)),
        })
    })
}

/// Whether the expression matches every value of the field; false if that cannot be decided.
fn matches_any(field: &RuleField, pattern: &Pattern) -> bool {
    match field {
        RuleField::RefClass => REF_CLASSES.into_iter().all(|class| pattern.is_match(class)),
        RuleField::Kind => BuildKind::ALL.into_iter().all(|kind| pattern.is_match(kind.as_str())),
        _ => pattern.is_any(),
    }
}

/// Whether the expression matches no possible value of the field.
fn is_dead(field: &RuleField, pattern: &Pattern) -> bool {
    let most = limits::KEY_FIELD_BYTES;
    match field {
        RuleField::RefClass => REF_CLASSES.into_iter().all(|class| !pattern.is_match(class)),
        RuleField::Kind => BuildKind::ALL.into_iter().all(|kind| !pattern.is_match(kind.as_str())),
        // a label without a name has no value
        RuleField::Label(name) if name.is_empty() => !pattern.is_match(""),
        RuleField::Label(_) => pattern.never_within(limits::LABEL_BYTES),
        // the text has owner, project, arch and package, and three slashes
        RuleField::Key => pattern.never_within(4 * most + 3),
        RuleField::Project => pattern.never_within(2 * most + 1),
        _ => pattern.never_within(most),
    }
}
