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

pub(crate) struct Recommended {
    pub(crate) site: Site,
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
pub(crate) async fn site(options: &[&str]) -> Recommended {
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

/// Two classes of machines.
const CLASSES: &str = "[[pool]]\nname = \"small\"\ncores = 1\nmemory = \"512MiB\"\ntags = [\"small\"]\n\
    [[pool]]\nname = \"large\"\ncores = 8\nmemory = \"64GiB\"\ntags = [\"large\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn kept_files_change_once_and_say_why() {
    let site = site(&[]).await;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("pools.toml"), CLASSES).unwrap();
    let call = |words: &[&str]| {
        let answer = site.site.agent.call(words);
        assert_eq!(answer.stderr, "", "{words:?}");
        (answer.code, answer.stdout)
    };
    tokio::task::block_in_place(|| {
        let classes = path("pools.toml");
        let of_spack = ["--classes", &classes, "--default-class", "small"];
        let formats = [("spack", &of_spack[..]), ("gitlab", &[]), ("kubernetes", &[]), ("csv", &[])];
        for (format, more) in formats {
            let file = path(format);
            let words = ["recommend", "--project", "group/app", "-o", format, "--into", &file];
            let words = [&words[..], more].concat();
            let summary = [words.as_slice(), &["--summary"]].concat();
            let (code, text) = call(&summary);
            assert_eq!(code, Some(10), "{text}");
            assert_has(&text, ["| `zlib` |", "| 10 | 1.00 GiB | 0 |"]);
            let kept = std::fs::read_to_string(&file).unwrap();
            assert!(kept.contains("zlib") && !kept.contains("few"), "{kept}");
            assert_eq!(call(&words), (Some(0), format!("{file}: 0 changed, 0 new, 1 as they were\n")));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
        }
        // the class with one core cannot hold it; at eight build jobs it needs no less
        let kept = std::fs::read_to_string(path("spack")).unwrap();
        assert_has(&kept, ["CI_JOB_SIZE: 'large'", "SPACK_BUILD_JOBS: '8'", "- build-job:"]);
        let (file, other) = (path("spack"), "group/other");
        let words = [
            "recommend",
            "--project",
            other,
            "-o",
            "spack",
            "--classes",
            &path("pools.toml"),
            "--into",
            &file,
        ];
        assert_eq!(site.site.agent.call(&words).code, Some(0), "history of another project changes nothing");
        let wrong = site.site.agent.call(&[
            "recommend",
            "-o",
            "csv",
            "--classes",
            &path("pools.toml"),
            "--into",
            &file,
        ]);
        assert!(wrong.code == Some(2) && wrong.stderr.contains("--classes is for -o spack"), "{wrong:?}");
    });
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
