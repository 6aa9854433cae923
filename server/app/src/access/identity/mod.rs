//! Identity of a caller, its permissions, and whether its attempts count for predictions. This
//! module reads no file and sends no request: its callers do. Its state is in memory (verified
//! tokens, fetched keys, use of bounds). The time is passed in, except for the expiry of a signed
//! token, which the library checks.
//!
//! Without an access file every caller is [`Identity::anyone`]: for a first try on one machine. With one, a caller proves its identity by
//! a bearer token (a static one, or one signed by GitLab or Kubernetes) or by its client certificate. What is proven overrides what a
//! message contains.

mod access;
mod bounds;
mod claims;
#[cfg(test)]
mod cluster_tests;
mod denied;
mod fetched;
mod file;
pub(crate) mod foreign;
mod jwt;
mod keys;
mod projects;
mod ring_verifier;
mod roles;
#[cfg(test)]
pub(crate) mod signer;
mod stored_name;
#[cfg(test)]
mod tests;
mod usage;

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

pub(crate) use access::{Access, bearer};
use bounds::Bounds;
pub(crate) use bounds::{Bound, ExceededBound, network_of};
pub(crate) use denied::Denied;
pub(crate) use fetched::{FetchedKeys, KeySetSource, REFETCH_AFTER, safe_address};
pub(crate) use file::{AccessFile, Sources, hash};
use plimsoll_core::domain::{Attempt, AttemptId, COMMIT_LABELS, FieldViolation, Key, PIPELINE_LABEL};
use plimsoll_proto::job::JobExecution;
pub(crate) use projects::{Projects, can_match};
pub(crate) use roles::{Role, Roles};
use tokio::time::Instant;
use usage::Usage;
pub(crate) use usage::{UsageSlot, Usages};

pub(crate) use plimsoll_core::domain::matches_pattern;

/// Most bytes of a caller's text that a refusal quotes.
const SHOWN_BYTES: usize = 200;

/// The first [`SHOWN_BYTES`] of a text.
fn shown(text: &str) -> Cow<'_, str> {
    if text.len() <= SHOWN_BYTES {
        return Cow::Borrowed(text);
    }
    let end = (0..=SHOWN_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{}...", text.get(..end).unwrap_or_default()))
}

/// A CI job named in a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenJob {
    /// Host of the CI system.
    pub(crate) host: String,
    /// The CI system's id of the job. With `/` at its end, how the ids of the jobs of a run begin.
    pub(crate) id: String,
}

impl TokenJob {
    /// Whether the attempt or ticket with this id is of the job, or of a job of the run.
    fn owns(&self, id: &str) -> bool {
        let JobExecution { host, job, .. } = JobExecution::read(id);
        host == self.host && (job == self.id || (self.id.ends_with('/') && job.starts_with(&self.id)))
    }
}

/// Facts about the caller proven by a signed token. A field is empty if the token does not contain
/// it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProvenClaims {
    pub(crate) project: String,
    pub(crate) git_ref: String,
    pub(crate) owner: String,
    /// The CI system's id of the job's pipeline.
    pub(crate) pipeline: String,
    /// The commit that the job builds.
    pub(crate) commit: String,
    /// The job for which the token was issued: with the token only attempts of this job may be
    /// written.
    pub(crate) job: Option<TokenJob>,
}

/// An identified caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Name in logs and messages. Never a secret.
    pub(crate) name: Arc<str>,
    pub(crate) roles: Roles,
    /// Projects that the caller may write to, ask for and see.
    pub(crate) projects: Projects,
    pub(crate) proven: ProvenClaims,
    /// Whether the caller's attempts may lower predictions for others.
    pub(crate) trusted: bool,
    /// Whether the caller has no proof of identity.
    pub(crate) is_anonymous: bool,
    /// Whether the proof is the token of one CI job or pod.
    pub(crate) is_of_job: bool,
    /// When the proof of identity expires, seconds since 1970, clock tolerance included; `None` for
    /// callers with a static token or a certificate.
    pub(crate) expires: Option<u64>,
    /// Bounds of the caller; `None` if it has none.
    pub(crate) bounds: Option<Bounds>,
    pub(crate) usage: Usage,
}

impl Identity {
    /// Any caller of a server without an access file: it may do and see everything, and its
    /// attempts count for predictions.
    pub(crate) fn anyone() -> Arc<Self> {
        static ANONYMOUS_IDENTITY: LazyLock<Arc<Identity>> = LazyLock::new(|| {
            Arc::new(Identity {
                name: "anyone".into(),
                roles: Role::ALL.into_iter().collect(),
                projects: Projects::default(),
                trusted: true,
                is_anonymous: false,
                ..Identity::without_rights()
            })
        });
        Arc::clone(&ANONYMOUS_IDENTITY)
    }

