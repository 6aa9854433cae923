//! The stylesheet, the script and the sign: part of the program, so that a page needs nothing else.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::trouble::Trouble;

/// Name, type, text.
const ASSETS: [(&str, &str, &str); 3] = [
    ("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("assets/page.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// The address of an asset, which changes with its text: browsers keep it as long as they like.
pub(super) fn path(name: &str) -> String {
    let text = ASSETS.iter().find(|(known, ..)| *known == name).map_or("", |(.., text)| text);
    format!("/assets/{name}?{:08x}", crc32fast::hash(text.as_bytes()))
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => {
            let headers = [
                (header::CONTENT_TYPE, *kind),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, *text).into_response()
        }
        None => Trouble::new(StatusCode::NOT_FOUND, "There is no file of this name.").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_ask_nobody_else_for_anything() {
        for (name, _, text) in ASSETS {
            let others = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!others.contains("http:") && !others.contains("https:"), "{name}");
            assert!(!others.contains("@import") && !others.contains("url("), "{name}");
            assert_eq!(path(name).len(), "/assets/?".len() + name.len() + 8);
        }
    }
}
