//! Gives each run of a job an id of its own: a second run under the id of another becomes `ID.2`.
//!
//! | who has the id | an agent that takes a new id | a client that keeps its id |
//! |---|---|---|
//! | no run, this run, or one that gives way | gets it | gets it |
//! | another run of its project | the next number | is refused |
//! | a run of another project | the next number | the next number, and its stream goes on under the id that it asked for |
//! | runs of others have all numbers | a suffix that others cannot know | the same |
//!
//! An agent sends the id of its CI job. It cannot know whether another container of the job sends
//! the same id, or a caller of another project that guessed it; only the worker knows all attempts.
//! A run that reconnects gets the same id again, because an attempt is stored with the session of
//! its agent.

use plimsoll_core::domain::{Attempt, AttemptId, FieldViolation};
use plimsoll_proto::job;
use ring::digest;

use super::{Refusal, Reply, session::Session, worker::Worker};

impl Worker {
    /// Returns the attempt with its requested id, or with another id that no other run has.
    /// Errors: other runs of its project have the ids that it may get.
    pub(super) async fn with_own_id(&self, mut attempt: Attempt, takes_new_id: bool) -> Reply<Attempt> {
        let asked = attempt.id.clone();
        if let Some(own) = self.own_run(&attempt) {
            attempt.id = own;
            return Ok(attempt);
        }
        let (mut number, mut is_held_elsewhere) = (1, false);
        while let Some(holder) = self.other_holder(&attempt).await? {
            is_held_elsewhere |= holder != attempt.key.project;
            number += 1;
            let next = match number {
                _ if !takes_new_id && holder == attempt.key.project => return Err(Refusal::Held(asked)),
                ..=job::MAX_RUNS => job::run_id(asked.as_str(), number),
                // others cannot take this id in advance: they do not know the session
                _ if is_held_elsewhere && number == job::MAX_RUNS + 1 => secret_id(&asked, &attempt),
                _ => return Err(Refusal::Held(asked)),
            };
            attempt.id = AttemptId::parse(&next).map_err(|why| FieldViolation::new("hello.attempt", why))?;
        }
        if attempt.id != asked {
            let (id, project) = (&attempt.id, &attempt.key.project);
            tracing::info!(%asked, attempt = %id, project, "another run has the id of an attempt");
        }
        Ok(attempt)
    }

    /// The id under which a run of this agent is open, if it is not the one asked for: it keeps that also after the run that had the other
    /// one is gone, or its measurements would be in two attempts.
    fn own_run(&self, attempt: &Attempt) -> Option<AttemptId> {
        let is_own = |open: &Session| open.attempt.is_same_agent(attempt);
        if attempt.is_proven_job() || self.latest(&attempt.id).as_ref().is_some_and(is_own) {
            return None;
        }
        let numbered = (2..=job::MAX_RUNS).filter_map(|number| {
            let id = AttemptId::parse(&job::run_id(attempt.id.as_str(), number)).ok()?;
            self.latest(&id)
        });
        numbered.filter(is_own).map(|own| own.attempt.id.clone()).next()
    }

    /// The project of the run that has the id of the attempt. `None` if the attempt may have its id: no run has it, this run has it
    /// already, or the run that has it gives way to this one.
    async fn other_holder(&self, attempt: &Attempt) -> Reply<Option<String>> {
        if let Some(open) = self.latest(&attempt.id) {
            let may_have_it = open.attempt.is_same_agent(attempt) || open.attempt.yields_to(attempt);
            return Ok((!may_have_it).then(|| open.attempt.key.project.clone()));
        }
        let sealed = self.sealed_summary(&attempt.id).await?;
        let other = sealed.filter(|sealed| !sealed.is_of(attempt) && !sealed.yields_to(attempt));
        Ok(other.map(|sealed| sealed.key.project.clone()))
    }
}

