//! Prometheus: the text format of a scrape, and the history of build pods.
//!
//! | module | content |
//! |---|---|
//! | `client` | requests with bounds: time, bytes, tries |
//! | `history` | history of builds, window by window |

mod client;
#[cfg(test)]
mod forged_tests;
mod history;
#[cfg(test)]
mod history_tests;

pub(crate) use client::{PrometheusAccess, PrometheusClient};
pub(crate) use history::{HistoryQuestion, PrometheusHistory, read_history};

/// The media type of OpenMetrics.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Media type of the text format before OpenMetrics.
pub(crate) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether the client prefers OpenMetrics: the `Accept` headers name it with a quality above 0, and
/// no text format has a higher one (RFC 9110, 12.5.1).
pub(crate) fn prefers_openmetrics<'h>(accept: impl Iterator<Item = &'h str>) -> bool {
    let (mut openmetrics, mut plain) = (0.0_f64, None::<(u8, f64)>);
    for range in accept.flat_map(|header| header.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameter = |name: &str| {
            let mut named = range.split(';').skip(1).filter_map(|part| part.trim().split_once('='));
            named
                .find(|(known, _)| known.trim().eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim().trim_matches('"'))
        };
        let quality = parameter("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
        // of the ranges for plain text, the most specific one counts
        let specificity = match kind.as_str() {
            "application/openmetrics-text"
                if matches!(parameter("version"), None | Some("1.0.0" | "0.0.1")) =>
            {
                openmetrics = openmetrics.max(quality);
                continue;
            }
            "text/plain" => 3,
            "text/*" => 2,
            "*/*" => 1,
            _ => continue,
        };
        plain = match plain {
            Some((known, quality_of_it))
                if known > specificity || known == specificity && quality_of_it >= quality =>
            {
                plain
            }
            _ => Some((specificity, quality)),
        };
    }
    openmetrics > 0.0 && plain.is_none_or(|(_, plain)| openmetrics >= plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_used_only_when_preferred() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/json", false),
            ("application/*", false),
            ("application/openmetrics-text", true),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text; q=0.0, text/plain", false),
            ("application/openmetrics-text;q=bogus", false),
            ("application/openmetrics-text;version=2.0.0", false),
            ("application/openmetrics-text; version=\"1.0.0\"", true),
            ("Application/OpenMetrics-Text;Q=0.4 , TEXT/PLAIN;q=0.3", true),
            ("application/openmetrics-text;q=0.3,text/plain;q=0.4", false),
            ("application/openmetrics-text;q=0.5,*/*;q=0.9", false),
            ("application/openmetrics-text;q=0.5,text/plain;q=0.4,*/*;q=0.9", true),
            ("application/openmetrics-text,text/plain", true),
        ] {
            assert_eq!(prefers_openmetrics([accept].into_iter()), expected, "{accept}");
        }
        for accept in [
            "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.1",
            // what releases of Prometheus send
            "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ] {
            assert!(prefers_openmetrics([accept].into_iter()), "{accept}");
        }
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert!(!prefers_openmetrics([protobuf].into_iter()));
        assert!(prefers_openmetrics(["text/plain;q=0.5", "application/openmetrics-text"].into_iter()));
    }
}
