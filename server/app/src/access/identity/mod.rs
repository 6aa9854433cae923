//! Who calls, what it may do, and whether its attempts count for predictions. Reads no file and sends no request: the builders of [`Access`] do. What
//! it keeps is in memory (checked tokens, keys that were fetched, what callers have done). The time comes from outside, but for the expiry of
//! a signed token, which the library looks at.
//!
//! Without a file of access every caller is [`Identity::anyone`]: that is for a first try on one machine. With one, a caller proves
//! who it is by a bearer token (a static one, or one that GitLab or Kubernetes has signed) or by the certificate of its
//! connection, and what is proven wins over what a message says.

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
pub(crate) use bounds::{Bound, Exceeded};
pub(crate) use denied::Denied;
pub(crate) use fetched::{AGAIN, Fetched, Origin, safe_address};
pub(crate) use file::{AccessFile, Sources, hash};
use plimsoll_core::domain::{Attempt, AttemptId, COMMIT_LABELS, FieldViolation, Key, PIPELINE_LABEL};
use plimsoll_proto::job::JobExecution;
pub(crate) use projects::{Projects, can_match};
use tokio::time::Instant;
use usage::Usage;
pub(crate) use usage::{UsageSlot, Usages};

use crate::runtime::net::accept::network;
pub(crate) use plimsoll_core::domain::is_like;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Delivers attempts.
    Agent,
    /// Asks for sizes and verdicts.
    Caller,
    /// Sees statistics, attempts and metrics.
    Reader,
    /// Delivers hooks of the CI system.
    Hook,
    /// Takes backups, corrects causes, watches and closes tickets of others.
    Operator,
}

impl Role {
    pub(crate) const ALL: [Self; 5] = [Self::Agent, Self::Caller, Self::Reader, Self::Hook, Self::Operator];

    /// Its name, as in the file.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Caller => "caller",
            Self::Reader => "reader",
            Self::Hook => "hook",
            Self::Operator => "operator",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Some roles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Roles(u8);

impl Roles {
    /// Whether `role` is one of them.
    pub(crate) fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// Whether there is one that is in both.
    pub(crate) fn has_one_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Their names, for people.
    pub(crate) fn words(self) -> String {
        let names: Vec<&str> =
            Role::ALL.into_iter().filter(|role| self.has(*role)).map(Role::as_str).collect();
        names.join(" or ")
    }
}

impl From<Role> for Roles {
    fn from(role: Role) -> Self {
        Self(role.bit())
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |bits, role| bits | role.bit()))
    }
}

/// Bytes of what a caller or its token says that a refusal repeats, at most.
const SHOWN: usize = 200;

/// The beginning of a text that may be long.
fn shown(text: &str) -> Cow<'_, str> {
    if text.len() <= SHOWN {
        return Cow::Borrowed(text);
    }
    let end = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{}...", text.get(..end).unwrap_or_default()))
}

/// A CI job, as its token names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// Host of the CI system.
    pub(crate) host: String,
    /// The CI system's id of the job.
    pub(crate) id: String,
}

/// Facts that a signed token proves. Empty means that it says nothing of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Proven {
    pub(crate) project: String,
    pub(crate) git_ref: String,
    pub(crate) owner: String,
    /// The CI system's id of the pipeline that its job is in.
    pub(crate) pipeline: String,
    /// The commit that its job builds.
    pub(crate) commit: String,
    /// The job that it was made for: only that job's attempts may be written with it.
    pub(crate) job: Option<Job>,
}

/// A caller of whom it is known who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// For logs and messages: never a secret.
    pub(crate) name: Arc<str>,
    pub(crate) roles: Roles,
    /// Projects that it may write, ask for and see.
    pub(crate) projects: Projects,
    pub(crate) proven: Proven,
    /// What it delivers may lower predictions for others.
    pub(crate) trusted: bool,
    /// Nothing says who it is.
    pub(crate) is_anonymous: bool,
    /// When what proves it ends, seconds since 1970, with the seconds by which clocks may differ; `None` for what the operator wrote.
    pub(crate) expires: Option<u64>,
    /// How much it may do; `None`: not counted.
    pub(crate) bounds: Option<Bounds>,
    pub(crate) usage: Usage,
}

