//! The example of the guide for a server with TLS and an access file, run as it is written.

use std::fs;

use plimsoll_tests::Issuer;
use yaml_rust2::Yaml;

use super::*;

const GUIDE: &str = include_str!("../../../deploy/docs/gitlab.md");

/// The block of the guide that shows everything that a job needs.
fn example() -> Yaml {
    let blocks = GUIDE.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut whole = blocks
        .filter(|block| ["include:", "PLIMSOLL_CA", "id_tokens"].iter().all(|name| block.contains(name)));
    YamlLoader::load_from_str(whole.next().unwrap()).unwrap().remove(0)
}

/// The grants of the guide, for this issuer.
fn grants(issuer: &Issuer) -> String {
    let block = GUIDE.split("```toml\n").find(|rest| rest.starts_with("[[issuer]]")).unwrap();
    block.split("```").next().unwrap().replace("https://gitlab.example", &issuer.url)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_example_works_with_access_and_tls() {
    if found("curl").is_none() {
        eprintln!("skipped: there is no curl here");
        return;
    }
    let (dir, issuer, programs) =
        (tempfile::tempdir().unwrap(), Issuer::start().unwrap(), Programs::for_tests());
    let config = dir.path().join("config");
    let made = Command::new(&programs.server).env_clear().arg("init").arg(&config).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let made = String::from_utf8(made.stdout).unwrap();
    let operator = made.lines().find_map(|line| line.strip_prefix("operator ")).unwrap().trim();
    let access = config.join("access.toml");
    let granted = format!("{}\n{}", fs::read_to_string(&access).unwrap(), grants(&issuer));
    fs::write(&access, granted).unwrap();
    let agents = dir.path().join("agents");
    fs::create_dir(&agents).unwrap();
    std::os::unix::fs::symlink(&programs.agent, agents.join(format!("plimsoll-{}", platform()))).unwrap();
    let settings = config.join("plimsoll.toml");
    let options = ["--config", settings.to_str().unwrap(), "--agent-dir", agents.to_str().unwrap()];
    let server = Server::start_with(programs, &dir.path().join("data"), &options).unwrap();
    let fleet = Fleet { dir, server };
    fs::copy(config.join("ca.crt"), fleet.checkout().join("ca.crt")).unwrap();

    let example = example();
    let value = |name: &str| example["variables"][name].as_str().unwrap().to_owned();
    assert_eq!(value("PLIMSOLL_SERVER"), "https://plimsoll.example:7410");
    let audience = example["default"]["id_tokens"]["PLIMSOLL_TOKEN"]["aud"].as_str().unwrap();
    let checkout = fleet.checkout().display().to_string();
    let ca = value("PLIMSOLL_CA").replace("$CI_PROJECT_DIR", &checkout);
    let claims = serde_json::json!({ "aud": audience, "project_path": "group/app" });
    let token = issuer.token(4711, claims);
    // the ports are those that are free here
    let address = format!("https://localhost:{}", fleet.server.grpc.port());
    let agent_url = format!("https://localhost:{}/agent", fleet.server.http.port());
    let host = issuer.url.split("//").nth(1).unwrap().split(':').next().unwrap();
    let variables = [
        ("PLIMSOLL_SERVER", address.as_str()),
        ("PLIMSOLL_AGENT_URL", &agent_url),
        ("PLIMSOLL_CA", &ca),
        ("PLIMSOLL_TOKEN", &token),
        ("CI_SERVER_HOST", host),
    ];
    let run = || fleet.job(&["bash"], "4711", "echo built", &variables);
    // the issuer's keys are on their way at first: the job goes on all the same
    let first = run();
    assert!(first.status.success(), "{}", text(&first));
    let reader = Agent::new(programs, address.clone(), fleet.dir.path());
    let reader = reader.with("PLIMSOLL_CA", &ca).with("PLIMSOLL_TOKEN", operator);
    let shown = || {
        run();
        reader.call(&["show", "4711", "-o", "json"])
    };
    let shown = (0..20).map(|_| shown()).find(|shown| shown.code == Some(0)).expect("measured");
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["summary"]["key"]["project"], "group/app", "{shown}");
    assert_eq!(shown["summary"]["exit_code"], 0, "{shown}");
}
