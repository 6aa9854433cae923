//! Bounds of each caller: what goes beyond one is refused with its name, and harms no other caller.

use plimsoll_proto::{
    externalscaler::{ScaledObjectRef, external_scaler_client::ExternalScalerClient},
    v1::{
        self as pb, placement_client::PlacementClient, predictor_client::PredictorClient,
        stats_client::StatsClient,
    },
};
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
async fn every_kind_of_stream_counts_for_its_caller() {
    let access = AccessFile::default()
        .token("one-secret", &["caller", "reader"], "bounds = { streams = 1 }")
        .token("other-secret", &["caller", "reader"], "");
    let pools = "[[pool]]\nname = \"big\"\non_demand = true\n";
    let site = Site::start_with(&[("--access-file", access.text()), ("--pools-file", pools)], &[]).unwrap();
    let channel = site.connect().await.unwrap();
    let mut stats = StatsClient::new(channel.clone());
    let mut placement = PlacementClient::new(channel.clone());
    let mut scaler = ExternalScalerClient::new(channel);
    let key = Some(pb::Key { package: "zlib".to_owned(), ..pb::Key::default() });
    let opening = pb::OpenTicketRequest { ticket: "1".to_owned(), key, ..Default::default() };
    placement.open_ticket(with_token("one-secret", opening)).await.unwrap();
    let held = stats.watch(with_token("one-secret", pb::WatchRequest::default())).await.unwrap();
    let watched = stats.watch(with_token("one-secret", pb::WatchRequest::default())).await.err();
    let ticket = pb::WatchTicketRequest { ticket: "1".to_owned(), hold: false };
    let waited = placement.watch_ticket(with_token("one-secret", ticket)).await.err();
    let pool = ScaledObjectRef {
        scaler_metadata: [("pool".to_owned(), "big".to_owned())].into(),
        ..Default::default()
    };
    let scaled = scaler.stream_is_active(with_token("one-secret", pool)).await.err();
    for refused in [watched, waited, scaled] {
        assert_names(&refused.unwrap(), "bounds.streams");
    }
    assert!(stats.watch(with_token("other-secret", pb::WatchRequest::default())).await.is_ok());
    drop(held);
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
