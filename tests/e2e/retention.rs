//! Old samples become fewer and then go; what is kept of an attempt for ever stays.

use plimsoll_proto::v1 as pb;
use plimsoll_tests::{Programs, Sender, Server, finish, sample};

/// A sample of a build whose need cannot be guessed: what repeats itself is small already.
fn noisy(number: u64) -> pb::Sample {
    let mixed = |n: u64| (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let need_bytes = (mixed(mixed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 50) << 12;
    pb::Sample { need_bytes, memory_bytes: need_bytes + (1 << 30), ..sample(number) }
}

/// Waits until the walk over old samples has done this to one block.
async fn walked(server: &Server, what: &str) {
    server.wait_for_metric(&format!("plimsoll_store_old_blocks_total{{kind=\"{what}\"}} 1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_samples_are_thinned_then_dropped() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::opened(&server.url(), "a", "zlib").await.unwrap();
    let samples: Vec<_> = (1..=200).map(noisy).collect();
    let batch = pb::Batch { attempt: "a".into(), first_sequence: 1, lost: 0, samples };
    stream.exchange(batch).await.unwrap();
    stream.exchange(finish("a", 200, None)).await.unwrap();
    let before = server.shown("a").await.unwrap();
    assert_eq!(before.series.len(), 200);
    assert!(server.stop().unwrap().success());

    let server =
        Server::start_with(Programs::for_tests(), dir.path(), &["--series-full-for", "1ms"]).unwrap();
    walked(&server, "thinned").await;
    let fewer = server.shown("a").await.unwrap();
    let highest = |response: &pb::GetAttemptResponse| {
        let peak = |row: &pb::Sample| row.need_bytes.max(row.need_max_bytes.unwrap_or_default());
        response.series.iter().map(peak).max()
    };
    assert_eq!((fewer.series.len(), highest(&fewer)), (14, highest(&before)));
    assert_eq!(fewer.summary, before.summary);
    assert!(server.stop().unwrap().success());

    let gone = ["--series-full-for", "1ms", "--series-keep-for", "1ms"];
    let server = Server::start_with(Programs::for_tests(), dir.path(), &gone).unwrap();
    walked(&server, "removed").await;
    let none = server.shown("a").await.unwrap();
    assert_eq!((none.series.len(), none.summary), (0, before.summary));
}
