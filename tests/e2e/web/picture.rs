//! The pictures of the README: `deploy/docs/package.png` is a page over the builds of the lab, made anew where `PLIMSOLL_WRITE_PICTURE` is
//! set, and the drawings name what exists.

use std::{env, fs, path::Path, process::Command};

use plimsoll_tests::{Programs, Server};
use regex::Regex;

use super::{browser, page, texts};

/// Width and height of the picture, pixels: down to the end of the sizes.
const SIZE: (u32, u32) = (1100, 1200);
const PAGE: &str = "/packages/walkdir?range=all";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Width and height, as the header of a PNG says them (PNG specification, section 11.2.2).
fn size_of_png(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")?;
    let number = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().unwrap()));
    Some((number(0)?, number(4)?))
}

#[test]
fn the_page_of_the_readmes_picture_is_rendered_and_the_picture_has_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let (programs, data) = (Programs::for_tests(), dir.path().join("data"));
    let mut import = Command::new(&programs.server);
    import
        .env_clear()
        .arg("import")
        .arg(root().join("tests/data/lab_builds.csv"))
        .arg("--data-dir")
        .arg(&data);
    assert!(import.output().unwrap().status.success());
    let server = Server::start(programs, &data).unwrap();
    let shown = page(&server, PAGE);
    assert_eq!(texts(&shown, "h1"), ["walkdir"]);
    let words = texts(&shown, "body").concat();
    for part in ["Need against ask", "Next size", "Memory request", "Based on 15 attempts"] {
        assert!(words.contains(part), "{part:?} is missing in {words}");
    }
    let committed = root().join("deploy/docs/package.png");
    assert_eq!(size_of_png(&fs::read(&committed).unwrap()), Some(SIZE));
    assert_eq!(size_of_png(b"\x89PNG\r\n\x1a\n"), None);
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package.png");
    // a missing browser is named elsewhere
    let Some(()) = browser::photograph(&server, dir.path(), PAGE, SIZE, &made) else { return };
    assert_eq!(size_of_png(&fs::read(&made).unwrap()), Some(SIZE));
    if env::var_os("PLIMSOLL_WRITE_PICTURE").is_some() {
        fs::copy(&made, &committed).unwrap();
    }
}

/// Each text of the drawings, the file that has what it speaks of, and the words there.
const DRAWN: [(&str, &str, &str); 20] = [
    ("CI job or pod", "deploy/gitlab/plimsoll.gitlab-ci.yml", ".plimsoll"),
    ("build", "deploy/gitlab/plimsoll.gitlab-ci.yml", ".plimsoll"),
    ("agent", "agent/cli/Cargo.toml", "name = \"plimsoll-agent\""),
    ("reads cgroup", "agent/measure/src/lib.rs", "mod cgroup;"),
    ("plimsoll-server", "server/app/Cargo.toml", "name = \"plimsoll-server\""),
    ("keeps samples and summaries", "proto/plimsoll/v1/types.proto", "message Sample "),
    ("Predict: sizes with reasons", "proto/plimsoll/v1/predictor.proto", "rpc Predict("),
    ("ShouldRetry: cause, next size", "proto/plimsoll/v1/predictor.proto", "rpc ShouldRetry("),
    ("Stats: waste, failures, cost", "proto/plimsoll/v1/stats.proto", "service Stats "),
    ("samples (gRPC)", "proto/plimsoll/v1/collector.proto", "rpc Stream("),
    ("sizes, verdict", "proto/plimsoll/v1/predictor.proto", "message Verdict "),
    ("web page", "deploy/docs/api.md", "the web page"),
    ("/metrics, JSON", "deploy/docs/api.md", "/metrics "),
    ("embedded store", "server/store/Cargo.toml", "sled"),
    ("synced, then acked", "proto/plimsoll/v1/collector.proto", "message Ack "),
    ("Spack's CI", "deploy/docs/api.md", "/v1/allocation "),
    ("Kubernetes", "deploy/docs/kubernetes.md", "deploy/kubernetes/webhook"),
    ("(new pods)", "deploy/docs/kubernetes.md", "deploy/kubernetes/webhook"),
    ("GitLab", "deploy/docs/api.md", "/v1/collect "),
    ("(job events)", "deploy/docs/api.md", "/v1/collect "),
];

#[test]
fn the_drawings_name_what_exists_and_differ_in_colours_alone() {
    let text = Regex::new(">([^<>\n]+)</text>").unwrap();
    let drawn = |name: &str| -> Vec<String> {
        let drawing = fs::read_to_string(root().join("deploy/docs").join(name)).unwrap();
        text.captures_iter(&drawing).map(|found| found[1].to_owned()).collect()
    };
    let light = drawn("overview.svg");
    assert_eq!(light, drawn("overview-dark.svg"));
    for label in &light {
        let row = DRAWN.iter().find(|(drawn, ..)| drawn == label);
        let (_, file, words) = row.unwrap_or_else(|| panic!("{label:?}: say in the table where that is"));
        assert!(
            fs::read_to_string(root().join(file)).unwrap().contains(words),
            "{label:?}: no {words:?} in {file}"
        );
    }
    assert!(DRAWN.iter().all(|(drawn, ..)| light.iter().any(|label| label == drawn)), "{light:?}");
}
