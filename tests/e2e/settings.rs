//! Settings: all mistakes at once, each with its place; what is in force can be printed and read back.

use std::{fs, process::Command};

use plimsoll_tests::Programs;

fn server(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(&Programs::for_tests().server);
    let output = command.env_clear().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plimsoll.toml");
    fs::write(&file, "grpc_listen = \"nowhere\"\nmystery = 1\n").unwrap();
    let (code, stdout, stderr) = server(&["--config", file.to_str().unwrap(), "--drain-timeout", "soon"]);
    assert_eq!((code, stdout.as_str()), (Some(64), ""));
    for place in ["plimsoll.toml:1: ", "plimsoll.toml:2: ", "--drain-timeout: "] {
        assert!(stderr.contains(place), "{place} is missing in {stderr}");
    }
}

#[test]
fn a_missing_file_and_a_taken_port_are_named() {
    let (code, _, stderr) = server(&["--config", "/nonexistent/plimsoll.toml"]);
    assert_eq!(code, Some(64));
    assert!(stderr.contains("/nonexistent/plimsoll.toml: cannot be read"), "{stderr}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let (code, _, stderr) = server(&["--data-dir", dir.path().to_str().unwrap(), "--grpc-listen", &address]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&format!("grpc_listen: cannot listen on {address}")), "{stderr}");
}

#[test]
fn settings_may_stand_behind_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("history.csv"));
    fs::write(&file, "package,wall_ms,peak_bytes\nzlib,1000,104857600\n").unwrap();
    let [data, file] = [&data, &file].map(|path| path.to_str().unwrap());
    let (code, stdout, stderr) = server(&["import", file, "--data-dir", data]);
    assert_eq!((code, stdout.as_str()), (Some(0), "1 attempt added, 0 already there\n"), "{stderr}");
    let (code, stdout, stderr) = server(&["--data-dir", data, "import", file]);
    assert_eq!((code, stdout.as_str()), (Some(0), "0 attempts added, 1 already there\n"), "{stderr}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history.csv");
    fs::write(&file, "package,wall_ms,peak_bytes\nzlib,1000,104857600\n").unwrap();
    for arguments in [&["--print-config"][..], &["replay", file.to_str().unwrap()]] {
        // a pipe without a reader
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(&Programs::for_tests().server);
        let output = command.env_clear().args(arguments).stdout(writer).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(0) && stderr.is_empty(),
            "{arguments:?}: {:?} {stderr}",
            output.status
        );
    }
}

#[test]
fn a_log_that_is_a_file_has_no_colours() {
    let dir = tempfile::tempdir().unwrap();
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = Command::new(&Programs::for_tests().server);
    command.env_clear().args(["--grpc-listen", &address, "--data-dir"]).arg(dir.path()).stderr(log);
    assert!(!command.status().unwrap().success());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("opening the store") && !log.contains('\x1b'), "{log:?}");
}
