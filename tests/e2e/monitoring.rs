//! What people watch the server with: a real Prometheus scrapes it, the rules do what they say, and the dashboard's expressions are
//! expressions.
//!
//! Needs Debian's package `prometheus`; skipped with a reason without it, unless `PLIMSOLL_PROMETHEUS_REQUIRED` is set.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
};

use plimsoll_support::KilledChild;
use plimsoll_tests::{Server, Site, eventually, quoted};
use serde_json::{Value, json};

use crate::tools::{has_prometheus, repository};

fn deploy() -> PathBuf {
    repository().join("deploy")
}

/// Runs `promtool` in `deploy/prometheus`; what it says.
fn promtool(words: &[&str], input: &str) -> String {
    let mut command = Command::new("promtool");
    command.args(words).current_dir(deploy().join("prometheus"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "promtool {words:?}: {printed}");
    printed
}

/// A Prometheus on a free port; it is killed when this is dropped.
pub(crate) struct Prometheus {
    _child: KilledChild,
    log: PathBuf,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    /// One that scrapes `target`, and reads the rules of `deploy/`.
    fn start(target: Option<SocketAddr>) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), target)
    }

    /// One that scrapes nothing and has recorded these series, in the text of OpenMetrics.
    pub(crate) fn recorded(openmetrics: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (text, data) = (dir.path().join("openmetrics"), dir.path().join("data"));
        fs::write(&text, openmetrics).unwrap();
        let [text, data] = [&text, &data].map(|path| path.to_str().unwrap());
        promtool(&["tsdb", "create-blocks-from", "openmetrics", text, data], "");
        Self::start_in(dir, None)
    }

    fn start_in(dir: tempfile::TempDir, target: Option<SocketAddr>) -> Self {
        let targets = target.map(|address| format!("\"{address}\"")).unwrap_or_default();
        let rules = deploy().join("prometheus/plimsoll.rules.yml");
        let config = format!(
            "global: {{scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 1s}}\nrule_files: [\"{}\"]\n\
             scrape_configs: [{{job_name: plimsoll, static_configs: [{{targets: [{targets}]}}]}}]\n",
            rules.display()
        );
        let (file, log) = (dir.path().join("prometheus.yml"), dir.path().join("log"));
        fs::write(&file, config).unwrap();
        let mut command = Command::new("prometheus");
        command.arg("--config.file").arg(&file).arg("--storage.tsdb.path").arg(dir.path().join("data"));
        command.args(["--web.listen-address", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        Self { _child: KilledChild(child), log, _dir: dir }
    }

    /// Where it listens, once it says so.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let log = fs::read_to_string(&self.log).unwrap();
        let line = log.lines().find(|line| line.contains("msg=\"Listening on\""))?;
        line.split_once("address=")?.1.split(' ').next()?.parse().ok()
    }

    /// The answer of its API. `None` while it does not answer.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address()?).ok()?;
        // HTTP/1.0, so that the answer is not cut into chunks
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The value of an expression that gives one; `None` if it gives nothing.
    pub(crate) fn value(&self, expression: &str) -> Option<f64> {
        let answer = self.get(&format!("/api/v1/query?query={}", quoted(expression)))?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

/// Status, headers and body of a GET.
fn get(server: &Server, headers: &str) -> String {
    server.send("GET", "/metrics", headers, "").unwrap().text()
}

/// A server that has seen a build.
fn server() -> Site {
    let site = Site::start().unwrap();
    let run = site.agent.call(&["run", "--attempt", "a", "--key", "package=zlib", "--", "true"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let asked = site.agent.call(&["predict", "--key", "package=zlib"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_scrapes_the_server() {
    if !has_prometheus() {
        return;
    }
    let site = server();
    let prometheus = Prometheus::start(Some(site.server.http));
    let value = async |expression: &str| prometheus.value(expression);
    eventually("the server is scraped", async || value("up").await, |up| *up == Some(1.0)).await;
    for (expression, expected) in [
        ("plimsoll_fleet_attempts_total{outcome=\"succeeded\", cause=\"none\"}", 1.0),
        ("plimsoll_package_attempts{package=\"zlib\"}", 1.0),
        ("sum(plimsoll_predict_seconds_count)", 1.0),
        ("plimsoll_store_writable", 1.0),
        ("count(plimsoll_build_info{version!=\"\"})", 1.0),
    ] {
        eventually(expression, async || value(expression).await, |seen| *seen == Some(expected)).await;
    }
    for there in [
        "process_resident_memory_bytes",
        "plimsoll_store_disk_free_bytes",
        "plimsoll_fleet_wall_seconds_total",
    ] {
        eventually(there, async || value(there).await, |seen| seen.is_some_and(|value| value > 0.0)).await;
    }
    let error = async || {
        let seen = prometheus.get("/api/v1/targets")?;
        Some(seen["data"]["activeTargets"][0]["lastError"].clone())
    };
    eventually("a scrape without an error", error, |error| *error == Some(json!(""))).await;
}

#[test]
fn the_text_format_is_the_default_for_metrics() {
    let site = server();
    let curl = "User-Agent: curl/8.5.0\r\nAccept: */*\r\n";
    let less = "Accept: application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.4\r\n";
    for headers in ["", curl, "Accept: text/plain\r\n", less] {
        let answer = get(&site.server, headers);
        assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{headers}: {answer}");
        let (_, text) = answer.split_once("\r\n\r\n").unwrap();
        let whole =
            text.contains("# TYPE plimsoll_fleet_attempts_total counter\n") && !text.contains("# EOF");
        assert!(whole, "{headers}: {text}");
        if has_prometheus() {
            assert_eq!(promtool(&["check", "metrics"], text), "", "{headers}");
        }
    }
    let prometheus =
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n";
    let answer = get(&site.server, prometheus);
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
}

#[test]
fn alert_rules_fire_exactly_when_they_should() {
    if !has_prometheus() {
        return;
    }
    promtool(&["check", "rules", "plimsoll.rules.yml"], "");
    promtool(&["test", "rules", "plimsoll.test.yml"], "");
}

/// Where the runbook is read: what a pager shows has no folder to look in. One setting of Prometheus says where that is.
const RUNBOOK: &str = "{{ with $externalLabels.runbook_plimsoll }}{{ . }}{{ else }}https://plimsoll.example/RUNBOOK.md{{ end }}";

#[test]
fn every_alert_has_a_place_in_the_runbook() {
    let read = |name: &str| fs::read_to_string(deploy().join("prometheus").join(name)).unwrap();
    let (rules, runbook) = (read("plimsoll.rules.yml"), read("RUNBOOK.md"));
    let mut headings: Vec<_> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let mut alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for alert in &alerts {
        let link = format!("runbook_url: '{RUNBOOK}#{}'\n", alert.to_lowercase());
        assert!(rules.contains(&link), "{alert} has no link to the runbook");
    }
    for part in ["summary: ", "description: "] {
        assert_eq!(rules.matches(part).count(), alerts.len(), "{part}");
    }
    alerts.sort_unstable();
    headings.sort_unstable();
    assert_eq!(alerts, headings);
}

#[test]
fn the_operators_rules_equal_the_tested_ones() {
    let rules = fs::read_to_string(deploy().join("prometheus/plimsoll.rules.yml")).unwrap();
    let object = fs::read_to_string(deploy().join("kubernetes/monitoring/rules.yaml")).unwrap();
    let (_, spec) = object.split_once("\nspec:\n").unwrap();
    let expected = rules.lines().filter(|line| !line.starts_with('#')).map(|line| format!("  {line}\n"));
    assert_eq!(spec, expected.collect::<String>());
}

/// Every expression of the dashboard, as it is once Grafana has put its variables in.
fn expressions() -> Vec<String> {
    let text = fs::read_to_string(deploy().join("grafana/plimsoll.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let filled =
        |text: &str| text.replace("$__rate_interval", "1m").replace("$__range", "1d").replace("$job", ".*");
    targets.map(|target| filled(target["expr"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_expression_of_the_dashboard_is_one() {
    if !has_prometheus() {
        return;
    }
    let prometheus = Prometheus::start(None);
    let ask =
        |expression: &str| prometheus.get(&format!("/api/v1/format_query?query={}", quoted(expression)));
    eventually(
        "prometheus answers",
        async || ask("up"),
        |answer| answer.as_ref().is_some_and(|answer| answer["status"] == "success"),
    )
    .await;
    let expressions = expressions();
    assert!(expressions.len() > 50, "{}", expressions.len());
    for expression in &expressions {
        let answer = ask(expression).unwrap();
        assert_eq!(answer["status"], json!("success"), "{expression}: {answer}");
    }
}
