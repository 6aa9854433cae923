//! `plimsoll-server import --prometheus`: imports the pods of GitLab's runner from Prometheus.

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use super::{counts_line, coverage, gitlab, open_store, remarks, source_words, target_words};
use crate::{
    admin::{IncompleteResult, print_note, progress},
    ci::prometheus::{HistoryQuestion, PrometheusAccess, PrometheusClient, PrometheusHistory, read_history},
    runtime::{
        clock::Clock,
        reload,
        settings::{Config, by_module::gitlab::BaseUrl},
    },
};
use anyhow::{Context as _, bail};
use axum::http::{HeaderName, HeaderValue, header};
use clap::Args;
use plimsoll_lab::import::{
    self, Record,
    prometheus::{PodAttempt, PrometheusLabels, TimeRange},
};
use plimsoll_proto::figures::counted;

/// The longest time range that may be read.
const LONGEST_RANGE: Duration = Duration::from_hours(400 * 24);

/// History that Prometheus has.
#[derive(Debug, Args)]
pub(super) struct FromPrometheus {
    /// Address of a Prometheus that scrapes cAdvisor and kube-state-metrics: the pods of GitLab's runner become history. Their peaks are at
    /// least what Prometheus saw, so they propose requests and lower no limit. With `gitlab_url` and `gitlab_token_file` GitLab is asked
    /// how the jobs ended, and which job a pod ran that does not say it.
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    prometheus: Option<BaseUrl>,
    /// How far back Prometheus is read. What is there already is left alone.
    #[arg(long, value_name = "TIME", default_value = "15d", value_parser = parse_since, conflicts_with = "file")]
    since: Duration,
    /// Only series with these labels, such as `cluster="a"`.
    #[arg(long, value_name = "LABELS", default_value = "", hide_default_value = true, value_parser = parse_selector, conflicts_with = "file")]
    prometheus_selector: String,
    /// File that says how labels are named in this cluster (files.md).
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    prometheus_labels: Option<PathBuf>,
    /// File that holds a token for Prometheus.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    prometheus_token_file: Option<PathBuf>,
    /// PEM file of the CA that signs Prometheus' certificate, in addition to those that the system trusts.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    prometheus_ca_file: Option<PathBuf>,
    /// A header of every request to Prometheus, such as the tenant of Mimir, Cortex or Thanos: `X-Scope-OrgID: NAME`. May be repeated.
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_header, conflicts_with = "file")]
    prometheus_header: Vec<(HeaderName, HeaderValue)>,
}

fn parse_url(text: &str) -> Result<BaseUrl, String> {
    BaseUrl::parse_of(text, "Prometheus", "http://prometheus:9090")
}

fn parse_since(text: &str) -> Result<Duration, String> {
    let digits = text.trim();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the unit is missing: write {digits}d for days, or {digits}h for hours"));
    }
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time < Duration::from_hours(1) || time > LONGEST_RANGE {
        return Err("must be from 1h to 400d".to_owned());
    }
    Ok(time)
}

fn parse_selector(text: &str) -> Result<String, String> {
    let text = text.trim().trim_end_matches(',');
    if text.contains(['{', '}', '\n']) || (!text.is_empty() && !text.contains('=')) {
        return Err("write labels without braces, such as cluster=\"a\"".to_owned());
    }
    Ok(text.to_owned())
}

/// Headers that a request has anyway, and the one that holds a secret.
const REFUSED_HEADERS: [HeaderName; 5] = [
    header::AUTHORIZATION,
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let parts = text.split_once(':').filter(|(_, value)| !value.trim().is_empty());
    let (name, value) = parts.ok_or("write NAME: VALUE, such as X-Scope-OrgID: team-a")?;
    let name: HeaderName =
        name.trim().parse().map_err(|_invalid| format!("{name:?} is not the name of a header"))?;
    if REFUSED_HEADERS.contains(&name) {
        return Err(format!("{name} cannot be set; a token is read from --prometheus-token-file"));
    }
    let value = value.trim().parse().map_err(|_invalid| "the value must be printable ASCII".to_owned())?;
    Ok((name, value))
}

fn read_labels(file: Option<PathBuf>) -> anyhow::Result<PrometheusLabels> {
    let Some(file) = file else { return Ok(PrometheusLabels::default()) };
    let text = reload::stamp(&file).and_then(|stamp| reload::text(&file, stamp.bytes));
    let read = text.and_then(|text| {
        let labels: PrometheusLabels = toml::from_str(&text)?;
        labels.check().map_err(anyhow::Error::msg)?;
        Ok(labels)
    });
    read.with_context(|| format!("--prometheus-labels: {}", file.display()))
}

