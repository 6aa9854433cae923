//! Nothing is written through a link: whatever name of the data directory is one, the file that it leads to stays as it is.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use super::fixture::{one, open, settings};
use crate::{OfflineStore, Store, StoreCopy};

const PRECIOUS: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n";

/// Names of files in the data directory, and those that a running or killed server may have there.
const FILES: [&str; 9] = [
    "plimsoll.json",
    "plimsoll.json.new",
    "plimsoll.last",
    "plimsoll.lock",
    "plimsoll.probe",
    "sled/conf",
    "sled/db",
    "sled/snap.0000000000000000",
    "sled/snap.0000000000000001.generating",
];
/// Names of directories.
const DIRECTORIES: [&str; 5] = ["sled", "sled/blobs", "sled.new", "sled.old", "sled.look"];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Link {
    Symbolic,
    ToNothing,
    Hard,
}

/// A file or directory of another program, with a link to it in the place of `name`; what was at `name` is in it.
struct Linked {
    dir: tempfile::TempDir,
    other: PathBuf,
}

impl Linked {
    async fn file(name: &str, link: Link, with_store: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = settings(dir.path()).dir;
        let (path, other) = (data.join(name), dir.path().join("other"));
        if with_store {
            closed_store(dir.path()).await;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // a link to what the server wrote itself is as bad: the copy is of another program
        match fs::read(&path) {
            Ok(bytes) => fs::write(&other, bytes).unwrap(),
            Err(_absent) => fs::write(&other, PRECIOUS).unwrap(),
        }
        let _absent = fs::remove_file(&path);
        match link {
            Link::Symbolic => symlink(&other, &path).unwrap(),
            Link::ToNothing => symlink(dir.path().join("nothing"), &path).unwrap(),
            Link::Hard => fs::hard_link(&other, &path).unwrap(),
        }
        Self { dir, other }
    }

    fn seen(&self) -> (Vec<u8>, bool) {
        (fs::read(&self.other).unwrap(), self.dir.path().join("nothing").try_exists().unwrap())
    }
}

async fn closed_store(dir: &Path) {
    let store = open(dir);
    store.commit(one(b"k", b"v")).await.unwrap();
    store.close().await.unwrap();
}

/// Opens, writes and closes; the text of what refused.
async fn serve(dir: &Path) -> Result<(), String> {
    let store = Store::open(&settings(dir)).map_err(|error| error.to_string())?;
    store.commit(one(b"k", b"v2")).await.map_err(|error| error.to_string())?;
    store.close().await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn linked_files_of_other_programs_stay_unchanged() {
    let links = [Link::Symbolic, Link::ToNothing, Link::Hard];
    for (name, link, with_store) in FILES
        .into_iter()
        .flat_map(|name| links.into_iter().flat_map(move |link| [(name, link, true), (name, link, false)]))
    {
        let linked = Linked::file(name, link, with_store).await;
        let (before, what) = (linked.seen(), format!("{name}, {link:?}, with a store: {with_store}"));
        let served = serve(linked.dir.path()).await;
        assert_eq!(linked.seen(), before, "{what}: {served:?}");
        let must_refuse = with_store
            && match name {
                "plimsoll.lock" | "plimsoll.last" => true,
                _ => name.starts_with("sled/"),
            };
        let data = settings(linked.dir.path()).dir;
        match served {
            Ok(()) => assert!(!must_refuse, "{what}"),
            Err(text) if must_refuse => {
                assert!(text.contains(data.join(name).to_str().unwrap()), "{what}: {text}");
                assert!(text.contains("link"), "{what}: {text}");
            }
            Err(text) => assert!(text.contains(data.to_str().unwrap()), "{what}: {text}"),
        }
        // what only reads leaves it alone, too
        let copied = StoreCopy::of(&settings(linked.dir.path()), None).and_then(|copy| copy.open().map(drop));
        let offline = OfflineStore::open(&settings(linked.dir.path())).map(drop);
        assert_eq!(linked.seen(), before, "{what}: {copied:?}, {offline:?}");
    }
}

#[tokio::test]
async fn linked_directories_of_other_programs_stay_unchanged() {
    for (name, with_store) in DIRECTORIES.into_iter().flat_map(|name| [(name, true), (name, false)]) {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (settings(dir.path()).dir.join(name), dir.path().join("other"));
        if with_store {
            closed_store(dir.path()).await;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _absent = fs::remove_dir_all(&path);
        fs::create_dir(&other).unwrap();
        for file in ["db", "conf", "snap.0000000000000000", "passwd"] {
            fs::write(other.join(file), PRECIOUS).unwrap();
        }
        symlink(&other, &path).unwrap();
        let served = serve(dir.path()).await;
        let mut left: Vec<String> = fs::read_dir(&other)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|file| fs::read(other.join(file)).unwrap() == PRECIOUS)
            .collect();
        left.sort();
        let expected = ["conf", "db", "passwd", "snap.0000000000000000"];
        assert_eq!(left, expected, "{name}, {with_store}: {served:?}");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 4, "{name}, {with_store}: {served:?}");
    }
}

#[tokio::test]
async fn the_data_directory_may_be_a_symlink() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("elsewhere")).unwrap();
    symlink(dir.path().join("elsewhere"), settings(dir.path()).dir).unwrap();
    closed_store(dir.path()).await;
    assert!(dir.path().join("elsewhere/plimsoll.json").is_file());
    serve(dir.path()).await.unwrap();
}
