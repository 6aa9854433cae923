//! A call of any rpc by its name, for tables of calls.

use prost::bytes::{Buf as _, BufMut as _};
use tonic::{
    Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};

use crate::with_token;

/// The first answer to `question`, an encoded message, by `rpc` (`SERVICE/RPC`); empty if the call ends without one. Whether the rpc
/// answers once or more often is the same on the wire.
pub async fn call(channel: &Channel, token: &str, rpc: &str, question: Vec<u8>) -> Result<Vec<u8>, Status> {
    let package = if rpc.starts_with("ExternalScaler/") { "externalscaler" } else { "plimsoll.v1" };
    let path = http::uri::PathAndQuery::try_from(format!("/{package}.{rpc}"));
    let path = path.map_err(|error| Status::internal(error.to_string()))?;
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let answers = client.server_streaming(with_token(token, question), path, MessageBytes).await?;
    Ok(answers.into_inner().message().await?.unwrap_or_default())
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