    /// A caller that is not identified, on a server with an access file: it may do and see nothing.
    pub(crate) fn unknown() -> Arc<Self> {
        Arc::new(Self::without_rights())
    }

    fn without_rights() -> Self {
        Self {
            name: "nobody".into(),
            roles: Roles::default(),
            // a list with an empty name matches no project
            projects: vec![String::new()].into(),
            proven: ProvenClaims::default(),
            trusted: false,
            is_anonymous: true,
            is_of_job: false,
            expires: None,
            bounds: None,
            usage: Usage::default(),
        }
    }

    /// Checks that the caller may write this attempt.
    /// Errors: the caller's token was issued for another job.
    pub(crate) fn may_write(&self, attempt: &AttemptId) -> Result<(), FieldViolation> {
        let Some(TokenJob { host, id }) = &self.proven.job else { return Ok(()) };
        if self.is_own_job(attempt.as_str()) {
            return Ok(());
        }
        let description =
            format!("is {attempt}, but the token was made for job {host}:{id} and writes only its attempts");
        Err(FieldViolation::new("attempt", description))
    }

    /// Overwrites the fields of an attempt that is being opened with the values that the caller has proven.
    /// Errors: the caller may not write this attempt or project.
    pub(crate) fn opens(&self, attempt: &mut Attempt) -> Result<(), FieldViolation> {
        self.may_write(&attempt.id)?;
        self.prove(&mut attempt.key);
        self.prove_job(&attempt.id, &mut attempt.key);
        self.asks(&mut attempt.key.project)?;
        attempt.opening.untrusted = !self.trusted;
        attempt.opening.proven = self.is_own_job(attempt.id.as_str());
        Ok(())
    }

    /// Whether the attempt or ticket with this id belongs to the job for which the caller's token
    /// was issued.
    pub(crate) fn is_own_job(&self, id: &str) -> bool {
        self.proven.job.as_ref().is_some_and(|job| job.owns(id))
    }

    /// Counts `count` samples, bytes or queries against the caller's rate.
    /// Errors: the rate is exceeded.
    pub(crate) fn take(&self, bound: Bound, count: usize, now: Instant) -> Result<(), ExceededBound> {
        let Some(bounds) = &self.bounds else { return Ok(()) };
        self.usage.take_rate(bounds, bound, count as u64, now)
    }

    /// Takes a slot for a stream, a call, a request for a verdict or an open attempt.
    /// Errors: all slots of the caller are taken.
    pub(crate) fn place(&self, bound: Bound) -> Result<UsageSlot, ExceededBound> {
        self.bounds
            .as_ref()
            .map_or_else(|| Ok(UsageSlot::default()), |bounds| self.usage.take_slot(bounds, bound))
    }

    /// Takes a slot among the connections that a full listener keeps. `None` if the caller has no more of them, or proves nothing.
    pub(crate) fn connection_slot(&self) -> Option<UsageSlot> {
        if self.is_anonymous { None } else { self.place(Bound::Connections).ok() }
    }

    /// When the caller's token ends, milliseconds since 1970, if it is of one CI job or pod.
    pub(crate) fn job_token_ends_unix_ms(&self) -> Option<u64> {
        self.expires.filter(|_| self.is_of_job).map(|seconds| seconds.saturating_mul(1000))
    }

    /// Takes a slot for a call. `from`: the source address, if known.
    /// Errors: all slots of the caller are taken; or the caller is anonymous, and its address has too many of them.
    pub(crate) fn call_place(&self, from: Option<IpAddr>) -> Result<UsageSlot, ExceededBound> {
        match (&self.bounds, from.filter(|_from| self.is_anonymous)) {
            (Some(bounds), Some(from)) => self.usage.take_call_slot(bounds, network_of(from)),
            _ => self.place(Bound::Calls),
        }
    }

    /// Records an opened attempt with its key and labels.
    /// Errors: the caller's limit of attempts, keys or labels in this hour is reached.
    pub(crate) fn note(&self, attempt: &Attempt, now: Instant) -> Result<(), ExceededBound> {
        let Some(bounds) = &self.bounds else { return Ok(()) };
        let key = &attempt.key;
        self.usage.count_item(bounds, Bound::Attempts, attempt.id.as_str(), now)?;
        // predictions treat the builds of each branch as a separate key
        self.usage.count_item(bounds, Bound::Keys, (key.build_key(), &key.git_ref), now)?;
        key.labels.iter().try_for_each(|label| self.usage.count_item(bounds, Bound::Labels, label, now))
    }

