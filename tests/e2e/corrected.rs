//! People correct causes: on the command line and on the page, for those who may, and the correction is in force everywhere.

use plimsoll_tests::{AccessFile, Sender, Server, Site, hello, http::bearer};

/// An attempt that failed, and one that succeeded.
async fn deliver(server: &Server, token: &str) {
    let channel = tonic::transport::Endpoint::new(server.url()).unwrap().connect().await.unwrap();
    for (attempt, code) in [("failed", 1), ("fine", 0)] {
        let mut stream = Sender::open_as(channel.clone(), token).await.unwrap();
        stream.build(hello(attempt, "zlib"), 3, Some(code)).await.unwrap();
    }
}

const CORRECT: [&str; 7] = ["verdict", "correct", "failed", "--cause", "infra", "--why", "mirror was down"];

#[tokio::test(flavor = "multi_thread")]
async fn a_corrected_cause_is_shown_everywhere_until_undone() {
    let site = Site::start().unwrap();
    deliver(&site.server, "").await;
    let output = site.agent.call(&CORRECT);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("anyone corrected the cause: mirror was down"), "{output:?}");
    let check = |site: &Site, cause: &str, wrong: usize| {
        let (server, agent) = (&site.server, &site.agent);
        let shown = agent.json(&["show", "failed"]);
        assert_eq!(shown["summary"]["cause"], cause, "{shown}");
        let listed = agent.json(&["attempts", "--outcome", "failed"]);
        assert_eq!(listed["attempts"][0]["cause"], cause, "{listed}");
        let stats = agent.json(&["stats", "--by", "cause"]);
        assert_eq!(stats["wrong"].as_array().map_or(0, Vec::len), wrong, "{stats}");
        let metrics = server.get("/metrics").unwrap().1;
        assert_eq!(metrics.matches("plimsoll_verdicts_wrong{").count(), wrong, "{metrics}");
        let page = server.get("/api/attempts/failed").unwrap().1;
        assert!(page.contains(&format!("\"{cause}\"")), "{page}");
    };
    check(&site, "infra", 1);
    let site = site.killed().unwrap();
    check(&site, "infra", 1);
    let undone = site.agent.call(&["verdict", "undo", "failed"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    check(&site, "unknown", 0);
    let log = site.server.log().unwrap();
    assert!(log.contains("took back the corrected cause of a failure"), "{log}");
    for (attempt, why) in [("fine", "succeeded"), ("never", "no attempt never is known here")] {
        let refused = site.agent.call(&["verdict", "undo", attempt]);
        assert!(refused.code == Some(2) && refused.stderr.contains(why), "{refused:?}");
    }
}

/// Sends the form of the attempt's page; gives the status.
fn send(server: &Server, token: &str, site: &str, form: &str) -> u16 {
    let site = if site.is_empty() { String::new() } else { format!("Sec-Fetch-Site: {site}\r\n") };
    let headers = format!("{}{site}Content-Type: application/x-www-form-urlencoded\r\n", bearer(token));
    server.send("POST", "/attempts/failed", &headers, form).unwrap().status
}

#[tokio::test(flavor = "multi_thread")]
async fn correction_forms_are_accepted_only_from_operators() {
    let access = AccessFile::default()
        .token("runner", &["agent"], "trusted = true")
        .token("reader", &["reader"], "trusted = true")
        .token("ann", &["reader", "operator"], "trusted = true");
    let site = Site::start_with(&[("--access-file", access.text())], &[]).unwrap();
    let server = &site.server;
    deliver(server, "runner").await;
    let form = "cause=INFRA&why=mirror+was+down";
    for (what, token, page, form, status) in [
        ("a reader changes nothing", "reader", "same-origin", form, 403),
        ("a token that is not known", "made-up", "same-origin", form, 401),
        ("another page sends it", "ann", "cross-site", form, 403),
        ("no page says that it sends it", "ann", "", form, 403),
        ("an unknown cause", "ann", "same-origin", "cause=LUCK&why=x", 400),
        ("too long", "ann", "same-origin", &format!("why={}", "x".repeat(9000)), 400),
        ("an operator", "ann", "same-origin", form, 303),
    ] {
        assert_eq!(send(server, token, page, form), status, "{what}");
    }
    let of_ann = site.agent_as("ann");
    let shown = of_ann.json(&["show", "failed"]);
    assert_eq!(shown["verdict"]["correction"]["by"], "of-ann", "{shown}");
    assert_eq!(send(server, "ann", "same-origin", "undo=1"), 303);
    let shown = of_ann.json(&["show", "failed"]);
    assert_eq!(shown["summary"]["cause"], "unknown");
    assert_eq!(shown["verdict"]["correction"], serde_json::Value::Null);
}
