//! Predict, PredictBatch, ShouldRetry and Explain: convert, call, convert.

use std::{sync::Arc, time::Instant};

use plimsoll_proto::{
    limits,
    v1::{self as pb, predict_batch_response::Result as Answer, predictor_server::Predictor},
};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::{
    convert,
    guarded::{Admitted, admitted, caller},
    outbound::{self, Outbound},
    reply, status,
    streams::{AtOnce, Streams},
};
use crate::{
    answers::Answers,
    domain::{Evidence, History, Key, NeedGroups, Prediction, UsedAttempt},
    identity::{Bound, Identity, Role},
    ingest::{Asker, Ingest},
    learned::Learned,
    metrics::{Kind, Metrics},
    placing::Placing,
    predict,
    privacy::Private,
    shadow,
};

/// One whose answers are not read holds 400 KiB of them at worst, as HTTP/2 keeps them.
pub(super) const BATCHES: AtOnce = AtOnce { what: "batches of questions", most: 256 };

/// The service `plimsoll.v1.Predictor`.
#[derive(Debug, Clone)]
pub(super) struct PredictorService {
    pub(super) learned: Learned,
    pub(super) private: Arc<Private>,
    pub(super) answers: Arc<Answers>,
    pub(super) settings: Arc<predict::Settings>,
    pub(super) shadow: Arc<shadow::Settings>,
    pub(super) ingest: Ingest,
    pub(super) placing: Placing,
    pub(super) metrics: Arc<Metrics>,
    pub(super) batches: Streams,
}

impl PredictorService {
    fn answer(&self, key: &Key) -> Prediction {
        let began = Instant::now();
        let prediction = self.answers.predict(&self.learned, key, &self.settings);
        self.metrics.predicted(prediction.memory_limit.basis.rung, began.elapsed());
        self.placing.put(key, prediction)
    }

    /// A prediction as it is sent: with a word where it is not to be put into force.
    fn shown(&self, key: &Key, prediction: Prediction) -> pb::Prediction {
        let shadow = self.shadow.withholds(key);
        if shadow {
            self.metrics.withheld.get_or_create(&Kind::of("prediction")).inc();
        }
        pb::Prediction { shadow, ..reply::prediction(prediction) }
    }

    fn answer_one(&self, request: pb::PredictRequest, caller: &Identity) -> pb::PredictBatchResponse {
        let asked = convert::ask(request).and_then(|(mut key, _limit)| {
            caller.asks("key.project", &mut key)?;
            Ok(key)
        });
        let result = match asked {
            Ok(key) => Answer::Prediction(self.shown(&key, self.answer(&key))),
            Err(fault) => Answer::Error(pb::AskError { field: fault.field, description: fault.description }),
        };
        pb::PredictBatchResponse { result: Some(result) }
    }
}

/// How a question about an attempt is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// The verdict is kept.
    Kept,
    /// It is not.
    Aside,
    /// As if the attempt were not there: whose it is, and that it is there, is nobody else's business.
    Unseen,
}

impl PredictorService {
    /// Answers questions in their order, until they end, the caller may not go on or does not read, or the server stops.
    fn batch(
        &self,
        questions: impl Stream<Item = Result<pb::PredictRequest, Status>> + Send + Unpin + 'static,
        caller: Arc<Identity>,
        admitted: Admitted,
    ) -> Result<outbound::Answers<pb::PredictBatchResponse>, Status> {
        let (stream, service) = (self.batches.take(admitted.clone())?, self.clone());
        Ok(stream.answer(move |outbound| {
            Box::pin(async move { service.answer_all(questions, &caller, &admitted, outbound).await })
        }))
    }

    async fn answer_all(
        &self,
        mut questions: impl Stream<Item = Result<pb::PredictRequest, Status>> + Unpin,
        caller: &Identity,
        admitted: &Admitted,
        outbound: &Outbound<pb::PredictBatchResponse>,
    ) -> Result<(), Status> {
        while let Some(request) = questions.next().await {
            admitted.check()?;
            admitted.within(|caller| caller.take(Bound::Queries, 1, Instant::now().into()))?;
            outbound.send(self.answer_one(request?, caller)).await?;
        }
        Ok(())
    }