    /// Overwrites the fields of a key with the values that the caller has proven.
    fn prove(&self, key: &mut Key) {
        let ProvenClaims { project, git_ref, owner, .. } = &self.proven;
        for (proven, claimed) in
            [(project, &mut key.project), (git_ref, &mut key.git_ref), (owner, &mut key.owner)]
        {
            if !proven.is_empty() {
                claimed.clone_from(proven);
            }
        }
    }

    /// Overwrites the labels that identify the job's commit and pipeline with what is proven.
    /// Attempts with equal labels are retries of each other and share a retry budget. An untrusted
    /// caller's label that the token does not prove is removed, because the job may have written
    /// anything there.
    fn prove_job(&self, attempt: &AttemptId, key: &mut Key) {
        if !self.is_own_job(attempt.as_str()) {
            return;
        }
        let ProvenClaims { pipeline, commit, .. } = &self.proven;
        let labels =
            COMMIT_LABELS.map(|label| (label, commit)).into_iter().chain([(PIPELINE_LABEL, pipeline)]);
        for (label, proven) in labels {
            match key.labels.get_mut(label) {
                Some(claimed) if !proven.is_empty() => claimed.clone_from(proven),
                Some(_) if !self.trusted => drop(key.labels.remove(label)),
                _ => {}
            }
        }
    }

    /// Overwrites fields of a question about an unmeasured attempt with what is proven: all fields
    /// if it is an attempt of the caller's own job, else the project if the question names none.
    /// Errors: the caller may not ask for this project.
    pub(crate) fn asks_about(&self, attempt: &AttemptId, key: &mut Key) -> Result<(), FieldViolation> {
        if self.is_own_job(attempt.as_str()) {
            self.prove(key);
            self.prove_job(attempt, key);
        }
        self.asks(&mut key.project)
    }

    /// The project of a request that names none, if the caller has one alone: the proven one, or the only one of its grant. Empty for a
    /// caller of several projects or of all.
    pub(crate) fn only_project(&self) -> &str {
        let ProvenClaims { project, .. } = &self.proven;
        match self.projects.patterns() {
            [] => "",
            _ if !project.is_empty() && self.sees(project) => project,
            [only] if !only.ends_with('*') => only,
            _ => "",
        }
    }

    /// Adds the caller's own project to a question that names none.
    /// Errors: the caller may not ask for this project.
    pub(crate) fn asks(&self, project: &mut String) -> Result<(), FieldViolation> {
        if project.is_empty() {
            project.clone_from(&self.proven.project);
        }
        self.filters(project)
    }

    /// Adds the caller's only project to a question that names none, and that is about all projects for a caller of all.
    /// Errors: the caller may not ask for this project.
    pub(crate) fn filters(&self, project: &mut String) -> Result<(), FieldViolation> {
        if project.is_empty() {
            self.only_project().clone_into(project);
        }
        self.may_see(project)
    }

    /// Overwrites fields of a ticket request with what is proven: the project if the request names
    /// none, and branch and owner if the request is for the proven project.
    /// Errors: the caller may not ask for this project.
    pub(crate) fn claims(&self, key: &mut Key) -> Result<(), FieldViolation> {
        self.asks(&mut key.project)?;
        if key.project == self.proven.project {
            self.prove(key);
        }
        Ok(())
    }

    /// Whether the caller has the role operator for this project (for all projects if it is empty).
    pub(crate) fn operates(&self, project: &str) -> bool {
        self.roles.has(Role::Operator) && self.sees(project)
    }

    /// Whether the caller may read corrections that people wrote about attempts of this project.
    pub(crate) fn reads(&self, project: &str) -> bool {
        (self.roles.has(Role::Reader) && self.sees(project)) || self.operates(project)
    }

    /// Whether the caller may see names of attempts of this project: it may read the project, or
    /// its grant names the project.
    pub(crate) fn may_learn_of(&self, project: &str) -> bool {
        (self.roles.has(Role::Reader) && self.sees(project)) || self.projects.name(project)
    }

    /// Whether the caller may write to, ask for and see this project (all projects if it is empty).
    pub(crate) fn sees(&self, project: &str) -> bool {
        self.projects.is_all() || (!project.is_empty() && self.projects.covers(project))
    }

    /// Like [`Self::sees`], with an error text.
    /// Errors: the caller may not.
    pub(crate) fn may_see(&self, project: &str) -> Result<(), FieldViolation> {
        if self.sees(project) {
            return Ok(());
        }
        let (name, own) = (shown(&self.name), self.projects.to_string());
        let text = if project.is_empty() {
            format!("is missing; {name} may see only {}, so name one of them", shown(&own))
        } else {
            format!("is {:?}; {name} may see only {}", shown(project), shown(&own))
        };
        Err(FieldViolation::new("project", text))
    }
}
