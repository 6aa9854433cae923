//! Pages in a real browser: Chromium of Debian, without a screen. Without it the test says so and passes, unless
//! `PLIMSOLL_BROWSER_REQUIRED` is set.

use std::{fs, path::Path, process::Command};

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::{Server, hello, quoted};
use scraper::Html;

use super::{ODD_ID, attributes, deliver, get, start, texts};

/// Where a browser is looked for.
const BROWSERS: [&str; 2] = ["chromium", "chromium-browser"];

/// Without a screen, and without asks of its own on the network.
const OPTIONS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
];

/// The page after its scripts have run, and what the browser complained of.
fn shown(server: &Server, dir: &Path, path: &str, wide: u32) -> Option<(Html, Vec<String>)> {
    loaded(dir, &format!("http://{}{path}", server.http), wide)
}

fn loaded(dir: &Path, url: &str, wide: u32) -> Option<(Html, Vec<String>)> {
    let profile = format!("--user-data-dir={}", dir.join("browser").display());
    let size = format!("--window-size={wide},900");
    let run = |browser: &str| {
        Command::new(browser).args(OPTIONS).args([&profile, &size, "--dump-dom", url]).output().ok()
    };
    let output = BROWSERS.into_iter().find_map(run)?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    let complaints = complaints.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    Some((Html::parse_document(&String::from_utf8_lossy(&output.stdout)), complaints))
}

/// Writes a picture of the page into `file`; `None` without a browser.
pub(super) fn photograph(
    server: &Server,
    dir: &Path,
    path: &str,
    size: (u32, u32),
    file: &Path,
) -> Option<()> {
    let words = [
        "--hide-scrollbars".to_owned(),
        format!("--user-data-dir={}", dir.join("browser").display()),
        format!("--window-size={},{}", size.0, size.1),
        format!("--screenshot={}", file.display()),
        format!("http://{}{path}", server.http),
    ];
    let run = |browser: &str| Command::new(browser).args(OPTIONS).args(&words).output().ok();
    let output = BROWSERS.into_iter().find_map(run)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_browser_loads_pages_without_complaints() {
    let (dir, server) = start().await;
    let attempt = format!("/attempts/{}", quoted(ODD_ID));
    let pages = [("/?range=all", 1280), ("/packages?range=all", 390), (&attempt, 1280), ("/running", 390)];
    for (path, wide) in pages {
        let Some((page, complaints)) = shown(&server, dir.path(), path, wide) else {
            // the one place where a missing browser is reported
            let required = std::env::var_os("PLIMSOLL_BROWSER_REQUIRED");
            assert!(required.is_none(), "chromium is required and not there");
            eprintln!("skipped: no chromium on this machine (apt-get install chromium)");
            return;
        };
        assert_eq!(complaints, Vec::<String>::new(), "{path}: the browser complains");
        assert_eq!(texts(&page, "h1").len(), 1, "{path}");
        let scripts = attributes(&page, "[data-pause]:not([hidden])", "type").len();
        assert_eq!(scripts, usize::from(path == "/running"), "{path}: the script has run");
    }
}

/// Measures a page in a frame: how much of it is beyond the edge, how many tables scroll sideways, how many columns the table of settings has,
/// which texts are cut off in tables whose rows become lists on a phone, and how high the smallest text of a chart is.
const MEASURE: &str = "onload = () => {
    const page = document.querySelector('iframe').contentDocument;
    const shown = page.documentElement;
    const cells = [...page.querySelectorAll('#settings tbody tr:first-child > *')];
    const columns = new Set(cells.map(cell => cell.getBoundingClientRect().left)).size;
    const inside = element => element.closest('.scroll') && !element.matches('.scroll');
    const wide = [...page.querySelectorAll('body *')].filter(element =>
        element.getBoundingClientRect().right > shown.clientWidth + 0.5 && !inside(element) && !element.closest('svg'));
    const cut = [...page.querySelectorAll('td')].filter(cell => cell.getBoundingClientRect().right > shown.clientWidth);
    const scrolls = [...page.querySelectorAll('.scroll')].filter(table => table.scrollWidth > table.clientWidth).length;
    const letters = [...page.querySelectorAll('figure text')].map(text =>
        parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a);
    document.title = JSON.stringify({
        letters: Math.min(...letters, 99),
        scrolls,
        cut: cut.length,
        beyond: shown.scrollWidth - shown.clientWidth, columns, wide: wide.map(element => element.outerHTML.slice(0, 90)),
    });
};";

