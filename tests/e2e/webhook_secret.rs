//! The webhook answers the API server, and with an `admit_secret_file` no one else.

use crate::admission::{memory_limit, pod, review, start, start_with};
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OLDER: &str = "fedcba9876543210";
const ACCESS: &str = "[anonymous]\nroles = [\"agent\", \"caller\", \"reader\"]\n";

#[tokio::test]
async fn only_the_path_secret_admits_callers() {
    let secrets = format!("{SECRET}\n{OLDER}\n");
    let files = [("--access-file", ACCESS), ("--admit-secret-file", &secrets)];
    let options = ["--admit-mode", "on", "--log", "debug", "--admit-max-memory", "24GiB"];
    let webhook = start_with(&files, &options);
    let review = review(&pod()).to_string();
    for path in ["/admit", "/admit/", "/admit/0123456789abcdef", &format!("/admit/{SECRET}0")] {
        let (status, answer) = webhook.post(path, &review).await;
        let right = if path == "/admit/" { 404 } else { 401 };
        assert!(status == right && !answer.contains("patch"), "{path}: {status} {answer}");
    }
    assert_eq!(webhook.post(&format!("/admit/{SECRET}/x"), &review).await.0, 404);
    for secret in [SECRET, OLDER] {
        let (status, answer) = webhook.post(&format!("/admit/{secret}"), &review).await;
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["response"]["allowed"], json!(true), "{answer}");
    }
    let (_, metrics) = webhook.server.get("/metrics").unwrap();
    assert!(metrics.contains("plimsoll_admissions_total{kind=\"not_proven\"} 3\n"), "{metrics}");
    let log = webhook.server.log().unwrap();
    assert!(!log.contains(SECRET) && !log.contains(OLDER), "{log}");
}

#[tokio::test]
async fn annotations_cannot_exceed_the_operators_maximum() {
    let webhook = start(&["--admit-mode", "on", "--admit-max-memory", "24GiB"]);
    let mut own = pod();
    for name in ["plimsoll/memory-request", "plimsoll/memory-limit"] {
        own["metadata"]["annotations"][name] = json!("64Gi");
    }
    let (after, _) = webhook.admit(&own).await;
    assert_eq!(memory_limit(&after), 24 << 10, "{after}");
}
