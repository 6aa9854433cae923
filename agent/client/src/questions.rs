//! Sends requests to the server, once each, with a time limit.

use std::time::Duration;

use plimsoll_proto::{
    shown,
    v1::{
        CloseTicketRequest, CorrectVerdictRequest, ExplainResponse, GetAttemptRequest, GetAttemptResponse,
        GetServerRequest, GetServerResponse, GetStatsRequest, GetStatsResponse, ListAttemptsRequest,
        ListAttemptsResponse, PredictRequest, Prediction, RecommendRequest, RecommendResponse,
        ShouldRetryRequest, Verdict, WatchRequest, WatchResponse, introspection_client::IntrospectionClient,
        placement_client::PlacementClient, predictor_client::PredictorClient, stats_client::StatsClient,
    },
};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Request, Response, Status, Streaming, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{
    reasons::{broken_connection, no_connection, no_server, not_grpc_message, refusal},
    servers::{Servers, TCP},
    token::{Token, with_token},
    trust::Trust,
};

/// Time limit for an answer. The server answers from memory, except for verdicts, which it first writes to disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for finding the server that serves; while standbys answer, it is waited for one of them to take over.
const FIND_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two rounds over the addresses meanwhile.
const TAKEOVER_PAUSE: Duration = Duration::from_secs(1);
/// Most bytes of an answer, for all requests: an answer with a long series is far larger than anything that an agent sends.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A connection to a server, for requests.
#[derive(Debug)]
pub struct Client {
    servers: Servers,
    channel: Channel,
    server: String,
    token: Option<Token>,
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionFailure {
    /// The request was invalid. Sending it again does not help.
    #[error("{0}")]
    Question(String),
    /// The server did not answer. Sending the request again may help.
    #[error("{0}")]
    NoAnswer(String),
}

impl QuestionFailure {
    /// The exit status of a command that fails for this reason.
    pub fn status(&self) -> u8 {
        match self {
            Self::Question(_) => 2,
            Self::NoAnswer(_) => 3,
        }
    }
}

/// Why version and settings of the server could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerUnknown {
    /// The server does not accept the caller: its token is missing, wrong, or without a role.
    #[error("{0}")]
    Denied(String),
    /// A program answers, but does not know the request: it is not a Plimsoll server.
    #[error("{0}")]
    Foreign(String),
    /// The server does not answer, or the request cannot be sent.
    #[error("{0}")]
    NoAnswer(String),
}

/// A stream of the running attempts.
#[derive(Debug)]
pub struct RunningWatch {
    messages: Streaming<WatchResponse>,
    server: String,
}

impl RunningWatch {
    /// The next message of the stream.
    /// Errors: the stream has ended.
    pub async fn next(&mut self) -> Result<WatchResponse, QuestionFailure> {
        let ended = || QuestionFailure::NoAnswer(format!("{} has ended the watch", self.server));
        self.messages.message().await.map_err(|status| failure_of(&self.server, &status))?.ok_or_else(ended)
    }
}

impl Client {
    /// Connects to a server; of several, with commas between their addresses, to the one that serves.
    /// Errors: an address is wrong, the certificates cannot be read, or no server serves there.
    pub async fn connect(server: &str, trust: &Trust) -> Result<Self, QuestionFailure> {
        let servers = Servers::parse(server, trust, TCP).await.map_err(QuestionFailure::Question)?;
        let servers = servers.with_answer_timeout(ANSWER_TIMEOUT);
        let channel = connect_to_serving(&servers).await?;
        let server = servers.name();
        Ok(Self { servers, channel, server, token: trust.token.clone() })
    }

