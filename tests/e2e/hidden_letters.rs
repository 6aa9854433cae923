//! Letters that turn the direction of writing, or hide, stand in names that any caller may choose. Wherever people read them they are shown as
//! their numbers.

use plimsoll_tests::{Sender, Site, eventually};

const NAME: &str = "gpj\u{202e}bilz";
const SHOWN: &str = "gpj\\u{202e}bilz";

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_turns_the_direction_of_writing_is_shown_as_its_number_everywhere() {
    let Site { server, agent, dir: _dir, .. } = Site::start().unwrap();
    Sender::delivered(&server.url(), ("a", NAME), 5, Some(0)).await.unwrap();
    let metrics = async || server.get("/metrics").unwrap().1;
    let in_metrics = "package=\"gpj\\\\u{202e}bilz\"";
    let metrics = eventually("it is counted", metrics, |text: &String| text.contains(in_metrics)).await;
    let terminal = agent.call(&["attempts"]).stdout;
    let json = agent.call(&["attempts", "--output", "json"]).stdout;
    let page = server.get("/attempts?range=all").unwrap().1;
    let api = server.get("/api/attempts?range=all").unwrap().1;
    let log = server.log().unwrap();
    for (what, text, shown) in [
        ("metrics", &metrics, in_metrics),
        ("terminal", &terminal, SHOWN),
        ("page", &page, SHOWN),
        ("JSON of the agent", &json, "gpj\\u202ebilz"),
        ("JSON of the server", &api, "gpj\\u202ebilz"),
        ("log", &log, "gpj\\u202ebilz"),
    ] {
        assert!(text.contains(shown), "{what}: {text}");
        assert!(!text.contains('\u{202e}'), "{what}: {text}");
    }
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["attempts"][0]["key"]["package"], NAME, "a program reads what was sent: {json}");
}
