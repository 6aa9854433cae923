//! A graceful stop: running streams are asked to reconnect, nothing acknowledged is lost, the exit code is 0.

use std::process::Stdio;

use nix::{
    sys::{
        signal::{Signal, kill},
        stat::Mode,
    },
    unistd::{Pid, mkfifo},
};
use plimsoll_proto::v1::server_message::Message as Answer;
use plimsoll_tests::{Programs, Sender, Server, batch, hello};
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn stopping_servers_ask_streams_to_reconnect() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    let mut stream = Sender::opened(&server.url(), "a", "zlib").await.unwrap();
    assert_eq!(stream.exchange(batch("a", 1, 2)).await.unwrap(), 2);
    let stopping = tokio::task::spawn_blocking(move || server.stop());
    let advice = stream.next().await.unwrap();
    let Some(Answer::Advice(advice)) = advice else { panic!("{advice:?}") };
    assert!(advice.reconnect_after_ms.is_some());
    assert_eq!(stream.next().await.unwrap_err().code(), Code::Unavailable);
    assert!(stopping.await.unwrap().unwrap().success());

    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    let mut stream = Sender::connect(&server.url()).await.unwrap();
    assert_eq!(stream.exchange(hello("a", "zlib")).await.unwrap(), 2);
}

/// Whether a process has a handler for SIGTERM (signal 15), from the mask of caught signals in proc(5).
fn catches_sigterm(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (15 - 1)) != 0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_opening_its_store_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    // a marker that never answers: opening it waits for a writer
    mkfifo(&dir.path().join("plimsoll.json"), Mode::S_IRWXU).unwrap();
    let mut command = tokio::process::Command::new(&Programs::for_tests().server);
    command.env_clear().arg("--data-dir").arg(dir.path()).stderr(Stdio::null()).kill_on_drop(true);
    let mut server =
        command.args(["--grpc-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]).spawn().unwrap();
    let pid = server.id().unwrap();
    plimsoll_tests::eventually("signals are caught", || async { catches_sigterm(pid) }, |caught| *caught)
        .await;
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGTERM).unwrap();
    let status = server.wait().await.unwrap();
    assert!(status.success(), "{status}");
}
