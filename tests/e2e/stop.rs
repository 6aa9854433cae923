//! A graceful stop: running streams are told to come back, nothing acknowledged is lost, the exit code is 0.

use plimsoll_proto::v1::{self as pb, agent_message::Message as Sent, server_message::Message as Answer};
use plimsoll_tests::{Programs, Sender, Server, hello, sample};
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_told_to_come_back_and_find_everything_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(hello("a", "zlib")).await.unwrap();
    let batch =
        pb::Batch { attempt: "a".into(), first_sequence: 1, lost: 0, samples: vec![sample(1), sample(2)] };
    assert_eq!(stream.exchange(Sent::Batch(batch)).await.unwrap(), 2);
    let stopping = tokio::task::spawn_blocking(move || server.stop());
    let advice = stream.next().await.unwrap();
    let Some(Answer::Advice(advice)) = advice else { panic!("{advice:?}") };
    assert!(advice.reconnect_after_ms.is_some());
    assert_eq!(stream.next().await.unwrap_err().code(), Code::Unavailable);
    assert!(stopping.await.unwrap().unwrap().success());

    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    assert_eq!(stream.exchange(hello("a", "zlib")).await.unwrap(), 2);
}

#[test]
fn liveness_readiness_and_metrics_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    assert_eq!(server.get("/livez").unwrap(), (200, "ok\n".to_owned()));
    assert_eq!(server.get("/readyz").unwrap(), (200, "ok\n".to_owned()));
    let (status, metrics) = server.get("/metrics").unwrap();
    assert_eq!(status, 200);
    assert!(metrics.contains("\nplimsoll_store_writable ") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert_eq!(server.get("/nothing").unwrap().0, 404);
    assert!(server.stop().unwrap().success());
}
