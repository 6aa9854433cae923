//! Settings: all mistakes at once, each with its place; what is in force can be printed and read back.

use std::fs;

use plimsoll_tests::{Answer, Server, assert_has};

#[test]
fn missing_files_and_taken_ports_are_named() {
    let answer = Server::call(&["--config", "/nonexistent/plimsoll.toml"]);
    assert_eq!(answer.code, Some(64));
    assert_has(&answer.stderr, ["/nonexistent/plimsoll.toml: cannot be read"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let answer = Server::call_on(dir.path(), &["--grpc-listen", &address]);
    assert_eq!(answer.code, Some(1));
    assert_has(&answer.stderr, [format!("grpc_listen: cannot listen on {address}")]);
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    let (_dir, file) = plimsoll_support::temporary::file_with(
        "history.csv",
        "package,wall_ms,peak_bytes\nzlib,1000,104857600\n",
    );
    for arguments in [&["--print-config"][..], &["replay", file.to_str().unwrap()]] {
        // a pipe without a reader
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let answer = Answer::of(Server::program().args(arguments).stdout(writer));
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_log_file_has_no_colours() {
    let dir = tempfile::tempdir().unwrap();
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = Server::program();
    command.args(["--grpc-listen", &address, "--data-dir"]).arg(dir.path()).stderr(log);
    assert!(!command.status().unwrap().success());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("opening the store") && !log.contains('\x1b'), "{log:?}");
}
