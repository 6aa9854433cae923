//! Calls that begin and never ask: a caller without a name shuts out no other with them.

use std::net::SocketAddr;

use h2::{SendStream, client::SendRequest};
use http::HeaderMap;
use plimsoll_tests::Site;
use tokio::{net::TcpSocket, task::JoinSet};
use tokio_util::task::TaskTracker;

/// Calls that those may have at once who say nothing of who they are.
const ALL: usize = 128;
/// More than these.
const CALLS: usize = 200;
/// Status of gRPC: a wrong question, one too late, and one beyond a bound.
const WRONG: &str = "3";
const LATE: &str = "4";
const REFUSED: &str = "8";
/// An empty question: no byte compressed, no bytes long.
const EMPTY: &[u8] = &[0; 5];

type Client = SendRequest<&'static [u8]>;

/// A client with this address.
async fn connect(from: &str, server: SocketAddr) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let stream = socket.connect(server).await.unwrap();
    let (client, connection) = h2::client::Builder::new().handshake(stream).await.unwrap();
    // it ends with the server
    drop(TaskTracker::new().spawn(connection));
    client
}

/// A call whose question is still to be sent, and the head of its answer.
async fn begin(client: &Client) -> (h2::client::ResponseFuture, SendStream<&'static [u8]>) {
    let request = http::Request::post("http://host/plimsoll.v1.Predictor/Predict")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let mut client = client.clone().ready().await.unwrap();
    client.send_request(request.body(()).unwrap(), false).unwrap()
}

/// The status of a call that was refused; `None` of one that was answered.
fn status(head: &HeaderMap) -> Option<String> {
    head.get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_never_ask_do_not_shut_out_another_address() {
    let access = "[anonymous]\nroles = [\"caller\"]\n";
    let Site { dir: _dir, server, .. } = Site::start_with(&[("--access-file", access)], &[]).unwrap();
    let greedy = connect("127.0.0.1", server.grpc).await;
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let (answer, question) = begin(&greedy).await;
        calls.spawn(async move {
            let head = answer.await.unwrap();
            drop(question);
            status(head.headers())
        });
    }
    let mut ends = Vec::new();
    while ends.len() < CALLS - ALL {
        ends.push(calls.join_next().await.unwrap().unwrap());
    }
    let other = connect("127.0.0.2", server.grpc).await;
    let (answer, mut question) = begin(&other).await;
    question.send_data(EMPTY, true).unwrap();
    // it asks about nothing, and the answer says so
    assert_eq!(status(answer.await.unwrap().headers()).as_deref(), Some(WRONG));
    // the others end too, as their questions do not come
    ends.extend(calls.join_all().await);
    let ended = |code: &str| ends.iter().filter(|end| end.as_deref() == Some(code)).count();
    assert_eq!((ended(REFUSED), ended(LATE)), (CALLS - ALL / 2, ALL / 2), "{ends:?}");
}
