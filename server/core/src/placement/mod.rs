//! Where an attempt should run: pools of builders, the operator's rules over what is built and what it is predicted to need,
//! and what each kind of build gets beside that.
//!
//! | module | |
//! |---|---|
//! | [`pool`] | a pool: what fits it, what it costs, how a pod finds it |
//! | [`kind`] | scratch, explicit, auto, isolated |
//! | [`subject`] | what rules look at: the key, and what is predicted |
//! | [`os`] | Linux, Windows and others |
//! | [`names`] | what Kubernetes takes as a name |
//! | [`pattern`] | regular expressions over whole texts, bounded |
//! | [`rule`] | one rule: whom it takes, where to |
//! | [`copr`] | Copr's table of patterns and tags, as it is written there |
//! | [`file`] | the operator's file, with all mistakes and their lines |
//! | [`lint`] | rules that can never match, and rules behind others that take everything first |
//! | [`tickets`] | places in pools, held and waited for |
//! | [`choose`] | the pool for an attempt, and why |
//!
//! Pure. The first rule that takes an attempt decides; without one it is the cheapest pool that fits, and the largest if none
//! does: then the sizes are lowered to it and the answer says so, because a size above the runner's maximum fails the job.

mod choose;
mod copr;
mod file;
mod kind;
mod lint;
mod names;
mod node;
mod os;
mod pattern;
mod pool;
mod rule;
mod subject;
#[cfg(test)]
mod tests;
pub mod tickets;

pub use choose::{PlacementTarget, PoolChoice, RuleTrace};
pub use kind::{BuildKind, KindPolicy};
pub use kind::{LABEL, RAISING};
pub use lint::PoolFileWarning;
pub use node::{NodePlacement, Toleration};
pub use os::OperatingSystem;
pub use pool::{Pool, PoolMaximums, PoolPrice};
use rule::PlacementRule;
pub use subject::{ResourceNeeds, RuleSubject};
use tickets::LimitKey;
pub use tickets::TicketTerms;

/// Everything that the operator's file says.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    pools: Vec<Pool>,
    kinds: Vec<(BuildKind, KindPolicy)>,
    rules: Vec<PlacementRule>,
    currency: String,
    terms: TicketTerms,
}

impl Placement {
    /// All pools, in the order of the file.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// The pool with this name.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// Whether the pools of an operating system have processors of different families.
    pub fn is_mixed(&self, os: OperatingSystem) -> bool {
        let mut archs = self.pools.iter().filter(|pool| pool.os == os).map(|pool| &pool.arch);
        archs.next().is_some_and(|first| archs.any(|other| other != first))
    }

    /// The currency of all prices, for people; empty if the file names none.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// How places are shared.
    pub fn terms(&self) -> &TicketTerms {
        &self.terms
    }

    /// Whether a ticket may ask for this tag: a pool has it, or it is limited.
    pub fn knows_tag(&self, tag: &str) -> bool {
        let limited = || self.terms.limits.most.contains_key(&LimitKey::Tag(tag.to_owned()));
        self.pools.iter().any(|pool| pool.tags.iter().any(|known| known == tag)) || limited()
    }

    /// Why builds like this may not go into a pool, whatever their size; `None` if they may.
    pub fn bars(&self, subject: &RuleSubject<'_>, pool: &Pool) -> Option<String> {
        if !pool.allows(&subject.owner_project) {
            return Some(format!("pool {} is not for {:?}", pool.name, subject.owner_project));
        }
        (!pool.suits(subject)).then(|| pool.runs_instead(subject))
    }

    /// How many rules there are.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// What a kind of build gets.
    pub fn kind(&self, kind: BuildKind) -> Option<&KindPolicy> {
        self.kinds.iter().find(|(known, _)| *known == kind).map(|(_, policy)| policy)
    }

    /// The pool that a runner's tags name: one with the name of a tag, else the only one that has one of them.
    pub fn named_by(&self, tags: &[String]) -> Option<&Pool> {
        if let Some(named) = tags.iter().find_map(|tag| self.pool(tag)) {
            return Some(named);
        }
        let mut tagged = self.pools.iter().filter(|pool| pool.tags.iter().any(|tag| tags.contains(tag)));
        tagged.next().filter(|_| tagged.next().is_none())
    }

    /// How a pod of this key finds its nodes: what the pool asks for, and what the kind of build does.
    pub fn place(&self, subject: &RuleSubject<'_>, pool: Option<&Pool>) -> NodePlacement {
        let mut place = pool.map(|pool| pool.place.clone()).unwrap_or_default();
        let Some(policy) = self.kind(subject.kind) else { return place };
        let of_kind = policy.place.clone();
        place.node_selector.extend(of_kind.node_selector);
        place.tolerations.extend(of_kind.tolerations);
        let raised = Some(&policy.raised_priority_class).filter(|_| subject.security);
        let class = raised.filter(|class| !class.is_empty()).unwrap_or(&of_kind.priority_class);
        if !class.is_empty() {
            place.priority_class.clone_from(class);
        }
        place
    }
}
