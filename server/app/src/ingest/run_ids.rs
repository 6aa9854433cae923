//! Gives each run of a job an id of its own: a second run under the id of another becomes `ID.2`.
//!
//! An agent sends the id of its CI job. It cannot know whether another container of the job sends
//! the same id, or a caller of another project that guessed it; only the worker knows all attempts.
//! A run that reconnects gets the same id again, because an attempt is stored with the session of
//! its agent.

use plimsoll_core::domain::{Attempt, AttemptId, FieldViolation};
use plimsoll_proto::job;

use super::{Refusal, worker::Worker};

impl Worker {
    /// Returns the attempt with its requested id, or with the first following id that no other run
    /// has.
    pub(super) async fn with_own_id(&self, mut attempt: Attempt) -> Result<Attempt, Refusal> {
        let asked = attempt.id.clone();
        let mut number = 1;
        while !self.may_have_id(&attempt).await? {
            number += 1;
            if number > job::MAX_RUNS {
                return Err(Refusal::Held(asked));
            }
            attempt.id = AttemptId::parse(&job::run_id(asked.as_str(), number))
                .map_err(|why| FieldViolation::new("hello.attempt", why))?;
        }
        if attempt.id != asked {
            let (id, project) = (&attempt.id, &attempt.key.project);
            tracing::info!(%asked, attempt = %id, project, "another run has the id of an attempt");
        }
        Ok(attempt)
    }

    /// Whether the attempt may have its id: no run has it, this run has it already, or the run that
    /// has it gives way to this one.
    async fn may_have_id(&self, attempt: &Attempt) -> Result<bool, Refusal> {
        if let Some(open) = self.latest(&attempt.id) {
            return Ok(open.attempt.is_same_agent(attempt) || open.attempt.yields_to(attempt));
        }
        let sealed = self.sealed_summary(&attempt.id).await?;
        Ok(sealed.is_none_or(|sealed| sealed.is_of(attempt) || sealed.yields_to(attempt)))
    }
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

    async fn opened(
        worker: &mut Worker,
        attempt: Attempt,
        takes_new_id: bool,
    ) -> Result<OpenedAttempt, Refusal> {
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
        worker.handle_requests([open, Request::Finish { finish, stream, answer }].into_iter()).await;
        worker.commit_all().await;
        assert_eq!(answered.await.unwrap(), Ok(0));
    }

    async fn started(memory: &MemoryStore) -> Worker {
        let (_ingest, mut worker) = fixture::ingest(&Store::Memory(memory.clone()), 10);
        worker.resume().await.unwrap();
        worker
    }

    #[tokio::test]
    async fn each_run_under_one_id_is_an_attempt_of_its_own_also_after_its_end_and_a_restart() {
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
    async fn a_caller_of_another_project_that_took_the_id_of_a_job_does_not_keep_the_job_from_its_own() {
        let mut worker = started(&MemoryStore::default()).await;
        assert_eq!(id(&mut worker, run("squatter", "a/theirs")).await, "h:7");
        assert_eq!(id(&mut worker, run("job", "b/ours")).await, "h:7.2");
        let projects = worker.open().map(|open| (open.id.to_string(), open.key.project.clone()));
        let mut projects: Vec<_> = projects.collect();
        projects.sort();
        let named = |id: &str, project: &str| (id.to_owned(), project.to_owned());
        assert_eq!(projects, [named("h:7", "a/theirs"), named("h:7.2", "b/ours")]);
        // one that proves the job has its id
        let mut proven = run("proven", "b/ours");
        proven.opening.proven = true;
        assert_eq!(id(&mut worker, proven).await, "h:7");
    }
}
