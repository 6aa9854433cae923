//! A configuration for a first try: written, started, used over TLS with its tokens, and closed to all other callers.

use std::path::Path;

use plimsoll_tests::{Agent, Answer, Programs, Server, assert_has};

fn init(dir: &Path) -> Answer {
    Server::call(&["init", dir.to_str().unwrap()])
}

/// The word behind `name` at the beginning of a line.
fn value_of<'t>(text: &'t str, name: &str) -> &'t str {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim())).unwrap()
}

#[test]
fn init_makes_a_tls_server_requiring_its_tokens() {
    let (site, dir) = plimsoll_support::temporary::file_name("first try");
    let text = init(&dir).done();
    let (agent, operator) = (value_of(&text, "agent "), value_of(&text, "operator "));
    let file = |name: &str| dir.join(name).display().to_string();
    let server =
        Server::start_with(Programs::for_tests(), &dir.join("data"), &["--config", &file("plimsoll.toml")])
            .unwrap();
    let url = format!("https://localhost:{}", server.grpc.port());
    let with = |token: &str| {
        let agent = Agent::new(Programs::for_tests(), url.clone(), &site.path().join("spool"));
        let agent = agent.with("PLIMSOLL_CA", &file("ca.crt"));
        if token.is_empty() { agent } else { agent.with("PLIMSOLL_TOKEN", token) }
    };
    let ran = with(agent).call(&["run", "--attempt", "one", "--key", "package=p", "--", "true"]);
    assert!(ran.code == Some(0) && !ran.stderr.contains("kept"), "{ran:?}");
    let listed = with(operator).json(&["attempts"]);
    assert_eq!(listed["attempts"][0]["attempt"], "one", "{listed}");
    for token in ["", "wrong", agent] {
        assert_eq!(with(token).call(&["attempts"]).code, Some(3), "{token:?} reads nothing");
    }
    let again = init(&dir);
    assert_ne!(again.code, Some(0), "nothing is overwritten");
    assert_has(&again.stderr, ["is not empty"]);
}
