//! The data directory: in use, not ours, emptied, on a disk that refuses to write. Each is named and nothing is changed.

use std::{fs, path::Path, process::Command};

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::{Programs, Sender, Server, batch, eventually, hello};
use tonic::Code;

fn refused(dir: &Path) -> String {
    Server::start(Programs::for_tests(), dir).expect_err("it must not start").to_string()
}

#[test]
fn a_directory_in_use_is_refused_and_the_first_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let error = refused(dir.path());
    assert!(error.contains(&server.pid().to_string()), "it names the process: {error}");
    assert_eq!(server.get("/readyz").unwrap().0, 200);
}

#[test]
fn a_directory_that_is_not_ours_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    let error = refused(dir.path());
    assert!(error.contains(&dir.path().display().to_string()), "{error}");
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["thesis.txt"]);
}

#[test]
fn a_file_instead_of_a_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = refused(&file);
    assert!(error.contains("data_dir"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"x");
}

#[test]
fn an_emptied_store_is_an_error_and_not_a_fresh_start() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Server::start(Programs::for_tests(), dir.path()).unwrap().stop().unwrap().success());
    fs::remove_dir_all(dir.path().join("sled")).unwrap();
    let error = refused(dir.path());
    assert!(error.contains("backup"), "it names the way out: {error}");
}

/// A small file system of its own, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "plimsoll-test"])
            .arg(dir.path())
            .status();
        match mounted {
            Ok(status) if status.success() => Some(Self(dir)),
            other => {
                eprintln!("skipped: no right to mount a small disk ({other:?})");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} stays mounted", self.0.path().display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_writing_and_nothing_else_and_heals_by_itself() {
    let Some(disk) = SmallDisk::mount("48m") else { return };
    let server = Server::start(Programs::for_tests(), &disk.0.path().join("data")).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    stream.exchange(hello("a", "zlib")).await.unwrap();
    let ballast = disk.0.path().join("ballast");
    fill(&ballast);
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
    let mut predictor = PredictorClient::connect(server.url()).await.unwrap();
    let key = Some(pb::Key { package: "zlib".into(), ..pb::Key::default() });
    predictor
        .predict(pb::PredictRequest { key, ..Default::default() })
        .await
        .expect("Predict answers from memory");

    fs::remove_file(&ballast).unwrap();
    let again = async || {
        let mut stream = Sender::connect(&server.url()).await.ok()?;
        let welcome = stream.exchange(hello("a", "zlib")).await.ok()?;
        stream.exchange(batch("a", welcome + 1, 1)).await.ok().map(|number| (welcome, number))
    };
    let (welcome, _) = eventually("writing is taken up again", again, Option::is_some).await.unwrap();
    assert!(welcome >= acknowledged, "{acknowledged} was acknowledged, {welcome} is there");
}

fn fill(ballast: &Path) {
    use std::io::Write as _;
    let mut file = fs::File::create(ballast).unwrap();
    let chunk = vec![1; 1 << 16];
    while file.write_all(&chunk).is_ok() {}
    // leave a little, so that the server is the one that hits the wall
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(1 << 20)).unwrap();
}
