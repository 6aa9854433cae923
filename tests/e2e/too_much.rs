//! Too much of something is bounded and reported, and harms no other caller.

use plimsoll_proto::v1::{self as pb, stats_client::StatsClient};
use plimsoll_tests::{Programs, Sender, Server, batch, eventually, figures::metric, finish, hello};
use tonic::Code;
use tonic_types::StatusExt as _;

const OPEN: usize = 150;

async fn seen(server: &Server, name: &str, is: f64) {
    let number = async || metric(&server.get("/metrics").unwrap().1, name);
    eventually(name, number, |number| *number == Some(is)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_are_opened_and_never_fed_are_bounded_and_end_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let bound = OPEN.to_string();
    let server = Server::start_with(Programs::for_tests(), dir.path(), &["--open-attempts", &bound]).unwrap();
    let mut streams = Vec::new();
    for n in 0..OPEN {
        if n % 50 == 0 {
            streams.push(Sender::connect(&server.url()).await.unwrap());
        }
        streams.last_mut().unwrap().exchange(hello(&format!("empty-{n}"), "zlib")).await.unwrap();
    }
    let mut late = Sender::connect(&server.url()).await.unwrap();
    let status = late.exchange(hello("one-more", "zlib")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.get_error_details().retry_info().is_some(), "it says when to come back: {status}");
    seen(&server, "plimsoll_ingest_refusals_total{kind=\"full\"}", 1.0).await;
    assert_eq!(streams[0].exchange(batch("empty-0", 1, 1)).await.unwrap(), 1, "the others go on");
    server.predict(pb::Key { package: "zlib".into(), ..pb::Key::default() }).await.unwrap();
    assert!(server.stop().unwrap().success());

    let options = ["--open-attempts", &bound, "--abandon-after", "1ms"];
    let server = Server::start_with(Programs::for_tests(), dir.path(), &options).unwrap();
    seen(&server, "plimsoll_ingest_open_attempts", 0.0).await;
    seen(&server, "plimsoll_history_attempts", 150.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_of_very_many_samples_is_taken_up_and_shown_in_few_rows() {
    const BATCHES: u64 = 40;
    let (dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::opened(&server.url(), "endless", "zlib").await.unwrap();
    for n in 0..BATCHES {
        stream.exchange(batch("endless", n * 1000 + 1, 1000)).await.unwrap();
    }
    server.kill().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    let all = BATCHES * 1000;
    assert_eq!(stream.exchange(hello("endless", "zlib")).await.unwrap(), all);
    assert_eq!(stream.exchange(batch("endless", all + 1, 1)).await.unwrap(), all + 1);
    stream.exchange(finish("endless", all + 1, None)).await.unwrap();
    let mut client = StatsClient::connect(server.url()).await.unwrap();
    let ask = pb::GetAttemptRequest { attempt: "endless".into(), with_series: true, max_samples: 100 };
    let got = client.get_attempt(ask).await.unwrap().into_inner();
    assert_eq!((got.samples_total, got.summary.unwrap().samples), (all + 1, all + 1));
    assert!(got.series.len() <= 100, "{} rows", got.series.len());
}
