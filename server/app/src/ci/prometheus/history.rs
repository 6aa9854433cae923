//! Reads the history of build pods from Prometheus, one time window after the other. Read access
//! suffices: only expressions are evaluated.

use anyhow::anyhow;
use plimsoll_lab::import::prometheus::{BuildPods, PrometheusLabels, PrometheusQuestion, TimeRange};

use plimsoll_proto::figures::float;

use super::client::{PrometheusClient, QueryFailure};

/// Longest time window of a request, seconds.
const WINDOW_S: u64 = 3600;
/// Shortest time window, seconds, if longer ones are too much for Prometheus.
const MIN_WINDOW_S: u64 = 60;
/// Number of windows that must be answered before a longer window is tried again.
const GOOD_WINDOWS: u32 = 4;

/// Which history is read.
#[derive(Debug, Clone)]
pub(crate) struct HistoryQuestion {
    /// Names of the labels in this cluster.
    pub(crate) labels: PrometheusLabels,
    /// Label matchers `name="value",...` that are part of every expression; may be empty.
    pub(crate) selector: String,
    /// Time range to read.
    pub(crate) range: TimeRange,
}

/// The history that was read.
#[derive(Debug)]
pub(crate) struct PrometheusHistory {
    /// Pods of builds that were found.
    pub(crate) pods: BuildPods,
    /// Length of the windows without any build, milliseconds.
    pub(crate) empty_ms: u64,
    /// The first warning of Prometheus.
    pub(crate) warning: Option<String>,
}

/// Reads the history of a range. `on_progress` gets the progress.
/// Errors: Prometheus does not answer, or has no build in this range.
pub(crate) async fn read_history(
    client: &PrometheusClient,
    question: &HistoryQuestion,
    mut on_progress: impl FnMut(f64),
) -> anyhow::Result<PrometheusHistory> {
    let HistoryQuestion { labels, range, .. } = question;
    let mut read = PrometheusHistory { pods: BuildPods::new(labels.clone()), empty_ms: 0, warning: None };
    let mut parts = PrometheusQuestion::ALL.map(|asked| (asked, WindowParts::default()));
    let mut start_ms = range.start_ms;
    while start_ms < range.end_ms {
        let window = TimeRange { start_ms, end_ms: range.end_ms.min(start_ms + WINDOW_S * 1000) };
        if !read_window(client, question, window, &mut parts, &mut read).await? {
            read.empty_ms += window.end_ms - start_ms;
        }
        read.pods.end_window(window)?;
        start_ms = window.end_ms;
        on_progress(float(start_ms - range.start_ms) / float(range.end_ms - range.start_ms));
    }
    if read.empty_ms >= range.end_ms - range.start_ms {
        let why = no_build(client, question, &read.pods).await;
        return Err(match &read.warning {
            Some(warning) => anyhow!("{why}; it warns: {warning}"),
            None => why,
        });
    }
    Ok(read)
}

/// The length of the parts into which a window is split, because Prometheus cannot answer a longer
/// one.
#[derive(Debug, Clone, Copy)]
struct WindowParts {
    width_s: u64,
    /// Number of parts of this length that were answered.
    good: u32,
}

impl Default for WindowParts {
    fn default() -> Self {
        Self { width_s: WINDOW_S, good: 0 }
    }
}

impl WindowParts {
    fn note_answered(&mut self) {
        self.good += 1;
        if self.good >= GOOD_WINDOWS {
            *self = Self { width_s: (self.width_s * 2).min(WINDOW_S), good: 0 };
        }
    }
}

/// Evaluates all expressions for a window. Returns whether a build was found.
async fn read_window(
    client: &PrometheusClient,
    question: &HistoryQuestion,
    window: TimeRange,
    parts: &mut [(PrometheusQuestion, WindowParts)],
    read: &mut PrometheusHistory,
) -> anyhow::Result<bool> {
    let mut seen = false;
    for (asked, parts) in parts {
        seen |= read_answers(client, (question, *asked), window, parts, read).await?;
        // without a build the other expressions are not needed
        if !seen && *asked == PrometheusQuestion::Memory {
            break;
        }
    }
    Ok(seen)
}

/// Evaluates one expression for a window, in parts if the answer is too large. Each answer is
/// processed and freed before the next request: the answers of a whole window would be most of an
/// import's memory. Returns whether a build was found.
async fn read_answers(
    client: &PrometheusClient,
    (question, asked): (&HistoryQuestion, PrometheusQuestion),
    window: TimeRange,
    parts: &mut WindowParts,
    read: &mut PrometheusHistory,
) -> anyhow::Result<bool> {
    let (mut start_ms, mut seen) = (window.start_ms, false);
    while start_ms < window.end_ms {
        let part = TimeRange { start_ms, end_ms: window.end_ms.min(start_ms + parts.width_s * 1000) };
        let asked_s = (part.end_ms - start_ms).div_ceil(1000);
        let text = asked.text(&question.labels, &question.selector, asked_s);
        let can_split = asked_s > MIN_WINDOW_S;
        let answer = match client.ask(&text, part.end_ms, can_split).await {
            Err(QueryFailure::TooMuch(_)) if can_split => {
                *parts = WindowParts { width_s: (asked_s / 2).max(MIN_WINDOW_S), good: 0 };
                continue;
            }
            answer => answer.map_err(QueryFailure::into_error)?,
        };
        if answer.is_partial {
            read.pods.note_partial(part);
        }
        if read.warning.is_none() {
            read.warning.clone_from(&answer.warning);
        }
        for series in answer.series() {
            seen |= read.pods.add(part, asked, &series.map_err(anyhow::Error::msg)?)?;
        }
        parts.note_answered();
        start_ms = part.end_ms;
    }
    Ok(seen)
}

/// The reason why no build was found, as far as Prometheus shows it.
async fn no_build(client: &PrometheusClient, question: &HistoryQuestion, pods: &BuildPods) -> anyhow::Error {
    let HistoryQuestion { labels, selector, range } = question;
    let metric = "container_memory_working_set_bytes";
    if let Some(why) = pods.unread_memory() {
        return anyhow!("has {metric} of containers with {}={:?}, but {why}", labels.container, labels.build);
    }
    let seconds = (range.end_ms - range.start_ms) / 1000;
    let any = format!("topk(1, last_over_time({metric}{{{selector}}}[{}s]))", seconds.min(WINDOW_S));
    match client.ask(&any, range.end_ms, false).await {
        Err(unanswered) => unanswered.into_error(),
        Ok(answer) => match answer.series().find_map(Result::ok) {
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
