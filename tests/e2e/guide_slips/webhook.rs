//! The rows of the guide for Kubernetes that show the server's log: pods are asked about as the API server does.

use serde_json::{Value, json};

use super::{Row, rows};
use crate::admission::{pod, start};

/// How the rows begin that are compared here.
const IN_THE_LOG: [&str; 2] = ["`would change a pod`", "`left a pod as it is`"];

/// Whether this test compares a row.
pub(super) fn is_typed(row: &Row) -> bool {
    row.guide == "kubernetes" && IN_THE_LOG.iter().any(|begins| row.seen.starts_with(begins))
}

#[tokio::test]
async fn the_log_says_of_each_pod_what_the_guide_shows() {
    let webhook = start(&[]);
    for number in 0..8 {
        webhook.attempt(&format!("before-{number}"), "1", 900 + number, false).await;
    }
    let mut opted_out = pod();
    opted_out["metadata"]["annotations"]["plimsoll/admit"] = json!("off");
    for asked in [pod(), opted_out] {
        let (after, _) = webhook.admit(&asked).await;
        assert_eq!(after, asked, "it is a dry run");
    }
    let (_, metrics) = webhook.server.get("/metrics").unwrap();
    assert!(metrics.contains("plimsoll_admissions_total{kind=\"dry_run\"} 1\n"), "{metrics}");
    let log = webhook.server.log().unwrap();
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let messages: String =
        entries.filter_map(|entry| Some(format!("{}\n", entry["fields"]["message"].as_str()?))).collect();
    let typed: Vec<Row> = rows("kubernetes").into_iter().filter(is_typed).collect();
    assert_eq!(typed.len(), IN_THE_LOG.len(), "{typed:?}");
    for row in typed {
        assert!(row.fits(&messages), "{row:?}\n{messages}");
    }
}
