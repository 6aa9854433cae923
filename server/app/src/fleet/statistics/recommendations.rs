//! What each job or package should request, compared with what it requests today.
//!
//! Attempts and predictions are in memory; today's sizes are read from disk, only for the rows of the answer.

use std::sync::Arc;

use plimsoll_core::{
    domain::{Bytes, Key, Millis},
    recommend::{DAY, Draft, MONTH, ProposalTerms, Recommendation, Savings, Sizes, WorkloadAttempt, propose},
    stats::{Filter, WorkloadQuestion, Workloads},
};

use super::{SizingService, StatisticsService, prices_by_pool};
use crate::{
    access::{Refusal, Reply, identity::Identity},
    runtime::clock::Clock,
};

/// A request for proposals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecommendQuestion {
    /// Only project, stack, package and times may be set. Without a start time the range is the
    /// last month.
    pub(crate) filter: Filter,
    /// Price of a GiB for an hour, used for every pool instead of the pool's own price.
    pub(crate) gib_hour: Option<f64>,
    /// Least confidence that a proposal must have.
    pub(crate) least_confidence: f64,
    /// Most rows in the answer.
    pub(crate) most: usize,
    /// Numbers of build jobs at which sizes are wanted, too.
    pub(crate) build_jobs: Vec<u32>,
}

/// Bytes for each attempt of the history: an entry in the list of its package, for which twice the
/// needed memory may be allocated, and the values that a proposal uses.
const BYTES_PER_ATTEMPT: u64 = 2 * size_of::<usize>() as u64 + size_of::<WorkloadAttempt>() as u64;

/// Proposals and their totals.
#[derive(Debug)]
pub(crate) struct RecommendationAnswer {
    pub(crate) rows: Vec<Recommendation>,
    /// Packages without a row in the answer.
    pub(crate) left_out: u64,
    /// Totals over all examined packages, also those without a row in the answer.
    pub(crate) savings: Savings,
    pub(crate) window: Millis,
    pub(crate) priced: bool,
    pub(crate) currency: String,
    pub(crate) notes: Vec<String>,
}

/// The time range of a question, milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
struct AskedRange {
    from: u64,
    until: u64,
}

impl AskedRange {
    /// The range of the query; without a start time it begins a month before its end. It never ends
    /// in the future.
    fn of(filter: &Filter, now: u64) -> Self {
        let until = filter.to_unix_ms.unwrap_or(now).min(now);
        Self { from: filter.from_unix_ms.unwrap_or_else(|| until.saturating_sub(MONTH.0)), until }
    }

    /// Length of the part of the range from which the server has attempts; its first attempt ended
    /// at `first`. Days without builds are included, so that a package built only on one day of a
    /// month counts with that day's use for the month.
    fn window(self, first: Option<u64>) -> Millis {
        let first = first.map_or(self.until, |first| first.max(self.from));
        Millis(self.until.saturating_sub(first)).max(DAY)
    }
}

