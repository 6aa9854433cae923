//! What pages hold.

use plimsoll_tests::{Server, quoted};
use scraper::Html;
use serde_json::{Value, json};

use super::{HOSTILE, ODD_ID, attributes, get, page, start, texts};

/// Every page, with what stands in its title.
fn all() -> Vec<(String, &'static str)> {
    vec![
        ("/?range=all".to_owned(), "Overview"),
        ("/?range=24h&project=none".to_owned(), "Overview"),
        ("/packages?range=all&sort=name".to_owned(), "Packages"),
        (format!("/packages?range=all&q={}", quoted(HOSTILE)), "Packages"),
        (format!("/packages/{}?range=all", quoted(HOSTILE)), "script"),
        ("/packages/never-built".to_owned(), "never-built"),
        (format!("/attempts?range=all&owner={}", quoted(HOSTILE)), "Attempts"),
        ("/attempts?range=all&outcome=FAILED".to_owned(), "Attempts"),
        ("/failures?range=all".to_owned(), "Failures"),
        ("/savings?range=all".to_owned(), "Savings"),
        ("/attempts/odd".to_owned(), "Attempt odd"),
        ("/attempts/now".to_owned(), "Attempt now"),
        (format!("/attempts/{}", quoted(ODD_ID)), "Attempt gitlab"),
        ("/running".to_owned(), "Running"),
        ("/settings".to_owned(), "Settings"),
    ]
}

/// Every column has a name, and what may scroll sideways is reached and named without a mouse.
fn assert_reached(page: &Html, path: &str) {
    assert!(texts(page, "thead th").iter().all(|head| !head.is_empty()), "{path}: a column without a name");
    for scrolls in ["pre", ".scroll"] {
        let all = texts(page, scrolls).len();
        let reached = texts(page, &format!("{scrolls}[tabindex='0'][role=region][aria-label]")).len();
        assert_eq!(reached, all, "{path}: {scrolls}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_well_formed_and_self_contained() {
    let (_dir, server) = start().await;
    for (path, title) in all() {
        let answer = get(&server, &path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let policy = "content-security-policy: default-src 'none'";
        assert!(answer.head.contains(policy) && !answer.head.contains("unsafe"), "{path}: {}", answer.head);
        let page = Html::parse_document(&answer.body);
        assert_eq!(page.errors, Vec::<std::borrow::Cow<'static, str>>::new(), "{path}");
        let title_text = texts(&page, "title").remove(0);
        assert!(title_text.contains(title) && title_text.ends_with("Plimsoll"), "{path}: {title_text}");
        assert_eq!((texts(&page, "h1").len(), texts(&page, "main").len()), (1, 1), "{path}");
        assert!(!attributes(&page, "html[lang=en]", "lang").is_empty(), "{path}");
        assert_eq!(attributes(&page, "body > a:first-child", "href"), ["#main"], "{path}: the skip link");
        assert_reached(&page, &path);
        assert!(attributes(&page, "[style], [onclick], style, iframe", "style").is_empty(), "{path}");
        for (selector, name) in [("a", "href"), ("form", "action"), ("link", "href"), ("[src]", "src")] {
            let to = attributes(&page, selector, name);
            let inside =
                to.iter().all(|to| to.starts_with('#') || to.starts_with('/') && !to.starts_with("//"));
            assert!(inside && (selector != "a" || !to.is_empty()), "{path}: {to:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_build_says_is_shown_as_text() {
    let (_dir, server) = start().await;
    for (path, _) in all() {
        let page = page(&server, &path);
        assert_eq!(attributes(&page, "script", "src").len(), 1, "{path}: our own script alone");
        assert_eq!(attributes(&page, "script[src^='/assets/page.js?']", "src").len(), 1, "{path}");
    }
    let attempt = page(&server, "/attempts/odd");
    let facts = texts(&attempt, "dl.facts dd");
    assert!(facts.iter().filter(|fact| *fact == HOSTILE).count() >= 4, "{facts:?}");
    assert_eq!(texts(&attempt, "tbody th")[texts(&attempt, "tbody th").len() - 1], HOSTILE, "a phase");
    let package = page(&server, &format!("/packages/{}?range=all", quoted(HOSTILE)));
    assert_eq!(texts(&package, "h1"), [HOSTILE]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_show_their_order_and_links_lead_down() {
    let (_dir, server) = start().await;
    let packages = page(&server, "/packages?range=all&sort=name");
    let names = texts(&packages, "#packages tbody th");
    assert_eq!(names, [HOSTILE, "hdf5", "zlib"]);
    assert_eq!(texts(&packages, "th[aria-sort=ascending]"), ["Package ▲"]);
    let turned = attributes(&packages, "th[aria-sort] a", "href").remove(0);
    let packages = page(&server, &turned);
    assert_eq!(texts(&packages, "#packages tbody th"), ["zlib", "hdf5", HOSTILE]);
    let package = page(&server, &attributes(&packages, "#packages tbody th a", "href")[1]);
    assert_eq!(texts(&package, "h1"), ["hdf5"]);
    assert_eq!(attributes(&package, "nav.range a[aria-current]", "href"), ["/packages/hdf5?range=all"]);
    let attempt = page(&server, &attributes(&package, "td a.id", "href")[0]);
    assert_eq!(texts(&attempt, "h1"), [format!("Attempt {ODD_ID}")]);
    let (pictures, tables) =
        (texts(&attempt, "figure svg[role=img] > title"), texts(&attempt, "figure table"));
    assert_eq!((pictures.len(), tables.len()), (2, 2), "memory and CPU");
    assert!(texts(&attempt, "figure svg > desc")[0].starts_with("The need rises to 40 MiB"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_is_there_as_json() {
    let (_dir, server) = start().await;
    let json = |path: &str| -> Value {
        let answer = get(&server, path);
        assert!(answer.head.contains("application/json"), "{path}: {}", answer.head);
        serde_json::from_str(&answer.body).unwrap()
    };
    let stats = json("/api/stats?range=all&group_by=package");
    assert_eq!((&stats["totals"]["attempts"], stats["groups"].as_array().unwrap().len()), (&json!(4), 3));
    assert_eq!(json("/api/packages?range=all")["totals"]["failed"], json!(1));
    assert_eq!(json("/api/recommendations?range=all")["recommendations"].as_array().unwrap().len(), 3);
    let list = json("/api/attempts?range=all&outcome=FAILED");
    assert_eq!(list["attempts"][0]["attempt"], json!("odd"));
    assert_eq!(list["attempts"][0]["key"]["labels"][HOSTILE], json!(HOSTILE));
    let attempt = json(&format!("/api/attempts/{}", quoted(ODD_ID)));
    assert_eq!(attempt["samples_total"], 40);
    assert_eq!(attempt["summary"]["outcome"], "succeeded");
    assert!(json("/api/packages/zlib?range=all")["prediction"]["memory_limit_bytes"]["value"].is_u64());
    assert_eq!(json("/api/running")["running"][0]["attempt"], json!("now"));
    let settings = json("/api/settings");
    let rows = settings["settings"].as_array().unwrap();
    let data_dir = rows.iter().find(|row| row["name"] == "data_dir").unwrap();
    assert_eq!(data_dir["place"], json!("--data-dir"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_server_says_what_to_do_next() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    for path in ["/", "/packages", "/failures", "/savings", "/attempts", "/running", "/packages/zlib"] {
        let answer = get(&server, path);
        assert!(answer.body.contains("plimsoll run --key"), "{path}");
        assert_reached(&Html::parse_document(&answer.body), path);
    }
}
