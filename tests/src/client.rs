//! A bare client of the collector, for tests that need to break its rules.

use plimsoll_proto::v1::{
    self as pb, agent_message::Message as Sent, collector_client::CollectorClient,
    server_message::Message as Answer,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Status, Streaming,
    transport::{Channel, Endpoint},
};

/// Batches on the way without an acknowledgement: as many as the agent has.
const IN_FLIGHT: u64 = 4;

/// One stream to a collector.
#[derive(Debug)]
pub struct Sender {
    outbound: mpsc::Sender<pb::AgentMessage>,
    inbound: Streaming<pb::ServerMessage>,
}

impl Sender {
    /// Opens a stream.
    pub async fn connect(url: &str) -> Result<Self, Status> {
        let unreachable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let endpoint = Endpoint::new(url.to_owned()).map_err(unreachable)?;
        Self::open(endpoint.connect().await.map_err(unreachable)?).await
    }

    /// Opens a stream, and an attempt of a package on it.
    pub async fn opened(url: &str, attempt: &str, package: &str) -> Result<Self, Status> {
        let mut stream = Self::connect(url).await?;
        stream.exchange(hello(attempt, package)).await?;
        Ok(stream)
    }

    /// Delivers an attempt of a package, with so many samples and this exit code.
    pub async fn delivered(
        url: &str,
        (attempt, package): (&str, &str),
        samples: u64,
        code: Option<i32>,
    ) -> Result<(), Status> {
        Self::connect(url).await?.build(hello(attempt, package), samples, code).await
    }

    /// Delivers all of an attempt.
    pub async fn build(&mut self, hello: pb::Hello, samples: u64, code: Option<i32>) -> Result<(), Status> {
        let attempt = hello.attempt.clone();
        self.exchange(hello).await?;
        self.exchange(batch(&attempt, 1, samples)).await?;
        self.exchange(finish(&attempt, samples, code)).await.map(drop)
    }

    /// Opens a stream on a connection that others may use, too.
    pub async fn open(connection: Channel) -> Result<Self, Status> {
        Self::open_as(connection, "").await
    }

    /// As [`Self::open`], with a token; none if it is empty.
    pub async fn open_as(connection: Channel, token: &str) -> Result<Self, Status> {
        let mut client = CollectorClient::new(connection);
        let (outbound, messages) = mpsc::channel(64);
        let inbound = client.stream(with_token(token, ReceiverStream::new(messages))).await?.into_inner();
        Ok(Self { outbound, inbound })
    }

    /// Sends without waiting for an answer.
    pub async fn send(&self, message: impl Into<Sent>) -> Result<(), Status> {
        let message = pb::AgentMessage { message: Some(message.into()) };
        self.outbound.send(message).await.map_err(|_closed| Status::aborted("the stream has ended"))
    }

    /// The next answer; `None` when the server has ended the stream without an error.
    pub async fn next(&mut self) -> Result<Option<Answer>, Status> {
        Ok(self.inbound.message().await?.and_then(|message| message.message))
    }

    /// Sends, waits for the answer, and gives the number that it acknowledges.
    pub async fn exchange(&mut self, message: impl Into<Sent>) -> Result<u64, Status> {
        // a stream that has ended says why when it is read
        let _ended = self.send(message).await;
        self.acknowledged().await
    }

    /// Sends the samples `first` to `last` in batches of `size`, a few of them ahead of their acknowledgements, as the agent does;
    /// each number that is acknowledged goes to `on_acknowledged`. Answers may be on the way when it returns: see [`Self::close`].
    pub async fn deliver(
        &mut self,
        attempt: &str,
        (first, last): (u64, u64),
        size: u64,
        mut on_acknowledged: impl FnMut(u64),
    ) -> Result<(), Status> {
        let (mut next, mut acknowledged) = (first, first - 1);
        while acknowledged < last {
            if next <= last && next <= acknowledged + IN_FLIGHT * size {
                // a stream that has ended says why when it is read
                let _ended = self.send(batch(attempt, next, size.min(last + 1 - next))).await;
                next += size;
                continue;
            }
            acknowledged = self.acknowledged().await?.max(acknowledged);
            on_acknowledged(acknowledged);
        }
        Ok(())
    }

    /// Sends the end of an attempt and waits until it is sealed.
    pub async fn close(&mut self, finish: impl Into<Sent>) -> Result<(), Status> {
        // a stream that has ended says why when it is read
        let _ended = self.send(finish).await;
        loop {
            match self.next().await? {
                Some(Answer::Ack(ack)) if ack.sealed => return Ok(()),
                Some(Answer::Ack(_)) => {}
                other => return Err(Status::aborted(format!("no end but {other:?}"))),
            }
        }
    }

    /// The number that the next answer acknowledges.
    async fn acknowledged(&mut self) -> Result<u64, Status> {
        match self.next().await? {
            Some(Answer::Welcome(welcome)) => Ok(welcome.acknowledged),
            Some(Answer::Ack(ack)) => Ok(ack.acknowledged),
            other => Err(Status::aborted(format!("no acknowledgement but {other:?}"))),
        }
    }
}

/// A request with a token; without one if it is empty.
#[expect(clippy::expect_used, reason = "a test that cannot send its token has failed")]
pub fn with_token<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        let header = format!("Bearer {token}").parse().expect("the token must fit into a header");
        request.metadata_mut().insert("authorization", header);
    }
    request
}

/// The key of a package.
pub fn key(package: &str) -> pb::Key {
    pb::Key { package: package.to_owned(), ..pb::Key::default() }
}

/// A Hello for `attempt` of a package, by session `s-<attempt>`.
pub fn hello(attempt: &str, package: &str) -> pb::Hello {
    pb::Hello {
        attempt: attempt.to_owned(),
        session: format!("s-{attempt}"),
        key: Some(key(package)),
        number: 1,
        source: pb::Source::CgroupV2.into(),
        started_unix_ms: 1_700_000_000_000,
        ..pb::Hello::default()
    }
}

/// The sample with this number: one a second, growing.
pub fn sample(number: u64) -> pb::Sample {
    pb::Sample {
        elapsed_ms: number * 1000,
        memory_bytes: number << 21,
        need_bytes: number << 20,
        memory_peak_bytes: Some(number << 21),
        cpu_usec: number * 900_000,
        oom_kill: Some(0),
        reclaim_failures: Some(0),
        ..pb::Sample::default()
    }
}

/// The samples `first..first + count` of an attempt.
pub fn batch(attempt: &str, first: u64, count: u64) -> pb::Batch {
    let samples = (first..first + count).map(sample).collect();
    pb::Batch { attempt: attempt.to_owned(), first_sequence: first, lost: 0, samples }
}

/// The end of an attempt a second after its last sample, with this exit code.
pub fn finish(attempt: &str, last_sequence: u64, code: Option<i32>) -> pb::Finish {
    pb::Finish {
        attempt: attempt.to_owned(),
        last_sequence,
        wall_ms: (last_sequence + 1) * 1000,
        exit: code.map(|code| pb::Exit { code: Some(code), signal: None }),
        ..pb::Finish::default()
    }
}
