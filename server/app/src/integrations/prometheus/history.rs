//! What Prometheus knows of the pods of builds, window by window. Read access is enough: nothing is asked but the value of expressions.

use anyhow::{anyhow, bail};
use plimsoll_lab::import::prometheus::{
    BuildPods, PrometheusLabels, PrometheusQuestion, PrometheusSeries, TimeRange,
};

use plimsoll_proto::figures::float;

use super::client::{PrometheusClient, Unanswered};

/// The time that one question is about, seconds.
const WINDOW_S: u64 = 3600;
/// The least of it, where Prometheus finds an hour too much.
const LEAST_WINDOW_S: u64 = 60;
/// Windows that are answered before a larger one is tried again.
const GOOD_WINDOWS: u32 = 4;

/// What is read.
#[derive(Debug, Clone)]
pub(crate) struct HistoryQuestion {
    /// Names of labels.
    pub(crate) labels: PrometheusLabels,
    /// `name="value",...`, or empty: in every question.
    pub(crate) selector: String,
    /// From when until when.
    pub(crate) range: TimeRange,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct PrometheusHistory {
    /// Pods of builds.
    pub(crate) pods: BuildPods,
    /// Time in which no build was seen, milliseconds.
    pub(crate) empty_ms: u64,
    /// The first thing that Prometheus warned of.
    pub(crate) warning: Option<String>,
}

/// Reads the history of a range. `tell` hears how much of it is done.
///
/// # Errors
/// Prometheus does not answer, or knows of no build.
pub(crate) async fn read_history(
    client: &PrometheusClient,
    question: &HistoryQuestion,
    mut tell: impl FnMut(f64),
) -> anyhow::Result<PrometheusHistory> {
    let HistoryQuestion { labels, range, .. } = question;
    let mut read = PrometheusHistory { pods: BuildPods::new(labels.clone()), empty_ms: 0, warning: None };
    let (mut start_ms, mut width_s, mut good) = (range.start_ms, WINDOW_S, 0);
    while start_ms < range.end_ms {
        let window = TimeRange { start_ms, end_ms: range.end_ms.min(start_ms + width_s * 1000) };
        let asked_s = (window.end_ms - start_ms).div_ceil(1000);
        match answers(client, question, window, asked_s, &mut read.warning).await {
            Ok(answers) => {
                if !read.pods.add(window, &answers)? {
                    read.empty_ms += window.end_ms - start_ms;
                }
            }
            Err(Unanswered::TooMuch(_)) if asked_s > LEAST_WINDOW_S => {
                (width_s, good) = ((asked_s / 2).max(LEAST_WINDOW_S), 0);
                continue;
            }
            Err(unanswered) => bail!("{}", unanswered.why()),
        }
        start_ms = window.end_ms;
        good += 1;
        if good >= GOOD_WINDOWS {
            (width_s, good) = ((width_s * 2).min(WINDOW_S), 0);
        }
        tell(float(start_ms - range.start_ms) / float(range.end_ms - range.start_ms));
    }
    if read.empty_ms >= range.end_ms - range.start_ms {
        return Err(no_build(client, question).await);
    }
    Ok(read)
}

type Answers = Vec<(PrometheusQuestion, Vec<PrometheusSeries>)>;

/// The answers to all questions about a window: all of them, or none.
async fn answers(
    client: &PrometheusClient,
    question: &HistoryQuestion,
    window: TimeRange,
    asked_s: u64,
    warning: &mut Option<String>,
) -> Result<Answers, Unanswered> {
    let mut answers = Vec::with_capacity(PrometheusQuestion::ALL.len());
    for asked in PrometheusQuestion::ALL {
        let text = asked.text(&question.labels, &question.selector, asked_s);
        let answer = client.ask(&text, window.end_ms).await?;
        if warning.is_none() {
            *warning = answer.warning;
        }
        let is_empty = answer.series.is_empty();
        answers.push((asked, answer.series));
        // without a build, the rest says nothing
        if is_empty && asked == PrometheusQuestion::Memory {
            break;
        }
    }
    Ok(answers)
}

/// Why no build was seen, as far as Prometheus can tell.
async fn no_build(client: &PrometheusClient, question: &HistoryQuestion) -> anyhow::Error {
    let HistoryQuestion { labels, selector, range } = question;
    let metric = "container_memory_working_set_bytes";
    let seconds = (range.end_ms - range.start_ms) / 1000;
    let any = format!("topk(1, last_over_time({metric}{{{selector}}}[{}s]))", seconds.min(WINDOW_S));
    match client.ask(&any, range.end_ms).await {
        Err(unanswered) => anyhow!("{}", unanswered.why()),
        Ok(answer) => match answer.series.first() {
            None => anyhow!(
                "has no {metric} for this: does it scrape the kubelet's cAdvisor, and is the selector right?"
            ),
            Some(series) => anyhow!(
                "knows no container with {}={:?}; the labels of {metric} are {}: say with --prometheus-labels which is which",
                labels.container,
                labels.build,
                series.names().filter(|name| *name != "__name__").collect::<Vec<_>>().join(", ")
            ),
        },
    }
}
