//! The picture of the README: `deploy/docs/package.png` is a page over the builds of the lab, made anew where `PLIMSOLL_WRITE_PICTURE` is
//! set.

use std::{env, fs, path::Path};

use plimsoll_tests::{Programs, Server, assert_has};

use super::{browser, page, texts};
use crate::tools::repository;

/// Width and height of the picture, pixels: down to the end of the sizes.
const SIZE: (u32, u32) = (1100, 1200);
const PAGE: &str = "/packages/walkdir?range=all";

/// Width and height, as the header of a PNG says them (PNG specification, section 11.2.2).
fn size_of_png(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")?;
    let number = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().unwrap()));
    Some((number(0)?, number(4)?))
}

#[test]
fn the_readme_picture_renders_at_its_size() {
    let (dir, data) = plimsoll_support::temporary::file_name("data");
    let builds = repository().join("tests/data/lab_builds.csv");
    Server::call_on(&data, &["import", builds.to_str().unwrap()]).done();
    let server = Server::start(Programs::for_tests(), &data).unwrap();
    let shown = page(&server, PAGE);
    assert_eq!(texts(&shown, "h1"), ["walkdir"]);
    let words = texts(&shown, "body").concat();
    let parts = ["Need against ask", "Next size", "Memory request", "15 attempts, mostly of this key"];
    assert_has(&words, parts);
    let committed = repository().join("deploy/docs/package.png");
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
