//! `plimsoll recommend`, its page and its patches over a history whose sums are worked out by hand.

use plimsoll_proto::{
    figures,
    v1::{self as pb, Recommendation, stats_client::StatsClient},
};
use plimsoll_tests::{Sender, Server, Site, assert_has, finish, hello};
use serde_json::json;

const GIB: u64 = 1 << 30;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

struct Recommended {
    site: Site,
    /// End of the first attempt, milliseconds since 1970.
    first_ended_ms: u64,
}

/// An hour of a job that requested 8 GiB of 16, on 4 cores.
async fn deliver(
    server: &Server,
    package: &str,
    number: u64,
    first_ms: u64,
    (need_mib, killed): (u64, bool),
) {
    let attempt = format!("{package}-{number}");
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    let hello = pb::Hello {
        key: Some(pb::Key { project: "group/app".into(), package: package.into(), ..pb::Key::default() }),
        started_unix_ms: first_ms + number * 2 * HOUR_MS,
        resources: Some(pb::Resources {
            memory_request_bytes: Some(8 * GIB),
            memory_limit_bytes: Some(16 * GIB),
            cpu_request_cores: Some(4.0),
            ..pb::Resources::default()
        }),
        ..hello(&attempt, package)
    };
    let sample = pb::Sample {
        elapsed_ms: HOUR_MS - 1000,
        memory_bytes: need_mib << 20,
        need_bytes: need_mib << 20,
        cpu_usec: 3_600_000_000,
        oom_kill: Some(u64::from(killed)),
        reclaim_failures: Some(0),
        ..pb::Sample::default()
    };
    let batch = pb::Batch { attempt: attempt.clone(), first_sequence: 1, lost: 0, samples: vec![sample] };
    let finish = pb::Finish {
        wall_ms: HOUR_MS,
        totals: Some(pb::Totals {
            cpu_usec: 3_600_000_000,
            need_peak_bytes: Some(need_mib << 20),
            oom_kill: Some(u64::from(killed)),
            reclaim_failures: Some(0),
            ..pb::Totals::default()
        }),
        ..finish(&attempt, 1, Some(i32::from(killed) * 2))
    };
    stream.exchange(hello).await.unwrap();
    stream.exchange(batch).await.unwrap();
    stream.close(finish).await.unwrap();
}

/// Ten attempts of `zlib` that need 1 GiB, two of `few`, and six of `killed` that memory stopped at 16 GiB.
async fn site(options: &[&str]) -> Recommended {
    let site = Site::start_with(&[], options).unwrap();
    let now_ms = u64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let first_ms = now_ms - 12 * DAY_MS;
    for (package, attempts, needs) in
        [("zlib", 10, (1024, false)), ("few", 2, (1024, false)), ("killed", 6, (16 * 1024, true))]
    {
        for number in 0..attempts {
            deliver(&site.server, package, number, first_ms, needs).await;
        }
    }
    Recommended { site, first_ended_ms: first_ms + HOUR_MS }
}

impl Recommended {
    async fn asked(&self, more: pb::RecommendRequest) -> pb::RecommendResponse {
        let mut stats = StatsClient::connect(self.site.server.url()).await.unwrap();
        // ten days, of which a month has three
        let to_unix_ms = Some(self.first_ended_ms + 10 * DAY_MS);
        let request = pb::RecommendRequest { to_unix_ms, ..more };
        stats.recommend(request).await.unwrap().into_inner()
    }

    fn output_of(&self, words: &[&str]) -> String {
        let answer = self.site.agent.call(words);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{words:?}");
        answer.stdout
    }
}

fn row<'a>(answer: &'a pb::RecommendResponse, package: &str) -> &'a Recommendation {
    answer.recommendations.iter().find(|row| row.package == package).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recommendation_format_equals_the_rpc() {
    let site = site(&["--prices", "0.01/0", "--currency", "EUR"]).await;
    let answer = site.asked(pb::RecommendRequest::default()).await;
    let request = row(&answer, "zlib").proposed.unwrap().memory_request_bytes.unwrap();
    tokio::task::block_in_place(|| {
        let json: serde_json::Value =
            serde_json::from_str(&site.output_of(&["recommend", "-o", "json"])).unwrap();
        let first = &json["recommendations"][0];
        assert_eq!(first["proposed"]["memory_request_bytes"], json!(request));
        let table = site.output_of(&["recommend"]);
        assert!(table.contains("EUR") && table.contains("zlib"), "{table}");
        assert_has(&table, ["fewer than 5 trusted attempts", "memory stopped every attempt"]);
        let variable = format!("KUBERNETES_MEMORY_REQUEST: '{}Mi'", request.div_ceil(1 << 20));
        for format in ["gitlab", "spack"] {
            let patch = site.output_of(&["recommend", "--project", "group/app", "-o", format]);
            assert!(patch.contains(&variable) && patch.contains("'zlib'"), "{patch}");
            assert!(!patch.contains("few") && !patch.contains("killed"), "{patch}");
        }
        let patch = site.output_of(&["recommend", "-o", "kubernetes"]);
        assert!(patch.contains(&format!("memory: '{}Mi'", request.div_ceil(1 << 20))), "{patch}");
        let csv = site.output_of(&["recommend", "-o", "csv"]);
        assert_eq!(csv.lines().count(), 4);
        assert!(csv.contains(&format!(",8589934592,{request},")), "{csv}");
        let (_, page) = site.site.server.get("/savings").unwrap();
        assert!(page.contains(&figures::bytes(request)) && page.contains("fewer than 5"), "{page}");
        let (_, api) = site.site.server.get("/api/recommendations").unwrap();
        let api: serde_json::Value = serde_json::from_str(&api).unwrap();
        assert_eq!(api["recommendations"][0]["proposed"]["memory_request_bytes"], json!(request));
    });
}
