//! Nothing acknowledged is lost, nothing is counted twice: the server is killed in the middle of streams.

use plimsoll_proto::v1::{self as pb, stats_client::StatsClient};
use plimsoll_tests::{Programs, Sender, Server, batch, finish, hello, sample};
use tokio_util::task::TaskTracker;

const ATTEMPTS: u64 = 20;
const BATCHES: u64 = 30;
const BATCH: u64 = 7;

/// Sends batches until the stream breaks; gives the last number that was acknowledged.
async fn send_until_broken(url: String, attempt: String) -> u64 {
    let mut acknowledged = 0;
    let Ok(mut stream) = Sender::connect(&url).await else { return 0 };
    if stream.exchange(hello(&attempt, "zlib")).await.is_err() {
        return 0;
    }
    for n in 0..BATCHES {
        match stream.exchange(batch(&attempt, n * BATCH + 1, BATCH)).await {
            Ok(number) => acknowledged = number,
            Err(_) => return acknowledged,
        }
    }
    acknowledged
}

/// Takes the attempt up again where the server says, sends the rest, and closes it.
async fn deliver_the_rest(url: &str, attempt: &str, acknowledged_before: u64) {
    let mut stream = Sender::connect(url).await.unwrap();
    let welcome = stream.exchange(hello(attempt, "zlib")).await.unwrap();
    assert!(
        welcome >= acknowledged_before,
        "{attempt}: {acknowledged_before} was acknowledged, {welcome} is there"
    );
    let last = BATCHES * BATCH;
    // from the start: what is there already must not be counted again
    for n in 0..BATCHES {
        stream.exchange(batch(attempt, n * BATCH + 1, BATCH)).await.unwrap();
    }
    assert_eq!(stream.exchange(finish(attempt, last, Some(0))).await.unwrap(), last);
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_samples_survive_a_kill_and_are_not_counted_twice() {
    let dir = tempfile::tempdir().unwrap();
    let programs = Programs::for_tests();
    for round in 0..3 {
        let server = Server::start(programs, dir.path()).unwrap();
        let name = |n| format!("crash-{round}-{n}");
        let tasks = TaskTracker::new();
        let sending: Vec<_> =
            (0..ATTEMPTS).map(|n| tasks.spawn(send_until_broken(server.url(), name(n)))).collect();
        // in the middle: when some are acknowledged, and long before all are
        let metrics = || async { server.get("/metrics").unwrap().1 };
        let some = |text: &String| samples_total(text) > 50 * (round + 1);
        plimsoll_tests::eventually("some samples are acknowledged", metrics, some).await;
        server.kill().unwrap();
        let mut acknowledged = Vec::new();
        for task in sending {
            acknowledged.push(task.await.unwrap());
        }

        let server = Server::start(programs, dir.path()).unwrap();
        for (n, before) in (0..ATTEMPTS).zip(acknowledged) {
            deliver_the_rest(&server.url(), &name(n), before).await;
            assert_whole(&server, &name(n)).await;
        }
    }
}

fn samples_total(metrics: &str) -> u64 {
    let line = metrics.lines().find(|line| line.starts_with("plimsoll_ingest_samples_total "));
    line.and_then(|line| line.split(' ').nth(1)).map_or(0, |number| number.parse().unwrap())
}

async fn assert_whole(server: &Server, attempt: &str) {
    let got = server.shown(attempt).await.unwrap();
    let expected: Vec<_> = (1..=BATCHES * BATCH).map(sample).collect();
    assert_eq!(got.series, expected, "{attempt}");
    let summary = got.summary.unwrap();
    assert_eq!((summary.samples, summary.samples_lost), (BATCHES * BATCH, 0));
    assert_eq!(summary.need_peak_bytes, Some((BATCHES * BATCH) << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_longer_than_a_block_survives_a_kill() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::opened(&server.url(), "long", "zlib").await.unwrap();
    for n in 0..25 {
        assert_eq!(stream.exchange(batch("long", n * 100 + 1, 100)).await.unwrap(), (n + 1) * 100);
    }
    server.kill().unwrap();

    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    assert_eq!(stream.exchange(hello("long", "zlib")).await.unwrap(), 2500);
    assert_eq!(stream.exchange(batch("long", 2501, 100)).await.unwrap(), 2600);
    stream.exchange(finish("long", 2600, None)).await.unwrap();
    let mut client = StatsClient::connect(server.url()).await.unwrap();
    let request = pb::GetAttemptRequest { attempt: "long".into(), with_series: true, max_samples: 5000 };
    let got = client.get_attempt(request).await.unwrap().into_inner();
    assert_eq!(got.series, (1..=2600).map(sample).collect::<Vec<_>>());
    assert_eq!(got.summary.unwrap().outcome(), pb::Outcome::Lost);
}
