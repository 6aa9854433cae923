//! The answers of one stream, to a client that may read slowly or not at all: a bounded queue, a
//! time limit, and slots reserved for the final message and status.

use std::time::Duration;

use tokio::sync::mpsc::{self, OwnedPermit};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Answers that may wait for a slow client. While so many wait, its stream is not read further.
const QUEUE: usize = 16;

/// Slots reserved for the end of the stream: a message and a status.
const RESERVED_SLOTS: usize = 2;

/// How long a client may read nothing while answers wait. It is far longer than a working client
/// pauses, and short enough that dead clients do not accumulate.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// When a client that was disconnected should reconnect.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The receiving end, which tonic sends to the client.
pub(super) type Answers<T> = ReceiverStream<Result<T, Status>>;

/// The sending end of the answers of a stream.
#[derive(Debug)]
pub(super) struct Outbound<T> {
    answers: mpsc::Sender<Result<T, Status>>,
    reserved_slots: Vec<OwnedPermit<Result<T, Status>>>,
}

/// Creates the queue for the answers of a stream.
pub(super) fn outbound<T>() -> (Outbound<T>, Answers<T>) {
    let (answers, receiver) = mpsc::channel(QUEUE + RESERVED_SLOTS);
    let place = |_| answers.clone().try_reserve_owned().ok();
    let last_words = (0..RESERVED_SLOTS).filter_map(place).collect();
    (Outbound { answers, reserved_slots: last_words }, ReceiverStream::new(receiver))
}

impl<T> Outbound<T> {
    /// Queues an answer. Waits while the queue is full.
    /// Errors: the client has left or does not read; the stream must end with this status.
    pub(super) async fn send(&self, answer: T) -> Result<(), Status> {
        match self.answers.send_timeout(Ok(answer), READ_WITHIN).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(Status::cancelled("the client has left")),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                let text = format!("answers were not read for {} s; come back", READ_WITHIN.as_secs());
                let details = ErrorDetails::with_retry_info(Some(RETRY_AFTER));
                Err(Status::with_error_details(Code::ResourceExhausted, text, details))
            }
        }
    }

    /// Waits until the client has left.
    pub(super) async fn client_left(&self) {
        self.answers.closed().await;
    }

    /// Ends the stream with a message and a status. Never waits.
    pub(super) fn end(mut self, message: Option<T>, status: Status) {
        // fails only if the client has left, and then nothing need be sent
        for word in message.map(Ok).into_iter().chain([Err(status)]) {
            if let Some(place) = self.reserved_slots.pop() {
                drop(place.send(word));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_disconnected_with_a_reason() {
        let (outbound, answers) = outbound();
        for n in 0..QUEUE {
            outbound.send(n).await.unwrap();
        }
        let status = outbound.send(99).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        outbound.end(Some(100), status);
        let read: Vec<_> = answers.map(|answer| answer.map_err(|status| status.code())).collect().await;
        let sent = (0..QUEUE).chain([100]).map(Ok).chain([Err(Code::ResourceExhausted)]);
        assert_eq!(read, sent.collect::<Vec<_>>());
    }
}
