//! Records of tickets at servers upstream.

use std::time::Duration;

use plimsoll_core::domain::UpstreamTicket;

use super::*;
use crate::runtime::metrics::KindLabel;

/// A ticket to be closed at an address where nothing listens.
fn record_of_a_silent_upstream() -> UpstreamTicket {
    UpstreamTicket {
        address: "http://127.0.0.1:1/RPC2".into(),
        number: 7,
        holder: None,
        output: None,
        failed: false,
    }
}

#[tokio::test]
async fn a_long_output_is_stored_whole() {
    let site = Site::with("[[pool]]\nname = \"big\"\n");
    let holder = Some((id("resalloc/1"), 0));
    let output = Some("\"".repeat(8192));
    let record = UpstreamTicket { holder, output, ..record_of_a_silent_upstream() };
    let mut batch = store::Batch::default();
    store::put(&mut batch, &record).unwrap();
    assert!((2..=5).contains(&batch.operations()), "{}", batch.operations());
    site.store.commit(batch).await.unwrap();
    let left = crate::tickets::upstream::read(&site.store).await.unwrap();
    assert_eq!(left.tickets, std::slice::from_ref(&record));
    let mut batch = store::Batch::default();
    store::remove(&mut batch, &record).unwrap();
    site.store.commit(batch).await.unwrap();
    assert!(crate::tickets::upstream::read(&site.store).await.unwrap().tickets.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unnamed_silent_upstreams_are_abandoned_after_a_day() {
    let site = Site::with("[[pool]]\nname = \"big\"\n");
    let mut batch = store::Batch::default();
    store::put(&mut batch, &record_of_a_silent_upstream()).unwrap();
    site.store.commit(batch).await.unwrap();
    site.run(&[], async |tickets: &TicketRegistry| {
        let began = Instant::now();
        while !tickets.0.state().upstream_addresses().is_empty() {
            assert!(began.elapsed() < Duration::from_hours(48), "it is asked for ever");
            tokio::time::advance(Duration::from_secs(30)).await;
        }
        assert!(began.elapsed() >= Duration::from_hours(24), "{:?}", began.elapsed());
        assert_eq!(site.metrics.upstream_numbers.get_or_create(&KindLabel::of("given up")).get(), 1);
    })
    .await;
    let left = crate::tickets::upstream::read(&site.store).await.unwrap();
    assert_eq!((left.servers.len(), left.tickets.len()), (0, 0));
}
