//! The picture of the README: `deploy/docs/package.png` is a page over the builds of the lab, made anew where `PLIMSOLL_WRITE_PICTURE` is
//! set.

use std::{env, fs, path::Path, process::Command};

use plimsoll_tests::{Programs, Server};

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
