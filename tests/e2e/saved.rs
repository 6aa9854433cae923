//! What rescue saved and what that cost, to the digit in all views; and what it does while a build runs.

use plimsoll_proto::v1::{
    self as pb, agent_message::Message as Sent, predictor_client::PredictorClient, stats_client::StatsClient,
};
use plimsoll_tests::{Sender, Server, Site, finish, hello, sample};
use serde_json::Value;

const GIB: u64 = 1 << 30;

fn hello_with(attempt: &str, limit: u64) -> pb::Hello {
    let resources = pb::Resources { memory_limit_bytes: Some(limit), ..pb::Resources::default() };
    pb::Hello { resources: Some(resources), ..hello(attempt, "zlib") }
}

/// Delivers one attempt with a limit of 2 GiB.
async fn deliver(server: &Server, attempt: &str, end: pb::Finish) {
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    let batch = pb::Batch { attempt: attempt.into(), first_sequence: 1, lost: 0, samples: vec![sample(1)] };
    for message in [Sent::from(hello_with(attempt, 2 * GIB)), batch.into(), end.into()] {
        stream.exchange(message).await.unwrap();
    }
}

fn end(attempt: &str, code: i32, wall_ms: u64, need: u64, rescue: Option<pb::Rescue>) -> pb::Finish {
    let totals = pb::Totals { need_peak_bytes: Some(need), oom_kill: Some(0), ..pb::Totals::default() };
    pb::Finish { wall_ms, totals: Some(totals), ended: true, rescue, ..finish(attempt, 1, Some(code)) }
}

fn paused(together: u64) -> pb::Rescue {
    let together_peak_bytes = together;
    pb::Rescue {
        pauses: 2,
        paused_ms: 20_000,
        paused_process_ms: 30_500,
        together_peak_bytes,
        ..pb::Rescue::default()
    }
}

fn raised() -> pb::Rescue {
    pb::Rescue { raises: 3, raised_byte_seconds: 90 * GIB, ..pb::Rescue::default() }
}

