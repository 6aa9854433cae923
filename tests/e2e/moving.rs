//! A store moved from files into a real PostgreSQL, and back: `backup`, `restore`, `export`, `verify` and `doctor` with `store_url`.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use plimsoll_proto::v1 as pb;
use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{Programs, Sender, Server, assert_has, batch, eventually, hello};

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
async fn a_store_moves_into_a_database_and_back_and_loses_nothing() {
    let Some(database) = PostgresServer::shared() else { return };
    let url = database.url(&database.new_database());
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
    assert!(
        verified.contains("2 attempts that ended and 1 open") && verified.contains("130 samples"),
        "{verified}"
    );
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
async fn history_is_imported_into_a_database_that_no_server_has_open() {
    let Some(database) = PostgresServer::shared() else { return };
    let url = database.url(&database.new_database());
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

/// A backup of a small store in files.
async fn small_backup(files: &Files) -> String {
    let data = files.name("small");
    let server = Server::start(Programs::for_tests(), Path::new(&data)).unwrap();
    Sender::delivered(&server.url(), ("ended", "zlib"), 50, Some(0)).await.unwrap();
    assert!(server.stop().unwrap().success());
    let backup = files.name("small.backup");
    done(&["--data-dir", &data, "backup", &backup]);
    backup
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_killed_or_cut_short_leaves_nothing_and_the_next_one_works() {
    let Some(database) = PostgresServer::shared() else { return };
    let name = database.new_database();
    let url = database.url(&name);
    let files = Files(tempfile::tempdir().unwrap());
    let backup = small_backup(&files).await;
    let bytes = fs::read(&backup).unwrap();
    let half = bytes.get(..bytes.len() - 5).unwrap();

    let mut restore = Server::program();
    let mut restore =
        restore.args(["--store-url", &url, "restore", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = restore.stdin.take().unwrap();
    input.write_all(half).unwrap();
    let copying = async || {
        let of_this = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY%'";
        database.sql(&name, &format!("SELECT count(*) {of_this}"))
    };
    eventually("the restore writes", copying, |count| count == "1").await;
    restore.kill().unwrap();
    restore.wait().unwrap();
    eventually("its session ends", copying, |count| count == "0").await;
    assert_eq!(database.sql(&name, "SELECT to_regnamespace('plimsoll') IS NULL"), "t", "after a kill");

    let cut = files.name("cut.backup");
    fs::write(&cut, half).unwrap();
    let (status, text) = shown(&["--store-url", &url, "restore", &cut]);
    assert!(status == Some(1) && text.contains("it was cut short"), "{text}");
    let (status, text) = shown(&["--store-url", &url, "verify"]);
    assert!(status == Some(1) && text.contains("has no store"), "{text}");
    done(&["--store-url", &url, "restore", &backup]);
    assert!(done(&["--store-url", &url, "verify"]).contains("1 attempt that ended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_names_the_damaged_rows_of_a_database_and_options_of_files_are_refused() {
    let Some(database) = PostgresServer::shared() else { return };
    let name = database.new_database();
    let url = database.url(&name);
    let files = Files(tempfile::tempdir().unwrap());
    done(&["--store-url", &url, "restore", &small_backup(&files).await]);
    database
        .sql(&name, "UPDATE plimsoll.entry SET v = substr(v, 1, length(v) / 2) WHERE k >= 's' AND k < 't'");
    database.sql(&name, "INSERT INTO plimsoll.entry VALUES ('xjob\\000\\000', 1, 'v')");
    let (status, text) = shown(&["--store-url", &url, "verify"]);
    assert_eq!(status, Some(3), "{text}");
    assert_has(&text, ["sended", "xjob", "is of a kind that is not known", "2 records damaged"]);
    for (words, option) in [
        (vec!["verify", "--in-place"], "--in-place"),
        (vec!["backup", "-", "--scratch", "x"], "--scratch"),
        (vec!["export", "-", "--scratch", "x"], "--scratch"),
    ] {
        let (status, text) = shown(&[&["--store-url", &url], &words[..]].concat());
        assert!(status == Some(1) && text.contains(&format!("{option} is for a store in files")), "{text}");
    }
}

/// A PostgreSQL that asks one role, `strict`, for a password.
fn strict_server() -> Option<PostgresServer> {
    PostgresServer::start(|folder| {
        let rules = "host all strict 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
        fs::write(folder.join("hba"), rules).unwrap();
        fs::set_permissions(folder.join("hba"), fs::Permissions::from_mode(0o600)).unwrap();
        vec![format!("hba_file={}", folder.join("hba").display())]
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_shows_a_password_and_doctor_says_what_the_database_lacks() {
    let Some(database) = strict_server() else { return };
    database.sql("postgres", "CREATE ROLE strict LOGIN PASSWORD 'right-s3cret'");
    let files = Files(tempfile::tempdir().unwrap());
    let (right, wrong) = (files.name("right"), files.name("wrong"));
    fs::write(&right, "right-s3cret\n").unwrap();
    fs::write(&wrong, "wrong-s3cret\n").unwrap();
    let url = database.url("postgres").replace("plimsoll@", "strict@");
    let data = files.name("data");
    let free = [
        "--grpc-listen",
        "127.0.0.1:0",
        "--http-listen",
        "127.0.0.1:0",
        "--data-dir",
        &data,
        "--store-url",
        &url,
    ];
    let with = |password: &str, words: &[&str]| {
        shown(&[&free[..], &["--store-password-file", password], words].concat())
    };
    let archive = small_backup(&files).await;
    let commands: [&[&str]; 5] =
        [&["backup", "-"], &["export", "-"], &["verify"], &["restore", &archive], &["doctor"]];
    for words in commands {
        for password in [&wrong, &right] {
            let (status, text) = with(password, words);
            assert!(status == Some(1) && !text.contains("s3cret"), "{words:?}: {text}");
            assert!(password == &right || text.contains("store_password_file"), "{words:?}: {text}");
        }
    }
    let doctor = || with(&right, &["doctor", "--output", "json"]).1;
    let lacks = doctor();
    assert!(lacks.contains("GRANT CREATE ON DATABASE postgres TO .."), "{lacks}");
    database.sql("postgres", "GRANT CREATE ON DATABASE postgres TO strict");
    let empty = doctor();
    assert!(
        empty.contains("has no store yet") && empty.contains("the user may do what a server needs"),
        "{empty}"
    );
    assert!(empty.contains("commits wait for no standby") && empty.contains("PostgreSQL 1"), "{empty}");
    assert!(empty.contains("those of other users are not shown"), "{empty}");
    database.sql("postgres", "CREATE SCHEMA plimsoll; CREATE TABLE plimsoll.identity (schema_step int); GRANT USAGE ON SCHEMA plimsoll TO strict");
    let tables = doctor();
    assert!(tables.contains("GRANT INSERT ON TABLE plimsoll.identity TO .."), "{tables}");
}
