//! Bytes that are no message are the fault of their sender: INVALID_ARGUMENT, with the field where it is known.

use plimsoll_proto::v1 as pb;
use plimsoll_tests::Server;
use prost::Message as _;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// How a call ends that sends these bytes as its message.
async fn end_of(server: &Server, path: &str, message: &[u8]) -> Status {
    let stream = TcpStream::connect(server.grpc).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    let driving = TaskTracker::new().spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    let request = http::Request::post(format!("http://x{path}"));
    let request =
        request.header("content-type", "application/grpc").header("te", "trailers").body(()).unwrap();
    let (answer, mut body) = sender.send_request(request, false).unwrap();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    body.send_data([&[0][..], &length, message].concat().into(), true).unwrap();
    let answer = answer.await.unwrap();
    let mut last = answer.headers().clone();
    if !last.contains_key(Status::GRPC_STATUS) {
        let mut body = answer.into_body();
        while body.data().await.is_some() {}
        last = body.trailers().await.unwrap().unwrap();
    }
    driving.abort();
    Status::from_header_map(&last).unwrap()
}

/// The message with a letter of this text turned into a byte that is no UTF-8.
fn broken(message: &[u8], text: &str) -> Vec<u8> {
    let at = message.windows(text.len()).position(|bytes| bytes == text.as_bytes()).unwrap();
    let mut broken = message.to_vec();
    broken[at] = 0xff;
    broken
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_message_are_the_fault_of_their_sender_and_the_field_is_named() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let key = pb::Key { package: "zlib".into(), ..pb::Key::default() };
    let asked =
        pb::PredictRequest { key: Some(key.clone()), ..pb::PredictRequest::default() }.encode_to_vec();
    let hello = pb::Hello { attempt: "a".into(), key: Some(key), ..pb::Hello::default() };
    let sent = pb::AgentMessage { message: Some(hello.into()) }.encode_to_vec();
    let predict = "/plimsoll.v1.Predictor/Predict";
    for (path, message, field) in [
        (predict, broken(&asked, "zlib"), "key.package"),
        (predict, vec![0xff; 20], "message"),
        ("/plimsoll.v1.Predictor/PredictBatch", broken(&asked, "zlib"), "key.package"),
        ("/plimsoll.v1.Collector/Stream", broken(&sent, "zlib"), "message.key.package"),
    ] {
        let status = end_of(&server, path, &message).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{path}: {status:?}");
        let details = status.get_error_details();
        let named = details.bad_request().unwrap().field_violations[0].field.clone();
        assert!(
            named == field || (field.starts_with("message.") && named.ends_with("key.package")),
            "{named}: {status:?}"
        );
    }
    let metrics = server.get("/metrics").unwrap().1;
    assert!(metrics.contains("plimsoll_grpc_calls_failed_total{kind=\"invalid_argument\"}"), "{metrics}");
    assert!(!metrics.contains("kind=\"internal\"} 1"), "{metrics}");
}
