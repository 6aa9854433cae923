//! Prometheus that is slow, refuses, is another program or breaks off: each is a clear line.

use std::{
    cmp::Ordering,
    sync::{Arc, Mutex},
    time::Duration,
};

use plimsoll_lab::import::prometheus::{PrometheusLabels, TimeRange};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpListener};
use tokio_util::task::TaskTracker;

use super::{HistoryQuestion, PrometheusClient, read_history};
use crate::fake_http::FakeServer;

const START_MS: u64 = 1_800_000_000_000;
const PATIENT: Duration = Duration::from_mins(10);

fn question() -> HistoryQuestion {
    let range = TimeRange { start_ms: START_MS, end_ms: START_MS + 2 * 3_600_000 };
    HistoryQuestion { labels: PrometheusLabels::default(), selector: String::new(), range }
}

fn response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

pub(super) fn success(result: &serde_json::Value) -> String {
    response("200 OK", &json!({"status": "success", "data": {"result": result}}).to_string())
}

/// A server that answers each request line with the response that `answer` has; an empty one is never sent.
pub(super) async fn server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> FakeServer {
    FakeServer::start(move |head| {
        Some(answer(head.lines().next().unwrap_or_default())).filter(|response| !response.is_empty())
    })
    .await
}

async fn error(
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
    within: Duration,
    bytes: usize,
) -> String {
    let server = server(answer).await;
    let client = PrometheusClient::hasty(&server.url(""), within, bytes);
    format!("{:#}", read_history(&client, &question(), |_| {}).await.unwrap_err())
}

#[tokio::test]
async fn prometheus_errors_are_reported_in_one_line() {
    let response_text =
        |status: &'static str, body: &'static str| error(move |_| response(status, body), PATIENT, 1 << 20);
    let cases = [
        ("401 Unauthorized", "", "(401 Unauthorized); name a file that holds a token"),
        ("401 Unauthorized", "no org id\n", "(401 Unauthorized): no org id; name a file"),
        ("429 Too Many Requests", "<html>", "has no time (429 Too Many Requests)"),
        (
            "429 Too Many Requests\r\nRetry-After: 3600",
            "slow down",
            "slow down; it asks to wait 1h: import again then",
        ),
        ("504 Gateway Timeout", "<html>", "fails (504 Gateway Timeout)"),
        ("403 Forbidden", "", "--prometheus-token-file"),
        ("302 Found", "", "redirects (302 Found)"),
        ("404 Not Found", "<html>", "give the address of Prometheus"),
        (
            "400 Bad Request",
            r#"{"status":"error","error":"parse error: no"}"#,
            "parse error: no; look at --prometheus-selector",
        ),
        ("500 Internal Server Error", "", "fails (500"),
        ("200 OK", "<html>Sign in", "begins with \"<html>Sign in\""),
        ("200 OK", r#"{"status":"success","data":{"re"#, "breaks off"),
        ("200 OK", r#"{"status":"success","data":{"result":[]}}"#, "does it scrape the kubelet's cAdvisor"),
    ];
    for (status, body, word) in cases {
        let error = response_text(status, body).await;
        assert!(error.contains(word) && !error.contains('\n'), "{status}: {error}");
    }
    let cut = |_: &str| "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{".to_owned();
    assert!(error(cut, PATIENT, 1 << 20).await.contains("broke its answer off"));
    let huge = |_: &str| response("200 OK", &"x".repeat(5000));
    assert!(error(huge, PATIENT, 1000).await.contains("too much for one question"));
    let slow = error(|_| String::new(), Duration::from_millis(1), 1000).await;
    assert!(slow.contains("did not answer within 1ms"), "{slow}");
    let nothing_there = PrometheusClient::hasty("http://127.0.0.1:1", PATIENT, 1000);
    let error = format!("{:#}", read_history(&nothing_there, &question(), |_| {}).await.unwrap_err());
    assert!(error.contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn unusable_series_errors_name_the_actual_fault() {
    let response_text = |metric: serde_json::Value, value: &'static str| {
        let body = success(&json!([{"metric": metric, "values": [[1_800_000_060, value]]}]));
        error(move |_| body.clone(), PATIENT, 1 << 20)
    };
    let of = "has container_memory_working_set_bytes of containers with container=\"build\", but ";
    for value in ["NaN", "0"] {
        assert_eq!(
            response_text(json!({"namespace": "ci", "pod": "p"}), value).await,
            format!("{of}its readings are all 0 or no number (NaN)")
        );
    }
    assert_eq!(
        response_text(json!({"namespace": "ci", "pod_name": "p"}), "5").await,
        format!("{of}its series have no label pod")
    );
}

#[tokio::test]
async fn https_to_a_plaintext_port_is_explained() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    TaskTracker::new().spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _sent = stream.write_all(response("400 Bad Request", "").as_bytes()).await;
        }
    });
    let client = PrometheusClient::hasty(&url, PATIENT, 1000);
    let error = format!("{:#}", read_history(&client, &question(), |_| {}).await.unwrap_err());
    assert!(error.contains("speaks no TLS there: give the address with http://"), "{error}");
}

#[tokio::test]
async fn oversized_windows_are_split_without_gaps() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    // up to 10 minutes of memory are enough for this Prometheus
    let answer = move |line: &str| {
        let question = line.split(' ').nth(1).unwrap();
        let pairs: Vec<(String, String)> =
            form_urlencoded::parse(question.split_once('?').unwrap().1.as_bytes()).into_owned().collect();
        let (query, time) = (pairs[0].1.as_str(), pairs[1].1.parse::<f64>().unwrap());
        if !query.starts_with("container_memory_working_set_bytes") {
            return success(&json!([]));
        }
        let (_, seconds) = query.rsplit_once('[').unwrap();
        let seconds: f64 = seconds.trim_end_matches("s]").parse().unwrap();
        if seconds > 600.0 {
            let response_text = r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples"}"#;
            // a proxy before it gives up sooner
            return match seconds.total_cmp(&1800.0) {
                Ordering::Greater => response("504 Gateway Timeout", "<html>"),
                Ordering::Equal => response("502 Bad Gateway", ""),
                Ordering::Less => response("422 Unprocessable Entity", response_text),
            };
        }
        seen.lock().unwrap().push((time - seconds, time));
        success(&json!([{"metric": {"namespace": "ci", "pod": "p"}, "values": [[time - 1.0, "1073741824"]]}]))
    };
    let server = server(answer).await;
    let client = PrometheusClient::hasty(&server.url(""), PATIENT, 1 << 20);
    let read = read_history(&client, &question(), |_| {}).await.unwrap();
    assert_eq!(read.empty_ms, 0);
    let windows = asked.lock().unwrap().clone();
    let start = 1_800_000_000.0;
    let mut at = start;
    for (from, until) in windows {
        assert!((from - at).abs() < 0.01, "{from} behind {at}");
        at = until;
    }
    assert!((at - start - 7200.0).abs() < 0.01);
}

#[tokio::test]
async fn a_wait_that_is_asked_for_is_kept() {
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let answer = move |_: &str| {
        *count.lock().unwrap() += 1;
        match *count.lock().unwrap() {
            1..=6 => response("429 Too Many Requests\r\nRetry-After: 0", ""),
            _ => success(
                &json!([{"metric": {"namespace": "ci", "pod": "p"}, "values": [[1_800_000_060, "1048576"]]}]),
            ),
        }
    };
    let server = server(answer).await;
    let client = PrometheusClient::hasty(&server.url(""), PATIENT, 1 << 20);
    assert!(read_history(&client, &question(), |_| {}).await.is_ok(), "more tries than without the header");
}
