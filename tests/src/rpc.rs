//! A call of any rpc by its name, for tables of calls.

use std::time::Duration;

use prost::bytes::{Buf as _, BufMut as _};
use tokio::time::timeout;
use tonic::{
    Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};

use crate::with_token;

/// The longest wait for a first answer.
const ANSWER_WITHIN: Duration = Duration::from_mins(5);
/// Rpcs whose answer is a stream, which may end without a message.
const STREAMS: [&str; 5] = [
    "Collector/Stream",
    "ExternalScaler/StreamIsActive",
    "Placement/WatchTicket",
    "Predictor/PredictBatch",
    "Stats/Watch",
];

/// The first answer to `request`, an encoded message, by `rpc` (`SERVICE/RPC`); empty if a stream ends without one. Whether the rpc
/// answers once or more often is the same on the wire.
pub async fn call(channel: &Channel, token: &str, rpc: &str, request: Vec<u8>) -> Result<Vec<u8>, Status> {
    let first = timeout(ANSWER_WITHIN, first_answer(channel, token, rpc, request)).await;
    let late = |_elapsed| Status::deadline_exceeded(format!("{rpc} has no answer after {ANSWER_WITHIN:?}"));
    match first.map_err(late)?? {
        Some(answer) => Ok(answer),
        None if STREAMS.contains(&rpc) => Ok(Vec::new()),
        None => Err(Status::internal(format!("{rpc} ended without an answer"))),
    }
}

async fn first_answer(
    channel: &Channel,
    token: &str,
    rpc: &str,
    request: Vec<u8>,
) -> Result<Option<Vec<u8>>, Status> {
    let package = if rpc.starts_with("ExternalScaler/") { "externalscaler" } else { "plimsoll.v1" };
    let path = http::uri::PathAndQuery::try_from(format!("/{package}.{rpc}"));
    let path = path.map_err(|error| Status::internal(error.to_string()))?;
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let answers = client.server_streaming(with_token(token, request), path, MessageBytes).await?;
    answers.into_inner().message().await
}

/// Messages as their bytes.
#[derive(Debug, Clone, Copy)]
struct MessageBytes;

impl Codec for MessageBytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for MessageBytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&message);
        Ok(())
    }
}

impl Decoder for MessageBytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}
