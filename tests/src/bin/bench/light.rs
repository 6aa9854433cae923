//! Predict asked of HTTP/2 itself: what a caller written with tonic spends on each call leaves the server too little of two cores.

use anyhow::{Context as _, ensure};
use h2::client::{self, SendRequest};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use prost::bytes::Bytes;
use tokio::net::TcpStream;

/// Room for the answers of all calls that are under way: nothing waits for a window.
const WINDOW_BYTES: u32 = 16 << 20;
/// Before each message of gRPC: whether it is compressed, and its length.
const NOT_COMPRESSED: u8 = 0;

/// A connection on which calls are made. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Light {
    sender: SendRequest<Bytes>,
    uri: Uri,
}

impl Light {
    /// Connects to a server on `http://HOST:PORT`. The connection lives in the background until its last clone is gone.
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("http://").with_context(|| format!("{url} is not plain http"))?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut builder = client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        let (sender, connection) = builder.handshake(stream).await?;
        #[expect(clippy::disallowed_methods, reason = "ends with the last caller, or with the server")]
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, uri: format!("{url}/plimsoll.v1.Predictor/Predict").parse()? })
    }

    /// One call to its end; an error unless it was answered with `grpc-status: 0`.
    pub(crate) async fn call(&self, message: &impl prost::Message) -> anyhow::Result<()> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        let mut sender = self.sender.clone().ready().await?;
        let (answer, mut body) = sender.send_request(request, false)?;
        body.send_data(framed(message)?, true)?;
        let answer = answer.await?;
        ensure!(answer.status() == StatusCode::OK, "answered with {}", answer.status());
        let in_headers = answer.headers().get("grpc-status").cloned();
        let mut body = answer.into_body();
        while let Some(data) = body.data().await {
            body.flow_control().release_capacity(data?.len())?;
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        let status =
            trailers.get("grpc-status").or(in_headers.as_ref()).context("an answer without grpc-status")?;
        ensure!(status == "0", "answered with grpc-status {status:?}");
        Ok(())
    }
}

fn framed(message: &impl prost::Message) -> anyhow::Result<Bytes> {
    let body = message.encode_to_vec();
    let length = u32::try_from(body.len())?.to_be_bytes();
    Ok([&[NOT_COMPRESSED], &length[..], &body].concat().into())
}
