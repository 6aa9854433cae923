//! What stands in `deploy/` names metrics that there are, and the list of all metrics is whole.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    hash::Hash,
    path::{Path, PathBuf},
};

use plimsoll_core::domain::test_summary;
use prometheus_client::metrics::family::MetricConstructor;

use super::*;

/// A metric that can be used once.
pub(super) trait Use {
    fn once(&self);
}

impl Use for Counter {
    fn once(&self) {
        self.inc();
    }
}

impl Use for AmountCounter {
    fn once(&self) {
        self.inc_by(0.5);
    }
}

impl Use for Gauge {
    fn once(&self) {
        self.set(1);
    }
}

impl Use for BytesGauge {
    fn once(&self) {
        self.set(1);
    }
}

impl Use for Histogram {
    fn once(&self) {
        self.observe(1.0);
    }
}

impl<S: Clone + Hash + Eq + Default, M, C: MetricConstructor<M>> Use for Family<S, M, C> {
    fn once(&self) {
        drop(self.get_or_create(&S::default()));
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn all() -> String {
    let metrics = Metrics::new();
    metrics.use_all();
    metrics.ended(&test_summary("a", "zlib", "1", 100), false);
    metrics.encode().unwrap()
}

/// The names under which Prometheus knows them.
fn names(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split([' ', '{']).next())
        .collect()
}

/// Names of metrics in an expression or a text of them.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    words.filter(|word| word.starts_with("plimsoll_") || word.starts_with("process_")).collect()
}

#[test]
fn label_values_are_escaped_in_the_metrics_text() {
    let metrics = Metrics::new();
    let evil = "a\"} 1\nplimsoll_fleet_retries_total 7\n\\<script>";
    let mut summary = test_summary("a", evil, "1", 100);
    summary.started_unix_ms = crate::runtime::clock::Clock.now_unix_ms() - summary.wall.0;
    metrics.ended(&summary, false);
    let text = metrics.encode().unwrap();
    let escaped =
        r#"plimsoll_package_attempts{package="a\"} 1\nplimsoll_fleet_retries_total 7\n\\<script>"} 1"#;
    assert!(text.lines().any(|line| line.starts_with(escaped)), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("plimsoll_fleet_retries_total 7")), "{text}");
}

#[test]
fn deployed_files_reference_only_existing_metrics() {
    let text = all();
    let known = names(&text);
    for file in ["grafana/plimsoll.json", "prometheus/plimsoll.rules.yml", "prometheus/RUNBOOK.md"] {
        let text = fs::read_to_string(repository().join("deploy").join(file)).unwrap();
        let named = named(&text);
        assert!(!named.is_empty(), "{file} names no metric");
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

/// The list of all metrics as `METRICS.md` has it.
fn list() -> String {
    let text = all();
    let mut list = "# The metrics of plimsoll-server\n\nA test compares this list with the program, and leaves the \
        program's one in the directory for temporary files. Amounts are in base units: bytes, seconds, cores.\n\n\
        | name | type | labels | what |\n|---|---|---|---|\n"
        .to_owned();
    let mut help = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        }
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let name = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let sample = text.lines().find_map(|line| {
            let rest = line.strip_prefix(&name)?;
            rest.strip_prefix("_bucket").unwrap_or(rest).strip_prefix('{')
        });
        let labels: Vec<&str> = sample.map_or(Vec::new(), |labels| {
            let names = labels.split("\",").filter_map(|pair| pair.split_once("=\"")).map(|(name, _)| name);
            names.filter(|name| *name != "le").collect()
        });
        let _written =
            writeln!(list, "| `{name}` | {kind} | {} | {} |", labels.join(", "), help.trim_end_matches('.'));
    }
    list
}

#[test]
fn the_metrics_list_matches_the_program() {
    let pinned = include_str!("../../../../../deploy/prometheus/METRICS.md");
    plimsoll_proto::fixtures::assert_pinned(&list(), pinned, "METRICS.md");
}
