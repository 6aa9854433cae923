//! Pages in a real browser: Chromium of Debian, without a screen. Without it the test says so and passes, unless
//! `PLIMSOLL_BROWSER_REQUIRED` is set.

use std::process::Command;

use super::*;

/// Where a browser is looked for.
const BROWSERS: [&str; 2] = ["chromium", "chromium-browser"];

/// The page after its scripts have run, and what the browser complained of.
fn shown(server: &Server, dir: &std::path::Path, path: &str, wide: u32) -> Option<(Html, Vec<String>)> {
    let profile = format!("--user-data-dir={}", dir.join("browser").display());
    let size = format!("--window-size={wide},900");
    let url = format!("http://{}{path}", server.http);
    let options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
    ];
    let run = |browser: &str| {
        Command::new(browser).args(options).args([&profile, &size, "--dump-dom", &url]).output().ok()
    };
    let output = BROWSERS.into_iter().find_map(run)?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    let complaints = complaints.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    Some((Html::parse_document(&String::from_utf8_lossy(&output.stdout)), complaints))
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_load_sort_and_lead_down_in_a_real_browser() {
    let (dir, server) = start().await;
    let look = |path: &str, wide: u32| {
        let (page, complaints) = shown(&server, dir.path(), path, wide)?;
        assert_eq!(complaints, Vec::<String>::new(), "{path}: the browser complains");
        Some(page)
    };
    let Some(overview) = look("/?range=all", 1280) else {
        // the one place where a missing browser is told
        assert!(
            std::env::var_os("PLIMSOLL_BROWSER_REQUIRED").is_none(),
            "chromium is required and not there"
        );
        eprintln!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    assert_eq!(texts(&overview, "h1"), ["Overview"]);
    let packages = look("/packages?range=all&sort=name", 1280).unwrap();
    let turned = attributes(&packages, "th[aria-sort] a", "href").remove(0);
    let packages = look(&turned, 390).unwrap();
    assert_eq!(texts(&packages, "#packages tbody th"), ["zlib", "hdf5", HOSTILE]);
    let package = look(&attributes(&packages, "#packages tbody th a", "href")[1], 390).unwrap();
    let attempt = look(&attributes(&package, "td a.id", "href")[0], 1280).unwrap();
    assert_eq!(texts(&attempt, "h1"), [format!("Attempt {ODD_ID}")]);
    assert_eq!(texts(&attempt, "figure svg[role=img] > title").len(), 4);
    let running = look("/running", 390).unwrap();
    assert_eq!(texts(&running, "tbody td a.id"), ["now"]);
    assert!(attributes(&running, "[data-pause]:not([hidden])", "type").len() == 1, "the script has run");
}
