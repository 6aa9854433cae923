//! What GitLab is asked about an ended job, and what follows from it.
//!
//! | job | asked for | then |
//! |---|---|---|
//! | failed | end of its log, the other failed runs of the pipeline's job; the job itself where the hook lacks something | a verdict, on disk, as if the job had asked for it; its cause settles the attempt if more than the log proves it |
//! | succeeded, of Spack | end of its log | if it found its work done already, its attempt teaches nothing |
//! | any other, or of another GitLab | nothing | the hook counts alone |

use std::sync::Arc;

use plimsoll_proto::limits;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    Client,
    client::Trouble,
    hooks::{Name, Waiting},
    read, trace,
};
use crate::{
    domain::{AttemptId, End, Evidence, Key, Told},
    gantry::{Ended, Job},
    grpc,
    ingest::Ingest,
    metrics::{Kind, Metrics},
    outgoing::Keep,
};

/// Jobs that are asked about at once.
const AT_ONCE: usize = 4;
/// Largest answer about one job.
const JOB_BYTES: usize = 1 << 20;
/// Largest page of a list: a hundred jobs, each with its commit, user and runner.
const PAGE_BYTES: usize = 4 << 20;
/// Most pages that are read of a list.
const PAGES: u32 = 3;

/// What the follower works with.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) client: Client,
    pub(super) ingest: Ingest,
    pub(super) metrics: Arc<Metrics>,
}

/// Who asks GitLab about ended jobs, one after another.
#[derive(Debug)]
pub(crate) struct Follower {
    parts: Arc<Parts>,
    waiting: mpsc::Receiver<Waiting>,
}

impl Follower {
    pub(super) fn new(parts: Parts, waiting: mpsc::Receiver<Waiting>) -> Self {
        Self { parts: Arc::new(parts), waiting }
    }

    /// Works until `stop`; what waits then is told without having asked.
    ///
    /// # Errors
    /// None: it works until it is stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_done) = running.join_next() => {}
                Some(ended) = self.waiting.recv(), if running.len() < AT_ONCE => {
                    self.count();
                    running.spawn(follow(Arc::clone(&self.parts), ended, stop.clone()));
                }
            }
        }
        while running.join_next().await.is_some() {}
        self.waiting.close();
        while let Ok(Waiting { ended, name }) = self.waiting.try_recv() {
            self.parts.tell(ended.told, name).await;
        }
        Ok(())
    }

    fn count(&self) {
        self.parts.metrics.gitlab_queue.set(i64::try_from(self.waiting.len()).unwrap_or(i64::MAX));
    }
}

async fn follow(parts: Arc<Parts>, Waiting { ended, name }: Waiting, stop: CancellationToken) {
    let Ended { told, job } = *ended;
    // what a hook says of itself is not lost with the answer
    let said = stop.run_until_cancelled(parts.ask(&told, &job)).await;
    let told = match said {
        Some(Ok(told)) => told,
        Some(Err(trouble)) => {
            parts.metrics.hooks.get_or_create(&Kind::of("not_asked")).inc();
            tracing::debug!(job = job.id, ?trouble, "a hook counts alone");
            told
        }
        None => told,
    };
    parts.tell(told, name).await;
}

impl Parts {
    /// Hands a hook on, as soon as there is room: its place here bounds how many wait for that.
    async fn tell(&self, told: Told, name: Name) {
        if self.ingest.tell_in_turn(told).await {
            name.keep();
        } else {
            self.metrics.hooks.get_or_create(&Kind::of("dropped")).inc();
            tracing::warn!("dropped a job hook: the writer has stopped");
        }
    }

