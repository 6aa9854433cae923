//! One number, told in one way: the same 200 random attempts through gRPC, the terminal, JSON, the page, the report and metrics.
//!
//! Expected words are made by the functions of the shared crate from the message that gRPC gives; that each view uses them, and that
//! messages agree with each other and with themselves, is what is tested.

mod attempts;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use plimsoll_proto::{
    figures, measured, series, sums,
    v1::{self as pb, Outcome, StatsTotals, stats_client::StatsClient},
};
use plimsoll_tests::{Agent, Programs, Server};
use scraper::Html;
use serde_json::Value;

/// Attempts that are delivered.
const ATTEMPTS: u64 = 200;

struct Site {
    _dir: tempfile::TempDir,
    server: Server,
    agent: Agent,
}

async fn site() -> Site {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Programs::for_tests(), &dir.path().join("data")).unwrap();
    let agent = Agent::new(Programs::for_tests(), server.url(), &dir.path().join("spool"));
    attempts::deliver(&server, ATTEMPTS).await;
    Site { _dir: dir, server, agent }
}

impl Site {
    fn said(&self, words: &[&str]) -> String {
        let answer = self.agent.call(words);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{words:?}");
        answer.stdout
    }

    /// The text of a page, each run of white space one space.
    fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.server.http).unwrap();
        let head = "Host: localhost\r\nAccept: text/html\r\nConnection: close\r\n\r\n";
        write!(stream, "GET {path} HTTP/1.1\r\n{head}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let text: Vec<String> = Html::parse_document(body).root_element().text().map(str::to_owned).collect();
        text.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn api(&self, path: &str) -> Value {
        let (status, body) = self.server.get(path).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn stats(&self) -> StatsClient<tonic::transport::Channel> {
        StatsClient::connect(self.server.url()).await.unwrap()
    }
}

/// Each part stands in the text.
fn has(text: &str, parts: &[String], what: &str) {
    for part in parts {
        assert!(text.contains(part.as_str()), "{what}: {part:?} in {text}");
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3)
}

/// All numbers of one JSON object are those of another one. A count of causes has two forms, and is compared elsewhere.
fn same_numbers(one: &Value, other: &Value) {
    let numbers = one.as_object().unwrap().iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
    for (name, number) in numbers {
        let there = other[name].as_f64();
        assert!(there.is_some_and(|there| near(number, there)), "{name}: {number} {there:?}");
    }
}

fn consistent(totals: &StatsTotals) {
    let memory = totals.memory_used_of_asked_gib_hours + totals.memory_wasted_gib_hours;
    let cpu = totals.cpu_used_of_asked_core_hours + totals.cpu_wasted_core_hours;
    assert!(near(memory, totals.memory_asked_gib_hours), "{totals:?}");
    assert!(near(cpu, totals.cpu_asked_core_hours), "{totals:?}");
    assert_eq!(totals.succeeded + totals.failed + totals.lost, totals.attempts);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_sums_are_told_by_every_view() {
    let site = site().await;
    let by_package =
        pb::GetStatsRequest { group_by: pb::GroupBy::Package.into(), ..pb::GetStatsRequest::default() };
    let stats = site.stats().await.get_stats(by_package).await.unwrap().into_inner();
    let totals = stats.totals.clone().unwrap();
    assert_eq!(totals.attempts, ATTEMPTS);
    assert!(
        totals.memory_not_measured > 0 && totals.cpu_not_measured > 0,
        "the dice leave some out: {totals:?}"
    );
    consistent(&totals);
    stats.groups.iter().for_each(|group| consistent(group.totals.as_ref().unwrap()));
    let by_outcome =
        pb::GetStatsRequest { group_by: pb::GroupBy::Outcome.into(), ..pb::GetStatsRequest::default() };
    let by_outcome = site.stats().await.get_stats(by_outcome).await.unwrap().into_inner().groups;
    assert_eq!(by_outcome.len(), 3, "succeeded, failed and lost");
    tokio::task::block_in_place(|| {
        let terminal = site.agent.json(&["stats", "--by", "package"]);
        let api = site.api("/api/stats?range=all&group_by=package");
        same_numbers(&terminal["totals"], &api["totals"]);
        for group in api["groups"].as_array().unwrap() {
            let same = |other: &&Value| other["name"] == group["name"];
            same_numbers(
                &terminal["groups"].as_array().unwrap().iter().find(same).unwrap()["totals"],
                &group["totals"],
            );
        }
        told(&site, &totals);
        counted(&site, &by_outcome);
    });
}

/// The sums in words: terminal, page, report.
fn told(site: &Site, totals: &StatsTotals) {
    let used = figures::percent(sums::memory_used(totals).unwrap());
    let wasted = figures::gib_hours(totals.memory_wasted_gib_hours);
    let shared = [
        figures::bytes(sums::highest_need(totals).unwrap()),
        sums::need_over_ask_words(totals),
        sums::cpu_time_words(totals),
        figures::gib_hours(totals.memory_asked_gib_hours),
        used,
    ];
    let left_out = sums::left_out(totals).unwrap();
    let text = site.said(&["stats"]);
    has(&text, &shared, "terminal");
    has(&text, &[left_out.clone(), figures::amount(totals.memory_wasted_gib_hours)], "terminal");
    let page = site.page("/?range=all");
    has(&page, &shared, "page");
    has(&page, &[left_out.replacen("left", "Left", 1), wasted], "page");
    for format in ["text", "html"] {
        let report = site.said(&["report", "-o", format]);
        let parts = [
            totals.memory_asked_gib_hours,
            totals.memory_used_of_asked_gib_hours,
            totals.memory_wasted_gib_hours,
        ];
        has(&report, &parts.map(figures::amount), format);
    }
    let report = site.agent.json(&["report"]);
    let stats = site.agent.json(&["stats"]);
    same_numbers(&stats["totals"], &report["now"]);
}

/// The sums as counters, over the attempts whose end is known: one that was lost is counted when no more can be heard of it.
fn counted(site: &Site, by_outcome: &[pb::Group]) {
    let ended: Vec<&StatsTotals> = by_outcome
        .iter()
        .filter(|group| group.name != "lost")
        .filter_map(|group| group.totals.as_ref())
        .collect();
    let sum = |of: fn(&StatsTotals) -> f64| ended.iter().map(|totals| of(totals)).sum::<f64>();
    let (_, metrics) = site.server.get("/metrics").unwrap();
    let counter = |name: &str| -> f64 {
        let line =
            metrics.lines().find_map(|line| line.strip_prefix(&format!("plimsoll_fleet_{name}_total ")));
        line.expect(name).trim().parse().unwrap()
    };
    let gib_hours =
        |name: &str| counter(&format!("memory_{name}_byte_seconds")) / figures::float(1 << 30) / 3600.0;
    let core_hours = |name: &str| counter(&format!("cpu_{name}_core_seconds")) / 3600.0;
    for (what, counter, told) in [
        ("asked", gib_hours("asked"), sum(|totals| totals.memory_asked_gib_hours)),
        ("used", gib_hours("used"), sum(|totals| totals.memory_used_of_asked_gib_hours)),
        ("wasted", gib_hours("wasted"), sum(|totals| totals.memory_wasted_gib_hours)),
        ("cpu asked", core_hours("asked"), sum(|totals| totals.cpu_asked_core_hours)),
        ("cpu used", core_hours("used"), sum(|totals| totals.cpu_used_of_asked_core_hours)),
        ("cpu wasted", core_hours("wasted"), sum(|totals| totals.cpu_wasted_core_hours)),
        (
            "not measured",
            counter("memory_not_measured"),
            sum(|totals| figures::float(totals.memory_not_measured)),
        ),
        ("no CPU", counter("cpu_not_measured"), sum(|totals| figures::float(totals.cpu_not_measured))),
    ] {
        assert!(near(counter, told), "{what}: {counter} {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_attempt_is_told_by_every_view() {
    let site = site().await;
    let mut stats = site.stats().await;
    for number in 0..ATTEMPTS {
        let id = attempts::id(number);
        let asked = pb::GetAttemptRequest { attempt: id.clone(), with_series: true, max_samples: 0 };
        let shown = stats.get_attempt(asked).await.unwrap().into_inner();
        let summary = shown.summary.clone().unwrap();
        agrees(&summary, &shown.series);
        tokio::task::block_in_place(|| seen(&site, &id, &summary));
    }
}

/// The numbers of one attempt agree with each other.
fn agrees(summary: &pb::Summary, rows: &[pb::Sample]) {
    let (mean, peak) = (measured::mean_cores(summary), measured::peak_cores(summary));
    assert!(peak.is_none_or(|peak| Some(peak) >= mean), "{summary:?}");
    let (need, memory) = (measured::need(summary), measured::memory_peak(summary));
    assert!(memory >= need && measured::mean_need(summary) <= need, "{summary:?}");
    let points = series::points(rows, summary);
    let highest = points.iter().map(|point| point.need).max();
    assert!(
        rows.is_empty() || highest.filter(|need| *need > 0) == need,
        "the curve reaches the need: {summary:?}"
    );
    assert!(points.iter().all(|point| point.memory >= point.need), "{summary:?}");
    let most = points.iter().map(|point| point.cores).fold(0.0, f64::max);
    assert!(peak.is_none_or(|peak| most <= peak + 1e-9), "{most} {summary:?}");
    let failed = summary.outcome() == Outcome::Failed;
    assert!(!summary.censored || failed, "{summary:?}");
}

/// One attempt on the terminal, on its page, and in two forms of JSON.
fn seen(site: &Site, id: &str, summary: &pb::Summary) {
    let text = site.said(&["show", id]);
    let page = site.page(&format!("/attempts/{id}"));
    let mean = figures::known_bytes(measured::mean_need(summary));
    let parts = [measured::need_words(summary), figures::known_bytes(measured::memory_peak(summary))];
    has(&text, &parts, id);
    has(&page, &parts, id);
    has(&text, &[format!("mean {mean}"), measured::memory_asked_words(summary.resources.as_ref())], id);
    match measured::memory_asked(summary.resources.as_ref()) {
        Some(asked) => has(&page, &[figures::bytes(asked.bytes)], id),
        None => has(&page, &["Asked for nothing neither request nor limit".to_owned()], id),
    }
    if let Some(share) = measured::need_of_ask(summary) {
        let words = format!("{} of it needed", figures::percent(share));
        has(&text, std::slice::from_ref(&words), id);
        has(&page, &[words], id);
    }
    match (measured::mean_cores(summary), measured::peak_cores(summary)) {
        (Some(mean), Some(peak)) => {
            let words = [figures::cores_named(mean), format!("{} at most", figures::cores(peak))];
            has(&text, &words, id);
            has(&page, &words, id);
        }
        (Some(mean), None) => has(&page, &[figures::cores_named(mean)], id),
        (None, _) => has(&text, &["cpu         not known".to_owned()], id),
    }
    let terminal = site.agent.json(&["show", id]);
    let api = site.api(&format!("/api/attempts/{id}"));
    for name in
        ["need_peak_bytes", "need_mean_bytes", "memory_peak_bytes", "cpu_usec", "cpu_peak_cores", "wall_ms"]
    {
        assert_eq!(terminal["summary"][name], api["summary"][name], "{id} {name}");
    }
    assert_eq!(api["summary"]["need_mean_bytes"].is_null(), measured::mean_need(summary).is_none());
}
