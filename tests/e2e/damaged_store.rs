//! A damaged data directory, with the programs as they are: server, `verify`, `backup` and `repair` say the same of it, and a server starts
//! with what `repair` made. Every file and every damage is tried inside of the server's own tests; these are some of them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use plimsoll_store::{Batch, Store, StoreSettings};
use plimsoll_tests::{Answer, Programs, Sender, Server, assert_has, assert_lacks};

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

/// A store with some ended attempts, left by a server that was stopped.
async fn filled(data: &Path) {
    let server = Server::start(Programs::for_tests(), data).unwrap();
    for n in 0..30 {
        Sender::delivered(&server.url(), (&format!("job-{n:02}"), "zlib"), 50, Some(0)).await.unwrap();
    }
    assert!(server.stop().unwrap().success());
    // the engine writes its snapshot at the next start
    assert!(Server::start(Programs::for_tests(), data).unwrap().stop().unwrap().success());
}

fn snapshot(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("sled")).unwrap().map(|file| file.unwrap().path());
    files.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("snap.")).unwrap()
}

/// Flips two bits of the byte at so many thousandths of a file.
fn flip(path: &Path, thousandths: usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() * thousandths / 1000;
    bytes[at] ^= 6;
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path, thousandths: usize) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() * thousandths / 1000]).unwrap();
}

/// How a file is damaged, and whether all is there after a repair for certain. What a damaged log costs depends on what stands there.
type Cell = (&'static str, fn(&Path), bool);

const CELLS: [Cell; 9] = [
    ("conf, a byte", |data| flip(&data.join("sled/conf"), 500), true),
    ("snapshot, a byte", |data| flip(&snapshot(data), 500), true),
    ("snapshot, gone", |data| fs::remove_file(snapshot(data)).unwrap(), true),
    ("marker, gone", |data| fs::remove_file(data.join("plimsoll.json")).unwrap(), true),
    ("marker, empty", |data| fs::write(data.join("plimsoll.json"), "").unwrap(), true),
    ("witness, gone", |data| fs::remove_file(data.join("plimsoll.last")).unwrap(), true),
    ("log, a byte", |data| flip(&data.join("sled/db"), 100), false),
    ("log, cut", |data| cut(&data.join("sled/db"), 80), false),
    ("log, 40 bytes", |data| (0..40).for_each(|n| flip(&data.join("sled/db"), n * 5)), false),
];

#[tokio::test(flavor = "multi_thread")]
async fn all_commands_agree_on_a_damaged_store() {
    let (dir, whole) = plimsoll_support::temporary::file_name("whole");
    filled(&whole).await;
    for (name, damage, all) in CELLS {
        let (data, new) = (dir.path().join("data"), dir.path().join("data.repaired"));
        copy(&whole, &data);
        damage(&data);
        let file = dir.path().join("backup");
        let verified = Server::call_on(&data, &["verify"]);
        let backed_up = Server::call_on(&data, &["backup", file.to_str().unwrap()]);
        let repaired = Server::call_on(&data, &["repair", data.to_str().unwrap()]);
        let texts = [&verified, &backed_up, &repaired].map(|answer| &answer.stderr);
        for text in texts {
            assert_lacks(&format!("{name}: {text}"), ["panicked", "backtrace"]);
        }
        let status = |answer: &Answer| answer.code.unwrap();
        match Server::start(Programs::for_tests(), &data) {
            Ok(server) => {
                assert_ne!(status(&verified), 1, "{name}: {}", texts[0]);
                assert!(server.stop().unwrap().success());
            }
            Err(error) => {
                let error = error.to_string();
                assert_eq!((status(&verified), status(&backed_up)), (1, 1), "{name}: {error}");
                assert!(error.contains("plimsoll-server repair"), "{name}: {error}");
                let names_repair = |text: &&String| text.contains("plimsoll-server repair");
                assert!(texts[..2].iter().all(names_repair), "{name}: {texts:?}");
            }
        }
        let printed = &repaired.stdout;
        match status(&repaired) {
            0 => assert!(
                printed.contains("30 attempts that ended") && printed.contains("nothing is lost"),
                "{name}: {printed}"
            ),
            3 => assert!(!all && texts[2].contains("lost"), "{name}: {printed}{}", texts[2]),
            other => panic!("{name}: {other}: {printed}{}", texts[2]),
        }
        assert_eq!(status(&Server::call_on(&new, &["verify"])), 0, "{name}");
        assert!(Server::start(Programs::for_tests(), &new).unwrap().stop().unwrap().success(), "{name}");
        for made in [&data, &new] {
            fs::remove_dir_all(made).unwrap();
        }
        drop(fs::remove_file(&file));
    }
}

#[test]
fn repair_never_writes_into_existing_stores() {
    let dir = tempfile::tempdir().unwrap();
    let (data, other) = (dir.path().join("data"), dir.path().join("other"));
    for data in [&data, &other] {
        assert!(Server::start(Programs::for_tests(), data).unwrap().stop().unwrap().success());
    }
    let refused = |into: &Path| {
        let answer =
            Server::call_on(&data, &["repair", data.to_str().unwrap(), "--into", into.to_str().unwrap()]);
        assert_eq!(answer.code, Some(1));
        answer.stderr
    };
    assert!(refused(&data.join("new")).contains("changes nothing in the damaged directory"));
    assert!(refused(&other).contains("holds a store already"));
    let server = Server::start(Programs::for_tests(), &data).unwrap();
    let error = refused(&dir.path().join("new"));
    assert!(error.contains(&server.pid().to_string()), "it is in use: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_exits_3_naming_the_damaged_record() {
    let (_dir, data) = plimsoll_support::temporary::file_name("data");
    let store = Store::open(&StoreSettings { dir: data.clone(), cache_bytes: 4 << 20 }).unwrap();
    let mut batch = Batch::default();
    // no kind of entry has this letter
    batch.put(b"xjob\0\0".to_vec(), b"v".to_vec());
    store.commit(batch).await.unwrap();
    store.close().await.unwrap();
    let verified = Server::call_on(&data, &["verify"]);
    assert_eq!(verified.code, Some(3), "{verified:?}");
    assert_has(&verified.stderr, ["xjob", "is of a kind that is not known", "1 record damaged"]);
    assert_lacks(&verified.stdout, ["no damage found"]);
    assert!(Server::start(Programs::for_tests(), &data).unwrap().stop().unwrap().success());
}
