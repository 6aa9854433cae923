//! A store moved from files into a real PostgreSQL, and back: `backup`, `restore`, `export`, `verify` and `import` with `store_url`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use plimsoll_proto::v1 as pb;
use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{Programs, Sender, Server, batch, hello};

fn done(words: &[&str]) -> String {
    Server::call(words).done()
}

/// The status and all that was printed.
fn shown(words: &[&str]) -> (Option<i32>, String) {
    let answer = Server::call(words);
    (answer.code, answer.printed())
}

/// A folder in which commands write.
struct Files(tempfile::TempDir);

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Writes a backup and all exports of a store: `NAME.backup`, `NAME.jsonl`, `NAME.series`.
    fn save(&self, store: [&str; 2], name: &str) {
        done(&[&store[..], &["backup", &self.name(&format!("{name}.backup"))]].concat());
        let (history, series) = (self.name(&format!("{name}.jsonl")), self.name(&format!("{name}.series")));
        done(&[&store[..], &["export", &history, "--series", &series]].concat());
    }

    /// Whether two such stores were the same.
    fn assert_same(&self, one: &str, other: &str) {
        for kind in ["backup", "jsonl", "series"] {
            let read = |name: &str| self.read(&format!("{name}.{kind}"));
            assert!(!read(one).is_empty() && read(one) == read(other), "the {kind} of {one} and {other}");
        }
    }
}

/// What a server predicts for the package.
async fn predicted(server: &Server) -> pb::Prediction {
    server.predict(pb::Key { package: "zlib".into(), ..pb::Key::default() }).await.unwrap()
}

/// What a server says of an attempt and of its package.
async fn answers(server: &Server) -> (pb::GetAttemptResponse, pb::Prediction) {
    (server.shown("ended").await.unwrap(), predicted(server).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_to_a_database_and_back() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let files = Files(tempfile::tempdir().unwrap());
    let (data, back) = (files.name("data"), files.name("back"));
    let (in_files, in_database) = (["--data-dir", data.as_str()], ["--store-url", url.as_str()]);
    let server = Server::start(Programs::for_tests(), Path::new(&data)).unwrap();
    for attempt in ["ended", "other"] {
        Sender::delivered(&server.url(), (attempt, "zlib"), 50, Some(0)).await.unwrap();
    }
    let mut stream = Sender::opened(&server.url(), "running", "zlib").await.unwrap();
    stream.exchange(batch("running", 1, 30)).await.unwrap();
    drop(stream);
    let before = answers(&server).await;
    assert!(server.stop().unwrap().success());
    files.save(in_files, "first");

    let first = files.name("first.backup");
    let restored = done(&["--store-url", &url, "restore", &first]);
    assert!(restored.contains("restored into postgres://"), "{restored}");
    files.save(in_database, "moved");
    files.assert_same("first", "moved");
    let verified = done(&["--store-url", &url, "verify"]);
    assert!(verified.contains("2 attempts that ended and 1 open"), "{verified}");
    assert!(verified.contains("130 samples"), "{verified}");
    assert!(verified.contains("no damage found"), "{verified}");

    let options = ["--store-url", &url];
    let server = Server::start_with(Programs::for_tests(), &files.path("hooks"), &options).unwrap();
    assert_eq!(answers(&server).await, before);
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    assert_eq!(stream.exchange(hello("running", "zlib")).await.unwrap(), 30, "the open attempt goes on");
    Sender::delivered(&server.url(), ("last", "zlib"), 50, Some(0)).await.unwrap();
    files.save(in_database, "served");
    let (status, taken) = shown(&["--store-url", &url, "restore", &first]);
    assert!(status == Some(1) && taken.contains("has a store already"), "{taken}");
    assert_eq!(server.get("/readyz").unwrap().0, 200, "its server goes on");
    drop(stream);
    assert!(server.stop().unwrap().success());

    files.save(in_database, "last");
    done(&["--data-dir", &back, "restore", &files.name("last.backup")]);
    files.save(["--data-dir", &back], "back");
    files.assert_same("last", "back");
    let server = Server::start(Programs::for_tests(), Path::new(&back)).unwrap();
    assert_eq!(answers(&server).await.0, before.0);
    assert_eq!(server.shown("last").await.unwrap().samples_total, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_imported_into_an_unopened_database() {
    let Some((_server, _database, url)) = PostgresServer::with_new_database() else { return };
    let files = Files(tempfile::tempdir().unwrap());
    let history = files.name("history.csv");
    fs::write(&history, "package,wall_ms,peak_bytes\nzlib,60000,1073741824\n").unwrap();
    let import = ["--store-url", &url, "import", &history];
    for expected in ["1 attempt added, 0 already there", "0 attempts added, 1 already there"] {
        assert!(done(&import).contains(expected), "{expected}");
    }
    let options = ["--store-url", &url];
    let server = Server::start_with(Programs::for_tests(), &files.path("hooks"), &options).unwrap();
    let basis = predicted(&server).await.memory_request_bytes.unwrap().basis.unwrap();
    assert_eq!(basis.attempts, 1, "{basis:?}");
    let (status, refused) = shown(&import);
    assert!(status == Some(1) && refused.contains("stop all servers of this store"), "{refused}");
    assert_eq!(server.get("/readyz").unwrap().0, 200, "its server goes on");
}