    /// How a question of `caller` is judged: an attempt belongs to the project that was measured, else to the one that is said. Kept is
    /// the verdict if somebody who is trusted asks, or the job itself about what does not teach: what is kept is shown, counts among those
    /// that an attempt may have, and teaches if the attempt does.
    async fn how(&self, caller: &Identity, question: &mut Evidence) -> Result<(How, Asker), Status> {
        let (is_trusted, sees_all) = (caller.trusted, caller.projects.is_all());
        let asker = Asker { is_trusted, sees_all, reads_logs: false };
        if is_trusted && sees_all && caller.roles.has(Role::Reader) && !self.private.logs {
            return Ok((How::Kept, Asker { reads_logs: true, ..asker }));
        }
        if caller.is_anonymous && !caller.roles.has(Role::Reader) && !(is_trusted && sees_all) {
            return Ok((How::Unseen, asker));
        }
        let found = self.ingest.find(&question.attempt).await;
        let found = found.map_err(|refusal| status::of_refusal(&refusal))?;
        let seen = found.as_ref().map(|(summary, _running)| caller.sees(&summary.key.project));
        if seen != Some(true) {
            let allowed = caller.asks_about(&question.attempt, &mut question.key);
            allowed.map_err(|fault| status::forbidden(&fault))?;
        }
        let measured = found.as_ref().map(|(summary, _running)| summary);
        let project = measured.map_or(&question.key.project, |summary| &summary.key.project);
        let is_own_job = caller.is_own_job(question.attempt.as_str());
        let is_told = caller.may_be_told_of(project);
        let hides = self.private.logs && self.private.hides_from(caller, project);
        let asker = Asker { reads_logs: is_own_job || (is_told && !hides), ..asker };
        let teaches = measured.is_some_and(|summary| !summary.opening.untrusted);
        let is_own = seen.is_some() && !teaches && is_own_job;
        let how = match seen {
            Some(false) => How::Unseen,
            _ if caller.trusted || is_own => How::Kept,
            _ => How::Aside,
        };
        Ok((how, asker))
    }

    /// An explanation names attempts only of projects of which `caller` is told elsewhere.
    fn may_name(caller: &Identity, history: &History, used: &UsedAttempt) -> bool {
        let brief = history.get(&used.attempt);
        brief.is_some_and(|brief| caller.may_be_told_of(&brief.key.project))
    }
}

#[tonic::async_trait]
impl Predictor for PredictorService {
    type PredictBatchStream = outbound::Answers<pb::PredictBatchResponse>;

