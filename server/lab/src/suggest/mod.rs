//! Who deserves the powerful builder: packages of projects that a builder with more cores would finish much sooner, and those on the list
//! of powerful builders that it does not.
//!
//! ```text
//! file -> groups (attempts of one package of a project) -> speed (time on each builder) -> verdicts -> text, JSON, Copr's list
//! ```
//!
//! Time on a builder is measured, where enough attempts ran in its pool. Else it follows from the attempts' numbers of build jobs and
//! their CPU time (`speed`). Attempts that did not succeed, untrusted ones and those that built nothing are left out.

mod groups;
mod list;
mod report;
mod speed;
#[cfg(test)]
mod tests;

use plimsoll_core::{
    domain::Millis,
    placement::{CoprTable, Pool, ResourceNeeds},
};

pub use groups::{BuildGroup, RecordedBuilds};
pub use list::new_list;
pub use report::{json, text};
pub use speed::{BuilderTimes, SpeedBasis};

/// Fewest attempts of a package that are enough for a suggestion.
pub const MIN_SUCCESSFUL_BUILDS: u64 = plimsoll_core::recommend::MIN_ATTEMPTS_FOR_PROPOSAL;

/// A pool of builders, as far as a suggestion needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Builder {
    /// Name of the pool.
    pub name: String,
    /// Number of cores of one builder.
    pub cores: u32,
    /// Price of one builder for one hour.
    pub price_hour: f64,
    /// Architecture as `uname -m` names it; empty: any.
    pub arch: String,
}

impl Builder {
    /// The builders of a pool of the pools file.
    /// Errors: the file does not say their cores and memory.
    pub fn of(pool: &Pool) -> Result<Self, String> {
        let (Some(cores), Some(memory)) = pool.builder else {
            return Err(format!(
                "pool {}: the pools file does not say cores and memory of its builders",
                pool.name
            ));
        };
        let whole = ResourceNeeds { memory_request: memory, cpu_request: cores, ..ResourceNeeds::default() };
        let jobs = u32::try_from(Millis::from_f64(cores.0).0).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            name: pool.name.clone(),
            cores: jobs,
            price_hour: pool.price.of(&whole),
            arch: pool.arch.clone(),
        })
    }
}

/// When a powerful builder is worth its price.
#[derive(Debug, Clone)]
pub struct SuggestTerms {
    /// The usual builders.
    pub normal: Builder,
    /// The powerful ones.
    pub powerful: Builder,
    /// Shortest time on a usual builder for which a powerful one is suggested.
    pub at_least: Millis,
    /// Least speed-up.
    pub speedup: f64,
    /// Highest price of an hour that the powerful builder saves; `None`: any price.
    pub hour_worth: Option<f64>,
}

impl SuggestTerms {
    /// The architecture of both pools; empty: any.
    pub fn arch(&self) -> &str {
        if self.normal.arch.is_empty() { &self.powerful.arch } else { &self.normal.arch }
    }

    /// Whether both pools run builds of an architecture family. An empty family is that of a build without architecture, which any pool
    /// runs.
    pub(crate) fn can_run(&self, family: &str) -> bool {
        family.is_empty()
            || [&self.normal, &self.powerful].iter().all(|pool| ["", family].contains(&pool.arch.as_str()))
    }
}

/// Whether a package is on the list of packages for the powerful builder, and whether it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListVerdict {
    /// The package is not on the list, or only for some of its chroots, and would profit.
    Add,
    /// The package is on the list, and profits.
    Keep,
    /// The package is on the list, or for some of its chroots, and does not profit.
    Remove,
    /// The package is not on the list, and would not profit.
    LeaveOut,
    /// Too little is known of the package; its entry in the list stays as it is.
    Unknown,
    /// The package is built for another architecture than that of the pools; its entry in the list stays as it is.
    OtherArch,
}

/// What is known of one package of a project.
#[derive(Debug, Clone)]
pub struct Suggestion<'g> {
    /// The package's attempts.
    pub group: &'g BuildGroup,
    /// Whether the list has all chroots of the package.
    pub listed: bool,
    /// The package's time on both builders; `None` if too little is known.
    pub times: Option<BuilderTimes>,
    /// What to do with the package's entry in the list.
    pub verdict: ListVerdict,
}

impl Suggestion<'_> {
    /// Number of builds in a month; if the file has no times, the number of builds in the file.
    fn counted_builds(&self) -> f64 {
        self.group.per_month.unwrap_or_else(|| f64::from(self.group.builds))
    }

    /// Hours that the powerful builder saves in a month, or in a file without times; 0 if its speed is not known.
    pub fn hours_saved(&self) -> f64 {
        self.times.map_or(0.0, |times| times.saved().hours() * self.counted_builds())
    }

    /// The additional price of the powerful builder in a month, or for the builds of a file without times; negative if it is cheaper.
    pub fn money_more(&self, terms: &SuggestTerms) -> f64 {
        self.times.map_or(0.0, |times| times.cost_more(terms) * self.counted_builds())
    }
}

/// A suggestion for each group, those that save most hours first.
pub fn suggest<'g>(
    builds: &'g RecordedBuilds,
    list: &CoprTable,
    tag: &str,
    terms: &SuggestTerms,
) -> Vec<Suggestion<'g>> {
    let judge = |group: &'g BuildGroup| {
        let tagged = group.names.iter().filter(|name| has_tag(list, name, tag)).count();
        let listed = tagged > 0 && group.names.len() == tagged;
        if !terms.can_run(group.family) {
            return Suggestion { group, listed, times: None, verdict: ListVerdict::OtherArch };
        }
        let times = speed::times_of(group, terms);
        let verdict = match times.map(|times| profits(&times, terms)) {
            None => ListVerdict::Unknown,
            Some(true) if listed => ListVerdict::Keep,
            Some(true) => ListVerdict::Add,
            Some(false) if tagged > 0 => ListVerdict::Remove,
            Some(false) => ListVerdict::LeaveOut,
        };
        Suggestion { group, listed, times, verdict }
    };
    let mut all: Vec<Suggestion<'g>> = builds.groups.iter().map(judge).collect();
    all.sort_by(|one, other| other.hours_saved().total_cmp(&one.hours_saved()));
    all
}

/// Whether a list gives `owner/project/arch/package` a tag.
fn has_tag(list: &CoprTable, name: &str, tag: &str) -> bool {
    list.tags(name).is_some_and(|tags| tags.iter().any(|of_list| of_list == tag))
}

fn profits(times: &BuilderTimes, terms: &SuggestTerms) -> bool {
    let is_worth = |worth: f64| times.cost_more(terms) <= worth * times.saved().hours();
    times.normal >= terms.at_least
        && times.speedup() >= terms.speedup
        && terms.hour_worth.is_none_or(is_worth)
}
