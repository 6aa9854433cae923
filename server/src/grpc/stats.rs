//! GetStats, ListAttempts, GetAttempt and Watch: convert, call, convert.

mod asked;
mod get;
mod rows;
mod watch;

use std::{cmp::Reverse, sync::Arc};

use asked::filter;
use plimsoll_proto::{
    limits,
    v1::{self as pb, stats_server::Stats},
};
use prost::Message as _;
use rows::Rows;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status};

use super::{
    convert,
    outbound::{Answers, outbound},
    reply, status,
};
use crate::{
    domain::{AttemptId, Brief, Fault},
    ingest::{Ingest, Running},
    learned::Learned,
};

/// Bytes of a page's attempts; what is left of an answer is for the token and the tags.
const PAGE_BYTES: usize = limits::ANSWER_BYTES - 64 * 1024;

/// Bytes around a summary in a page: its tag and its length.
const SUMMARY_FRAME: usize = 8;

/// The service `plimsoll.v1.Stats`.
#[derive(Debug, Clone)]
pub(super) struct StatsService {
    learned: Learned,
    ingest: Ingest,
    tasks: TaskTracker,
    stopping: CancellationToken,
    watchers: Arc<Semaphore>,
}

impl StatsService {
    /// A service whose watches run as `tasks` until `stopping`.
    pub(super) fn new(
        learned: Learned,
        ingest: Ingest,
        tasks: TaskTracker,
        stopping: CancellationToken,
    ) -> Self {
        let watchers = Arc::new(Semaphore::new(watch::WATCHERS));
        Self { learned, ingest, tasks, stopping, watchers }
    }
}

#[tonic::async_trait]
impl Stats for StatsService {
    type WatchStream = Answers<pb::WatchResponse>;

    async fn get_stats(
        &self,
        request: Request<pb::GetStatsRequest>,
    ) -> Result<Response<pb::GetStatsResponse>, Status> {
        get::get(&self.learned, &self.ingest, request.into_inner()).await.map(Response::new)
    }

    async fn list_attempts(
        &self,
        request: Request<pb::ListAttemptsRequest>,
    ) -> Result<Response<pb::ListAttemptsResponse>, Status> {
        let mut request = request.into_inner();
        let filter = filter(request.filter.take()).map_err(|fault| status::of_fault(&fault))?;
        let mut attempts = Vec::new();
        self.learned.stats().each(&filter, |brief| attempts.push(Arc::clone(brief)));
        attempts.sort_by_cached_key(|brief| Reverse((brief.ended_unix_ms(), brief.attempt.clone())));
        let chosen = choose(&attempts, &request).map_err(|fault| status::of_fault(&fault))?;
        let mut page = Page::default();
        for id in &chosen.attempts {
            let summary = self.ingest.listed(id).await.map_err(|refusal| status::of_refusal(&refusal))?;
            // one that is gone meanwhile is left out
            if summary.is_some_and(|summary| !page.takes(reply::summary(&summary))) {
                return Ok(Response::new(page.cut()));
            }
        }
        Ok(Response::new(page.end(&chosen)))
    }

    async fn get_attempt(
        &self,
        request: Request<pb::GetAttemptRequest>,
    ) -> Result<Response<pb::GetAttemptResponse>, Status> {
        let request = request.into_inner();
        let id =
            convert::attempt_id("attempt", &request.attempt).map_err(|fault| status::of_fault(&fault))?;
        let shown = shown_samples(request.max_samples).map_err(|fault| status::of_fault(&fault))?;
        let found = self.ingest.find(&id).await.map_err(|refusal| status::of_refusal(&refusal))?;
        let Some((summary, running)) = found else {
            return Err(Status::not_found(format!("no attempt {id} is known here")));
        };
        let mut summary = reply::summary(&summary);
        if running {
            summary.outcome = pb::Outcome::Running.into();
        }
        let mut answer =
            pb::GetAttemptResponse { summary: Some(summary), ..pb::GetAttemptResponse::default() };
        if request.with_series {
            let mut rows = Rows::new(shown);
            let read = self.ingest.series(&id, |sample| rows.add(reply::sample(sample))).await;
            answer.samples_total = read.map_err(|error| status::of_store(&error))?;
            answer.downsampled = rows.downsampled();
            answer.series = rows.into_samples();
        }
        Ok(Response::new(answer))
    }

