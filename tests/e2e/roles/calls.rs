//! One call of each rpc, about one project.

use plimsoll_proto::{
    externalscaler::{GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient},
    v1::{
        self as pb, introspection_client::IntrospectionClient, placement_client::PlacementClient,
        predict_batch_response::Result as BatchResult, predictor_client::PredictorClient,
        stats_client::StatsClient,
    },
};
use plimsoll_tests::{Sender, hello, with_token};
use tonic::{Request, Status, Streaming, transport::Channel};

/// In all that is known of the foreign project.
pub(super) const HIDDEN: &str = "0.0.9-hidden";

/// A project, and what there is of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub(super) project: &'static str,
    version: &'static str,
    /// An attempt that ended, and one that runs: ids of the same length.
    pub(super) attempt: &'static str,
    pub(super) running: &'static str,
    /// The ticket is this with the project's first letter behind it.
    pub(super) place: &'static str,
}

impl About {
    pub(super) const OWN: Self =
        Self { project: "own/one", version: "1", attempt: "owned-1", running: "owned-2", place: "ticket" };
    pub(super) const FOREIGN: Self = Self {
        project: "foreign/one",
        version: HIDDEN,
        attempt: "other-1",
        running: "other-2",
        place: "ticket",
    };

    pub(super) fn key(self) -> pb::Key {
        let Self { project, version, .. } = self;
        pb::Key {
            project: project.into(),
            package: "zlib".into(),
            version: version.into(),
            ..pb::Key::default()
        }
    }

    fn ticket(self) -> String {
        format!("{}-{}", self.place, self.project.get(..1).unwrap_or_default())
    }
}

/// Calls with a token; with an empty one without.
pub(super) struct Calls {
    pub(super) channel: Channel,
    pub(super) token: &'static str,
}

/// The first message of a stream.
async fn first<T: std::fmt::Debug>(mut stream: Streaming<T>) -> Result<String, Status> {
    Ok(format!("{:?}", stream.message().await?))
}

impl Calls {
    fn ask<T>(&self, message: T) -> Request<T> {
        with_token(self.token, message)
    }

    /// Opens the ticket that a call about the own project is about.
    pub(super) async fn prepared(&self, rpc: &str, about: About) -> About {
        if about.project != About::OWN.project
            || !matches!(rpc, "Placement/WatchTicket" | "Placement/CloseTicket")
        {
            return about;
        }
        let own = About { place: self.token, ..about };
        self.call("Placement/OpenTicket", own).await.unwrap();
        own
    }

    /// The answer: all of it as text.
    pub(super) async fn call(&self, rpc: &str, about: About) -> Result<String, Status> {
        let (service, rpc) = rpc.split_once('/').unwrap();
        match service {
            "Collector" => self.collector(about).await,
            "Introspection" => {
                let mut client = IntrospectionClient::new(self.channel.clone());
                Ok(format!("{:?}", client.get_server(self.ask(pb::GetServerRequest {})).await?.into_inner()))
            }
            "Predictor" => self.predictor(rpc, about).await,
            "Stats" => self.stats(rpc, about).await,
            "Placement" => self.placement(rpc, about).await,
            "ExternalScaler" => self.scaler(rpc).await,
            service => Err(Status::unimplemented(format!("say how {service} is called"))),
        }
    }

    async fn collector(&self, about: About) -> Result<String, Status> {
        let mut stream = Sender::open_as(self.channel.clone(), self.token).await?;
        let opening = hello(&format!("by-{}", self.token), "zlib");
        // the attempt of one project is none of another
        let attempt = format!("{}-{}", opening.attempt, about.ticket());
        let hello = pb::Hello { attempt, key: Some(about.key()), ..opening };
        stream.exchange(hello).await.map(|number| number.to_string())
    }

    /// A verdict, without the time at which it was given.
    pub(super) async fn judge(&self, question: pb::ShouldRetryRequest) -> Result<pb::Verdict, Status> {
        let answer = PredictorClient::new(self.channel.clone()).should_retry(self.ask(question)).await?;
        Ok(pb::Verdict { given_unix_ms: 0, ..answer.into_inner().verdict.unwrap() })
    }

    async fn predictor(&self, rpc: &str, about: About) -> Result<String, Status> {
        let mut client = PredictorClient::new(self.channel.clone());
        let asked = pb::PredictRequest { key: Some(about.key()), ..Default::default() };
        // its own words are no secret to it
        let shown = |text: String| text.replace(&format!("zlib@{}", about.version), "");
        match rpc {
            "Predict" => Ok(shown(format!("{:?}", client.predict(self.ask(asked)).await?.into_inner()))),
            "Explain" => Ok(format!("{:?}", client.explain(self.ask(asked)).await?.into_inner())),
            "ShouldRetry" => {
                let key = Some(About::OWN.key());
                let exit = Some(pb::Exit { code: Some(1), signal: None });
                let attempt = about.attempt.to_owned();
                let key = if self.token.ends_with("-of-all") { None } else { key };
                let question = pb::ShouldRetryRequest { attempt, key, exit, ..Default::default() };
                Ok(format!("{:?}", self.judge(question).await?))
            }
            "CorrectVerdict" => {
                let (attempt, cause) = (about.attempt.to_owned(), pb::Cause::Infra.into());
                let why = "mirror was down".to_owned();
                let asked = pb::CorrectVerdictRequest { attempt, cause, why, ..Default::default() };
                Ok(format!("{:?}", client.correct_verdict(self.ask(asked)).await?.into_inner()))
            }
            "PredictBatch" => {
                let asked = self.ask(tokio_stream::iter([asked]));
                let mut answers = client.predict_batch(asked).await?.into_inner();
                match answers.message().await?.unwrap().result.unwrap() {
                    BatchResult::Error(error) => Err(Status::permission_denied(error.description)),
                    answer @ BatchResult::Prediction(_) => Ok(shown(format!("{answer:?}"))),
                }
            }
            rpc => Err(Status::unimplemented(format!("say how {rpc} is called"))),
        }
    }

