//! Decides where an attempt should run, from pools of builders, the operator's rules over key and predicted need, and the policy of each
//! kind of build.
//!
//! | module | |
//! |---|---|
//! | [`pool`] | a pool: what fits, its price, its nodes |
//! | [`hosts`] | standing machines of a pool, each given to one ticket at a time |
//! | [`kind`] | scratch, explicit, auto, isolated, orchestrator |
//! | [`nodes`] | nodes of a cluster, and how many builds of a kind they run at once |
//! | [`subject`] | the input of rules: the key and the prediction |
//! | [`os`] | Linux, Windows and others |
//! | [`names`] | names that Kubernetes accepts |
//! | [`pattern`] | regular expressions over whole texts, bounded |
//! | [`rule`] | one rule: what it matches and which pool it chooses |
//! | [`backtracking`] | expressions for which other engines may take exponential time |
//! | [`copr`] | parser of Copr's table of patterns and tags |
//! | [`file`] | parser of the operator's file, which reports all mistakes with their lines |
//! | [`lint`] | warnings: rules that can never match, rules shadowed by earlier ones |
//! | [`tickets`] | slots in pools, held and waited for |
//! | [`upstream`] | machines of another server, for which the tickets of a pool are passed on |
//! | [`choose`] | the pool for an attempt, and the reason |
//!
//! Pure: no I/O, no clock. The first rule that matches decides; if no rule matches, the cheapest pool that fits is used. If no pool fits,
//! the largest is used. The sizes are then lowered to its maximums, and the answer says so, because a size above the runner's maximum fails
//! the job.

mod backtracking;
mod choose;
mod copr;
mod file;
pub mod hosts;
mod kind;
mod lint;
mod names;
mod node;
mod nodes;
mod os;
mod pattern;
mod pool;
mod rule;
mod subject;
#[cfg(test)]
mod tests;
pub mod tickets;
pub mod upstream;

pub use choose::{PlacementTarget, PoolChoice, RuleTrace};
pub use copr::{CoprEntry, CoprError, CoprTable};
pub use kind::{BuildKind, KindPolicy};
pub use kind::{KIND_LABEL, PRIORITY_LABELS};
pub use lint::PoolFileWarning;
pub use node::{NodePlacement, Toleration};
pub use nodes::{KindsCapacity, Node};
pub use os::OperatingSystem;
pub use pool::{Pool, PoolMaximums, PoolPrice};
use rule::PlacementRule;
pub use subject::{ResourceNeeds, RuleSubject};
use tickets::LimitKey;
pub use tickets::TicketTerms;

/// Contents of the operator's file.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    pools: Vec<Pool>,
    kinds: Vec<(BuildKind, KindPolicy)>,
    nodes: Vec<Node>,
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

    /// Whether the pools of an operating system have different architectures.
    pub fn is_mixed(&self, os: OperatingSystem) -> bool {
        let mut archs = self.pools.iter().filter(|pool| pool.os == os).map(|pool| &pool.arch);
        archs.next().is_some_and(|first| archs.any(|other| other != first))
    }

    /// The currency of all prices, for people; empty if the file names none.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// The limits and times of tickets.
    pub fn terms(&self) -> &TicketTerms {
        &self.terms
    }

    /// Whether a ticket may name this tag: a pool has the tag, or a limit is set for it.
    pub fn knows_tag(&self, tag: &str) -> bool {
        let limited = || self.terms.limits.other_limits.contains_key(&LimitKey::Tag(tag.to_owned()));
        self.pools.iter().any(|pool| pool.tags.iter().any(|known| known == tag)) || limited()
    }

    /// Says why a build may not run in a pool, whatever its size; `None` if it may.
    pub fn bars(&self, subject: &RuleSubject<'_>, pool: &Pool) -> Option<String> {
        if !pool.allows(&subject.owner_project) {
            return Some(format!("pool {} is not for {:?}", pool.name, subject.owner_project));
        }
        (!pool.suits(subject)).then(|| pool.mismatch_reason(subject))
    }

    /// Number of rules.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// The policy of a kind of build.
    pub fn kind(&self, kind: BuildKind) -> Option<&KindPolicy> {
        self.kinds.iter().find(|(known, _)| *known == kind).map(|(_, policy)| policy)
    }

    /// The pool that a runner's tags name: the pool with a tag as its name, else the only pool that has one of the tags.
    pub fn named_by(&self, tags: &[String]) -> Option<&Pool> {
        if let Some(named) = tags.iter().find_map(|tag| self.pool(tag)) {
            return Some(named);
        }
        let mut tagged = self.pools.iter().filter(|pool| pool.tags.iter().any(|tag| tags.contains(tag)));
        tagged.next().filter(|_| tagged.next().is_none())
    }

    /// Node selector, tolerations and priority class for a pod of this key: those of the pool, merged with those of the kind.
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
