//! The data directory: in use, of another user, newer, on a disk that refuses to write. Each is named with the way
//! out, and nothing is changed.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use nix::unistd::Uid;

use plimsoll_proto::v1 as pb;
use plimsoll_support::small_disk::SmallDisk;
use plimsoll_tests::{Programs, Sender, Server, batch, eventually, hello};
use tonic::Code;

fn refused(dir: &Path) -> String {
    Server::start(Programs::for_tests(), dir).expect_err("it must not start").to_string()
}

#[test]
fn a_directory_in_use_is_refused() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    let error = refused(dir.path());
    assert!(error.contains(&server.pid().to_string()), "it names the process: {error}");
    assert_eq!(server.get("/readyz").unwrap().0, 200);
}

/// A user that owns nothing.
const NO_OWNER: u32 = 65_534;

#[test]
fn an_inaccessible_directory_error_names_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = Command::new(&Programs::for_tests().server);
    command.env_clear().arg("--data-dir").arg(dir.path().join("data"));
    command.args(["--grpc-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
    if Uid::effective().is_root() {
        command.uid(NO_OWNER);
    }
    match command.output() {
        Ok(output) => {
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{error}");
            assert!(error.contains(&dir.path().display().to_string()), "{error}");
            assert!(error.contains("Permission denied") && error.contains("belongs to the user"), "{error}");
        }
        Err(reason) => eprintln!("skipped: the program cannot be run by another user: {reason}"),
    }
}

/// A disk of 48 MiB, and where it is mounted.
fn small_disk() -> Option<(tempfile::TempDir, SmallDisk)> {
    let dir = tempfile::tempdir().unwrap();
    SmallDisk::mount(dir.path(), "48m").map(|disk| (dir, disk))
}

#[test]
fn a_read_only_disk_is_named_with_checks() {
    let Some((dir, disk)) = small_disk() else { return };
    let (data, fresh) = (dir.path().join("data"), dir.path().join("fresh"));
    assert!(Server::start(Programs::for_tests(), &data).unwrap().stop().unwrap().success());
    disk.read_only();
    for dir in [data, fresh] {
        let error = refused(&dir);
        assert!(error.contains(&dir.display().to_string()), "{error}");
        assert!(error.contains("Read-only file system") && error.contains("check that the disk"), "{error}");
    }
}

#[test]
fn a_full_disk_fails_the_start_until_freed() {
    let Some((dir, _disk)) = small_disk() else { return };
    let (data, ballast) = (dir.path().join("data"), dir.path().join("ballast"));
    assert!(Server::start(Programs::for_tests(), &data).unwrap().stop().unwrap().success());
    fill(&ballast, 0);
    let error = refused(&data);
    assert!(error.contains("No space left on device") && error.contains("room"), "{error}");
    let error = refused(&dir.path().join("fresh"));
    assert!(error.contains("No space left on device") && error.contains("room"), "{error}");
    fs::remove_file(&ballast).unwrap();
    for name in ["data", "fresh"] {
        let server = Server::start(Programs::for_tests(), &dir.path().join(name)).unwrap();
        assert!(server.stop().unwrap().success(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_only_writes_and_recovers() {
    let Some((dir, _disk)) = small_disk() else { return };
    let server = Server::start(Programs::for_tests(), &dir.path().join("data")).unwrap();
    let mut stream = Sender::opened(&server.url(), "a", "zlib").await.unwrap();
    let ballast = dir.path().join("ballast");
    // the server is the one that hits the wall
    fill(&ballast, 1 << 20);
    let mut acknowledged = 0;
    let refusal = loop {
        match stream.exchange(batch("a", acknowledged + 1, 500)).await {
            Ok(number) => acknowledged = number,
            Err(status) => break status,
        }
        assert!(acknowledged < 10_000_000, "the disk never got full");
    };
    assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
    let (status, reason) = server.get("/readyz").unwrap();
    assert_eq!(status, 503, "{reason}");
    let key = pb::Key { package: "zlib".into(), ..pb::Key::default() };
    server.predict(key).await.expect("Predict answers from memory");

    fs::remove_file(&ballast).unwrap();
    let again = async || {
        let mut stream = Sender::connect(&server.url()).await.ok()?;
        let welcome = stream.exchange(hello("a", "zlib")).await.ok()?;
        stream.exchange(batch("a", welcome + 1, 1)).await.ok().map(|number| (welcome, number))
    };
    let (welcome, _) = eventually("writing is taken up again", again, Option::is_some).await.unwrap();
    assert!(welcome >= acknowledged, "{acknowledged} was acknowledged, {welcome} is there");
}

/// Leaves this many bytes.
fn fill(ballast: &Path, rest: u64) {
    use std::io::Write as _;
    let mut file = fs::File::create(ballast).unwrap();
    let chunk = vec![1; 1 << 16];
    while file.write_all(&chunk).is_ok() {}
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(rest)).unwrap();
}
