//! Asks GitLab about an ended job, and applies the answers.
//!
//! | job | request | result |
//! |---|---|---|
//! | failed | end of its log, other failed runs of the job in its pipeline; the job itself if the hook lacks fields | a verdict, stored as if the job had asked for it; a cause that better evidence than the log proves is written into the attempt |
//! | succeeded, of Spack | end of its log | if it found its work done already, predictions do not use its attempt |
//! | any other | nothing | only the hook is used |
//! | of a host that `gitlab_url` does not name | its project, whose address has GitLab's own name | another GitLab is not asked further |
//!
//! The server's token may read more than the sender of the hook. So requests use the path of the
//! project for which the sender was admitted: no job or pipeline of another project is found there.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use plimsoll_core::{
    domain::{Evidence, JobStatus, Key, ReportedOutcome},
    validated,
};
use plimsoll_proto::limits;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    GitlabClient, answers,
    client::RequestFailure,
    job_hook::{EndedJob, GitlabJob},
    queued_hooks::QueuedHook,
    stored_hooks::StoredHook,
    trace,
    waiting_hooks::{self, WaitingHooks},
};
use crate::{
    ingest::{Ingest, OutcomeStatus},
    runtime::{
        clock::Clock,
        metrics::{KindLabel, Metrics},
        outgoing::KeptPart,
    },
    verdicts::{Asker, Verdicts},
};

/// Most jobs processed at once.
const JOBS_AT_ONCE: usize = 4;
/// Interval between removals of hooks that have waited long enough.
const FORGET_INTERVAL: Duration = Duration::from_mins(1);
/// Delay before a hook is processed again if the store accepts no writes.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// Largest answer about one job.
const JOB_BYTES: usize = 1 << 20;
/// Largest page of a list: a hundred jobs, each with its commit, user and runner.
const PAGE_BYTES: usize = 4 << 20;
/// Most other names of GitLab in hooks that are remembered.
const MAX_OTHER_HOSTS: usize = 64;
/// Most pages of a list that are read.
const MAX_PAGES: u32 = 3;

/// What the follower needs to process a hook.
#[derive(Debug)]
pub(super) struct FollowerParts {
    /// `None` if no GitLab is configured: then only the hooks themselves are used.
    pub(super) client: Option<GitlabClient>,
    pub(super) ingest: Ingest,
    pub(super) verdicts: Verdicts,
    pub(super) metrics: Arc<Metrics>,
    /// Other names in hooks than that of `gitlab_url`, and whether they are of the same GitLab.
    pub(super) other_hosts: Mutex<BTreeMap<String, Option<bool>>>,
}

/// Processes accepted hooks: asks GitLab about ended jobs, a few at once, and reports the results.
#[derive(Debug)]
pub(crate) struct Follower {
    parts: Arc<FollowerParts>,
    queued_hooks: mpsc::Receiver<QueuedHook>,
    /// Hooks accepted before the server started, oldest first.
    found_at_start: VecDeque<QueuedHook>,
    /// Processed hooks that wait for their attempt or its end.
    waiting_hooks: WaitingHooks,
}

impl Follower {
    pub(super) fn new(
        parts: FollowerParts,
        waiting: mpsc::Receiver<QueuedHook>,
        found: VecDeque<QueuedHook>,
    ) -> Self {
        Self {
            parts: Arc::new(parts),
            queued_hooks: waiting,
            found_at_start: found,
            waiting_hooks: WaitingHooks::default(),
        }
    }

    /// Processes hooks until `stop`. Those that are still queued then stay in the store for the next
    /// start, here or at the server that takes over.
    /// Never fails.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        let mut tick = tokio::time::interval(FORGET_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = running.join_next() => {
                    done.ok().flatten().into_iter().for_each(|hook| self.waiting_hooks.add(hook));
                }
                // a hook that is not removed because the server stops is found and removed after
                // the next start
                _ = tick.tick() => drop(stop.run_until_cancelled(self.forget_old()).await),
                Some(waiting) = next(&mut self.found_at_start, &mut self.queued_hooks), if running.len() < JOBS_AT_ONCE => {
                    self.count_waiting();
                    running.spawn(process_hook(Arc::clone(&self.parts), waiting, stop.clone()));
                }
            }
        }
        while running.join_next().await.is_some() {}
        self.queued_hooks.close();
        Ok(())
    }

    fn count_waiting(&self) {
        let waiting = self.queued_hooks.len() + self.found_at_start.len();
        self.parts.metrics.gitlab_queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Removes hooks after their attempt has ended or did not appear in time.
    async fn forget_old(&mut self) {
        let old = self.waiting_hooks.give_up(current_time(), &self.parts.ingest).await;
        StoredHook::remove(old).await;
    }
}

