//! History that a real Prometheus has of a made-up cluster becomes attempts: requests follow from it, limits stay.
//!
//! Needs Debian's package `prometheus`; skipped with a reason without it, unless `PLIMSOLL_PROMETHEUS_REQUIRED` is set.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use plimsoll_tests::{Agent, Programs, Server, assert_has, eventually};
use serde_json::Value;

use crate::{monitoring::Prometheus, tools::has_prometheus};

const MIB: f64 = 1_048_576.0;
/// Between two scrapes, seconds.
const SCRAPE: i64 = 30;

/// Series in the text of OpenMetrics: samples of a name stand together.
struct Cluster {
    now: i64,
    series: BTreeMap<&'static str, String>,
}

/// A pod of a runner. Minutes are counted back from now; those below 0 are still to come.
#[derive(Clone, Copy)]
struct Pod<'p> {
    /// `cluster="a",namespace="ci",pod="..."`
    labels: &'p str,
    from: i64,
    until: i64,
    peak_mib: f64,
    /// Nothing is scraped between these.
    gap: (i64, i64),
}

impl Cluster {
    #[expect(clippy::disallowed_methods, reason = "the import reads what came before now")]
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        Self { now: i64::try_from(now).unwrap(), series: BTreeMap::new() }
    }

    /// Adds the samples of a series, oldest first: `value` of the share of the time that is over.
    fn add(&mut self, name: &'static str, labels: &str, pod: Pod<'_>, value: impl Fn(f64) -> f64) {
        let [from, until] = [pod.from, pod.until].map(|minutes| self.now - minutes * 60);
        let [gap, gap_end] = [pod.gap.0, pod.gap.1].map(|minutes| self.now - minutes * 60);
        let text = self.series.entry(name).or_default();
        let mut at = from;
        while at <= until {
            if !(gap < at && at < gap_end) {
                let share = f64::from(i32::try_from(at - from).unwrap())
                    / f64::from(i32::try_from(until - from).unwrap());
                writeln!(text, "{name}{{{labels}}} {} {at}", value(share)).unwrap();
            }
            at += SCRAPE;
        }
    }

    /// What cAdvisor says of a build on two cores: memory grows up to the peak.
    fn build(&mut self, pod: Pod<'_>) {
        let labels = format!("{},container=\"build\"", pod.labels);
        let seconds = f64::from(i32::try_from((pod.from - pod.until) * 60).unwrap());
        let peak = pod.peak_mib * MIB;
        self.add("container_memory_working_set_bytes", &labels, pod, |share| peak * share.max(0.1));
        self.add("container_memory_rss", &labels, pod, |share| 0.8 * peak * share.max(0.1));
        self.add("container_memory_max_usage_bytes", &labels, pod, |share| 1.5 * peak * share.max(0.1));
        self.add("container_cpu_usage_seconds_total", &labels, pod, |share| 2.0 * seconds * share);
        self.add("container_oom_events_total", &labels, pod, |_| 0.0);
    }

    /// What kube-state-metrics says of it: sizes and the job.
    fn job(&mut self, pod: Pod<'_>, project: &str, job: u64) {
        let sizes =
            [("kube_pod_container_resource_requests", 4.0), ("kube_pod_container_resource_limits", 16.0)];
        for (name, gib) in sizes {
            let labels = format!("{},container=\"build\",resource=\"memory\",unit=\"byte\"", pod.labels);
            self.add(name, &labels, pod, |_| gib * 1024.0 * MIB);
        }
        let labels = format!(
            "{},annotation_job_runner_gitlab_com_id=\"{job}\",annotation_job_runner_gitlab_com_name=\"compile\",\
             annotation_job_runner_gitlab_com_ref=\"main\",\
             annotation_job_runner_gitlab_com_url=\"https://gitlab.example/{project}/-/jobs/{job}\"",
            pod.labels
        );
        self.add("kube_pod_annotations", &labels, pod, |_| 1.0);
    }

    fn text(&self) -> String {
        let mut text = self.series.values().cloned().collect::<String>();
        text.push_str("# EOF\n");
        text
    }
}

