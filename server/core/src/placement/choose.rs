//! Chooses the pool for an attempt, and says why.

use std::{cmp::Ordering, fmt::Write as _};

use plimsoll_proto::{figures, reasons::SizeBound};

use super::{
    OperatingSystem, Placement,
    node::NodePlacement,
    pool::{Pool, PoolMaximums},
    rule::{PlacementRule, RuleMismatch, RuleTarget, WhenBusy},
    subject::{ResourceNeeds, RuleSubject},
};
use crate::domain::{Bytes, Cores, PoolAssignment, Prediction, Quantity};

/// Where a pod should run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlacementTarget {
    /// Name of the pool; empty if there is none.
    pub pool: String,
    /// Node selector, tolerations and priority class for the pod.
    pub place: NodePlacement,
    /// One sentence that says why this pool was chosen.
    pub reason: String,
}

/// The pool chosen for an attempt.
#[derive(Debug, Clone)]
pub struct PoolChoice<'p> {
    /// The pool; `None` if no pool can run the attempt.
    pub pool: Option<&'p Pool>,
    /// Whether the attempt needs more than the pool's maximum.
    pub clamped: bool,
    /// One sentence that says why this pool was chosen.
    pub reason: String,
}

/// Input of a rule: the attempt, and how many builds run or wait in each pool.
#[derive(Clone, Copy)]
struct RuleQuestion<'q> {
    subject: &'q RuleSubject<'q>,
    needs: &'q ResourceNeeds,
    busy: &'q dyn Fn(&str) -> u32,
}

/// The result of one rule for a key: whether the rule decides, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleTrace {
    /// Name of the rule.
    pub rule: String,
    /// Line of the rule in the file.
    pub line: usize,
    /// Whether this rule decides.
    pub decides: bool,
    /// Why the rule matches or does not match.
    pub why: String,
}

