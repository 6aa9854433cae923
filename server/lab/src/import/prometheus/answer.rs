//! Answers of Prometheus' HTTP API: series with their samples.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A series of an answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PrometheusSeries {
    /// Its labels.
    #[serde(rename = "metric", default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    value: Option<(f64, String)>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

impl PrometheusSeries {
    /// Its samples: milliseconds since 1970, and a number above 0. What is not a number says nothing, nor does 0.
    pub(super) fn samples(&self) -> impl Iterator<Item = (u64, f64)> {
        self.values.iter().chain(&self.value).filter_map(|(seconds, text)| {
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0)?;
            Some((unix_ms(*seconds)?, value))
        })
    }

    /// The last of them.
    pub(super) fn last(&self) -> Option<f64> {
        self.samples().last().map(|(_, value)| value)
    }

    /// The names of its labels.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.labels.keys().map(String::as_str)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a time")]
fn unix_ms(seconds: f64) -> Option<u64> {
    // the year 2200
    (0.0..7.3e9).contains(&seconds).then(|| (seconds * 1000.0).round() as u64)
}

/// What an answer says.
#[derive(Debug, Default)]
pub struct PrometheusAnswer {
    /// Its series.
    pub series: Vec<PrometheusSeries>,
    /// The first thing that Prometheus warns of, such as a part that did not answer.
    pub warning: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Body {
    status: String,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Data {
    #[serde(default)]
    result: Vec<PrometheusSeries>,
}

/// Reads the body of an answer.
///
/// # Errors
/// Says why it is none: Prometheus' own words if it has some.
pub fn read_answer(body: &[u8]) -> Result<PrometheusAnswer, String> {
    let read: Result<Body, _> = serde_json::from_slice(body);
    let body = read.map_err(|error| {
        let begin = String::from_utf8_lossy(body.get(..body.len().min(60)).unwrap_or_default()).into_owned();
        if error.is_eof() && begin.starts_with('{') {
            "the answer breaks off".to_owned()
        } else {
            format!("the answer is not one of Prometheus; it begins with {begin:?}")
        }
    })?;
    match body.data.filter(|_| body.status == "success") {
        Some(data) => Ok(PrometheusAnswer { series: data.result, warning: body.warnings.into_iter().next() }),
        None => Err(body.error.unwrap_or_else(|| "the answer has no data".to_owned())),
    }
}
