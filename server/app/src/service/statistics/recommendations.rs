//! What each job or package should request, against what it requests today.
//!
//! Attempts and predictions are in memory; what the newest attempts had is read from disk, for the rows of the answer alone.

use std::sync::Arc;

use plimsoll_core::{
    domain::Millis,
    recommend::{DAY, Draft, MONTH, ProposalTerms, Recommendation, Sizes, propose},
    stats::{Filter, WorkloadQuestion, Workloads},
};

use super::{SizingService, StatisticsService, prices};
use crate::{access::identity::Identity, runtime::clock::Clock, service::Refusal};

/// A question about proposals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecommendQuestion {
    /// Project, stack, package and times alone; without a beginning it is the last month.
    pub(crate) filter: Filter,
    /// Price of a GiB for an hour in every pool.
    pub(crate) gib_hour: Option<f64>,
    /// Confidence below which nothing is proposed.
    pub(crate) least_confidence: f64,
    /// Rows at most.
    pub(crate) most: usize,
}

/// Proposals, and what they are over.
#[derive(Debug)]
pub(crate) struct RecommendationAnswer {
    pub(crate) rows: Vec<Recommendation>,
    /// Packages that are not among the rows.
    pub(crate) left_out: u64,
    pub(crate) window: Millis,
    pub(crate) priced: bool,
    pub(crate) currency: String,
    pub(crate) notes: Vec<String>,
}

impl StatisticsService {
    /// What each package should request, by the predictions of `sizing`.
    ///
    /// # Errors
    /// The caller may not ask it, too many are asked at once, or the store cannot be read.
    pub(crate) async fn recommend(
        &self,
        caller: &Arc<Identity>,
        sizing: &SizingService,
        question: RecommendQuestion,
    ) -> Result<RecommendationAnswer, Refusal> {
        let RecommendQuestion { mut filter, gib_hour, least_confidence, most } = question;
        caller.may_see("project", &filter.project).map_err(Refusal::Forbidden)?;
        let until = filter.to_unix_ms.unwrap_or_else(|| Clock.now_unix_ms());
        filter.from_unix_ms.get_or_insert_with(|| until.saturating_sub(MONTH.0));
        let asked = WorkloadQuestion { filter, gib_hour, confined: !caller.projects.is_all() };
        let (stats, sizing) = (self.learned.stats().clone(), sizing.clone());
        let prices = prices(&self.pools.now());
        // a million attempts and some thousand predictions take their time
        let counting = move || {
            let Workloads { found, left_out, first_ended_unix_ms, priced, currency, notes } =
                stats.workloads(&asked, &prices);
            let first = first_ended_unix_ms.unwrap_or(until);
            let window = Millis(until.saturating_sub(first)).max(DAY);
            let terms = ProposalTerms { least_confidence, window };
            let propose = |workload| propose(workload, |key| sizing.one_of_many(key), &terms);
            let mut drafts: Vec<Draft> = found.into_iter().map(propose).collect();
            Draft::sort(&mut drafts);
            let cut = u64::try_from(drafts.len().saturating_sub(most)).unwrap_or(u64::MAX);
            drafts.truncate(most);
            let left_out = left_out.saturating_add(cut);
            (drafts, RecommendationAnswer { rows: Vec::new(), left_out, window, priced, currency, notes })
        };
        let (drafts, answer) = self.counting.run(counting).await?;
        let mut rows = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let newest = self.sizes_of(&draft).await?;
            rows.push(draft.with_today(&newest));
        }
        Ok(RecommendationAnswer { rows, ..answer })
    }

    /// What the newest attempts of a package had.
    async fn sizes_of(&self, draft: &Draft) -> Result<Vec<Sizes>, Refusal> {
        let mut sizes = Vec::new();
        for attempt in draft.newest() {
            // one that is gone meanwhile is left out
            let Some(summary) = self.ingest.listed(attempt).await? else { continue };
            sizes.push(Sizes::of(&summary.resources));
        }
        Ok(sizes)
    }
}
