//! One question to each rpc, about one project.

use plimsoll_proto::{
    externalscaler::{GetMetricsRequest, ScaledObjectRef},
    v1::{self as pb, predict_batch_response::Result as BatchResult},
};
use plimsoll_tests::{call, hello};
use prost::Message as _;
use tonic::{Status, transport::Channel};

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

impl Calls {
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

    /// The answer: all of it as text, but for the caller's own words, which are no secret to it.
    pub(super) async fn call(&self, rpc: &str, about: About) -> Result<String, Status> {
        let answer = call(&self.channel, self.token, rpc, self.question(rpc, about)).await?;
        if rpc == "Predictor/PredictBatch" {
            let answer = pb::PredictBatchResponse::decode(&*answer).unwrap();
            match answer.result {
                Some(BatchResult::Error(error)) => return Err(Status::permission_denied(error.description)),
                Some(_prediction) => {}
                None => return Err(Status::internal("the answer has no result")),
            }
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        let repeats = ["Predictor/Predict", "Predictor/PredictBatch"].contains(&rpc);
        Ok(if repeats { text.replace(&format!("zlib@{}", about.version), "") } else { text })
    }

    /// A verdict, without the time at which it was given.
    pub(super) async fn judge(&self, question: pb::ShouldRetryRequest) -> Result<pb::Verdict, Status> {
        let question = question.encode_to_vec();
        let answer = call(&self.channel, self.token, "Predictor/ShouldRetry", question).await?;
        let verdict = pb::ShouldRetryResponse::decode(&*answer).unwrap().verdict.unwrap();
        Ok(pb::Verdict { given_unix_ms: 0, ..verdict })
    }

    /// What an rpc is asked.
    fn question(&self, rpc: &str, about: About) -> Vec<u8> {
        let (attempt, project, key) = (about.attempt.to_owned(), about.project.to_owned(), Some(about.key()));
        let filter = Some(pb::Filter { project: project.clone(), ..Default::default() });
        let scaler_metadata = [("pool".to_owned(), "big".to_owned())].into();
        let scaled = ScaledObjectRef { scaler_metadata, ..Default::default() };
        match rpc {
            "Collector/Stream" => {
                // the attempt of one project is none of another
                let opening = hello(&format!("by-{}-{}", self.token, about.ticket()), "zlib");
                let hello = pb::Hello { key, ..opening };
                pb::AgentMessage { message: Some(hello.into()) }.encode_to_vec()
            }
            "Predictor/Predict" | "Predictor/PredictBatch" | "Predictor/Explain" => {
                pb::PredictRequest { key, ..Default::default() }.encode_to_vec()
            }
            "Predictor/ShouldRetry" => {
                let exit = Some(pb::Exit { code: Some(1), signal: None });
                let key = (!self.token.ends_with("-of-all")).then(|| About::OWN.key());
                pb::ShouldRetryRequest { attempt, key, exit, ..Default::default() }.encode_to_vec()
            }
            "Predictor/CorrectVerdict" => {
                let (cause, why) = (pb::Cause::Infra.into(), "mirror was down".to_owned());
                pb::CorrectVerdictRequest { attempt, cause, why, ..Default::default() }.encode_to_vec()
            }
            "Stats/GetStats" => {
                let group_by = pb::GroupBy::Version.into();
                pb::GetStatsRequest { filter, group_by, ..Default::default() }.encode_to_vec()
            }
            "Stats/ListAttempts" => pb::ListAttemptsRequest { filter, ..Default::default() }.encode_to_vec(),
            "Stats/GetAttempt" => pb::GetAttemptRequest { attempt, ..Default::default() }.encode_to_vec(),
            "Stats/Recommend" => pb::RecommendRequest { project, ..Default::default() }.encode_to_vec(),
            "Placement/OpenTicket" => {
                let ticket = about.ticket();
                let ticket =
                    if self.token == "another" { ticket } else { format!("{ticket}-{}", self.token) };
                pb::OpenTicketRequest { ticket, key, ..Default::default() }.encode_to_vec()
            }
            "Placement/WatchTicket" => {
                pb::WatchTicketRequest { ticket: self.opened(about), hold: false }.encode_to_vec()
            }
            "Placement/CloseTicket" => {
                // a caller that opened it for a project owns it by the project's name
                let (ticket, owner) = (self.opened(about), project);
                pb::CloseTicketRequest { ticket, owner, ..Default::default() }.encode_to_vec()
            }
            "ExternalScaler/GetMetrics" => {
                GetMetricsRequest { scaled_object_ref: Some(scaled), ..Default::default() }.encode_to_vec()
            }
            rpc if rpc.starts_with("ExternalScaler/") => scaled.encode_to_vec(),
            "Introspection/GetServer" | "Stats/Watch" | "Placement/GetPools" | "Placement/GetDemand" => {
                Vec::new()
            }
            rpc => unreachable!("say what {rpc} is asked"),
        }
    }

    /// The ticket that a call is about: the one that this caller has opened, or that of another caller.
    fn opened(&self, about: About) -> String {
        let ticket = about.ticket();
        if about.place == self.token { format!("{ticket}-{}", self.token) } else { ticket }
    }
}
