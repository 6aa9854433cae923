//! What an agent says of an attempt is kept, and shown as it was said: rows, stalls, starvation, phases, whose limit killed.

use plimsoll_proto::{
    counters::PageCounters,
    v1::{self as pb, stats_client::StatsClient},
};
use plimsoll_tests::{Programs, Sender, Server, finish, sample};

/// A row that knows all a row can know; starved from the fourth second on.
fn row(number: u64) -> pb::Sample {
    pb::Sample {
        need_max_bytes: Some((number << 20) + 4096),
        memory_stall_usec: Some(number * 10),
        throttled_usec: Some(0),
        starved_ms: Some(number.saturating_sub(3) * 1000),
        ..sample(number)
    }
    .with_pages(PageCounters::all(Some(number * 3)))
}

fn batch(rows: std::ops::RangeInclusive<u64>) -> pb::Batch {
    let first_sequence = *rows.start();
    pb::Batch { attempt: "a".into(), first_sequence, lost: 0, samples: rows.map(row).collect() }
}

fn end(phases: Vec<pb::Phase>) -> pb::Finish {
    let totals = pb::Totals {
        oom_kill: Some(2),
        oom_origin: pb::OomOrigin::LimitAbove.into(),
        oom_group_kill: Some(1),
        starved_ms: Some(2500),
        throttled_usec: Some(7),
        compilers_peak: Some(8),
        ..pb::Totals::default()
    };
    let (largest_process, rescue) = (Some(largest_process()), Some(rescue()));
    pb::Finish {
        totals: Some(totals),
        phases,
        ended: true,
        largest_process,
        rescue,
        ..finish("a", 5, Some(2))
    }
}

fn largest_process() -> pb::LargestProcess {
    pb::LargestProcess { program: "cc1plus".into(), file: "big.cc".into(), memory_bytes: 9, elapsed_ms: 4 }
}

fn rescue() -> pb::Rescue {
    pb::Rescue {
        would_pause_ms: Some(1),
        would_pause_processes: 2,
        pauses: 3,
        paused_ms: 4,
        paused_process_ms: 5,
        together_peak_bytes: 6 << 20,
        gave_up: "no process ran".into(),
        raises: 7,
        ended_ms: Some(8),
        raised_byte_seconds: 9,
    }
}

fn phase(name: &str, started_ms: u64, need_peak_bytes: u64) -> pb::Phase {
    pb::Phase { name: name.into(), started_ms, wall_ms: 3000, need_peak_bytes, cpu_usec: 9 }
}

#[tokio::test(flavor = "multi_thread")]
async fn reported_details_survive_a_restart() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::opened(&server.url(), "a", "zlib").await.unwrap();
    let mut watch = StatsClient::connect(server.url()).await.unwrap();
    let mut watch = watch.watch(pb::WatchRequest {}).await.unwrap().into_inner();
    assert!(!watch.message().await.unwrap().unwrap().running[0].starved);
    stream.exchange(batch(1..=3)).await.unwrap();
    assert!(!watch.message().await.unwrap().unwrap().running[0].starved);
    stream.exchange(batch(4..=5)).await.unwrap();
    let change = watch.message().await.unwrap().unwrap();
    assert!(change.running[0].starved, "{change:?}");
    server.kill().unwrap();

    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let mut stream = Sender::opened(&server.url(), "a", "zlib").await.unwrap();
    let phases = vec![phase("build", 0, 9 << 20), phase("test", 3000, 1 << 20)];
    stream.exchange(end(phases.clone())).await.unwrap();

    let before = server.shown("a").await.unwrap();
    assert_eq!(before.series, (1..=5).map(row).collect::<Vec<_>>());
    let summary = before.summary.clone().unwrap();
    assert_eq!((&summary.phases, summary.peak_phase.as_str()), (&phases, "build"));
    assert_eq!((summary.oom_origin(), summary.oom_group_kill), (pb::OomOrigin::LimitAbove, Some(1)));
    assert_eq!(summary.memory_stall_usec, Some(50));
    assert_eq!(PageCounters::from(&summary), PageCounters::all(Some(15)));
    assert_eq!((summary.throttled_usec, summary.starved_ms), (Some(7), Some(2500)));
    assert_eq!((&summary.largest_process, summary.compilers_peak), (&Some(largest_process()), Some(8)));
    assert_eq!(summary.rescue, Some(rescue()));
    assert_eq!(summary.need_peak_bytes, Some(9 << 20), "also a need that only a phase has seen");
    server.kill().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    assert_eq!(server.shown("a").await.unwrap(), before);
}
