//! What is said of an attempt by each rpc.

use plimsoll_proto::{
    externalscaler::{GetMetricsRequest, ScaledObjectRef},
    v1 as pb,
};
use plimsoll_tests::{Sender, batch, call, finish};
use prost::Message as _;
use tonic::{Code, Status};

use super::{
    Attack, AttackOutcome, Moment,
    site::{key, opening},
};

/// Name of each attack and its encoded request.
type Questions = Vec<(&'static str, Vec<u8>)>;

impl Attack<'_> {
    /// Says what can be said by an rpc.
    pub(super) async fn by_rpc(&self, rpc: &str) -> Vec<AttackOutcome> {
        if rpc == "Collector/Stream" {
            return self.deliveries().await;
        }
        let mut attacks = Vec::new();
        for (what, question) in self.questions(rpc) {
            let answer = call(&self.site.channel, self.token, rpc, question).await;
            let code = answer.map_or_else(|status| status.code(), |_answer| Code::Ok);
            attacks.push((what, format!("{code:?}")));
        }
        attacks
    }

    fn questions(&self, rpc: &str) -> Questions {
        let (attempt, project) = (self.victim.id.clone(), self.victim.project.clone());
        let filter = Some(pb::Filter { project: project.clone(), ..Default::default() });
        let asks = |question: Vec<u8>| vec![("asks for it", question)];
        match rpc {
            // it names no attempt
            "Introspection/GetServer" => Vec::new(),
            "Placement/OpenTicket" | "Placement/WatchTicket" | "Placement/CloseTicket" => self.tickets(rpc),
            "Placement/GetPools" | "Placement/GetDemand" => vec![("asks for the sums of pools", Vec::new())],
            rpc if rpc.starts_with("ExternalScaler/") => self.scaler(rpc),
            "Predictor/ShouldRetry" => self.verdicts(),
            "Predictor/CorrectVerdict" => self.corrections(),
            "Predictor/Predict" | "Predictor/PredictBatch" | "Predictor/Explain" => self.sizes(),
            "Stats/GetStats" => asks(pb::GetStatsRequest { filter, ..Default::default() }.encode_to_vec()),
            "Stats/ListAttempts" => {
                asks(pb::ListAttemptsRequest { filter, ..Default::default() }.encode_to_vec())
            }
            "Stats/GetAttempt" => {
                asks(pb::GetAttemptRequest { attempt, ..Default::default() }.encode_to_vec())
            }
            "Stats/Recommend" => asks(pb::RecommendRequest { project, ..Default::default() }.encode_to_vec()),
            "Stats/Watch" => asks(Vec::new()),
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

    fn corrections(&self) -> Questions {
        let both = [self.victim.id.clone(), self.victim.unmeasured()].into_iter();
        both.flat_map(|attempt| {
            let undo = pb::CorrectVerdictRequest { attempt, undo: true, ..Default::default() };
            let (cause, why) = (pb::Cause::Infra.into(), "mirror was down".to_owned());
            let correct = pb::CorrectVerdictRequest { cause, why, undo: false, ..undo.clone() };
            [("corrects its cause", correct), ("takes a correction back", undo)]
        })
        .map(|(what, question)| (what, question.encode_to_vec()))
        .collect()
    }

    fn verdicts(&self) -> Questions {
        let mut questions = Vec::new();
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
            questions.extend([
                ("says that memory ended it, for another project", own),
                ("says that memory ended it, in its name", theirs),
                ("says that memory ended it, for no project", of("")),
                ("shows a log of it", log),
                ("lists runs of its job", listed),
                ("says that it was canceled, in its name", canceled),
            ]);
        }
        questions.into_iter().map(|(what, question)| (what, question.encode_to_vec())).collect()
    }

    fn tickets(&self, rpc: &str) -> Questions {
        let (ticket, theirs) = (self.victim.id.clone(), self.victim.project.clone());
        let opens = |project: &str, owner: &str| {
            let (ticket, key, owner) = (ticket.clone(), Some(key(project)), owner.to_owned());
            pb::OpenTicketRequest { ticket, key, owner, ..Default::default() }.encode_to_vec()
        };
        match rpc {
            "Placement/OpenTicket" => vec![
                ("takes the id of its ticket for another project", opens(self.own_project(), "")),
                ("takes the id of its ticket in its name", opens(&theirs, "")),
                ("takes the id of its ticket as its owner", opens(self.own_project(), &theirs)),
            ],
            "Placement/WatchTicket" => {
                let question = pb::WatchTicketRequest { ticket, hold: true };
                vec![("holds the place of its ticket", question.encode_to_vec())]
            }
            _ => {
                let closes = pb::CloseTicketRequest { ticket, owner: theirs, ..Default::default() };
                let back = pb::CloseTicketRequest { session: "guessed".into(), ..closes.clone() };
                vec![
                    ("closes its ticket", closes.encode_to_vec()),
                    ("gives the place of its ticket back", back.encode_to_vec()),
                ]
            }
        }
    }

    /// Names the attempt wherever a trigger has a text.
    fn scaler(&self, rpc: &str) -> Questions {
        let id = self.victim.id.clone();
        let metadata = [("pool", id.as_str()), ("measure", "memory"), ("target", "0.001")];
        let scaler_metadata = metadata.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        let scaled =
            ScaledObjectRef { name: id.clone(), namespace: self.victim.project.clone(), scaler_metadata };
        let question = match rpc {
            "ExternalScaler/GetMetrics" => {
                GetMetricsRequest { scaled_object_ref: Some(scaled), metric_name: id }.encode_to_vec()
            }
            _ => scaled.encode_to_vec(),
        };
        vec![("asks what a pool of the attempt's name needs", question)]
    }

    fn sizes(&self) -> Questions {
        let of = |project: &str| {
            let memory_limit_bytes = (self.moment == Moment::While).then_some(1 << 20);
            pb::PredictRequest { key: Some(key(project)), memory_limit_bytes }.encode_to_vec()
        };
        vec![
            ("asks in its name", of(&self.victim.project)),
            ("asks for another project", of(self.own_project())),
        ]
    }
}
