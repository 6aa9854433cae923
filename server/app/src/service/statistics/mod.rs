//! Sums and lists over all attempts that a caller may see.

mod counting;
mod recommendations;

use std::sync::Arc;

pub(crate) use counting::Counting;
use plimsoll_core::{
    domain::{FieldViolation, Summary},
    placement::{Placement, Pool},
    retry::{FlakyFailure, WrongVerdicts},
    shared_history::SharedHistory,
    stats::{AttemptPage, Filter, GroupBy, ListCursor, PageBuilder, PoolPrices, Price, Question, Report},
};
pub(crate) use recommendations::{ProposalPlaces, RecommendQuestion, RecommendationAnswer};

use super::{Refusal, SizingService, redaction::Redactor};
use crate::{
    access::{identity::Identity, privacy::Private},
    sessions::Ingest,
    state::pools::PoolRegistry,
};

/// Flaky failures in an answer.
const FLAKY: usize = 100;
/// Rules that were wrong in an answer.
const WRONG: usize = 100;

/// Counts and lists attempts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StatisticsService {
    pub(crate) learned: SharedHistory,
    pub(crate) ingest: Ingest,
    pub(crate) pools: PoolRegistry,
    pub(crate) counting: Counting,
    pub(crate) proposals: ProposalPlaces,
    pub(crate) private: Arc<Private>,
}

/// Sums, and beside them the failures that a retry often mended.
#[derive(Debug)]
pub(crate) struct StatisticsAnswer {
    pub(crate) report: Report,
    /// Over all projects: empty for a caller who may see only some.
    pub(crate) flaky: Vec<FlakyFailure>,
    /// Rules whose causes were corrected, in the projects that were asked for.
    pub(crate) wrong: Vec<WrongVerdicts>,
}

/// What a list holds.
#[derive(Debug)]
pub(crate) struct ListedAttempts {
    /// What was chosen for it.
    pub(crate) page: AttemptPage,
    /// Not all of that was taken.
    pub(crate) is_cut: bool,
}

impl StatisticsService {
    /// The answer to a question about sums.
    ///
    /// # Errors
    /// The caller may not ask it, it makes no sense, or too many are asked at once.
    pub(crate) async fn report(
        &self,
        caller: &Arc<Identity>,
        question: Question,
    ) -> Result<StatisticsAnswer, Refusal> {
        let redactor = self.allowed(caller, &question.filter, &question.group_by)?;
        let confined = !caller.projects.is_all();
        let question = Question { confined, ..question };
        let (stats, ingest) = (self.learned.stats().clone(), self.ingest.clone());
        let prices = prices(&self.pools.now());
        let asked = question.filter.project.clone();
        let mut wrong =
            self.ingest.wrong(|project| caller.sees(project) && (asked.is_empty() || asked == project));
        wrong.truncate(WRONG);
        // a million attempts take their time
        let counting = move || Ok((stats.report(&question, &prices)?, ingest.flaky(FLAKY)));
        let (report, mut flaky) =
            self.counting.run(counting).await?.map_err(|fault: FieldViolation| Refusal::Fault(fault))?;
        if confined {
            // these are over all projects
            flaky.clear();
        }
        redactor.flaky(&mut flaky);
        Ok(StatisticsAnswer { report, flaky, wrong })
    }

    /// Hands the attempts of a page to `take`, until it takes no more.
    ///
    /// # Errors
    /// The caller may not ask it, too many are asked at once, or the store cannot be read.
    pub(crate) async fn list(
        &self,
        caller: &Arc<Identity>,
        filter: Filter,
        page: PageBuilder,
        mut take: impl FnMut(&ListCursor, Summary) -> bool + Send,
    ) -> Result<ListedAttempts, Refusal> {
        let redactor = self.allowed(caller, &filter, &GroupBy::Nothing)?;
        let stats = self.learned.stats().clone();
        // a look at a million attempts takes its time
        let page = self.counting.run(move || stats.list(&filter, page)).await?;
        for place in &page.places {
            // one that is gone meanwhile is left out
            let Some(summary) = self.ingest.listed(&place.attempt).await? else { continue };
            if !take(place, redactor.summary(self.learned.related(&summary).into_owned())) {
                return Ok(ListedAttempts { page, is_cut: true });
            }
        }
        Ok(ListedAttempts { page, is_cut: false })
    }

    /// Whether `caller` may see sums and lists over these attempts: one with some projects names one of them, and no label that is private
    /// to others.
    fn allowed(
        &self,
        caller: &Arc<Identity>,
        filter: &Filter,
        group_by: &GroupBy,
    ) -> Result<Redactor, Refusal> {
        caller.may_see("filter.project", &filter.project).map_err(Refusal::Forbidden)?;
        let redactor = Redactor { private: Arc::clone(&self.private), caller: Arc::clone(caller) };
        redactor.may_ask(filter, group_by)?;
        Ok(redactor)
    }
}

/// What the file of pools says of prices.
fn prices(placement: &Placement) -> PoolPrices {
    let price = |pool: &Pool| Price { gib_hour: pool.price.gib_hour, core_hour: pool.price.core_hour };
    PoolPrices {
        pools: placement.pools().iter().map(|pool| (pool.name.clone(), price(pool))).collect(),
        currency: placement.currency().to_owned(),
    }
}
