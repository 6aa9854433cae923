//! The commands for a whole store: verify, backup, restore, compact, export. A running server is not disturbed.

use std::{fs, path::Path};

use plimsoll_tests::{Programs, Sender, Server, batch, hello};

fn done(data: &Path, words: &[&str]) -> String {
    Server::call_on(data, words).done()
}

fn refused(data: &Path, words: &[&str]) -> String {
    let answer = Server::call_on(data, words);
    assert_eq!(answer.code, Some(1), "{words:?}: {answer:?}");
    answer.stderr
}

/// Sends an attempt of 50 samples and ends it.
async fn end_one(server: &Server, attempt: &str) {
    Sender::delivered(&server.url(), (attempt, "zlib"), 50, Some(0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_backup_restores_acknowledged_data() {
    let (dir, data) = plimsoll_support::temporary::file_name("data");
    let server = Server::start(Programs::for_tests(), &data).unwrap();
    end_one(&server, "ended").await;
    let mut stream = Sender::opened(&server.url(), "running", "zlib").await.unwrap();
    stream.exchange(batch("running", 1, 30)).await.unwrap();
    let file = dir.path().join("backup");
    let http = server.http.to_string();
    done(&data, &["--http-listen", &http, "backup", file.to_str().unwrap()]);
    assert_eq!(stream.exchange(batch("running", 31, 10)).await.unwrap(), 40, "it goes on serving");
    let again = refused(&data, &["--http-listen", &http, "backup", file.to_str().unwrap()]);
    assert!(again.contains("exists already"), "{again}");
    let before = server.shown("ended").await.unwrap();
    server.kill().unwrap();

    let restored = dir.path().join("restored");
    done(&restored, &["restore", file.to_str().unwrap()]);
    let verified = done(&restored, &["verify"]);
    assert!(verified.contains("1 attempt that ended and 1 open, 0 verdicts, 0 tickets, 80 samples"));
    let server = Server::start(Programs::for_tests(), &restored).unwrap();
    assert_eq!(server.shown("ended").await.unwrap(), before);
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    assert_eq!(stream.exchange(hello("running", "zlib")).await.unwrap(), 30);
}

#[test]
fn a_backup_of_another_server_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (data, other) = (dir.path().join("data"), dir.path().join("other"));
    let _running = Server::start(Programs::for_tests(), &data).unwrap();
    let wrong = Server::start(Programs::for_tests(), &other).unwrap();
    let (file, http) = (dir.path().join("backup"), wrong.http.to_string());
    let error = refused(&data, &["--http-listen", &http, "backup", file.to_str().unwrap()]);
    assert!(error.contains("another store") && error.contains("--http-listen"), "{error}");
    assert!(error.contains(&data.display().to_string()), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the two data directories");
}

#[test]
fn refused_import_rows_set_the_exit_status() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("rows.csv"));
    let good = "zlib,1000,1000000\n";
    for (rows, made) in [("zlib,soon,1000000\n".to_owned(), false), (format!("{good}zlib,soon,1\n"), true)] {
        fs::write(&file, format!("package,wall_ms,peak_bytes\n{rows}")).unwrap();
        let answer = Server::call_on(&data, &["import", file.to_str().unwrap()]);
        assert!(answer.code == Some(3) && answer.stderr.contains("wall_ms"), "{rows}: {answer:?}");
        assert_eq!(fs::exists(&data).unwrap(), made, "{rows}");
    }
}
