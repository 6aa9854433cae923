//! A caller without a token, where stock Spack is let in without one: it asks for sizes, and cannot change predictions, block other
//! callers, or learn about them.

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient, stats_client::StatsClient};
use plimsoll_tests::{Sender, Site, hello, key, with_token as with};
use tonic::{Code, Status, transport::Channel};

use crate::access::tokens;

const OURS: &str = "ci.example:7";
/// The token of the runner of the job, which is trusted.
const RUNNER: &str = "runner-secret";

struct Strange {
    site: Site,
    channel: Channel,
}

impl Strange {
    /// With a failed attempt of ours.
    async fn start() -> Self {
        let access = tokens().table("[anonymous]\nroles = [\"caller\"]");
        let site = Site::start_with(&[("--access-file", access.text())], &[]).unwrap();
        let channel = site.connect().await.unwrap();
        let mut stream = Sender::open_as(channel.clone(), RUNNER).await.unwrap();
        stream.build(hello(OURS, "zlib"), 3, Some(1)).await.unwrap();
        Self { site, channel }
    }

    async fn judged(&self, token: &str, number: u32) -> Result<pb::Verdict, Status> {
        let asked = pb::ShouldRetryRequest {
            attempt: OURS.into(),
            container_reason: "OOMKilled".into(),
            number,
            ..Default::default()
        };
        let mut predictor = PredictorClient::new(self.channel.clone());
        let answer = predictor.should_retry(with(token, asked)).await;
        answer.map(|answer| answer.into_inner().verdict.unwrap())
    }

    /// The verdict that is kept of ours.
    async fn kept(&self) -> Option<pb::Verdict> {
        let asked = pb::GetAttemptRequest { attempt: OURS.into(), ..Default::default() };
        let mut stats = StatsClient::new(self.channel.clone());
        stats.get_attempt(with("reader-secret", asked)).await.unwrap().into_inner().verdict
    }

    /// How many attempts an explanation names.
    async fn named(&self, token: &str) -> usize {
        let asked = pb::PredictRequest { key: Some(key("zlib")), ..Default::default() };
        let mut predictor = PredictorClient::new(self.channel.clone());
        predictor.explain(with(token, asked)).await.unwrap().into_inner().attempts.len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_caller_leaves_no_verdict() {
    let site = Strange::start().await;
    let asked = pb::PredictRequest { key: Some(key("zlib")), ..Default::default() };
    assert!(PredictorClient::new(site.channel.clone()).predict(asked).await.is_ok());
    assert_eq!(site.site.server.get("/v1/allocation?spec=zlib@1.3%20arch=a-b-c%25gcc@1").unwrap().0, 200);

    for number in 1..=70 {
        site.judged("", number).await.unwrap();
    }
    assert_eq!(site.kept().await, None);
    assert_eq!(site.named("").await, 0);
    let ours = site.judged(RUNNER, 1).await.unwrap();
    assert_eq!(site.kept().await, Some(ours), "who is trusted asks as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_caller_learns_no_attempt_name() {
    let site = Strange::start().await;
    let mut stream = Sender::open_as(site.channel.clone(), RUNNER).await.unwrap();
    for attempt in ["ci.example:8", "ci.example:9"] {
        stream.build(hello(attempt, "zlib"), 3, Some(0)).await.unwrap();
    }
    let asked = || pb::PredictRequest { key: Some(key("zlib")), ..Default::default() };
    let mut predictor = PredictorClient::new(site.channel.clone());
    let answers = [
        format!("{:?}", predictor.predict(asked()).await.unwrap()),
        format!("{:?}", predictor.explain(asked()).await.unwrap()),
        format!("{:?}", site.judged("", 1).await.unwrap()),
        site.site.server.get("/v1/allocation?spec=zlib@1.3%20arch=a-b-c%25gcc@1").unwrap().1,
    ];
    for answer in &answers {
        // the third names the attempt that was asked about, which the caller said himself
        assert!(!answer.contains("ci.example:8") && !answer.contains("ci.example:9"), "{answer}");
    }
    assert!(site.named(RUNNER).await == 0, "a caller that may not read attempts sees none of them");
    let mut stats = StatsClient::new(site.channel.clone());
    for attempt in [OURS, "ci.example:8"] {
        let asked = pb::GetAttemptRequest { attempt: attempt.into(), ..Default::default() };
        let refused = stats.get_attempt(asked).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
    }
    let listed = stats.list_attempts(pb::ListAttemptsRequest::default()).await.unwrap_err();
    assert_eq!(listed.code(), Code::PermissionDenied);
    // a ticket is stored under the name of its owner
    for rpc in ["OpenTicket", "WatchTicket", "CloseTicket"] {
        let refused = plimsoll_tests::call(&site.channel, "", &format!("Placement/{rpc}"), Vec::new()).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated, "{rpc}");
    }
}
