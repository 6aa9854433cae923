//! Refuses changes requested by pages of other origins. Any page that is open in a browser on the
//! server's machine or network can send requests to the server. The browser then sends the page's
//! origin in `Sec-Fetch-Site`; older browsers send it in `Origin`. Programs send neither.

use axum::{
    extract::Request,
    http::{HeaderMap, Method, StatusCode, Uri, header, uri::Authority},
    response::Response,
};
use plimsoll_core::domain::FieldViolation;

use super::{refusal::refuse, shown_path};

/// Header in which browsers describe the requesting page (Fetch Metadata, section 2.3).
const SITE_HEADER: &str = "Sec-Fetch-Site";

/// Refuses a request that may change something and comes from a page of another origin.
pub(super) fn refusal(request: &Request) -> Option<Response> {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    let name = foreign_header(request.headers(), request.uri())?;
    let fault = FieldViolation::new(name, "says that a page of another origin sends this; only programs may");
    Some(refuse(shown_path(request.uri()), StatusCode::FORBIDDEN, &fault))
}

/// The name of the header that shows another origin, if one does.
fn foreign_header(headers: &HeaderMap, uri: &Uri) -> Option<&'static str> {
    let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if value(SITE_HEADER).is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Some(SITE_HEADER);
    }
    let origin = value(header::ORIGIN.as_str())?;
    let asked = uri.authority().map(Authority::as_str).or_else(|| value(header::HOST.as_str()));
    let is_ours = origin.split_once("://").is_some_and(|(_scheme, host)| Some(host) == asked);
    (!is_ours).then_some("Origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_of_another_origin_is_foreign() {
        let foreign = |headers: &[(&'static str, &'static str)]| {
            let all = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let mut headers: HeaderMap = all.collect();
            headers.insert(header::HOST, "plimsoll:7411".parse().unwrap());
            foreign_header(&headers, &Uri::from_static("/v1/collect"))
        };
        assert_eq!(foreign(&[]), None, "a program");
        assert_eq!(foreign(&[("sec-fetch-site", "same-origin"), ("origin", "http://plimsoll:7411")]), None);
        assert_eq!(foreign(&[("sec-fetch-site", "none")]), None, "a person");
        for site in ["cross-site", "same-site", "of-2030", ""] {
            assert_eq!(foreign(&[("sec-fetch-site", site)]), Some(SITE_HEADER), "{site}");
        }
        for origin in ["null", "https://evil.example", "http://plimsoll", "http://plimsoll:7411.evil.example"]
        {
            assert_eq!(foreign(&[("origin", origin)]), Some("Origin"), "{origin}");
        }
    }
}
