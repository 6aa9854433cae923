//! Addresses that make no sense.

use scraper::Html;
use serde_json::{Value, json};

use super::{attributes, get, start, texts};

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_makes_no_sense_is_a_page_that_says_so_and_leads_on() {
    let (_dir, server) = start().await;
    let long = "x".repeat(300);
    let cases = [
        ("/?range=%3Cscript%3E".to_owned(), 400, "range: is"),
        (format!("/attempts?package={long}"), 400, "package: has 300 bytes"),
        ("/attempts?outcome=%22%3E".to_owned(), 400, "outcome: is"),
        ("/attempts?range=all&page_token=nonsense".to_owned(), 400, "page_token"),
        ("/packages?sort=luck".to_owned(), 400, "sort: is"),
        ("/packages?page=-1".to_owned(), 400, "page: is"),
        (format!("/?project={}", "y".repeat(40_000)), 400, "query: has"),
        ("/attempts/unknown".to_owned(), 404, "no attempt unknown"),
        ("/attempts/a%2520b%2F..%2F%3Cb%3E".to_owned(), 400, "attempt"),
        (format!("/packages/{}", "z".repeat(400)), 400, "package"),
        ("/nowhere/at/all".to_owned(), 404, "no page at this address"),
        ("/assets/none.css".to_owned(), 404, "no file of this name"),
    ];
    for (path, status, text) in cases {
        let answer = get(&server, &path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        let page = Html::parse_document(&answer.body);
        assert!(page.errors.is_empty() && attributes(&page, "script", "src").len() == 1, "{path}");
        let shown = texts(&page, "p.lead").join(" ");
        assert!(shown.contains(text), "{path}: {shown}");
        assert!(attributes(&page, "main p a", "href").contains(&"/".to_owned()), "{path}: a way out");
        assert!(answer.head.contains("content-security-policy"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_a_megabyte_is_refused_and_the_server_goes_on() {
    let (_dir, server) = start().await;
    let answer = get(&server, &format!("/?project={}", "y".repeat(1 << 20)));
    assert!([400, 414, 431].contains(&answer.status), "{}", answer.status);
    assert_eq!(get(&server, "/").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_to_the_json_are_answered_as_json_and_the_future_is_empty() {
    let (_dir, server) = start().await;
    let ask = |path: &str| -> (u16, Value) {
        let answer = get(&server, path);
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    };
    for path in ["/api/stats?group_by=luck", "/api/stats?step_ms=x", "/api/attempts?page_size=9999"] {
        let (status, shown) = ask(path);
        assert!(status == 400 && shown["error"].is_string(), "{path}: {shown}");
    }
    assert_eq!(ask("/api/attempts/unknown").0, 404);
    let (status, future) = ask("/api/stats?from_unix_ms=99999999999999&group_by=package");
    assert_eq!((status, &future["totals"]["attempts"], &future["groups"]), (200, &json!(0), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_browser_gets_the_list_of_endpoints() {
    let (_dir, server) = start().await;
    let (status, text) = server.get("/").unwrap();
    assert!(status == 200 && text.contains("/v1/allocation") && text.contains("/api/"), "{text}");
}