    async fn watch(
        &self,
        _request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let place = Arc::clone(&self.watchers).try_acquire_owned();
        let place = place.map_err(|_full| status::of_crowd("watchers", watch::WATCHERS))?;
        let (outbound, answers) = outbound();
        let (ingest, stopping) = (self.ingest.clone(), self.stopping.clone());
        self.tasks.spawn(async move {
            watch::serve(&ingest, outbound, &stopping).await;
            drop(place);
        });
        Ok(Response::new(answers))
    }
}

fn changed(running: &[Running], ended: &[String]) -> pb::WatchResponse {
    let wire = |running: &Running| {
        let last = running.progress.last.unwrap_or_default();
        pb::Running {
            attempt: running.attempt.id.to_string(),
            key: Some(reply::key(&running.attempt.key)),
            elapsed_ms: last.elapsed.0,
            memory_bytes: last.memory.0,
            need_bytes: last.need.0,
            need_peak_bytes: running.progress.need_peak.0,
            cpu_usec: last.cpu.0,
            memory_limit_bytes: running.attempt.resources.memory_limit.map(|limit| limit.0),
            starved: running.progress.starvation.now,
        }
    };
    pb::WatchResponse { running: running.iter().map(wire).collect(), ended: ended.to_vec() }
}

fn shown_samples(asked: u32) -> Result<usize, Fault> {
    match asked {
        0 => Ok(limits::SHOWN_SAMPLES_DEFAULT as usize),
        asked if asked <= limits::SHOWN_SAMPLES => Ok(asked as usize),
        asked => {
            let description = format!("is {asked}, at most {} is allowed", limits::SHOWN_SAMPLES);
            Err(Fault::new("max_samples", description))
        }
    }
}

/// The attempts of one page, newest first.
#[derive(Debug, Default)]
struct Chosen {
    attempts: Vec<AttemptId>,
    /// There are more behind them.
    more: bool,
}

/// Chooses the attempts of one page. The token is the id of the last attempt shown, so new attempts do not shift the pages.
fn choose(attempts: &[Arc<Brief>], request: &pb::ListAttemptsRequest) -> Result<Chosen, Fault> {
    let size = match request.page_size {
        0 => 100,
        size if size <= limits::PAGE_SIZE => size as usize,
        size => {
            let description = format!("is {size}, at most {} is allowed", limits::PAGE_SIZE);
            return Err(Fault::new("page_size", description));
        }
    };
    let after = match request.page_token.as_str() {
        "" => 0,
        token => {
            attempts.iter().position(|s| s.attempt.as_str() == token).map(|n| n + 1).ok_or_else(|| {
                Fault::new(
                    "page_token",
                    "is not from an earlier answer, or too old; start from the first page",
                )
            })?
        }
    };
    let mut taken = attempts.iter().skip(after);
    let chosen = taken.by_ref().take(size).map(|attempt| attempt.attempt.clone()).collect();
    Ok(Chosen { attempts: chosen, more: taken.next().is_some() })
}

/// A page that is being filled.
#[derive(Debug, Default)]
struct Page {
    attempts: Vec<pb::Summary>,
    bytes: usize,
}

impl Page {
    /// Adds an attempt, if there is room. One is always shown, so that the pages come to an end; its parts are bounded when
    /// they come in.
    fn takes(&mut self, summary: pb::Summary) -> bool {
        self.bytes += summary.encoded_len() + SUMMARY_FRAME;
        let room = self.attempts.is_empty() || self.bytes <= PAGE_BYTES;
        if room {
            self.attempts.push(summary);
        }
        room
    }