fn current_time() -> SystemTime {
    time_of(Clock.now_unix_ms())
}

fn time_of(unix_ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The next hook to process: those from before the start come first.
async fn next(
    found_at_start: &mut VecDeque<QueuedHook>,
    queue: &mut mpsc::Receiver<QueuedHook>,
) -> Option<QueuedHook> {
    match found_at_start.pop_front() {
        Some(first) => Some(first),
        None => queue.recv().await,
    }
}

/// Processes one hook. Returns it if it waits for its attempt. A hook that is not processed because the server stops stays in the
/// store.
async fn process_hook(
    parts: Arc<FollowerParts>,
    queued_hook: QueuedHook,
    stop: CancellationToken,
) -> Option<waiting_hooks::WaitingHook> {
    let QueuedHook { ended, claim, stored, mut answer } = queued_hook;
    loop {
        let (reported, settled) = if let Some(answer) = answer.take() {
            (ended.reported.clone(), answer.await.ok())
        } else {
            let reported = if stored.record.applied.is_some() {
                ended.reported.clone()
            } else {
                stop.run_until_cancelled(parts.ask_or_not(&ended)).await?
            };
            let settled = parts.ingest.queue_report_when_free(reported.clone()).await;
            (reported, settled)
        };
        match settled? {
            // a full disk may get space again, so the report is repeated
            OutcomeStatus::Unwritable => stop.run_until_cancelled(sleep(RETRY_DELAY)).await?,
            OutcomeStatus::Remembered => {
                claim.confirm();
                let stored = stored.mark_applied(&reported).await;
                let since =
                    stored.record.applied.map_or_else(current_time, |applied| time_of(applied.at_unix_ms));
                return Some(waiting_hooks::WaitingHook { since, attempts: reported.attempts, stored });
            }
            OutcomeStatus::Now | OutcomeStatus::Known | OutcomeStatus::Foreign => {
                claim.confirm();
                StoredHook::remove(vec![stored]).await;
                return None;
            }
        }
    }
}

impl FollowerParts {
    /// The report for a job, with GitLab's answers if there are any. Without them the content of
    /// the hook is still reported.
    async fn ask_or_not(&self, EndedJob { reported, job, .. }: &EndedJob) -> ReportedOutcome {
        let Some(client) = &self.client else { return reported.clone() };
        self.ask_about_job(client, reported, job).await.unwrap_or_else(|trouble| {
            self.metrics.hooks.get_or_create(&KindLabel::of("not_asked")).inc();
            tracing::debug!(job = job.id, ?trouble, "a hook counts alone");
            reported.clone()
        })
    }

    /// The report for a job, with GitLab's answers.
    async fn ask_about_job(
        &self,
        client: &GitlabClient,
        reported: &ReportedOutcome,
        job: &GitlabJob,
    ) -> Result<ReportedOutcome, RequestFailure> {
        let needs_answers = match reported.end {
            JobStatus::Failed => true,
            JobStatus::Succeeded => job.is_from_spack(),
            JobStatus::Canceled => false,
        };
        let may_be_asked = needs_answers && reported.by.may_report_on(&job.key.project);
        let Some(project) = job.project_in_api().filter(|_| may_be_asked) else {
            return Ok(reported.clone());
        };
        if !self.is_of_client(client, job, &project).await? {
            self.metrics.hooks.get_or_create(&KindLabel::of("other_host")).inc();
            return Ok(reported.clone());
        }
        if reported.end == JobStatus::Failed {
            return self.judge_failed_job(client, reported.clone(), job, &project).await;
        }
        let unneeded = trace::is_unneeded(&fetch_log(client, &project, job.id).await?);
        Ok(ReportedOutcome { unneeded, ..reported.clone() })
    }

    /// Whether the job is of the GitLab that is asked. That GitLab may have another name than in `gitlab_url`, such as one inside of the
    /// cluster: then it says the name itself, in the address of the job's project.
    async fn is_of_client(
        &self,
        client: &GitlabClient,
        job: &GitlabJob,
        project: &str,
    ) -> Result<bool, RequestFailure> {
        let Some(host) = &job.host else { return Ok(true) };
        if host.eq_ignore_ascii_case(client.host()) {
            return Ok(true);
        }
        let known = self.other_hosts.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied();
        if let Some(Some(is_here)) = known {
            return Ok(is_here);
        }
        let asked = client.get(&format!("projects/{project}"), KeptPart::All(JOB_BYTES)).await;
        let named = match &asked {
            Ok(answer) => answers::web_host(&answer.body),
            Err(RequestFailure::Gone) => None,
            Err(failure) => return Err(*failure),
        };
        let is_here = named.as_deref().is_some_and(|named| named.eq_ignore_ascii_case(host));
        let gitlab_url = client.host();
        if is_here {
            tracing::info!(
                host,
                gitlab_url,
                "GitLab at gitlab_url has this name, too: its failed jobs are judged"
            );
        } else if known.is_none() {
            tracing::warn!(
                host,
                gitlab_url,
                named,
                "a job hook is of another GitLab than gitlab_url, so its failed jobs are not judged; correct gitlab_url, or give that \
                 GitLab a server of its own"
            );
        }
        // a project that is gone, or hidden from the token, says nothing about the next one
        let answer = asked.is_ok().then_some(is_here);
        let mut hosts = self.other_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() < MAX_OTHER_HOSTS || known.is_some() {
            hosts.insert(host.clone(), answer);
        }
        drop(hosts);
        Ok(is_here)
    }

    /// Asks GitLab about a failed job, and asks for a verdict.
    async fn judge_failed_job(
        &self,
        client: &GitlabClient,
        reported: ReportedOutcome,
        job: &GitlabJob,
        project: &str,
    ) -> Result<ReportedOutcome, RequestFailure> {
        let log = fetch_log(client, project, job.id).await?;
        let trace::TraceEnd { exit, container_reason } = trace::end_of_build(&log);
        let (mut reason, mut name, mut pipeline) = (reported.reason.clone(), job.name.clone(), job.pipeline);
        if reason.is_empty() || name.is_empty() || pipeline.is_none() {
            let path = format!("projects/{project}/jobs/{}", job.id);
            let fetched = answers::parse_job(&client.get(&path, KeptPart::All(JOB_BYTES)).await?.body)?;
            reason = if reason.is_empty() { fetched.failure_reason } else { reason };
            name = if name.is_empty() { fetched.name } else { name };
            pipeline = pipeline.or(fetched.pipeline);
        }
        let listed = match pipeline {
            Some(pipeline) => fetch_runs(client, project, pipeline, &name).await?,
            None => Vec::new(),
        };
        let Some(first) = reported.attempts.first() else { return Ok(reported) };
        let key = validated::key(Some(job.key.clone())).unwrap_or_else(|fault| {
            tracing::info!(%fault, "the job of a hook is not understood: judged without its key");
            Key::default()
        });
        let by = reported.by.clone();
        if key.project.is_empty() && !by.reports_on_all() {
            return Ok(ReportedOutcome { reason, ..reported });
        }
        let asker = Asker { sees_all: by.reports_on_all(), by, ..Asker::TRUSTED };
        let evidence = Evidence {
            key,
            exit,
            container_reason,
            failure_reason: reason.clone(),
            log_tail: log,
            listed,
            ..Evidence::about(first.clone())
        };
        match Box::pin(self.verdicts.judge_one_of(&reported.attempts, evidence, asker)).await {
            Ok(None) => Ok(reported),
            Ok(Some(verdict)) => {
                let (action, cause) = (verdict.action.as_str(), verdict.cause.as_str());
                tracing::info!(attempt = %verdict.attempt, action, cause, "judged a failed job");
                self.metrics.hooks.get_or_create(&KindLabel::of("judged")).inc();
                // the cause is written into the attempt and affects predictions, so it must be
                // proven; a log line alone is no proof
                let cause = Some(verdict.cause).filter(|_| verdict.outlook.proven);
                Ok(ReportedOutcome { reason, cause, ..reported })
            }
            Err(refusal) => {
                tracing::warn!(job = job.id, error = %refusal, "could not judge a failed job");
                Ok(ReportedOutcome { reason, ..reported })
            }
        }
    }
}

/// Reads a job's log: its errors and its end.
async fn fetch_log(client: &GitlabClient, project: &str, job: u64) -> Result<String, RequestFailure> {
    let path = format!("projects/{project}/jobs/{job}/trace");
    let answer = client.get(&path, KeptPart::Excerpt(limits::LOG_TAIL_BYTES)).await?;
    Ok(trace::text(&answer.body, limits::LOG_TAIL_BYTES))
}

/// Reads the failed and canceled runs of one job of a pipeline. A run that succeeded is not needed:
/// such a job is not retried.
async fn fetch_runs(
    client: &GitlabClient,
    project: &str,
    pipeline: u64,
    name: &str,
) -> Result<Vec<plimsoll_core::domain::ListedRun>, RequestFailure> {
    let mut runs = Vec::new();
    for page in 1..=MAX_PAGES {
        let path = format!(
            "projects/{project}/pipelines/{pipeline}/jobs?include_retried=true&scope[]=failed&scope[]=canceled\
             &per_page=100&page={page}"
        );
        let answer = client.get(&path, KeptPart::All(PAGE_BYTES)).await?;
        answers::add_runs(&answer.body, name, &mut runs)?;
        if !answer.has_more {
            break;
        }
    }
    Ok(runs)
}