impl Placement {
    /// Chooses the pool for an attempt. `busy` returns how many builds run or wait in a pool.
    pub fn choose(
        &self,
        subject: &RuleSubject<'_>,
        needs: &ResourceNeeds,
        busy: &dyn Fn(&str) -> u32,
    ) -> PoolChoice<'_> {
        for rule in &self.rules {
            if let Ok(choice) = self.apply_rule(rule, RuleQuestion { subject, needs, busy }) {
                return choice;
            }
        }
        let may: Vec<&Pool> =
            self.pools.iter().filter(|pool| !pool.by_rule && is_allowed_in(pool, subject)).collect();
        if may.is_empty() {
            let system = match subject.os {
                OperatingSystem::Linux => String::new(),
                other => format!("runs {}, ", other.as_str()),
            };
            let reason = format!(
                "no pool {system}has {} and lets {:?} in",
                subject.arch_words(),
                subject.owner_project
            );
            return PoolChoice { pool: None, clamped: false, reason };
        }
        pick_cheapest(&may, needs, "")
    }

    /// The pool for a ticket that names tags: it has all of these tags (tags that no pool has are ignored), and is not reserved for rules.
    /// A pool that is not full is preferred to a full one, then a cheaper pool. `None` if no pool suits the subject.
    pub fn choose_by_tags(
        &self,
        subject: &RuleSubject<'_>,
        needs: &ResourceNeeds,
        tags: &[String],
        busy: &dyn Fn(&str) -> u32,
    ) -> Option<&Pool> {
        let tags = tags.iter().filter(|tag| self.pools.iter().any(|pool| pool.tags.contains(tag)));
        let may = |pool: &&Pool| !pool.by_rule && is_allowed_in(pool, subject) && pool.has_tags(tags.clone());
        let fullness = |pool: &Pool| {
            let full = pool.at_once.map_or(0.0, |most| f64::from(busy(&pool.name)) / f64::from(most));
            if full < 1.0 { 0.0 } else { full }
        };
        let candidates = self.pools.iter().filter(may).map(|pool| (fullness(pool), pool));
        let order = |(one_full, one): &(f64, &Pool), (other_full, other): &(f64, &Pool)| {
            one_full.total_cmp(other_full).then_with(|| compare_price(one, other, needs))
        };
        candidates.min_by(order).map(|(_, pool)| pool)
    }

    /// Whether an attempt can be put into this pool at some load.
    pub fn can_place(&self, subject: &RuleSubject<'_>, needs: &ResourceNeeds, pool: &Pool) -> bool {
        // the load does not change which rule decides, only which of the rule's two pools is used
        [0, u32::MAX].iter().any(|there| {
            let chosen = self.choose(subject, needs, &|_| *there).pool;
            chosen.is_some_and(|chosen| chosen.name == pool.name)
        })
    }

    /// Adds the chosen pool to a prediction, and lowers sizes above the pool's maximums.
    #[must_use]
    pub fn put_in_pool(
        &self,
        subject: &RuleSubject<'_>,
        mut prediction: Prediction,
        busy: &dyn Fn(&str) -> u32,
    ) -> Prediction {
        if self.pools.is_empty() {
            return prediction;
        }
        let choice = self.choose(subject, &ResourceNeeds::of(&prediction), busy);
        if let Some(pool) = choice.pool {
            lower_to_maximums(&mut prediction, pool);
        }
        let pool = choice.pool.map(|pool| pool.name.clone()).unwrap_or_default();
        prediction.placed = PoolAssignment { pool, clamped: choice.clamped, reason: choice.reason };
        prediction
    }

    /// What each rule does with a key, in the order of the rules; for people who write rules.
    pub fn trace_rules(
        &self,
        subject: &RuleSubject<'_>,
        needs: &ResourceNeeds,
        busy: &dyn Fn(&str) -> u32,
    ) -> Vec<RuleTrace> {
        let mut decided = false;
        let look = |rule: &PlacementRule| {
            let (decides, why) = match self.apply_rule(rule, RuleQuestion { subject, needs, busy }) {
                Ok(_) if decided => (false, "would take it, but one before it does".to_owned()),
                Ok(choice) => (true, choice.reason),
                Err(why_not) => (false, why_not.reason_words(subject, needs)),
            };
            decided |= decides;
            RuleTrace { rule: rule.name.clone(), line: rule.line, decides, why }
        };
        self.rules.iter().map(look).collect()
    }

    /// Applies a rule, or says why it does not match.
    fn apply_rule<'p>(
        &'p self,
        rule: &'p PlacementRule,
        question: RuleQuestion<'_>,
    ) -> Result<PoolChoice<'p>, RuleMismatch<'p>> {
        let RuleQuestion { subject, needs, .. } = question;
        let more = rule.matching_tags(subject, needs)?;
        let wanted = self.wanted_pools(rule, &more);
        let may: Vec<&Pool> = wanted.iter().copied().filter(|pool| is_allowed_in(pool, subject)).collect();
        if may.is_empty() {
            let first = wanted.first().copied();
            return Err(first.map_or_else(|| RuleMismatch::NoPool(rule.pool_tags(more)), RuleMismatch::Pool));
        }
        let choice = pick_cheapest(&may, needs, &rule.describe());
        Ok(match &rule.when_busy {
            Some(instead) => self.replace_if_busy(instead, choice, question),
            None => choice,
        })
    }

    /// The pools that a rule chooses from; `more`: further tags.
    fn wanted_pools(&self, rule: &PlacementRule, more: &[String]) -> Vec<&Pool> {
        match &rule.target {
            RuleTarget::Pool(name) => self.pool(name).into_iter().collect(),
            RuleTarget::Tags(tags) => {
                let has = |pool: &&Pool| tags.iter().chain(more).all(|tag| pool.tags.contains(tag));
                self.pools.iter().filter(has).collect()
            }
        }
    }

    /// If the chosen pool is busy: the rule's other pool, if the attempt may run there and fits.
    fn replace_if_busy<'p>(
        &'p self,
        instead: &WhenBusy,
        choice: PoolChoice<'p>,
        question: RuleQuestion<'_>,
    ) -> PoolChoice<'p> {
        let RuleQuestion { subject, needs, busy } = question;
        let Some(chosen) = choice.pool else { return choice };
        let there = busy(&chosen.name);
        let is_busy = instead.from.or(chosen.at_once).is_some_and(|from| there >= from);
        // the other pool is not used if it is too small, because waiting is better than too little memory
        let helps = |other: &&Pool| is_busy && is_allowed_in(other, subject) && other.fits(needs);
        let Some(other) = self.pool(&instead.pool).filter(helps) else { return choice };
        let why = format!("{}, but {there} builds run or wait there", choice.reason);
        let other = pick_cheapest(&[other], needs, "instead");
        PoolChoice { reason: format!("{why}: {}", other.reason), ..other }
    }
}

