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
