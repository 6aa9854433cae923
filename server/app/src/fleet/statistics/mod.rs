//! Totals and lists over all attempts that a caller may see.

mod counting;
mod recommendations;

use std::sync::Arc;

pub(crate) use counting::QuestionSlots;
use plimsoll_core::{
    domain::{AttemptBrief, Bytes, FieldViolation, History, Outcome, Summary},
    placement::{Placement, Pool},
    retry::{FailureGroup, FlakyFailure, SilencedRule, WrongVerdicts},
    shared_history::SharedHistory,
    stats::{AttemptPage, Filter, ListCursor, PageBuilder, PoolPrices, Price, Question, Report},
};
use plimsoll_proto::reasons::failure_line;
pub(crate) use recommendations::{RecommendQuestion, RecommendationAnswer};

use crate::{
    access::{Refusal, Reply, identity::Identity, redaction::Redactor},
    causes::FailureClassifier,
    ingest::Ingest,
    pools::PoolRegistry,
    runtime::answer_memory::AnswerMemory,
    sizing::SizingService,
    verdicts::Verdicts,
};

/// Memory of an answer over all attempts, bytes: its groups and steps with their texts, and the message.
const ANSWER_BYTES: u64 = 12 << 20;
/// Further bytes for each attempt of the history: row positions while shifts of need are computed,
/// and chunks of rows that are copied because they change during the query.
const BYTES_PER_ATTEMPT: u64 = 12;
/// Most flaky failures in an answer.
const MAX_FLAKY: usize = 100;
/// Most groups of equal failures in an answer.
const MAX_FAILURES: usize = 100;
/// Most rules with corrected causes in an answer.
const MAX_CORRECTED_RULES: usize = 100;

/// Answers queries for totals and lists. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StatisticsService {
    pub(crate) ingest: Ingest,
    pub(crate) classifier: FailureClassifier,
    pub(crate) history: SharedHistory,
    pub(crate) verdicts: Verdicts,
    pub(crate) pools: PoolRegistry,
    pub(crate) question_slots: QuestionSlots,
}

/// Totals, with the failures that retries often fixed.
#[derive(Debug)]
pub(crate) struct StatisticsAnswer {
    pub(crate) report: Report,
    /// Failures over all projects that retries often fixed; empty for a caller that may see only
    /// some projects.
    pub(crate) flaky: Vec<FlakyFailure>,
    /// Groups of equal failures, of the projects that the caller may see.
    pub(crate) failures: Vec<FailureGroup>,
    /// Rules with verdicts that people corrected, in the requested projects.
    pub(crate) wrong: Vec<WrongVerdicts>,
    /// Rules that have lost their say in the requested projects.
    pub(crate) silenced: Vec<SilencedRule>,
}

/// An attempt as an entry of a list.
#[derive(Debug)]
pub(crate) struct ListedAttempt {
    pub(crate) summary: Summary,
    /// The log line that identifies the failure; empty if there is none.
    pub(crate) line: String,
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct ListedAttempts {
    /// The attempts selected for this page.
    pub(crate) page: AttemptPage,
    /// Whether the page was ended early because the answer is full.
    pub(crate) is_cut: bool,
}

impl StatisticsService {
    /// The memory for large answers.
    pub(crate) fn memory(&self) -> &AnswerMemory {
        &self.question_slots.memory
    }

    /// Memory that a query over all attempts needs, with `per_attempt` bytes for each attempt.
    fn memory_needed(&self, per_attempt: u64) -> Bytes {
        let attempts = self.history.read(History::len) as u64;
        Bytes(ANSWER_BYTES.saturating_add(attempts.saturating_mul(per_attempt)))
    }