    /// The answer, if not all that was chosen found room.
    fn cut(self) -> pb::ListAttemptsResponse {
        let next_page_token = self.attempts.last().map(|last| last.attempt.clone()).unwrap_or_default();
        pb::ListAttemptsResponse { attempts: self.attempts, next_page_token }
    }

    /// The answer with all that was chosen.
    fn end(self, chosen: &Chosen) -> pb::ListAttemptsResponse {
        let last = chosen.attempts.last().filter(|_| chosen.more);
        let next_page_token = last.map(ToString::to_string).unwrap_or_default();
        pb::ListAttemptsResponse { attempts: self.attempts, next_page_token }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::test_summary as summary;

    fn attempts(count: u32) -> Vec<Arc<Brief>> {
        (0..count).map(|n| Arc::new(summary(&n.to_string(), "zlib", "1", 10).into())).collect()
    }

    #[test]
    fn pages_cover_everything_once() {
        let attempts = attempts(25);
        let mut request = pb::ListAttemptsRequest { page_size: 10, ..Default::default() };
        let mut seen = Vec::new();
        loop {
            let chosen = choose(&attempts, &request).unwrap();
            let mut page = Page::default();
            // the fifth was removed from the disk meanwhile
            let found = chosen.attempts.iter().filter(|id| id.as_str() != "4");
            found.for_each(|id| assert!(page.takes(reply::summary(&summary(id.as_str(), "zlib", "1", 10)))));
            let answer = page.end(&chosen);
            seen.extend(answer.attempts.into_iter().map(|s| s.attempt));
            if answer.next_page_token.is_empty() {
                break;
            }
            request.page_token = answer.next_page_token;
        }
        assert_eq!(seen, (0..25).filter(|n| *n != 4).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn a_token_or_size_that_makes_no_sense_is_named() {
        let bad = pb::ListAttemptsRequest { page_token: "zzz".into(), ..Default::default() };
        assert_eq!(choose(&attempts(1), &bad).unwrap_err().field, "page_token");
        let bad = pb::ListAttemptsRequest { page_size: 1001, ..Default::default() };
        assert_eq!(choose(&attempts(1), &bad).unwrap_err().field, "page_size");
    }

    #[test]
    fn a_page_of_long_summaries_ends_before_it_is_too_large_for_a_client() {
        let long = |id: &AttemptId| {
            let mut summary = summary(id.as_str(), "zlib", "1", 10);
            summary.key.variants = "v".repeat(limits::VARIANTS_BYTES);
            let label = |n| (format!("{n:0>128}"), "x".repeat(limits::LABEL_BYTES));
            summary.key.labels = (0..limits::LABELS).map(label).collect();
            reply::summary(&summary)
        };
        let attempts = attempts(1000);
        let mut request = pb::ListAttemptsRequest { page_size: 1000, ..Default::default() };
        let (mut seen, mut pages) = (0, 0);
        loop {
            let chosen = choose(&attempts, &request).unwrap();
            let mut page = Page::default();
            let whole = chosen.attempts.iter().all(|id| page.takes(long(id)));
            let answer = if whole { page.end(&chosen) } else { page.cut() };
            assert!(answer.encoded_len() < limits::ANSWER_BYTES);
            (seen, pages) = (seen + answer.attempts.len(), pages + 1);
            if answer.next_page_token.is_empty() {
                break;
            }
            request.page_token = answer.next_page_token;
        }
        assert_eq!((seen, pages > 2), (1000, true), "{pages} pages");
    }

    #[test]
    fn words_that_this_server_does_not_know_are_named() {
        assert_eq!(shown_samples(20_001).unwrap_err().field, "max_samples");
        assert_eq!((shown_samples(0), shown_samples(20_000)), (Ok(2000), Ok(20_000)));
    }
}
