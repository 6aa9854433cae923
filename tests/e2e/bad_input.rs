//! Bad input gets a clear error that names the cause, and changes nothing.

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::{Programs, Sender, Server, hello, sample};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

fn batch(attempt: &str, first_sequence: u64, samples: Vec<pb::Sample>) -> pb::Batch {
    pb::Batch { attempt: attempt.to_owned(), first_sequence, lost: 0, samples }
}

fn field(status: &Status) -> String {
    let details = status.get_error_details();
    details.bad_request().map(|bad| bad.field_violations[0].field.clone()).unwrap_or_default()
}

/// Opens attempt `a`, sends three samples, then `message`; gives the error and checks that nothing has changed.
async fn refused(server: &Server, message: pb::Batch) -> Status {
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    let before = stream.exchange(hello("a", "zlib")).await.unwrap();
    assert_eq!(stream.exchange(batch("a", 1, (1..=3).map(sample).collect())).await.unwrap(), before.max(3));
    let refusal = stream.exchange(message).await.unwrap_err();
    let mut again = Sender::connect(&server.url()).await.unwrap();
    assert_eq!(again.exchange(hello("a", "zlib")).await.unwrap(), 3, "after {refusal}");
    refusal
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_batch_is_named_and_changes_nothing() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let all_lost = pb::Batch { attempt: "a".into(), first_sequence: 4, lost: 4, samples: vec![sample(4)] };
    let cases = [
        (all_lost, "batch.lost"),
        (batch("a", 4, vec![]), "batch.samples"),
        (batch("a", 0, vec![sample(4)]), "batch.first_sequence"),
        (batch("a", 4, vec![sample(4); 1001]), "batch.samples"),
    ];
    for (message, name) in cases {
        let status = refused(&server, message).await;
        assert_eq!((status.code(), field(&status).as_str()), (Code::InvalidArgument, name), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_message_ends_only_its_stream() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let mut client = PredictorClient::connect(server.url()).await.unwrap();
    let key = pb::Key { package: "x".repeat(300 * 1024), ..pb::Key::default() };
    let status =
        client.predict(pb::PredictRequest { key: Some(key), ..Default::default() }).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert!(status.message().contains("262144"), "the message names the bound: {status}");
    let key = pb::Key { package: "zlib".into(), ..pb::Key::default() };
    client.predict(pb::PredictRequest { key: Some(key), ..Default::default() }).await.unwrap();
    let mut stream = Sender::opened(&server.url(), "a", "zlib").await.unwrap();
    let status = stream.exchange(hello("b", &"x".repeat(300 * 1024))).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert!(status.message().contains("262144"), "the message names the bound: {status}");
}

/// Asks of one batch: as many as the largest generate jobs have specs, and more.
const ASKS: u32 = 50_000;

#[tokio::test(flavor = "multi_thread")]
async fn batch_predictions_keep_order_and_report_errors_individually() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let mut client = PredictorClient::connect(server.url()).await.unwrap();
    // each third of a hundred is bad in one of three ways; the jobs that were asked for come back, so that order shows
    let bad = |n: u32| match n % 100 {
        33 => "key.package",
        66 => "key",
        99 => "key.hints.build_jobs",
        _ => "",
    };
    let ask = move |n: u32| {
        let hints =
            pb::Hints { build_jobs: Some(if n % 100 == 99 { 0 } else { 1 + n % 4096 }), input_bytes: None };
        let package = if n % 100 == 33 { String::new() } else { format!("package-{}", n % 997) };
        let key = pb::Key { package, hints: Some(hints), ..pb::Key::default() };
        pb::PredictRequest { key: (n % 100 != 66).then_some(key), ..Default::default() }
    };
    let mut answers =
        client.predict_batch(tokio_stream::iter((0..ASKS).map(ask))).await.unwrap().into_inner();
    for n in 0..ASKS {
        let answer = answers.message().await.unwrap().expect("an answer for each ask").result.unwrap();
        match answer {
            pb::predict_batch_response::Result::Prediction(prediction) => {
                assert_eq!(bad(n), "", "ask {n}");
                assert_eq!(prediction.build_jobs.unwrap().value, u64::from(1 + n % 4096), "ask {n}");
            }
            pb::predict_batch_response::Result::Error(error) => assert_eq!(error.field, bad(n), "ask {n}"),
        }
    }
    assert!(answers.message().await.unwrap().is_none(), "one answer for each ask");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_attempt_belongs_to_its_agent() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::opened(&server.url(), "a", "zlib").await.unwrap();
    stream.exchange(batch("a", 1, vec![sample(1)])).await.unwrap();
    server.kill().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let stranger = pb::Hello { session: "another-agent".into(), ..hello("a", "zlib") };
    let status = Sender::connect(&server.url()).await.unwrap().exchange(stranger).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists, "{status}");
    assert!(status.message().contains("an id of its own"), "{status}");
    let mut again = Sender::connect(&server.url()).await.unwrap();
    assert_eq!(again.exchange(hello("a", "zlib")).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_carries_a_bounded_number_of_attempts() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    for n in 0..64 {
        stream.exchange(hello(&n.to_string(), "zlib")).await.unwrap();
    }
    let status = stream.exchange(hello("one-more", "zlib")).await.unwrap_err();
    assert_eq!((status.code(), field(&status).as_str()), (Code::InvalidArgument, "hello.attempt"));
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_without_hello_are_refused() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    let status = stream.exchange(batch("unknown", 1, vec![sample(1)])).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("hello"), "{status}");
}