impl Identity {
    /// Every caller, where no access is configured: may do and see all, and counts for predictions.
    pub(crate) fn anyone() -> Arc<Self> {
        static ANYONE: LazyLock<Arc<Identity>> = LazyLock::new(|| {
            Arc::new(Identity {
                name: "anyone".into(),
                roles: Role::ALL.into_iter().collect(),
                projects: Projects::default(),
                proven: Proven::default(),
                trusted: true,
                is_anonymous: false,
                expires: None,
                bounds: None,
                usage: Usage::default(),
            })
        });
        Arc::clone(&ANYONE)
    }

    /// An unknown caller, where access is configured: may do and see nothing.
    pub(crate) fn unknown() -> Arc<Self> {
        Arc::new(Identity {
            name: "nobody".into(),
            roles: Roles::default(),
            // the name of no project
            projects: vec![String::new()].into(),
            proven: Proven::default(),
            trusted: false,
            is_anonymous: true,
            expires: None,
            bounds: None,
            usage: Usage::default(),
        })
    }

    /// Whether it may write this attempt.
    ///
    /// # Errors
    /// Its token was made for another job.
    pub(crate) fn may_write(&self, attempt: &AttemptId) -> Result<(), FieldViolation> {
        let Some(Job { host, id }) = &self.proven.job else { return Ok(()) };
        if self.is_own_job(attempt.as_str()) {
            return Ok(());
        }
        let description =
            format!("is {attempt}, but the token was made for job {host}:{id} and writes only its attempts");
        Err(FieldViolation::new("attempt", description))
    }

    /// Puts what is proven into the opening of an attempt, over what its message says.
    ///
    /// # Errors
    /// The attempt, or its project, is not one that it may write.
    pub(crate) fn opens(&self, attempt: &mut Attempt) -> Result<(), FieldViolation> {
        self.may_write(&attempt.id)?;
        self.prove(&mut attempt.key);
        self.prove_job(&attempt.id, &mut attempt.key);
        self.may_see("key.project", &attempt.key.project)?;
        attempt.opening.untrusted = !self.trusted;
        attempt.opening.proven = self.is_own_job(attempt.id.as_str());
        Ok(())
    }

    /// Whether an attempt or ticket with this id is, by what is proven, of its own job.
    pub(crate) fn is_own_job(&self, id: &str) -> bool {
        let named = JobExecution::read(id);
        self.proven.job.as_ref().is_some_and(|Job { host, id }| named.host == host && named.job == id)
    }

    /// Takes `count` of a rate of its own: samples, bytes or queries.
    ///
    /// # Errors
    /// It has gone beyond it.
    pub(crate) fn take(&self, bound: Bound, count: usize, now: Instant) -> Result<(), Exceeded> {
        let Some(bounds) = &self.bounds else { return Ok(()) };
        self.usage.take(bounds, bound, count as u64, now)
    }

    /// A place of its own for something that lasts: a stream, a call, a question for a verdict or an open attempt.
    ///
    /// # Errors
    /// It has as many as it may have.
    pub(crate) fn place(&self, bound: Bound) -> Result<UsageSlot, Exceeded> {
        self.bounds
            .as_ref()
            .map_or_else(|| Ok(UsageSlot::default()), |bounds| self.usage.place(bounds, bound))
    }

    /// A place for a call, which came from this address if that is known.
    ///
    /// # Errors
    /// It has as many as it may have; of a caller of whom nothing else is known, its address has.
    pub(crate) fn call_place(&self, from: Option<IpAddr>) -> Result<UsageSlot, Exceeded> {
        match (&self.bounds, from.filter(|_from| self.is_anonymous)) {
            (Some(bounds), Some(from)) => self.usage.call_from(bounds, network(from)),
            _ => self.place(Bound::Calls),
        }
    }