    async fn stats(&self, rpc: &str, about: About) -> Result<String, Status> {
        let mut client = StatsClient::new(self.channel.clone());
        let filter = Some(pb::Filter { project: about.project.into(), ..Default::default() });
        match rpc {
            "GetStats" => {
                let group_by = pb::GroupBy::Version.into();
                let asked = pb::GetStatsRequest { filter, group_by, ..Default::default() };
                Ok(format!("{:?}", client.get_stats(self.ask(asked)).await?.into_inner()))
            }
            "ListAttempts" => {
                let asked = pb::ListAttemptsRequest { filter, ..Default::default() };
                Ok(format!("{:?}", client.list_attempts(self.ask(asked)).await?.into_inner()))
            }
            "GetAttempt" => {
                let asked = pb::GetAttemptRequest { attempt: about.attempt.into(), ..Default::default() };
                Ok(format!("{:?}", client.get_attempt(self.ask(asked)).await?.into_inner()))
            }
            "Recommend" => {
                let asked = pb::RecommendRequest { project: about.project.into(), ..Default::default() };
                Ok(format!("{:?}", client.recommend(self.ask(asked)).await?.into_inner()))
            }
            "Watch" => first(client.watch(self.ask(pb::WatchRequest {})).await?.into_inner()).await,
            rpc => Err(Status::unimplemented(format!("say how {rpc} is called"))),
        }
    }

    async fn placement(&self, rpc: &str, about: About) -> Result<String, Status> {
        let mut client = PlacementClient::new(self.channel.clone());
        let ticket = about.ticket();
        match rpc {
            "GetPools" => {
                let asked = self.ask(pb::GetPoolsRequest {});
                Ok(format!("{:?}", client.get_pools(asked).await?.into_inner()))
            }
            "GetDemand" => {
                let asked = self.ask(pb::GetDemandRequest::default());
                Ok(format!("{:?}", client.get_demand(asked).await?.into_inner()))
            }
            "OpenTicket" => {
                let ticket =
                    if self.token == "another" { ticket } else { format!("{ticket}-{}", self.token) };
                let key = Some(pb::Key { owner: String::new(), ..about.key() });
                let asked = pb::OpenTicketRequest { ticket, key, ..Default::default() };
                Ok(format!("{:?}", client.open_ticket(self.ask(asked)).await?.into_inner()))
            }
            "WatchTicket" => {
                let asked = pb::WatchTicketRequest { ticket: self.opened(about), hold: false };
                first(client.watch_ticket(self.ask(asked)).await?.into_inner()).await
            }
            "CloseTicket" => {
                // a caller that opened it for a project owns it by the project's name
                let asked = pb::CloseTicketRequest {
                    ticket: self.opened(about),
                    owner: about.project.into(),
                    ..pb::CloseTicketRequest::default()
                };
                Ok(format!("{:?}", client.close_ticket(self.ask(asked)).await?.into_inner()))
            }
            rpc => Err(Status::unimplemented(format!("say how {rpc} is called"))),
        }
    }

    /// The ticket that a call is about: the one that this caller has opened, or that of another caller.
    fn opened(&self, about: About) -> String {
        let ticket = about.ticket();
        if about.place == self.token { format!("{ticket}-{}", self.token) } else { ticket }
    }

    async fn scaler(&self, rpc: &str) -> Result<String, Status> {
        let mut client = ExternalScalerClient::new(self.channel.clone());
        let scaler_metadata = [("pool".to_owned(), "big".to_owned())].into();
        let scaled = ScaledObjectRef { scaler_metadata, ..Default::default() };
        match rpc {
            "IsActive" => Ok(format!("{:?}", client.is_active(self.ask(scaled)).await?.into_inner())),
            "StreamIsActive" => first(client.stream_is_active(self.ask(scaled)).await?.into_inner()).await,
            "GetMetricSpec" => {
                Ok(format!("{:?}", client.get_metric_spec(self.ask(scaled)).await?.into_inner()))
            }
            "GetMetrics" => {
                let asked = GetMetricsRequest { scaled_object_ref: Some(scaled), ..Default::default() };
                Ok(format!("{:?}", client.get_metrics(self.ask(asked)).await?.into_inner()))
            }
            rpc => Err(Status::unimplemented(format!("say how {rpc} is called"))),
        }
    }
}