/// The id with a suffix made of the session, which other callers do not know.
fn secret_id(asked: &AttemptId, attempt: &Attempt) -> String {
    let sum = digest::digest(&digest::SHA256, attempt.session.as_str().as_bytes());
    let sum = sum.as_ref().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
    job::with_suffix(asked.as_str(), &format!(".r{sum:016x}"))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::SessionId;
    use plimsoll_store::{MemoryStore, Store};
    use tokio::sync::oneshot;

    use super::*;
    use crate::ingest::{
        StreamHandle, fixture,
        request::{OpenedAttempt, Request},
    };

    fn run(session: &str, project: &str) -> Attempt {
        let mut attempt = Attempt { session: SessionId::parse(session).unwrap(), ..fixture::attempt("h:7") };
        attempt.key.project = project.to_owned();
        attempt
    }

    async fn opened(worker: &mut Worker, attempt: Attempt, takes_new_id: bool) -> Reply<OpenedAttempt> {
        let (answer, answered) = oneshot::channel();
        let (attempt, stream) = (Box::new(attempt), StreamHandle::new());
        worker.handle_requests([Request::Open { attempt, stream, takes_new_id, answer }].into_iter()).await;
        worker.commit_all().await;
        answered.await.unwrap()
    }

    /// The id that a run gets.
    async fn id(worker: &mut Worker, attempt: Attempt) -> String {
        opened(worker, attempt, true).await.unwrap().attempt.to_string()
    }

    async fn end(worker: &mut Worker, attempt: Attempt) {
        let (stream, (answer, answered)) = (StreamHandle::new(), oneshot::channel());
        let (opening, _opened) = oneshot::channel();
        let open = Request::Open {
            attempt: Box::new(attempt.clone()),
            stream: stream.clone(),
            takes_new_id: true,
            answer: opening,
        };
        let finish = fixture::finish(attempt.id);
        worker
            .handle_requests([open, Request::Finish { finish: Box::new(finish), stream, answer }].into_iter())
            .await;
        worker.commit_all().await;
        assert_eq!(answered.await.unwrap(), Ok(0));
    }

    async fn started(memory: &MemoryStore) -> Worker {
        let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
        worker.resume().await.unwrap();
        worker
    }

    #[tokio::test]
    async fn each_run_under_one_id_gets_its_own() {
        let memory = MemoryStore::default();
        let mut worker = started(&memory).await;
        assert_eq!(id(&mut worker, run("first", "x")).await, "h:7");
        assert_eq!(id(&mut worker, run("second", "x")).await, "h:7.2", "while the first is open");
        end(&mut worker, run("first", "x")).await;
        assert_eq!(id(&mut worker, run("third", "x")).await, "h:7.3", "after the end of the first");
        drop(worker);

        let mut worker = started(&memory).await;
        assert_eq!(id(&mut worker, run("second", "x")).await, "h:7.2", "it comes again");
        assert_eq!(id(&mut worker, run("third", "x")).await, "h:7.3");
        let again = opened(&mut worker, run("first", "x"), true).await.unwrap();
        assert_eq!((again.attempt.as_str(), again.sealed), ("h:7", true), "its end is on the disk");
        let old = opened(&mut worker, run("fourth", "x"), false).await;
        assert_eq!(old, Err(Refusal::Held(fixture::attempt("h:7").id)), "an agent that keeps its id");
    }

    #[tokio::test]
    async fn a_squatted_id_does_not_block_the_job() {
        let mut worker = started(&MemoryStore::default()).await;
        assert_eq!(id(&mut worker, run("squatter", "a/theirs")).await, "h:7");
        assert_eq!(id(&mut worker, run("job", "b/ours")).await, "h:7.2");
        let projects = worker.open().map(|open| (open.id.to_string(), open.key.project.clone()));
        let mut projects: Vec<_> = projects.collect();
        projects.sort();
        let named = |id: &str, project: &str| (id.to_owned(), project.to_owned());
        assert_eq!(projects, [named("h:7", "a/theirs"), named("h:7.2", "b/ours")]);
        let keeps_its_id = async |worker: &mut Worker, session| {
            let opened = opened(worker, run(session, "c/raw"), false).await;
            opened.map(|opened| opened.attempt.to_string())
        };
        assert_eq!(keeps_its_id(&mut worker, "raw").await.unwrap(), "h:7.3");
        assert_eq!(keeps_its_id(&mut worker, "raw").await.unwrap(), "h:7.3", "it comes again");
        assert!(keeps_its_id(&mut worker, "second").await.is_err(), "a run of its own project");
        worker.sessions.remove(&fixture::attempt("h:7").id);
        assert_eq!(id(&mut worker, run("job", "b/ours")).await, "h:7.2", "the other run is gone");
        worker.sessions.remove(&fixture::attempt("h:7.2").id);
        assert_eq!(keeps_its_id(&mut worker, "raw").await.unwrap(), "h:7.3", "the one between is gone, too");
        // one that proves the job has its id
        let mut proven = run("proven", "b/ours");
        proven.opening.proven = true;
        assert_eq!(id(&mut worker, proven).await, "h:7");
    }

    #[tokio::test]
    async fn a_proven_run_keeps_each_agents_id() {
        let mut worker = started(&MemoryStore::default()).await;
        let of_run = |session: &str| {
            let id = AttemptId::parse("github:a/b:12.2/x").unwrap();
            let mut attempt = Attempt { id, ..run(session, "a/b") };
            attempt.opening.proven = true;
            attempt
        };
        for (session, expected) in [("one", "github:a/b:12.2/x"), ("two", "github:a/b:12.2/x.2")] {
            assert_eq!(id(&mut worker, of_run(session)).await, expected);
        }
        worker.sessions.remove(&of_run("one").id);
        assert_eq!(id(&mut worker, of_run("two")).await, "github:a/b:12.2/x.2", "the other job is gone");
    }

    #[tokio::test]
    async fn another_project_cannot_take_all_ids() {
        let (_ingest, mut worker) = fixture::ingest(&Store::memory(), 200);
        worker.parts.open_attempts = 200;
        for number in 1..=job::MAX_RUNS {
            id(&mut worker, run(&format!("squatter-{number}"), "a/theirs")).await;
        }
        let theirs = opened(&mut worker, run("one-more", "a/theirs"), true).await;
        assert_eq!(theirs, Err(Refusal::Held(fixture::attempt("h:7").id)));
        for takes_new_id in [true, false] {
            let ours = opened(&mut worker, run("job", "b/ours"), takes_new_id).await.unwrap();
            assert!(ours.attempt.as_str().starts_with("h:7.r"), "{ours:?}");
        }
    }
}