/// The page in such a frame. Pages refuse to be framed by others, so it is a copy with its stylesheet inside.
fn framed(server: &Server, path: &str, wide: u32) -> String {
    let body = get(server, path).body;
    let (before, link) = body.split_once("<link rel=\"stylesheet\" href=\"").expect("a stylesheet");
    let (style, after) = link.split_once("\">").expect("the end of a link");
    let page = format!("{before}<style>{}</style>{after}", get(server, style).body);
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><iframe width={wide} height=900 srcdoc=\"{page}\"></iframe><script>{MEASURE}</script>"
    )
}

/// What [`MEASURE`] says of the page; `None` without a browser, which is reported elsewhere.
fn measured(server: &Server, dir: &Path, path: &str, wide: u32) -> Option<serde_json::Value> {
    let file = dir.join("framed.html");
    fs::write(&file, framed(server, path, wide)).unwrap();
    let (page, _complaints) = loaded(dir, &format!("file://{}", file.display()), 1280)?;
    Some(serde_json::from_str(&texts(&page, "title")[0]).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_scrolls_sideways_on_a_phone() {
    let (dir, server) = start().await;
    let package = "a-package-with-a-rather-long-name";
    for samples in 1..=4 {
        let attempt = format!("v{samples}");
        deliver(&server, hello(&attempt, package), &attempt, samples * 200, Some(0)).await;
    }
    let package = format!("/packages/{package}?range=all");
    let pages = [
        "/?range=all",
        "/packages?range=all",
        &package,
        "/attempts?range=all",
        "/attempts/v4",
        "/failures?range=all",
        "/running",
        "/settings",
    ];
    for path in pages {
        let Some(measured) = measured(&server, dir.path(), path, 390) else { return };
        assert_eq!(measured["beyond"], 0, "{path}: {measured:#}");
        assert_eq!(measured["cut"], 0, "{path}: {measured:#}");
        assert!(measured["letters"].as_f64() >= Some(10.0), "{path}: {measured:#}");
        assert_eq!(measured["scrolls"], 0, "{path}: {measured:#}");
        assert_eq!(measured["columns"], u64::from(path == "/settings"), "{path}: {measured:#}");
    }
    assert!(get(&server, "/?range=all").body.contains("Packages whose need varies most"));
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_tables_fit_1000_pixels() {
    let (dir, server) = start().await;
    let mut predictor = PredictorClient::connect(server.url()).await.unwrap();
    for (attempt, package) in [("f1", "a-package-with-a-rather-long-name"), ("f2", "py-scikit-learn-extra")] {
        deliver(&server, hello(attempt, package), attempt, 5, Some(1)).await;
        let line = "src/module/a_rather_long_name_of_a_source_file.cpp:123:45: error: no matching function for call to 'frobnicate(int)'";
        let asked = pb::ShouldRetryRequest {
            attempt: attempt.into(),
            log_tail: format!("/builds/group/project/{package}/{line}\n").into_bytes(),
            ..pb::ShouldRetryRequest::default()
        };
        predictor.should_retry(asked).await.unwrap();
    }
    let Some(measured) = measured(&server, dir.path(), "/failures?range=all", 1000) else { return };
    assert_eq!((&measured["beyond"], &measured["scrolls"]), (&0.into(), &0.into()), "{measured:#}");
    assert!(get(&server, "/failures?range=all").body.contains("frobnicate"));
}