impl StatisticsService {
    /// What each package should request, from the predictions of `sizing`.
    /// Errors: the caller may not ask for this, too many queries run at once, or the store cannot be read.
    pub(crate) async fn recommend(
        &self,
        caller: &Arc<Identity>,
        sizing: &SizingService,
        question: RecommendQuestion,
    ) -> Reply<RecommendationAnswer> {
        let RecommendQuestion { mut filter, gib_hour, least_confidence, most, build_jobs } = question;
        caller.filters(&mut filter.project).map_err(Refusal::Forbidden)?;
        let place = self.question_slots.take_proposal()?;
        // held until the rows are read from disk, which is longer than the pass over all attempts
        let _memory = self
            .question_slots
            .memory
            .take("a look at all packages", self.memory_needed(BYTES_PER_ATTEMPT))?;
        let time = AskedRange::of(&filter, Clock.now_unix_ms());
        filter.from_unix_ms = Some(time.from);
        let asked = WorkloadQuestion { filter, gib_hour, confined: !caller.projects.is_all() };
        let (stats, sizing) = (self.history.stats().clone(), sizing.clone());
        let prices = prices_by_pool(&self.pools.now());
        // a million attempts and some thousand predictions take a while, so the work runs on a
        // blocking thread
        let counting = move || {
            let Workloads { largest: found, left_out, first_ended_unix_ms, priced, currency, notes } =
                stats.workloads(&asked, &prices);
            let window = time.window(first_ended_unix_ms);
            let terms = ProposalTerms { least_confidence, window, build_jobs };
            // sizes by build jobs are for the classes of the caller, not for the server's pools
            let predict = |key: &Key| sizing.one_of_many(key, terms.build_jobs.is_empty());
            let propose = |workload| propose(workload, predict, &terms);
            let mut drafts: Vec<Draft> = found.into_iter().map(propose).collect();
            Draft::sort(&mut drafts);
            let savings = Savings::of(&drafts);
            let cut = u64::try_from(drafts.len().saturating_sub(most)).unwrap_or(u64::MAX);
            drafts.truncate(most);
            let left_out = left_out.saturating_add(cut);
            let rows = Vec::new();
            (place, drafts, RecommendationAnswer { rows, left_out, savings, window, priced, currency, notes })
        };
        let (_place, drafts, answer) = self.question_slots.run(Bytes(0), counting).await?;
        let mut rows = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let newest = self.sizes_of(&draft).await?;
            rows.push(draft.with_today(&newest));
        }
        Ok(RecommendationAnswer { rows, ..answer })
    }

    /// The requested sizes of the newest attempts of a package.
    async fn sizes_of(&self, draft: &Draft) -> Reply<Vec<Sizes>> {
        let mut sizes = Vec::new();
        for attempt in draft.newest() {
            // skip an attempt that was deleted meanwhile
            let Some(summary) = self.ingest.listed(attempt).await? else { continue };
            sizes.push(Sizes::of(&summary.resources));
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_store::Store;

    use super::*;
    use crate::{door::fixture::read_api, fleet::statistics::counting::PROPOSALS_AT_ONCE};

    #[tokio::test]
    async fn excess_recommend_requests_are_refused_and_slots_released() {
        let api = read_api(&Store::memory()).await;
        let caller = Identity::anyone();
        let question = || RecommendQuestion {
            filter: Filter::default(),
            gib_hour: None,
            least_confidence: 0.1,
            most: 10,
            build_jobs: Vec::new(),
        };
        let held: Vec<_> =
            (0..PROPOSALS_AT_ONCE).map(|_| api.statistics.question_slots.take_proposal().unwrap()).collect();
        let refused = api.statistics.recommend(&caller, &api.sizing, question()).await;
        assert!(matches!(refused, Err(Refusal::Crowded { most: PROPOSALS_AT_ONCE, .. })), "{refused:?}");
        drop(held);
        api.statistics.recommend(&caller, &api.sizing, question()).await.unwrap();
        assert_eq!(api.statistics.question_slots.proposal_slots.available_permits(), PROPOSALS_AT_ONCE);
    }

    #[test]
    fn the_window_ends_now_and_spans_known_data() {
        let window = |from: Option<u64>, to: Option<u64>, first: Option<u64>| {
            let days = |days: Option<u64>| days.map(|days| days * DAY.0);
            let filter = Filter { from_unix_ms: days(from), to_unix_ms: days(to), ..Filter::default() };
            AskedRange::of(&filter, 100 * DAY.0).window(days(first)).0 / DAY.0
        };
        assert_eq!(window(None, None, Some(10)), 30, "the last month, all of it known");
        assert_eq!(window(None, None, Some(95)), 5, "the history begins within it");
        assert_eq!(window(Some(90), Some(1000), Some(10)), 10, "an end in the future is now");
        assert_eq!(window(Some(40), Some(60), Some(10)), 20);
        assert_eq!(window(None, None, None), 1, "at least a day");
    }
}