    /// What there is to tell when GitLab was asked.
    async fn ask(&self, told: &Told, job: &Job) -> Result<Told, Trouble> {
        let is_here = job.host.as_deref().is_none_or(|host| host == self.client.host());
        let Some(project) = job.project.filter(|_| is_here) else { return Ok(told.clone()) };
        match told.end {
            End::Failed => self.judge(told.clone(), job, project).await,
            End::Succeeded if job.is_spacks() => {
                let unneeded = trace::is_unneeded(&self.log(project, job.id).await?);
                Ok(Told { unneeded, ..told.clone() })
            }
            End::Succeeded | End::Canceled => Ok(told.clone()),
        }
    }

    async fn log(&self, project: u64, job: u64) -> Result<String, Trouble> {
        let path = format!("projects/{project}/jobs/{job}/trace");
        let answer = self.client.get(&path, Keep::Last(limits::LOG_TAIL_BYTES)).await?;
        Ok(trace::text(&answer.body, limits::LOG_TAIL_BYTES))
    }

    /// Has a failed job judged.
    async fn judge(&self, told: Told, job: &Job, project: u64) -> Result<Told, Trouble> {
        let log = self.log(project, job.id).await?;
        let trace::End { exit, container_reason } = trace::end(&log);
        let (mut reason, mut name, mut pipeline) = (told.reason.clone(), job.name.clone(), job.pipeline);
        if reason.is_empty() || name.is_empty() || pipeline.is_none() {
            let path = format!("projects/{project}/jobs/{}", job.id);
            let said = read::job(&self.client.get(&path, Keep::All(JOB_BYTES)).await?.body)?;
            reason = if reason.is_empty() { said.failure_reason } else { reason };
            name = if name.is_empty() { said.name } else { name };
            pipeline = pipeline.or(said.pipeline);
        }
        let listed = match pipeline {
            Some(pipeline) => self.runs(project, pipeline, &name).await?,
            None => Vec::new(),
        };
        let Some(attempt) = self.attempt(&told).await else { return Ok(told) };
        let key = grpc::checked_key(Some(job.key.clone())).unwrap_or_else(|fault| {
            tracing::info!(%fault, "the job of a hook is not understood: judged without its key");
            Key::default()
        });
        let evidence = Evidence {
            key,
            exit,
            container_reason,
            failure_reason: reason.clone(),
            log_tail: log,
            listed,
            ..Evidence::about(attempt)
        };
        match self.ingest.judge(evidence).await {
            Ok(verdict) => {
                let (action, cause) = (verdict.action.as_str(), verdict.cause.as_str());
                tracing::info!(attempt = %verdict.attempt, action, cause, "judged a failed job");
                self.metrics.hooks.get_or_create(&Kind::of("judged")).inc();
                // what settles an attempt teaches: a line of a log alone is no proof
                let cause = Some(verdict.cause).filter(|_| verdict.outlook.proven);
                Ok(Told { reason, cause, ..told })
            }
            Err(refusal) => {
                tracing::warn!(job = job.id, error = %refusal, "could not judge a failed job");
                Ok(Told { reason, ..told })
            }
        }
    }

    /// The failed and canceled runs of one job of a pipeline: a run that succeeded is not tried again.
    async fn runs(
        &self,
        project: u64,
        pipeline: u64,
        name: &str,
    ) -> Result<Vec<crate::domain::ListedRun>, Trouble> {
        let mut runs = Vec::new();
        for page in 1..=PAGES {
            let path = format!(
                "projects/{project}/pipelines/{pipeline}/jobs?include_retried=true&scope[]=failed&scope[]=canceled\
                 &per_page=100&page={page}"
            );
            let answer = self.client.get(&path, Keep::All(PAGE_BYTES)).await?;
            read::runs(&answer.body, name, &mut runs)?;
            if !answer.has_more {
                break;
            }
        }
        Ok(runs)
    }

    /// Under which of its names an attempt is known, else the likeliest.
    async fn attempt(&self, told: &Told) -> Option<AttemptId> {
        for id in &told.attempts {
            if matches!(self.ingest.find(id).await, Ok(Some(_))) {
                return Some(id.clone());
            }
        }
        told.attempts.first().cloned()
    }
}