impl FromPrometheus {
    /// Reads the whole range first and then stores it, so that an interrupted import stores
    /// nothing.
    pub(super) async fn import(self, config: &Config, host: &str, project: &str) -> anyhow::Result<()> {
        let end_ms = Clock.now_unix_ms() / 1000 * 1000;
        let range = TimeRange { start_ms: end_ms.saturating_sub(self.since.as_secs() * 1000), end_ms };
        let read = self.read(config, range).await?;
        let listed = gitlab::jobs_of_projects(config, &read.pods.projects(), range).await?;
        let is_asked = listed.is_some();
        let no_job = no_job_reason(is_asked, read.pods.unread_annotations());
        let (jobs, of_gitlab) = listed.unwrap_or_default();
        let host = if host.is_empty() { &of_gitlab } else { host };
        let found = read.pods.from_source(range, host, &jobs)?;
        coverage::show_coverage(&found, range, read.empty_ms, is_asked)?;
        if found.coverage.keyed == 0 {
            return Err(IncompleteResult(no_job).into());
        }
        let store = open_store(config).await?;
        let records = found.records().map(|record| record.map(|record| of_project(record, project)));
        let imported = import::commit_records(records, found.refusals.clone(), &store).await;
        store.close().await.context("closing the store")?;
        let imported = imported?;
        writeln!(io::stdout(), "{}", counts_line(imported.added, imported.known))?;
        print_note(source_words(config));
        remarks(&imported, project).iter().for_each(print_note);
        if imported.refusals.count > 0 {
            print_note(&imported.refusals);
            return Err(IncompleteResult(
                "builds are refused and named above; all others are stored".to_owned(),
            )
            .into());
        }
        if found.coverage.partial > 0 {
            let builds = counted(found.coverage.partial, "build");
            return Err(IncompleteResult(format!(
                "{builds} not stored, because answers of Prometheus lacked a part of its storage; import again when all of it answers"
            ))
            .into());
        }
        Ok(())
    }

    /// Reads the range from Prometheus.
    async fn read(self, config: &Config, range: TimeRange) -> anyhow::Result<PrometheusHistory> {
        let Some(url) = self.prometheus else { bail!("name a file, or --prometheus") };
        let question = HistoryQuestion {
            labels: read_labels(self.prometheus_labels)?,
            selector: self.prometheus_selector,
            range,
        };
        let name = url.to_string();
        let access = PrometheusAccess {
            url,
            token_file: self.prometheus_token_file,
            ca_file: self.prometheus_ca_file,
            headers: self.prometheus_header,
        };
        let client = PrometheusClient::from_files(access)?;
        print_note(target_words(config));
        let read = read_history(&client, &question, progress::shares("reading")).await;
        let read = read.with_context(|| name.clone())?;
        if let Some(warning) = &read.warning {
            print_note(format_args!("{name} warns: {}", plimsoll_proto::job::clean_and_cut(warning, 300)));
        }
        Ok(read)
    }
}

/// An attempt with the outcome of its job. Its project is `project` if its data names none.
fn of_project((mut record, end): PodAttempt, project: &str) -> Record {
    if record.summary.key.project.is_empty() {
        project.clone_into(&mut record.summary.key.project);
    }
    if let Some(end) = end {
        record.summary = gitlab::with_end(record.summary, &end);
    }
    record
}

/// Explains why nothing was stored, and how to fix it. `annotations`: the labels of a series with
/// job annotations that matches no build pod.
fn no_job_reason(is_asked: bool, annotations: Option<&[String]>) -> String {
    let other = if is_asked {
        ""
    } else {
        ". Or let GitLab say which jobs ran: set gitlab_url and gitlab_token_file"
    };
    if let Some(labels) = annotations {
        return other_labels_note(labels) + other;
    }
    format!(
        "no pod says which job it is of, so nothing was stored; start kube-state-metrics with\n{}\n\
         and import again when builds have run{other}",
        PrometheusLabels::allowlist()
    )
}

/// Explains that annotations of jobs exist, but with other labels for their pods.
fn other_labels_note(labels: &[String]) -> String {
    let exported: Vec<String> =
        [("kube_namespace", "namespace"), ("kube_pod", "pod"), ("kube_container", "container")]
            .iter()
            // series of annotations never have a label for the container of a build: it is assumed
            // to be renamed like the others
            .filter(|(_, label)| *label == "container" || labels.contains(&format!("exported_{label}")))
            .map(|(key, label)| format!("{key} = \"exported_{label}\""))
            .collect();
    let mend = if labels.iter().any(|label| label == "exported_pod") {
        format!(
            "Prometheus scrapes kube-state-metrics without honor_labels; give --prometheus-labels a file with\n{}\n",
            exported.join("\n")
        )
    } else {
        let named: Vec<&str> =
            labels.iter().map(String::as_str).filter(|name| !name.starts_with("annotation_")).collect();
        format!("say with --prometheus-labels which of its labels name the pod: {}", named.join(", "))
    };
    format!(
        "kube_pod_annotations names jobs, but of pods without readings of memory, so nothing was stored; {mend}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_requires_a_time_unit() {
        let refused = parse_since("15").unwrap_err();
        assert_eq!(refused, "the unit is missing: write 15d for days, or 15h for hours");
        assert_eq!(parse_since("15d").unwrap(), Duration::from_hours(15 * 24));
        assert!(parse_since("401d").unwrap_err().contains("from 1h to 400d"));
    }
    #[test]
    fn renamed_annotation_labels_get_matching_advice() {
        let labels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let exported = labels(&[
            "__name__",
            "annotation_job_runner_gitlab_com_id",
            "exported_namespace",
            "exported_pod",
            "namespace",
            "pod",
        ]);
        let text = no_job_reason(true, Some(&exported));
        assert_eq!(
            text,
            "kube_pod_annotations names jobs, but of pods without readings of memory, so nothing was stored; Prometheus scrapes \
             kube-state-metrics without honor_labels; give --prometheus-labels a file with\n\
             kube_namespace = \"exported_namespace\"\nkube_pod = \"exported_pod\"\nkube_container = \"exported_container\"\n"
        );
        let renamed = no_job_reason(true, Some(&labels(&["annotation_a", "kube_pod_name", "namespace"])));
        assert!(renamed.ends_with("which of its labels name the pod: kube_pod_name, namespace"), "{renamed}");
        assert!(!renamed.contains("allowlist") && !text.contains("allowlist"));
        assert!(no_job_reason(false, None).contains("--metric-annotations-allowlist=pods=["));
    }
}
