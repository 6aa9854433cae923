//! Parses answers of Prometheus' HTTP API: series with their samples.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A time series in an answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PrometheusSeries {
    #[serde(rename = "metric", default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    value: Option<(f64, String)>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

impl PrometheusSeries {
    /// Samples of the series: milliseconds since 1970, and a number above 0. Values that are 0 or not a number are skipped.
    pub(super) fn samples(&self) -> impl Iterator<Item = (u64, f64)> {
        self.values.iter().chain(&self.value).filter_map(|(seconds, text)| {
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0)?;
            Some((unix_ms(*seconds)?, value))
        })
    }

    /// Value of the last sample.
    pub(super) fn last(&self) -> Option<f64> {
        self.samples().last().map(|(_, value)| value)
    }

    /// Names of the series' labels.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.labels.keys().map(String::as_str)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a time")]
fn unix_ms(seconds: f64) -> Option<u64> {
    // 0 to 7.3e9 seconds since 1970: up to the year 2201
    (0.0..7.3e9).contains(&seconds).then(|| (seconds * 1000.0).round() as u64)
}

/// An answer of Prometheus. Its series are kept as text, because parsed all at once they take eight times the
/// memory.
#[derive(Debug, Default)]
pub struct PrometheusAnswer {
    series: Vec<Box<RawValue>>,
    /// The first warning of Prometheus, for example about a store that did not answer.
    pub warning: Option<String>,
    /// Whether series may be missing or incomplete, because a part of the storage did not answer.
    pub is_partial: bool,
}

impl PrometheusAnswer {
    /// Parses the series of the answer one after the other, and frees the text of each after that.
    pub fn series(self) -> impl Iterator<Item = Result<PrometheusSeries, String>> {
        self.series.into_iter().map(|text| {
            serde_json::from_str(text.get()).map_err(|_other| no_answer_reason(text.get().as_bytes()))
        })
    }
}

/// The error for a body that is not an answer.
fn no_answer_reason(body: &[u8]) -> String {
    let begin = String::from_utf8_lossy(body.get(..body.len().min(60)).unwrap_or_default()).into_owned();
    format!("the answer is not one of Prometheus; it begins with {begin:?}")
}

#[derive(Debug, Deserialize)]
struct Body {
    status: String,
    #[serde(default)]
    data: Option<AnswerData>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
    /// Set by the cluster of `VictoriaMetrics` (docs.victoriametrics.com, "Cluster availability").
    #[serde(default, rename = "isPartial")]
    is_partial: Option<bool>,
}

impl Body {
    fn answer(self, data: AnswerData) -> PrometheusAnswer {
        // other warnings than those about the expression are of storage: Thanos' partial responses, remote reads
        let of_storage = |warning: &String| !warning.starts_with("PromQL ");
        let says_so = self.is_partial == Some(true);
        let is_partial = says_so || self.warnings.iter().any(of_storage);
        let said = says_so.then(|| "its answer is partial (isPartial)".to_owned());
        PrometheusAnswer {
            series: data.result,
            warning: self.warnings.into_iter().next().or(said),
            is_partial,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct AnswerData {
    #[serde(default)]
    result: Vec<Box<RawValue>>,
}

/// Reads the body of an answer.
/// Errors: the body is not an answer. The error's text is that of Prometheus, if the body has one.
pub fn read_answer(body: &[u8]) -> Result<PrometheusAnswer, String> {
    let read: Result<Body, _> = serde_json::from_slice(body);
    let mut body = read.map_err(|error| {
        if error.is_eof() && body.starts_with(b"{") {
            "the answer breaks off".to_owned()
        } else {
            no_answer_reason(body)
        }
    })?;
    match body.data.take().filter(|_| body.status == "success") {
        Some(data) => Ok(body.answer(data)),
        None => Err(body.error.unwrap_or_else(|| "the answer has no data".to_owned())),
    }
}