    /// Records an opened attempt with its key and labels.
    ///
    /// # Errors
    /// The limit of this hour is exceeded.
    pub(crate) fn note(&self, attempt: &Attempt, now: Instant) -> Result<(), Exceeded> {
        let Some(bounds) = &self.bounds else { return Ok(()) };
        let key = &attempt.key;
        self.usage.note(bounds, Bound::Attempts, attempt.id.as_str(), now)?;
        // what a branch builds is learnt on its own
        self.usage.note(bounds, Bound::Keys, (key.built(), &key.git_ref), now)?;
        key.labels.iter().try_for_each(|label| self.usage.note(bounds, Bound::Labels, label, now))
    }

    /// Puts what is proven over what is said.
    fn prove(&self, key: &mut Key) {
        let Proven { project, git_ref, owner, .. } = &self.proven;
        for (proven, claimed) in
            [(project, &mut key.project), (git_ref, &mut key.git_ref), (owner, &mut key.owner)]
        {
            if !proven.is_empty() {
                claimed.clone_from(proven);
            }
        }
    }

    /// Puts what is proven of a job over the labels that say which job an attempt is an execution of: by them attempts are retries of each
    /// other, and use up each other's retries. What an untrusted token says nothing of goes, because its job may say anything there.
    fn prove_job(&self, attempt: &AttemptId, key: &mut Key) {
        if !self.is_own_job(attempt.as_str()) {
            return;
        }
        let Proven { pipeline, commit, .. } = &self.proven;
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

    /// Puts what is proven into a question about an attempt that was not measured: all of it if it is an attempt of its own job, of
    /// which a message may say nothing else, and the project where none is named.
    ///
    /// # Errors
    /// It may not ask for this project.
    pub(crate) fn asks_about(&self, attempt: &AttemptId, key: &mut Key) -> Result<(), FieldViolation> {
        if self.is_own_job(attempt.as_str()) {
            self.prove(key);
            self.prove_job(attempt, key);
        }
        self.asks("key.project", key)
    }

    /// Puts the proven project into a question that names none.
    ///
    /// # Errors
    /// It may not ask for this project.
    pub(crate) fn asks(&self, field: &str, key: &mut Key) -> Result<(), FieldViolation> {
        if key.project.is_empty() {
            key.project.clone_from(&self.proven.project);
        }
        self.may_see(field, &key.project)
    }

    /// Puts what is proven into a question for a place: the project where none is named, and the branch and the owner of that project.
    ///
    /// # Errors
    /// It may not ask for this project.
    pub(crate) fn claims(&self, field: &str, key: &mut Key) -> Result<(), FieldViolation> {
        self.asks(field, key)?;
        if key.project == self.proven.project {
            self.prove(key);
        }
        Ok(())
    }

    /// Whether it operates this project: what an operator may goes for its `projects`; empty stands for all of them.
    pub(crate) fn operates(&self, project: &str) -> bool {
        self.roles.has(Role::Operator) && self.sees(project)
    }

    /// Whether it reads what people wrote of the attempts of this project.
    pub(crate) fn reads(&self, project: &str) -> bool {
        (self.roles.has(Role::Reader) && self.sees(project)) || self.operates(project)
    }

    /// Whether attempts of this project may be named to it: it reads them, or is named for the project.
    pub(crate) fn may_learn_of(&self, project: &str) -> bool {
        (self.roles.has(Role::Reader) && self.sees(project)) || self.projects.name(project)
    }

    /// As [`Self::may_see`], without words.
    pub(crate) fn sees(&self, project: &str) -> bool {
        self.projects.is_all() || (!project.is_empty() && self.projects.has(project))
    }

    /// Whether it may write to, ask for and see this project; empty stands for all of them.
    ///
    /// # Errors
    /// It may not. `field` is where the project was named.
    pub(crate) fn may_see(&self, field: &str, project: &str) -> Result<(), FieldViolation> {
        if self.sees(project) {
            return Ok(());
        }
        let named = if project.is_empty() {
            "names no project".to_owned()
        } else {
            format!("is {:?}", shown(project))
        };
        let own = self.projects.to_string();
        Err(FieldViolation::new(
            field,
            format!("{named}; {} may see only {}", shown(&self.name), shown(&own)),
        ))
    }
}