/// Three projects: jobs of several hours, one that ran out of memory and its retry, one that still runs, one without annotations. Beside
/// them another cluster.
fn cluster() -> Cluster {
    let mut all = Cluster::new();
    let pod = |labels, from, until, peak_mib| Pod { labels, from, until, peak_mib, gap: (0, 0) };
    let a = |name: &str| format!("cluster=\"a\",namespace=\"ci\",pod=\"runner-x-project-{name}\"");
    let [first, killed, retry, gap, running, bare] = [
        "1-concurrent-0-a",
        "1-concurrent-0-b",
        "1-concurrent-0-c",
        "2-concurrent-0-d",
        "2-concurrent-0-e",
        "3-concurrent-0-f",
    ]
    .map(a);
    let jobs = [
        (pod(first.as_str(), 200, 100, 1000.0), "group/one", 101),
        (pod(killed.as_str(), 95, 80, 900.0), "group/one", 102),
        (pod(retry.as_str(), 70, 50, 1100.0), "group/one", 103),
        (Pod { gap: (140, 110), ..pod(gap.as_str(), 150, 60, 500.0) }, "group/two", 201),
        (pod(running.as_str(), 20, -60, 500.0), "group/two", 202),
    ];
    for (pod, project, job) in jobs {
        all.build(pod);
        all.job(pod, project, job);
    }
    all.build(pod(bare.as_str(), 60, 40, 500.0));
    // the kill was seen in the last minutes; elsewhere one reading is no number, and a counter begins again
    let kill = format!("{killed},container=\"build\",id=\"late\"");
    all.add("container_oom_events_total", &kill, pod(killed.as_str(), 82, 80, 0.0), |_| 1.0);
    let odd = format!("{first},container=\"build\",id=\"odd\"");
    all.add("container_memory_working_set_bytes", &odd, pod(first.as_str(), 150, 149, 0.0), |_| f64::NAN);
    let again = format!("{gap},container=\"build\",id=\"again\"");
    all.add("container_cpu_usage_seconds_total", &again, pod(gap.as_str(), 150, 60, 0.0), |share| {
        100.0 * ((share * 4.0) % 1.0)
    });
    // of another cluster, which is not asked about
    let other = "cluster=\"b\",namespace=\"other\",pod=\"runner-y-project-9-concurrent-0-a\"";
    all.build(pod(other, 60, 40, 500.0));
    all
}

/// Runs the import; exit status, standard output, standard error.
fn import(dir: &Path, options: &[&str]) -> (i32, String, String) {
    let answer = Server::call_on(&dir.join("data"), &[&["import"], options].concat());
    (answer.code.unwrap(), answer.stdout, answer.stderr)
}

/// The attempts of the store by their ids.
fn exported(dir: &Path) -> BTreeMap<String, Value> {
    let text = Server::call_on(&dir.join("data"), &["export", "-"]).done();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| (row["attempt"].as_str().unwrap().to_owned(), row["summary"].clone())).collect()
}

/// A Prometheus that has recorded the cluster, and its address.
async fn prometheus() -> (Prometheus, String) {
    let prometheus = Prometheus::recorded(&cluster().text());
    let loaded = "count(last_over_time(container_memory_working_set_bytes[6h]))";
    eventually("the blocks are loaded", async || prometheus.value(loaded), Option::is_some).await;
    let url = format!("http://{}", prometheus.address().unwrap());
    (prometheus, url)
}

