//! Bounds of each caller: what goes beyond one is refused with its name, and harms no other caller.

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::{AccessFile, Sender, Site, batch, eventually, hello, with_token};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The tokens are `runner-secret`, `reader-secret` and `spack-secret`.
fn start() -> Site {
    let runner =
        "bounds = { streams = 1, samples_per_second = 1, keys_per_hour = 2, queries_per_second = 1 }";
    let access = AccessFile::default()
        .token("runner-secret", &["agent", "caller"], runner)
        .token("reader-secret", &["agent"], "bounds = { keys_per_hour = 2 }")
        .token("spack-secret", &["agent", "caller", "reader"], "");
    Site::start_with(&[("--access-file", access.text())], &[]).unwrap()
}

/// Checks that a bound was the reason, and that it says when to come back.
fn assert_names(status: &Status, bound: &str) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains(bound), "{status}");
    assert!(status.get_details_retry_info().is_some(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeded_bounds_are_named_and_others_unaffected() {
    let site = start();
    let open = async |token| Sender::open_as(site.connect().await.unwrap(), token).await;
    let mut first = open("runner-secret").await.unwrap();
    assert_names(&open("runner-secret").await.unwrap_err(), "bounds.streams");
    let mut other = open("spack-secret").await.unwrap();

    for package in ["a", "b"] {
        first.exchange(hello(package, package)).await.unwrap();
    }
    // two messages of a thousand: the first is paid for by a wait
    first.exchange(batch("a", 1, 1000)).await.unwrap();
    first.exchange(batch("a", 1001, 1000)).await.unwrap();
    assert_names(&first.exchange(batch("a", 2001, 1000)).await.unwrap_err(), "bounds.samples_per_second");
    other.exchange(hello("c", "c")).await.unwrap();
    assert_eq!(other.exchange(batch("c", 1, 1000)).await.unwrap(), 1000);

    let again = async || {
        let opened = open("runner-secret").await;
        opened.inspect_err(|status| assert_names(status, "bounds.streams"))
    };
    let mut again =
        eventually("the place of the one that ended is free", again, Result::is_ok).await.unwrap();
    assert_eq!(again.exchange(hello("a", "a")).await.unwrap(), 2000, "what was taken is kept");
    assert_names(&again.exchange(hello("d", "d")).await.unwrap_err(), "bounds.keys_per_hour");

    let mut predictor = PredictorClient::new(site.connect().await.unwrap());
    let mut predict = async |token: &str| {
        let key = Some(pb::Key { package: "zlib".to_owned(), ..pb::Key::default() });
        predictor.predict(with_token(token, pb::PredictRequest { key, ..Default::default() })).await
    };
    let asked = async || predict("runner-secret").await;
    let refused = eventually("it has asked too often", asked, Result::is_err).await.unwrap_err();
    assert_names(&refused, "bounds.queries_per_second");
    assert!(predict("spack-secret").await.is_ok());
}