    async fn predict(
        &self,
        request: Request<pb::PredictRequest>,
    ) -> Result<Response<pb::PredictResponse>, Status> {
        let caller = caller(&request);
        let (mut key, _limit) =
            convert::ask(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        caller.asks("key.project", &mut key).map_err(|fault| status::forbidden(&fault))?;
        let prediction = Some(self.shown(&key, self.answer(&key)));
        Ok(Response::new(pb::PredictResponse { prediction }))
    }

    async fn predict_batch(
        &self,
        request: Request<Streaming<pb::PredictRequest>>,
    ) -> Result<Response<Self::PredictBatchStream>, Status> {
        let (caller, admitted) = (caller(&request), admitted(&request));
        self.batch(request.into_inner(), caller, admitted).map(Response::new)
    }

    async fn should_retry(
        &self,
        request: Request<pb::ShouldRetryRequest>,
    ) -> Result<Response<pb::ShouldRetryResponse>, Status> {
        let (caller, admitted) = (caller(&request), admitted(&request));
        let mut question =
            convert::question(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        let _own = admitted.within(|caller| caller.place(Bound::Verdicts))?;
        let _place = self.ingest.line_up(caller.trusted).map_err(|refusal| status::of_refusal(&refusal))?;
        let verdict = match self.how(&caller, &mut question).await? {
            (How::Kept, asker) => self.ingest.judge(question, asker).await,
            (How::Aside, asker) => self.ingest.judge_aside(question, asker).await,
            (How::Unseen, _) => self.ingest.judge_unseen(question).await,
        };
        let verdict = verdict.map_err(|refusal| status::of_refusal(&refusal))?;
        Ok(Response::new(pb::ShouldRetryResponse { verdict: Some(reply::verdict(verdict)) }))
    }

    async fn explain(
        &self,
        request: Request<pb::PredictRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let caller = caller(&request);
        let (mut key, limit) =
            convert::ask(request.into_inner()).map_err(|fault| status::of_fault(&fault))?;
        caller.asks("key.project", &mut key).map_err(|fault| status::forbidden(&fault))?;
        let (mut prediction, used, members) = self.learned.read(|history| {
            let (prediction, mut used) = predict::explain(history, &key, &self.settings);
            used.retain(|used| Self::may_name(&caller, history, used));
            let is_grouped = prediction.need_groups.is_some();
            let members = is_grouped.then(|| predict::group_members(history, &key, &self.settings));
            (prediction, used, members.unwrap_or_default())
        });
        if let Some(groups) = prediction.need_groups.take() {
            let groups = self.tell_apart(NeedGroups::clone(&groups), &key, &members, &caller).await?;
            prediction.need_groups = Some(Arc::new(groups));
        }
        let limit = limit.or(self.settings.memory_cap);
        let curve = |history: &History| predict::jobs_curve(history, &key, &self.settings, limit);
        Ok(Response::new(pb::ExplainResponse {
            prediction: Some(self.shown(&key, self.placing.put(&key, prediction))),
            attempts: used.iter().take(limits::EXPLAIN_ATTEMPTS).map(reply::used_attempt).collect(),
            jobs: Some(reply::jobs_curve(self.learned.read(curve))),
        }))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use tokio_util::{sync::CancellationToken, task::TaskTracker};

    use super::*;
    use crate::{
        domain::{AttemptId, test_summary},
        grpc::guarded::tests::OneStream,
        identity::{Job, Proven},
        ingest::fixture,
        store::{self, Batch, Store},
    };

    /// Somebody with the token of job 7 of the project `a`.
    fn job(trusted: bool) -> Identity {
        let job = Some(Job { host: "ci".into(), id: "7".into() });
        let proven = Proven { project: "a".into(), job, ..Proven::default() };
        let projects = vec!["a".to_owned()].into();
        Identity { projects, proven, trusted, ..Identity::clone(&Identity::anyone()) }
    }

    /// The service over what is on disk, with an empty history.
    pub(in crate::grpc) async fn service(store: &Store) -> PredictorService {
        let (ingest, mut worker) = fixture::ingest(store, 10);
        worker.resume().await.unwrap();
        TaskTracker::new().spawn(worker.run(CancellationToken::new()));
        let metrics = Arc::new(Metrics::new());
        PredictorService {
            learned: Learned::new(History::new(1)),
            private: Arc::default(),
            answers: Arc::default(),
            settings: Arc::default(),
            shadow: Arc::default(),
            ingest,
            placing: Placing::open(None, Arc::clone(&metrics)).unwrap(),
            metrics,
            batches: Streams::new(BATCHES, TaskTracker::new(), CancellationToken::new()),
        }
    }

    #[tokio::test]
    async fn a_job_that_is_not_trusted_leaves_verdicts_on_what_was_measured_of_itself_alone() {
        let (store, mut batch) = (Store::memory(), Batch::default());
        let measured =
            [("ci:7", "a", true), ("ci:7.2", "a", false), ("ci:8", "a", true), ("ci:9", "b", true)];
        for (id, project, untrusted) in measured {
            let mut summary = test_summary(id, "zlib", "1", 10);
            summary.key.project = project.into();
            summary.opening.untrusted = untrusted;
            store::put_summary(&mut batch, &summary).unwrap();
        }
        store.commit(batch).await.unwrap();
        let service = service(&store).await;
        let kept = async |caller: Identity, id: &str| {
            let mut question = Evidence::about(AttemptId::parse(id).unwrap());
            let how = service.how(&caller, &mut question).await;
            how.map(|(how, _asker)| how).map_err(|status| status.code())
        };
        for (id, if_not_trusted) in [
            ("ci:7", How::Kept),
            // it teaches, whoever delivered it
            ("ci:7.2", How::Aside),
            ("ci:7.3", How::Aside),
            ("ci:8", How::Aside),
            ("ci:10", How::Aside),
        ] {
            assert_eq!(kept(job(false), id).await, Ok(if_not_trusted), "{id}");
            assert_eq!(kept(job(true), id).await, Ok(How::Kept), "{id}");
        }
        let stranger = Identity { trusted: false, ..Identity::clone(&Identity::anyone()) };
        for (id, nobody_knows_who) in [("ci:7", false), ("ci:8", false), ("ci:10", false), ("ci:8", true)] {
            let caller = Identity { is_anonymous: nobody_knows_who, ..stranger.clone() };
            assert_eq!(kept(caller, id).await, Ok(How::Aside), "for all jobs, and proven for none: {id}");
        }
        for id in ["ci:8", "ci:10"] {
            let nobody = Identity { is_anonymous: true, roles: Role::Caller.into(), ..stranger.clone() };
            assert_eq!(kept(nobody, id).await, Ok(How::Unseen), "{id}");
        }
        for trusted in [false, true] {
            assert_eq!(kept(job(trusted), "ci:9").await, Ok(How::Unseen));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_whose_answers_nobody_reads_gives_its_place_back_and_says_why() {
        let service = service(&Store::memory()).await;
        let admitted = || admitted(&Request::new(()));
        let endless = tokio_stream::iter(std::iter::repeat_with(|| Ok(pb::PredictRequest::default())));
        let answers = service.batch(endless, Identity::anyone(), admitted()).unwrap();
        assert_eq!(service.batches.left(), BATCHES.most - 1);
        // nothing moves meanwhile, so that this takes no time
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        assert_eq!(service.batches.left(), BATCHES.most);
        let last = answers.collect::<Vec<_>>().await.pop().unwrap();
        assert_eq!(last.unwrap_err().code(), tonic::Code::ResourceExhausted);
        let some = tokio_stream::iter((0..1000).map(|_| Ok(pb::PredictRequest::default())));
        let answers = service.batch(some, Identity::anyone(), admitted()).unwrap();
        let read = answers.collect::<Vec<_>>().await;
        assert_eq!((read.len(), read.iter().filter(|answer| answer.is_ok()).count()), (1000, 1000));
    }

    #[test]
    fn an_explanation_names_no_attempt_of_a_project_that_is_not_seen() {
        let mut history = History::new(10);
        // so many packages that they say something about one that is not known
        for n in 0..10 {
            let mut summary = test_summary(&n.to_string(), &format!("known-{n}"), "1", 10);
            summary.key.project = if n == 1 { "a".into() } else { "b".into() };
            history.learn(summary);
        }
        let key = Key { package: "zlib".into(), ..Key::default() };
        let used = predict::explain(&history, &key, &predict::Settings::default()).1;
        let named = |caller: &Identity| {
            let named = used.iter().filter(|used| PredictorService::may_name(caller, &history, used));
            named.map(|used| used.attempt.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(named(&job(true)), ["1"]);
        assert_eq!(named(&Identity::anyone()).len(), 10);
        for (projects, is_told) in [(vec![], 0), (vec!["*".to_owned()], 0), (vec!["b*".to_owned()], 9)] {
            let roles = Role::Caller.into();
            let caller =
                Identity { roles, projects: projects.into(), ..Identity::clone(&Identity::anyone()) };
            assert_eq!(named(&caller).len(), is_told, "who asks for sizes reads no attempts: {caller:?}");
        }
    }

    #[tokio::test]
    async fn a_caller_has_few_questions_for_a_verdict_at_once_and_leaves_the_line_when_he_gives_up() {
        let service = service(&Store::memory()).await;
        let one = OneStream::new(Role::Caller);
        let asked = |number: u32| {
            let (attempt, pod_reason) = ("ci:7".into(), "Evicted".into());
            one.ask(pb::ShouldRetryRequest { attempt, pod_reason, number, ..Default::default() })
        };
        {
            let first = service.should_retry(asked(1));
            tokio::select! {
                biased;
                _early = first => panic!("weighing takes another thread, which takes its time"),
                second = service.should_retry(asked(2)) => {
                    let status = second.unwrap_err();
                    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
                    assert!(status.message().contains("bounds.verdicts"), "{status}");
                }
            }
            assert_eq!(service.metrics.verdicts_asked.get(), 0, "the first one has given up");
        }
        assert!(service.should_retry(asked(3)).await.is_ok());
    }
}
