//! Addresses that make no sense.

use scraper::Html;

use super::{attributes, get, start, texts};

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_address_gets_a_helpful_page() {
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
async fn clients_other_than_browsers_get_the_endpoints() {
    let (_dir, server) = start().await;
    let (status, text) = server.get("/").unwrap();
    assert!(status == 200 && text.contains("/v1/allocation") && text.contains("/api/"), "{text}");
}
