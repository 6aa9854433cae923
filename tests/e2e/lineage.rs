//! A job that GitLab retried counts as a retry wherever retries are counted, although no agent says so.

use plimsoll_proto::v1 as pb;
use plimsoll_tests::{Agent, Sender, Server, Site, batch, eventually, finish, hello};
use serde_json::Value;

/// The opening of an attempt of the job `build` of pipeline 9, as the agent in it makes it: it says neither a number nor what it retries.
fn opening(attempt: &str, minute: u64) -> pb::Hello {
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let labels = [label("pipeline", "9"), label("job", "build"), label("commit", "c0ffee")].into();
    pb::Hello {
        key: Some(pb::Key { package: "zlib".into(), labels, ..pb::Key::default() }),
        started_unix_ms: now() - 3_600_000 + minute * 60_000,
        resources: Some(pb::Resources { memory_limit_bytes: Some(64 << 20), ..pb::Resources::default() }),
        ..hello(attempt, "zlib")
    }
}

fn now() -> u64 {
    u64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

async fn ended(server: &Server, attempt: &str, minute: u64, code: i32, oom_kill: u64) {
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(opening(attempt, minute)).await.unwrap();
    stream.exchange(batch(attempt, 1, 5)).await.unwrap();
    let totals = Some(pb::Totals { oom_kill: Some(oom_kill), ..pb::Totals::default() });
    let finish = pb::Finish { wall_ms: 60_000, totals, ..finish(attempt, 5, Some(code)) };
    stream.exchange(finish).await.unwrap();
}

/// What every view says of the retries of both jobs.
fn shown_everywhere(server: &Server, agent: &Agent) {
    let totals = agent.json(&["stats"])["totals"].clone();
    assert_eq!((&totals["retries"], &totals["retries_helped"]), (&1.into(), &1.into()), "{totals}");
    assert_eq!(totals["retries_by_cause"]["oom"], Value::from(1), "{totals}");
    let text = agent.call(&["stats"]).stdout;
    assert!(text.contains("after: out of memory 1; 1 helped"), "{text}");
    let page = server.get("/packages/zlib?range=all").unwrap().1;
    assert!(page.contains("after: out of memory 1; 1 helped"), "{page}");
    let shown = agent.json(&["show", "--attempt", "gitlab.example:7002"])["summary"].clone();
    assert_eq!((&shown["number"], &shown["retries"]), (&2.into(), &"gitlab.example:7001".into()), "{shown}");
    let first = agent.json(&["show", "--attempt", "gitlab.example:7001"])["summary"].clone();
    assert_eq!((&first["number"], &first["retries"]), (&1.into(), &"".into()), "{first}");
    let page = server.get("/attempts/gitlab.example:7002").unwrap().1;
    assert!(page.contains("number 2") && page.contains("gitlab.example:7001"), "{page}");
    let list = server.get("/api/attempts").unwrap().1;
    assert!(list.contains("\"retries\": \"gitlab.example:7001\""), "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gitlab_retry_counts_in_every_view() {
    for late in [false, true] {
        let site = Site::start().unwrap();
        let first = async || ended(&site.server, "gitlab.example:7001", 0, 137, 1).await;
        let second = async || ended(&site.server, "gitlab.example:7002", 10, 0, 0).await;
        // the agent of the first may deliver late what it could not send
        if late {
            second().await;
            first().await;
        } else {
            first().await;
            second().await;
        }
        site.server.wait_for_metric("plimsoll_fleet_retries_total 1").await;
        shown_everywhere(&site.server, &site.agent);
        let site = site.killed().unwrap();
        let known = async || site.agent.json(&["stats"])["totals"]["attempts"].clone();
        eventually("both are known again", known, |known| *known == 2).await;
        shown_everywhere(&site.server, &site.agent);
    }
}