/// A server over what was imported predicts another request for the package than for an unknown one, and the same limit. In the project where a
/// build was killed at its limit, the limit is above that one.
fn requests_change_and_limits_stay(dir: &Path) {
    let programs = Programs::for_tests();
    let server = Server::start(programs, &dir.join("data")).unwrap();
    let agent = Agent::new(programs, server.url(), &dir.join("spool"));
    let predict = |project: &str, package: &str| {
        let (project, package) = (format!("project={project}"), format!("package={package}"));
        agent.call(&["predict", "--key", &project, "--key", &package, "--key", "ref=main", "--key", "arch="])
    };
    let (known, unknown) = (predict("group/two", "compile"), predict("group/two", "unknown"));
    assert_eq!((known.code, unknown.code), (Some(0), Some(0)), "{known:?}");
    let line =
        |answer: &str, name: &str| answer.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let size = |answer: &str, name: &str| {
        line(answer, name).split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    };
    assert_ne!(size(&known.stdout, "memory request"), size(&unknown.stdout, "memory request"));
    assert_eq!(size(&known.stdout, "memory limit"), size(&unknown.stdout, "memory limit"));
    let why = "peaks from Prometheus raise a limit and do not lower it";
    assert!(line(&known.stdout, "memory limit").contains(why), "{}", known.stdout);
    let killed = predict("group/one", "compile").stdout;
    let limit = size(&killed, "memory limit");
    let gib: f64 = limit.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(gib > 16.0 && limit.ends_with("GiB"), "killed at 16 GiB: {killed}");
    server.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_history_sets_requests_without_lowering_limits() {
    if !has_prometheus() {
        return;
    }
    let (_prometheus, url) = prometheus().await;
    let dir = tempfile::tempdir().unwrap();
    let of_a = ["--prometheus", &url, "--since", "6h", "--prometheus-selector", "cluster=\"a\""];
    let (code, printed, wrong) = import(dir.path(), &of_a);
    let data = dir.path().join("data").display().to_string();
    let into = format!(
        "importing into the data directory {data}\nthe history is in {data}; a server reads it with --data-dir {data}\n"
    );
    assert_eq!((code, wrong), (0, into), "{printed}");
    assert!(printed.contains(": 6 builds; none seen in 2 of 6 hours"), "{printed}");
    let lines = [
        "job known               5   83.3 %",
        "project alone           1   16.7 %  the name of the pod says no more; left out",
        "of them                 1  still running; left for the next import",
        "4 attempts added, 0 already there",
    ];
    assert_has(&printed, lines);
    let place = |text: &str| printed.find(text).unwrap();
    assert!(place("job known") < place("4 attempts added"), "what is known of them is said first");

    let all = exported(dir.path());
    let ids: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(ids, [101, 102, 103, 201].map(|job| format!("gitlab.example:{job}")));
    let first = &all["gitlab.example:101"];
    assert_eq!((&first["source"], &first["outcome"]), (&"prometheus".into(), &"succeeded".into()));
    assert_eq!(first["key"]["project"], "group/one");
    assert_eq!((&first["need_peak"], &first["memory_peak"]), (&1_048_576_000.into(), &1_572_864_000.into()));
    assert_eq!(first["wall"], 100 * 60_000);
    assert_eq!(first["resources"]["memory_limit"], 16_u64 << 30);
    // two cores for 100 minutes, less what lies between windows
    let cpu = first["cpu"].as_u64().unwrap();
    assert!((11_500_000_000..=12_100_000_000).contains(&cpu), "{cpu}");
    let killed = &all["gitlab.example:102"];
    assert_eq!(killed["outcome"], "failed");
    assert_eq!(killed["cause"], "oom");
    assert_eq!(killed["censored"], true);
    let gap = &all["gitlab.example:201"];
    assert_eq!(gap["wall"], 90 * 60_000, "one build, over a gap");
    assert_eq!(gap["need_peak"], 524_288_000);

    let (code, printed, _) = import(dir.path(), &of_a);
    assert_eq!(code, 0);
    assert!(printed.contains("0 attempts added, 4 already there"), "{printed}");

    requests_change_and_limits_stay(dir.path());
}