/// Attempts in which rescue acted: one is saved for certain, one probably, one is ended, and three have no gain. One was only watched.
async fn acted(server: &Server) {
    let with_limit = |limit: u64, end: pb::Finish| pb::Finish {
        totals: end.totals.map(|totals| pb::Totals { memory_limit_bytes: Some(limit), ..totals }),
        ..end
    };
    let saved = with_limit(4 * GIB, end("saved", 0, 100_000, 3 * GIB, Some(raised())));
    deliver(server, "saved", saved).await;
    deliver(server, "probably", end("probably", 0, 160_000, GIB, Some(paused(3 * GIB)))).await;
    let hung = Some(pb::Rescue { ended_ms: Some(90_000), ..pb::Rescue::default() });
    deliver(server, "ended", end("ended", 143, 95_000, GIB, hung)).await;
    deliver(server, "enough", end("enough", 0, 90_000, GIB, Some(paused(GIB)))).await;
    deliver(server, "failed", end("failed", 1, 300_000, GIB, Some(paused(3 * GIB)))).await;
    // counters wait for its cause
    let log_tail = b"main.c:1:10: fatal error: zlib.h: No such file or directory".to_vec();
    let question = pb::ShouldRetryRequest { attempt: "failed".into(), log_tail, ..Default::default() };
    PredictorClient::connect(server.url()).await.unwrap().should_retry(question).await.unwrap();
    let early = with_limit(4 * GIB, end("early", 0, 100_000, GIB, Some(raised())));
    deliver(server, "early", early).await;
    let watched =
        Some(pb::Rescue { would_pause_ms: Some(9), would_pause_processes: 4, ..Default::default() });
    deliver(server, "watched", end("watched", 0, 100_000, GIB, watched)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_rescue_saved_and_cost_is_one_number_in_all_views() {
    let Site { dir: _dir, server, agent, .. } = Site::start().unwrap();
    for n in 0..8 {
        let id = format!("before-{n}");
        deliver(&server, &id, end(&id, 0, 100_000, GIB, None)).await;
    }
    acted(&server).await;
    let median = |shown: pb::GetAttemptResponse| shown.summary.unwrap().predicted.unwrap().wall_p50_ms;
    let expected = [
        160_000 - median(server.shown("probably").await.unwrap()),
        90_000_u64.saturating_sub(median(server.shown("enough").await.unwrap())),
    ];
    assert!(expected[0] > 40_000 && expected[0] < 80_000, "{expected:?}");
    let over_median_s = std::time::Duration::from_millis(expected.iter().sum()).as_secs_f64();

    let mut stats = StatsClient::connect(server.url()).await.unwrap();
    let by_package =
        pb::GetStatsRequest { group_by: pb::GroupBy::Package.into(), ..pb::GetStatsRequest::default() };
    let answer = stats.get_stats(by_package).await.unwrap().into_inner();
    let totals = answer.totals.unwrap().rescue.unwrap();
    let expected = pb::RescueTotals {
        attempts: 6,
        saved: 1,
        probably_saved: 1,
        ended: 1,
        paused_process_hours: 3.0 * 30.5 / 3600.0,
        over_median_hours: over_median_s / 3600.0,
        timed: 2,
        raised_gib_hours: 180.0 / 3600.0,
    };
    assert_eq!(totals, expected);
    assert_eq!(answer.groups[0].totals.as_ref().unwrap().rescue, Some(expected));

    tokio::task::block_in_place(|| {
        let (_, metrics) = server.get("/metrics").unwrap();
        for (name, value) in [
            ("attempts_total{kind=\"saved\"}", 1.0),
            ("attempts_total{kind=\"probably_saved\"}", 1.0),
            ("attempts_total{kind=\"ended\"}", 1.0),
            ("attempts_total{kind=\"other\"}", 3.0),
            ("paused_process_seconds_total", 91.5),
            ("over_median_seconds_total", over_median_s),
            ("raised_byte_seconds_total", 180.0 * 1_073_741_824.0),
        ] {
            let line = format!("plimsoll_rescue_{name} ");
            let found = metrics.lines().find_map(|text| text.strip_prefix(&line)).unwrap();
            assert!((found.parse::<f64>().unwrap() - value).abs() < 1e-6, "{name}: {found}, not {value}");
        }
        let words = "1 saved for certain, 1 probably, of 6 in which it acted; 1 ended because they hung; processes paused for 1 min 32 s";
        let text = agent.call(&["stats"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains(words) && text.contains("in 2 attempts; raised limits allowed 0.05 GiB·h more"),
            "{text}"
        );
        let api: Value = serde_json::from_str(&server.get("/api/stats?range=all").unwrap().1).unwrap();
        assert_eq!(api["totals"]["rescue"]["saved"], 1);
        let page = server.send("GET", "/?range=all", "Accept: text/html\r\n", "").unwrap().body;
        assert!(page.contains("What rescue saved") && page.contains("0.05 GiB·h"), "{page}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_build_shows_what_is_done_about_its_limit() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(Sent::from(hello_with("a", 2 * GIB))).await.unwrap();
    let mut stats = StatsClient::connect(server.url()).await.unwrap();
    let mut watch = stats.watch(pb::WatchRequest {}).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().running[0].acts, None);
    let acts =
        pb::ActsNow { memory_limit_bytes: Some(3 * GIB), paused: 2, pauses: 5, paused_ms: 900, raises: 1 };
    let wrong = pb::ActsNow { memory_limit_bytes: Some(u64::MAX), paused_ms: u64::MAX, ..acts };
    for (number, sent, limit, kept) in [
        (1, acts, 3 * GIB, acts),
        // a limit that no machine has is left out, a pause is within the attempt, and the rest is kept
        (2, wrong, 2 * GIB, pb::ActsNow { memory_limit_bytes: None, paused_ms: 2_000, ..acts }),
        (3, acts, 3 * GIB, acts),
    ] {
        let samples = vec![pb::Sample { acts: Some(sent), ..sample(number) }];
        stream
            .exchange(pb::Batch { attempt: "a".into(), first_sequence: number, lost: 0, samples })
            .await
            .unwrap();
        let running = watch.message().await.unwrap().unwrap().running.remove(0);
        assert_eq!((running.acts, running.memory_limit_bytes), (Some(kept), Some(limit)));
    }
    let shown = server.shown("a").await.unwrap();
    assert!(shown.series.iter().all(|row| row.acts.is_none()), "acts are not kept");
    tokio::task::block_in_place(|| {
        let page = |path| server.send("GET", path, "Accept: text/html\r\n", "").unwrap().body;
        let running = page("/running");
        assert!(
            running.contains(
                "2 processes are paused now; paused 5 times so far, 0.9 s in all; limit raised 1 time"
            ),
            "{running}"
        );
        let attempt = page("/attempts/a");
        let line = "with a limit of 3.00 GiB. Rescue has paused 5 times, 0.9 s in all; raised the memory limit 1 time.";
        assert!(attempt.contains("data-live") && attempt.contains(line), "{attempt}");
    });
}
