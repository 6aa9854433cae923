//! The stylesheet, the script and the icon. They are part of the program, so that a page loads nothing from
//! other servers.

/// Name, media type and content of each asset.
const ASSETS: [(&str, &str, &str); 3] = [
    ("style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
];

/// The address of an asset. It changes with the content, so browsers may keep the asset for any time.
pub(super) fn path(name: &str) -> String {
    let text = ASSETS.iter().find(|(known, ..)| *known == name).map_or("", |(.., text)| text);
    format!("/assets/{name}?{:08x}", crc32fast::hash(text.as_bytes()))
}

/// The media type and the content of the asset with this file name.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    ASSETS.iter().find(|(known, ..)| *known == name).map(|(_, kind, text)| (*kind, *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_load_nothing_from_elsewhere() {
        for (name, _, text) in ASSETS {
            let others = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!others.contains("http:") && !others.contains("https:"), "{name}");
            assert!(!others.contains("@import") && !others.contains("url("), "{name}");
            assert_eq!(path(name).len(), "/assets/?".len() + name.len() + 8);
        }
    }
}