/// Whether an attempt can run in a pool and is allowed to, whatever its size.
fn is_allowed_in(pool: &Pool, subject: &RuleSubject<'_>) -> bool {
    pool.suits(subject) && pool.allows(&subject.owner_project)
}

/// Orders two pools by price. At equal cost, pools that are not created on demand come first, then the smaller one.
fn compare_price(one: &Pool, other: &Pool, needs: &ResourceNeeds) -> Ordering {
    let price = |pool: &Pool| pool.price.of(needs);
    price(one)
        .total_cmp(&price(other))
        .then(one.on_demand.cmp(&other.on_demand))
        .then(one.compare_size(other))
}

/// The cheapest pool that fits, else the largest pool. `may` is not empty.
fn pick_cheapest<'p>(may: &[&'p Pool], needs: &ResourceNeeds, because: &str) -> PoolChoice<'p> {
    let because = if because.is_empty() { String::new() } else { format!(", {because}") };
    let fitting: Vec<&'p Pool> =
        may.iter().copied().filter(|pool| pool.exceeded_maximums(needs).is_empty()).collect();
    let cheapest = fitting.iter().copied().min_by(|one, other| compare_price(one, other, needs));
    if let Some(pool) = cheapest {
        let mut reason = format!("pool {}{because}", pool.name);
        if fitting.len() > 1 {
            let _written = write!(reason, ", the cheapest of {} that fit", fitting.len());
        }
        return PoolChoice { pool: Some(pool), clamped: false, reason };
    }
    let largest = may.iter().copied().max_by(|one, other| one.compare_size(other));
    let Some(pool) = largest else {
        return PoolChoice { pool: None, clamped: false, reason: String::new() };
    };
    let words = pool.exceeded_maximums(needs).join(", ");
    let which = if may.len() > 1 { ", the largest" } else { "" };
    PoolChoice {
        pool: Some(pool),
        clamped: true,
        reason: format!("pool {}{because}{which}: {words}", pool.name),
    }
}

/// Lowers sizes to the pool's maximums, and says so in each reason.
fn lower_to_maximums(prediction: &mut Prediction, pool: &Pool) {
    let PoolMaximums { memory_request, memory_limit, cpu_request, cpu_limit } = pool.maximums;
    // whole MiB: sizes are written rounded up, and the runner refuses a job that requests more than its maximum
    let whole = |bytes: u64| bytes - bytes % Bytes::MIB.0;
    let memory = |most: Option<Bytes>| most.map(|most| (whole(most.0), most.to_string()));
    let milli = |most: Option<Cores>| {
        most.map(|most| (plimsoll_base::quantity::rounded_millicores(most.0), figures::cores_named(most.0)))
    };
    let lower_to = |quantity: &mut Quantity, most: Option<(u64, String)>| {
        if let Some((most, words)) = most.filter(|(most, _)| *most < quantity.value) {
            quantity.value = most;
            quantity.basis.bound = SizeBound::Pool(pool.name.clone(), words);
            // the share of builds that the lowered size covers is not known here
            quantity.basis.quantile = 0.0;
        }
    };
    lower_to(&mut prediction.memory_request, memory(memory_request));
    lower_to(&mut prediction.memory_limit, memory(memory_limit));
    lower_to(&mut prediction.cpu_request, milli(cpu_request));
    lower_to(&mut prediction.cpu_limit, milli(cpu_limit));
    // the limit may have been lowered, and the runner refuses a request above the limit
    let most = prediction.memory_limit.value;
    lower_to(&mut prediction.memory_request, Some((most, Bytes(most).to_string())));
    let most = prediction.cpu_limit.value;
    lower_to(&mut prediction.cpu_request, Some((most, figures::cores_named(figures::float(most) / 1000.0))));
}