    /// Asks what the next attempt of a key should request.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn predict(&self, question: PredictRequest) -> Result<Prediction, QuestionFailure> {
        let answer = self.predictor_client().predict(self.to_request(question).await?).await;
        self.unwrap_answer(answer)?.prediction.ok_or_else(|| self.empty_answer())
    }

    /// Asks which attempts a prediction used, and for the needs at other numbers of build jobs.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn explain(&self, question: PredictRequest) -> Result<ExplainResponse, QuestionFailure> {
        let answer = self.predictor_client().explain(self.to_request(question).await?).await;
        self.unwrap_answer(answer)
    }

    /// Asks whether a failed attempt should be retried.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn should_retry(&self, question: ShouldRetryRequest) -> Result<Verdict, QuestionFailure> {
        let answer = self.predictor_client().should_retry(self.to_request(question).await?).await;
        self.unwrap_answer(answer)?.verdict.ok_or_else(|| self.empty_answer())
    }

    /// Records a person's correction of a failure's cause, and returns the verdict that is now in force.
    /// Errors: the server gave no answer, or refused the correction.
    pub async fn correct_verdict(&self, question: CorrectVerdictRequest) -> Result<Verdict, QuestionFailure> {
        let answer = self.predictor_client().correct_verdict(self.to_request(question).await?).await;
        self.unwrap_answer(answer)?.verdict.ok_or_else(|| self.empty_answer())
    }

    /// Gives a ticket back.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn close_ticket(&self, question: CloseTicketRequest) -> Result<(), QuestionFailure> {
        let mut placement =
            PlacementClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES);
        let answer = placement.close_ticket(self.to_request(question).await?).await;
        self.unwrap_answer(answer).map(drop)
    }

    /// Asks for statistics of many attempts: what they used, requested and lost.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn stats(&self, question: GetStatsRequest) -> Result<GetStatsResponse, QuestionFailure> {
        let answer = self.stats_client().get_stats(self.to_request(question).await?).await;
        self.unwrap_answer(answer)
    }

    /// Asks for one page of finished attempts.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn attempts(
        &self,
        question: ListAttemptsRequest,
    ) -> Result<ListAttemptsResponse, QuestionFailure> {
        let answer = self.stats_client().list_attempts(self.to_request(question).await?).await;
        self.unwrap_answer(answer)
    }

    /// Asks what each job or package should request.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn recommend(&self, question: RecommendRequest) -> Result<RecommendResponse, QuestionFailure> {
        let answer = self.stats_client().recommend(self.to_request(question).await?).await;
        self.unwrap_answer(answer)
    }

    /// Asks for one attempt with its series.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn attempt(&self, question: GetAttemptRequest) -> Result<GetAttemptResponse, QuestionFailure> {
        let answer = self.stats_client().get_attempt(self.to_request(question).await?).await;
        self.unwrap_answer(answer)
    }

    /// Asks for the server's version and settings, and for what the caller may do.
    /// Errors: the server gave no answer, does not accept the caller, or is another program.
    pub async fn server(&self) -> Result<GetServerResponse, ServerUnknown> {
        let question = self.to_request(GetServerRequest {}).await;
        let question = question.map_err(|failure| ServerUnknown::Denied(failure.to_string()))?;
        let answer = IntrospectionClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_BYTES)
            .get_server(question)
            .await;
        answer.map(Response::into_inner).map_err(|status| {
            let why = failure_of(&self.server, &status).to_string();
            let is_answer =
                not_grpc_message(&status).is_none() && broken_connection(&status, &self.server).is_none();
            match status.code() {
                Code::Unauthenticated | Code::PermissionDenied if is_answer => ServerUnknown::Denied(why),
                // this status has a message if it comes from our HTTP port, which names the gRPC port; without one, it comes from another
                // program
                Code::Unimplemented if is_answer && status.message().is_empty() => {
                    ServerUnknown::Foreign(why)
                }
                _other => ServerUnknown::NoAnswer(why),
            }
        })
    }

    /// Wraps a message as a request, with the caller's token if there is one.
    async fn to_request<T>(&self, question: T) -> Result<Request<T>, QuestionFailure> {
        with_token(self.token.as_ref(), question).await.map_err(QuestionFailure::Question)
    }

    /// Watches the running attempts: returns a stream of messages about them. Finds the server that serves each time it is called.
    /// Errors: the server gave no answer, or the request was invalid.
    pub async fn watch(&self) -> Result<RunningWatch, QuestionFailure> {
        let channel = connect_to_serving(&self.servers).await?;
        let server = self.servers.name();
        let mut stats = StatsClient::new(channel).max_decoding_message_size(ANSWER_BYTES);
        let answer = stats.watch(self.to_request(WatchRequest {}).await?).await;
        let messages = answer.map_err(|status| failure_of(&server, &status))?.into_inner();
        Ok(RunningWatch { messages, server })
    }

    fn predictor_client(&self) -> PredictorClient<Channel> {
        PredictorClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    fn stats_client(&self) -> StatsClient<Channel> {
        StatsClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    fn unwrap_answer<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, QuestionFailure> {
        answer.map(Response::into_inner).map_err(|status| failure_of(&self.server, &status))
    }

    fn empty_answer(&self) -> QuestionFailure {
        QuestionFailure::NoAnswer(format!("{} sent an empty answer", self.server))
    }
}

/// Connects to the server that serves. While only standbys answer, waits for one of them to take over.
async fn connect_to_serving(servers: &Servers) -> Result<Channel, QuestionFailure> {
    let deadline = Instant::now() + FIND_TIMEOUT;
    let failure = |text: &str, is_of_network| {
        QuestionFailure::NoAnswer(no_connection(&servers.name(), text, is_of_network))
    };
    let mut last = failure(&format!("no answer within {FIND_TIMEOUT:?}"), true);
    while let Ok(found) = timeout_at(deadline, servers.connect()).await {
        let reason = match found {
            Ok(channel) => return Ok(channel),
            Err(reason) => reason,
        };
        last = failure(&reason.text, reason.is_of_network);
        if !reason.is_standby || Instant::now() + TAKEOVER_PAUSE >= deadline {
            break;
        }
        sleep(TAKEOVER_PAUSE).await;
    }
    Err(last)
}

fn failure_of(server: &str, status: &Status) -> QuestionFailure {
    let fields = status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default();
    let wrong: Vec<String> =
        fields.iter().map(|field| format!("{}: {}", field.field, field.description)).collect();
    let reason = if wrong.is_empty() { status.message().to_owned() } else { wrong.join("; ") };
    let reason = shown::escaped_line(&reason).into_owned();
    match status.code() {
        Code::OutOfRange if is_answer_too_large(status.message()) => QuestionFailure::NoAnswer(format!(
            "{server}: its answer is larger than {} MiB; ask for less",
            ANSWER_BYTES >> 20
        )),
        Code::InvalidArgument | Code::NotFound | Code::OutOfRange => QuestionFailure::Question(reason),
        code => {
            QuestionFailure::NoAnswer(match (not_grpc_message(status), broken_connection(status, server)) {
                (Some(text), _) => format!("{server}: {text}"),
                (None, Some(text)) => no_server(server, &text),
                (None, None) => format!("{server}: {}", refusal(code, &reason)),
            })
        }
    }
}

/// Whether this client refused an answer as too large. If the server refuses a request as too large, code and words are the same (tonic's
/// `codec/decode.rs`), but the limit in them is another one.
fn is_answer_too_large(message: &str) -> bool {
    message.contains("message length too large")
        && message.ends_with(&format!("the limit is: {ANSWER_BYTES} bytes"))
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        future::{Ready, ready},
        task::{Context, Poll},
    };

    use tokio::net::TcpListener;
    use tonic::{
        body::Body,
        codegen::{Service, http, tokio_stream::wrappers::TcpListenerStream},
        server::NamedService,
        transport::Server,
    };
    use tonic_types::{ErrorDetails, FieldViolation};

    use super::*;

    /// A service whose answers begin as one of 80 MiB does.
    #[derive(Clone)]
    struct Oversized<const N: usize>;

    impl<const N: usize> NamedService for Oversized<N> {
        const NAME: &'static str = [
            "plimsoll.v1.Predictor",
            "plimsoll.v1.Stats",
            "plimsoll.v1.Placement",
            "plimsoll.v1.Introspection",
        ][N];
    }

    impl<const N: usize> Service<http::Request<Body>> for Oversized<N> {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _request: http::Request<Body>) -> Self::Future {
            // not compressed, and a length of 5 << 24 bytes
            let answer = http::Response::new(Body::new("\0\x05\0\0\0".to_owned()));
            let (mut head, body) = answer.into_parts();
            head.headers.insert("content-type", http::HeaderValue::from_static("application/grpc"));
            ready(Ok(http::Response::from_parts(head, body)))
        }
    }

    #[tokio::test]
    async fn an_oversized_answer_names_address_and_exits_3() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let serving = Server::builder()
            .add_service(Oversized::<0>)
            .add_service(Oversized::<1>)
            .add_service(Oversized::<2>)
            .add_service(Oversized::<3>)
            .serve_with_incoming(TcpListenerStream::new(listener));
        let asking = async {
            let client = Client::connect(&server, &Trust::default()).await.unwrap();
            let failures = [
                client.predict(PredictRequest::default()).await.map(drop).unwrap_err(),
                client.explain(PredictRequest::default()).await.map(drop).unwrap_err(),
                client.should_retry(ShouldRetryRequest::default()).await.map(drop).unwrap_err(),
                client.correct_verdict(CorrectVerdictRequest::default()).await.map(drop).unwrap_err(),
                client.close_ticket(CloseTicketRequest::default()).await.unwrap_err(),
                client.stats(GetStatsRequest::default()).await.map(drop).unwrap_err(),
                client.watch().await.unwrap().next().await.map(drop).unwrap_err(),
            ];
            let too_large = format!("{server}: its answer is larger than 64 MiB; ask for less");
            let said = failures.map(|failure| (failure.to_string(), failure.status()));
            assert_eq!(said, std::array::from_fn(|_| (too_large.clone(), 3)));
            assert_eq!(client.server().await.unwrap_err(), ServerUnknown::NoAnswer(too_large));
        };
        tokio::select! {
            ended = serving => panic!("the server ended: {ended:?}"),
            () = asking => {}
        }
    }

    #[test]
    fn a_wrong_question_names_its_field() {
        let violation = FieldViolation::new("key.package", "must not be empty");
        let details = ErrorDetails::with_bad_request(vec![violation]);
        let status = Status::with_error_details(Code::InvalidArgument, "bad", details);
        let failure = failure_of("http://x", &status);
        assert_eq!((failure.to_string().as_str(), failure.status()), ("key.package: must not be empty", 2));
    }

    #[test]
    fn an_oversized_answer_is_no_question_error() {
        let too_large = |limit: usize| {
            let text = format!(
                "Error, decoded message length too large: found 999999999 bytes, the limit is: {limit} bytes"
            );
            failure_of("http://x", &Status::out_of_range(text))
        };
        let answer = too_large(ANSWER_BYTES);
        let expected = "http://x: its answer is larger than 64 MiB; ask for less";
        assert_eq!((answer.to_string().as_str(), answer.status()), (expected, 3));
        assert_eq!(too_large(1 << 20).status(), 2, "the server's bound on a question");
    }
}
