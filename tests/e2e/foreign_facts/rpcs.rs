//! What is said of an attempt by each rpc.

use plimsoll_proto::{
    externalscaler::{GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient},
    v1::{
        self as pb, placement_client::PlacementClient, predictor_client::PredictorClient,
        stats_client::StatsClient,
    },
};
use plimsoll_tests::{Sender, batch, finish};
use tonic::{Code, Response, Status};

use super::{
    Attack, AttackOutcome, Moment,
    site::{key, opening, with},
};

impl Attack<'_> {
    /// Says what can be said by an rpc.
    pub(super) async fn by_rpc(&self, rpc: &str) -> Vec<AttackOutcome> {
        match rpc {
            "Collector/Stream" => self.deliveries().await,
            // it names no attempt
            "Introspection/GetServer" => Vec::new(),
            "Placement/OpenTicket" | "Placement/WatchTicket" | "Placement/CloseTicket" => {
                self.tickets(rpc).await
            }
            "Placement/GetPools" | "Placement/GetDemand" => self.sums(rpc).await,
            "ExternalScaler/IsActive"
            | "ExternalScaler/StreamIsActive"
            | "ExternalScaler/GetMetricSpec"
            | "ExternalScaler/GetMetrics" => self.scaler(rpc).await,
            "Predictor/ShouldRetry" => self.questions().await,
            "Predictor/CorrectVerdict" => self.corrections().await,
            "Predictor/Predict" | "Predictor/PredictBatch" | "Predictor/Explain" => self.sizes(rpc).await,
            "Stats/GetStats" | "Stats/ListAttempts" | "Stats/GetAttempt" | "Stats/Watch"
            | "Stats/Recommend" => self.statistics(rpc).await,
            other => {
                unreachable!(
                    "no attack covers {other}: say in this table what can be said of an attempt by it"
                )
            }
        }
    }

    async fn deliveries(&self) -> Vec<AttackOutcome> {
        let id = self.victim.id.as_str();
        let (own, theirs) = (self.own_project(), self.victim.project.as_str());
        let hello = |id: &str, project: &str| pb::Hello {
            session: format!("s-{}", self.number),
            ..opening(id, project)
        };
        let mut attacks = vec![
            ("takes its id for another project", self.deliver(Some(hello(id, own)), id, Some(0)).await),
            ("takes its id in its name", self.deliver(Some(hello(id, theirs)), id, Some(0)).await),
            ("sends samples of it without an opening", self.deliver(None, id, None).await),
            ("takes the number of its job", {
                let bare = self.victim.number.to_string();
                self.deliver(Some(hello(&bare, own)), &bare, Some(137)).await
            }),
            ("takes the id of a command of its job", {
                let command = format!("{id}.2");
                self.deliver(Some(hello(&command, own)), &command, Some(0)).await
            }),
        ];
        // what a job of the same project builds is that project's
        if self.kind != "a pull request's job of the same project" {
            let job = self.own_job();
            let retry = pb::Hello { retries: id.to_owned(), number: 2, ..hello(&job, own) };
            attacks.push((
                "delivers an attempt that says it retries it",
                self.deliver(Some(retry), &job, Some(0)).await,
            ));
            let job = format!("{}.2", self.own_job());
            let placed = pb::Hello { ticket: id.to_owned(), ..hello(&job, own) };
            attacks.push((
                "delivers an attempt in the place of its ticket",
                self.deliver(Some(placed), &job, Some(0)).await,
            ));
        }
        attacks.into_iter().map(|(what, code)| (what, format!("{code:?}"))).collect()
    }

    /// Delivers an attempt that succeeded with next to no memory, with an opening or without one.
    async fn deliver(&self, hello: Option<pb::Hello>, id: &str, exit: Option<i32>) -> Code {
        let channel = self.site.channel.clone();
        let opened = match self.token {
            "" => Sender::open(channel).await,
            token => Sender::open_as(channel, token).await,
        };
        let deliver = async || -> Result<u64, Status> {
            let mut stream = opened?;
            if let Some(hello) = hello {
                stream.exchange(hello).await?;
            }
            let mut samples = batch(id, 1, 2);
            samples.samples.iter_mut().for_each(|sample| sample.need_bytes = 1 << 10);
            stream.exchange(samples).await?;
            stream.exchange(finish(id, 2, exit)).await
        };
        deliver().await.map_or_else(|status| status.code(), |_acknowledged| Code::Ok)
    }

    async fn corrections(&self) -> Vec<AttackOutcome> {
        let mut predictor = PredictorClient::new(self.site.channel.clone());
        let mut attacks = Vec::new();
        for attempt in [self.victim.id.clone(), self.victim.unmeasured()] {
            let correct = pb::CorrectVerdictRequest {
                attempt: attempt.clone(),
                cause: pb::Cause::Infra.into(),
                why: "mirror was down".to_owned(),
                ..Default::default()
            };
            let undo = pb::CorrectVerdictRequest { attempt, undo: true, ..Default::default() };
            for (what, asked) in [("corrects its cause", correct), ("takes a correction back", undo)] {
                attacks.push((what, code(predictor.correct_verdict(with(self.token, asked)).await)));
            }
        }
        attacks
    }

    async fn questions(&self) -> Vec<AttackOutcome> {
        let mut attacks = Vec::new();
        for id in [self.victim.id.clone(), self.victim.unmeasured()] {
            let of = |project: &str| pb::ShouldRetryRequest {
                attempt: id.clone(),
                key: (!project.is_empty()).then(|| key(project)),
                container_reason: "OOMKilled".to_owned(),
                ..Default::default()
            };
            let (own, theirs) = (of(self.own_project()), of(&self.victim.project));
            let log = pb::ShouldRetryRequest {
                log_tail: b"fatal: unable to write: No space left on device\n".to_vec(),
                exit: Some(pb::Exit { code: Some(2), signal: None }),
                container_reason: String::new(),
                number: 3,
                ..own.clone()
            };
            let run = pb::RetriedJob {
                id: "1".into(),
                name: "build".into(),
                status: "failed".into(),
                ..Default::default()
            };
            let listed = pb::ShouldRetryRequest {
                include_retried: vec![run],
                pod_reason: "Evicted".into(),
                ..own.clone()
            };
            let canceled = pb::ShouldRetryRequest {
                failure_reason: "user_canceled".into(),
                container_reason: String::new(),
                ..theirs.clone()
            };
            for (what, question) in [
                ("says that memory ended it, for another project", own),
                ("says that memory ended it, in its name", theirs),
                ("says that memory ended it, for no project", of("")),
                ("shows a log of it", log),
                ("lists runs of its job", listed),
                ("says that it was canceled, in its name", canceled),
            ] {
                attacks.push((what, code(self.site.ask(self.token, question).await.map(Response::new))));
            }
        }
        attacks
    }

    async fn tickets(&self, rpc: &str) -> Vec<AttackOutcome> {
        let mut placement = PlacementClient::new(self.site.channel.clone());
        let (ticket, theirs) = (self.victim.id.clone(), self.victim.project.clone());
        match rpc {
            "Placement/OpenTicket" => {
                let of = |project: &str, owner: &str| pb::OpenTicketRequest {
                    ticket: ticket.clone(),
                    key: Some(key(project)),
                    owner: owner.to_owned(),
                    ..Default::default()
                };
                let mut attacks = Vec::new();
                for (what, question) in [
                    ("takes the id of its ticket for another project", of(self.own_project(), "")),
                    ("takes the id of its ticket in its name", of(&theirs, "")),
                    ("takes the id of its ticket as its owner", of(self.own_project(), &theirs)),
                ] {
                    attacks.push((what, code(placement.open_ticket(with(self.token, question)).await)));
                }
                attacks
            }
            "Placement/WatchTicket" => {
                let asked = pb::WatchTicketRequest { ticket, hold: true };
                // held for as long as the answer lives
                vec![(
                    "holds the place of its ticket",
                    code(placement.watch_ticket(with(self.token, asked)).await),
                )]
            }
            _ => {
                let asked = pb::CloseTicketRequest { ticket, owner: theirs, ..Default::default() };
                let back = pb::CloseTicketRequest { session: "guessed".into(), ..asked.clone() };
                vec![
                    ("closes its ticket", code(placement.close_ticket(with(self.token, asked)).await)),
                    (
                        "gives the place of its ticket back",
                        code(placement.close_ticket(with(self.token, back)).await),
                    ),
                ]
            }
        }
    }

    async fn sums(&self, rpc: &str) -> Vec<AttackOutcome> {
        let mut placement = PlacementClient::new(self.site.channel.clone());
        let came = match rpc {
            "Placement/GetPools" => code(placement.get_pools(with(self.token, pb::GetPoolsRequest {})).await),
            _ => code(placement.get_demand(with(self.token, pb::GetDemandRequest::default())).await),
        };
        vec![("asks for the sums of pools", came)]
    }

    /// Names the attempt wherever a trigger has a text.
    async fn scaler(&self, rpc: &str) -> Vec<AttackOutcome> {
        let mut scaler = ExternalScalerClient::new(self.site.channel.clone());
        let id = self.victim.id.clone();
        let metadata = [("pool", id.as_str()), ("measure", "memory"), ("target", "0.001")];
        let scaler_metadata = metadata.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        let scaled =
            ScaledObjectRef { name: id.clone(), namespace: self.victim.project.clone(), scaler_metadata };
        let asked = with(self.token, scaled.clone());
        let came = match rpc {
            "ExternalScaler/IsActive" => code(scaler.is_active(asked).await),
            "ExternalScaler/StreamIsActive" => code(scaler.stream_is_active(asked).await),
            "ExternalScaler/GetMetricSpec" => code(scaler.get_metric_spec(asked).await),
            _ => {
                let asked = GetMetricsRequest { scaled_object_ref: Some(scaled), metric_name: id };
                code(scaler.get_metrics(with(self.token, asked)).await)
            }
        };
        vec![("asks what a pool of the attempt's name needs", came)]
    }

    async fn sizes(&self, rpc: &str) -> Vec<AttackOutcome> {
        let mut predictor = PredictorClient::new(self.site.channel.clone());
        let of = |project: &str| pb::PredictRequest {
            key: Some(key(project)),
            memory_limit_bytes: (self.moment == Moment::While).then_some(1 << 20),
        };
        let theirs = self.victim.project.as_str();
        let mut attacks = Vec::new();
        for (what, project) in
            [("asks in its name", theirs), ("asks for another project", self.own_project())]
        {
            let came = match rpc {
                "Predictor/Predict" => code(predictor.predict(with(self.token, of(project))).await),
                "Predictor/Explain" => code(predictor.explain(with(self.token, of(project))).await),
                _ => {
                    let questions = tokio_stream::iter([of(project)]);
                    code(predictor.predict_batch(with(self.token, questions)).await)
                }
            };
            attacks.push((what, came));
        }
        attacks
    }

    async fn statistics(&self, rpc: &str) -> Vec<AttackOutcome> {
        let mut stats = StatsClient::new(self.site.channel.clone());
        let filter = Some(pb::Filter { project: self.victim.project.clone(), ..Default::default() });
        let came = match rpc {
            "Stats/GetStats" => {
                let asked = pb::GetStatsRequest { filter, ..Default::default() };
                code(stats.get_stats(with(self.token, asked)).await)
            }
            "Stats/ListAttempts" => {
                let asked = pb::ListAttemptsRequest { filter, ..Default::default() };
                code(stats.list_attempts(with(self.token, asked)).await)
            }
            "Stats/GetAttempt" => {
                let asked = pb::GetAttemptRequest { attempt: self.victim.id.clone(), ..Default::default() };
                code(stats.get_attempt(with(self.token, asked)).await)
            }
            "Stats/Recommend" => {
                let project = self.victim.project.clone();
                let asked = pb::RecommendRequest { project, ..Default::default() };
                code(stats.recommend(with(self.token, asked)).await)
            }
            _ => code(stats.watch(with(self.token, pb::WatchRequest {})).await),
        };
        vec![("asks for it", came)]
    }
}

fn code<T>(answer: Result<Response<T>, Status>) -> String {
    format!("{:?}", answer.map_or_else(|status| status.code(), |_answer| Code::Ok))
}