    /// Answers a query for totals.
    /// Errors: the caller may not ask for this, the query is invalid, or too many queries run at once.
    pub(crate) async fn report(
        &self,
        caller: &Arc<Identity>,
        mut question: Question,
    ) -> Reply<StatisticsAnswer> {
        let redactor = self.check_allowed(caller, &mut question.filter, &question.group_label)?;
        let confined = !caller.projects.is_all();
        let question = Question { confined, ..question };
        let classifier = self.classifier.clone();
        let stats = self.history.stats().clone();
        let prices = prices_by_pool(&self.pools.now());
        let asked = question.filter.project.clone();
        let mut wrong = classifier
            .wrong_verdicts(|project| caller.sees(project) && (asked.is_empty() || asked == project));
        wrong.truncate(MAX_CORRECTED_RULES);
        // a million attempts take a while, so the work runs on a blocking thread
        let reader = Arc::clone(caller);
        let counting = move || {
            let filter = &question.filter;
            let takes = |attempt: &AttemptBrief| reader.sees(&attempt.key.project) && filter.takes(attempt);
            let failures = classifier.failure_groups(takes, MAX_FAILURES);
            let mut silenced = classifier.silenced();
            silenced.retain(|rule| {
                let is_everywhere = rule.project.is_empty() && !confined;
                let is_asked = filter.project.is_empty() || filter.project == rule.project;
                is_everywhere || (is_asked && reader.sees(&rule.project) && !rule.project.is_empty())
            });
            silenced.truncate(MAX_CORRECTED_RULES);
            Ok((stats.report(&question, &prices)?, classifier.flaky(MAX_FLAKY), failures, silenced))
        };
        let (report, mut flaky, mut failures, silenced) = self
            .question_slots
            .run(self.memory_needed(BYTES_PER_ATTEMPT), counting)
            .await?
            .map_err(|fault: FieldViolation| Refusal::Fault(fault))?;
        for group in &mut failures {
            redactor.redact_failures(group);
        }
        if confined {
            // these are counted over all projects, so a caller for some projects must not see them
            flaky.clear();
        }
        redactor.redact_flaky(&mut flaky);
        Ok(StatisticsAnswer { report, flaky, failures, wrong, silenced })
    }

    /// Passes the attempts of a page to `take`, until it returns false.
    /// Errors: the caller may not ask for this, too many queries run at once, or the store cannot be read.
    pub(crate) async fn list(
        &self,
        caller: &Arc<Identity>,
        mut filter: Filter,
        page: PageBuilder,
        mut take: impl FnMut(&ListCursor, ListedAttempt) -> bool + Send,
    ) -> Reply<ListedAttempts> {
        let redactor = self.check_allowed(caller, &mut filter, "")?;
        let stats = self.history.stats().clone();
        // a pass over a million attempts takes a while, so it runs on a blocking thread
        let page = self
            .question_slots
            .run(self.memory_needed(BYTES_PER_ATTEMPT), move || stats.list(&filter, page))
            .await?;
        for place in &page.cursors {
            // skip an attempt that was deleted meanwhile
            let Some(summary) = self.ingest.listed(&place.attempt).await? else { continue };
            let line = self.failure_line(&redactor, &summary).await?;
            let summary = redactor.summary(self.history.related(&summary).into_owned());
            if !take(place, ListedAttempt { summary, line }) {
                return Ok(ListedAttempts { page, is_cut: true });
            }
        }
        Ok(ListedAttempts { page, is_cut: false })
    }

    /// The log line that identifies a failure; a placeholder if lines are hidden from the caller.
    async fn failure_line(&self, redactor: &Redactor, summary: &Summary) -> Reply<String> {
        if summary.outcome == Outcome::Succeeded {
            return Ok(String::new());
        }
        let project = &summary.key.project;
        let in_force = self.verdicts.given(&summary.attempt, project).await?.into_iter().next();
        let shown = in_force.map(|verdict| redactor.verdict(verdict, project));
        let signature = shown.and_then(|verdict| verdict.outlook.signature);
        Ok(signature.map_or_else(String::new, |known| failure_line(&known.first, &known.line).to_owned()))
    }

    /// Checks that `caller` may see totals and lists over these attempts: a caller for several
    /// projects must name one of them, a caller for one gets that, and no label may be hidden from the caller.
    /// Fills in the attempts of the filter's signature.
    fn check_allowed(
        &self,
        caller: &Arc<Identity>,
        filter: &mut Filter,
        group_label: &str,
    ) -> Reply<Redactor> {
        caller.filters(&mut filter.project).map_err(Refusal::Forbidden)?;
        let redactor = Redactor { private: Arc::clone(&self.verdicts.private), caller: Arc::clone(caller) };
        redactor.may_ask(filter, group_label)?;
        if !filter.signature.is_empty() {
            let known = self.classifier.attempts_with(&filter.signature, &filter.project);
            filter.known_by = Some(Arc::new(known));
        }
        Ok(redactor)
    }
}

/// The prices in the pools file.
fn prices_by_pool(placement: &Placement) -> PoolPrices {
    let price = |pool: &Pool| Price { gib_hour: pool.price.gib_hour, core_hour: pool.price.core_hour };
    PoolPrices {
        pools: placement.pools().iter().map(|pool| (pool.name.clone(), price(pool))).collect(),
        currency: placement.currency().to_owned(),
    }
}
