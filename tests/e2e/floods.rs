//! Hostile connections: whatever they do, the server lives, holds a bounded memory, and serves others.

use std::{fs, io::Read as _, net::TcpStream};

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::{Server, eventually, figures::Usage, flood::Attack};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tonic::transport::{Channel, Endpoint};

/// What one attack may leave behind, KiB: buffers of its connections, and what the allocator keeps.
const ROOM_KIB: u64 = 96 * 1024;

async fn is_served(channel: &Channel) {
    let key = Some(pb::Key { package: "zlib".to_owned(), ..pb::Key::default() });
    let mut client = PredictorClient::new(channel.clone());
    client.predict(pb::PredictRequest { key, ..Default::default() }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn frame_floods_neither_crash_nor_starve_the_server() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let good = Endpoint::new(server.url()).unwrap().connect().await.unwrap();
    for attack in Attack::ALL {
        let before = Usage::of(server.pid()).unwrap().resident_kib;
        let address = server.grpc;
        let attackers: Vec<_> =
            (0..4).map(|_| tokio::task::spawn_blocking(move || attack.play(address, 20_000))).collect();
        is_served(&good).await;
        for attacker in attackers {
            attacker.await.unwrap().unwrap();
        }
        is_served(&good).await;
        let after = Usage::of(server.pid()).unwrap().resident_kib;
        assert!(after < before + ROOM_KIB, "{}: from {before} KiB to {after} KiB", attack.as_str());
    }
    is_served(&Endpoint::new(server.url()).unwrap().connect().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abusive_connections_are_cut_on_either_port() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let both = [server.grpc, server.http];
    // floods of PING, SETTINGS and empty DATA are for a proxy in front, and of the others each call is answered
    for (attack, turns) in
        [(Attack::MadeYouReset, 2000), (Attack::Continuation, 20_000), (Attack::HugeHeader, 2000)]
    {
        for address in both {
            let cut = tokio::task::spawn_blocking(move || attack.is_cut(address, turns)).await;
            assert!(cut.unwrap().unwrap(), "{} on {address}", attack.as_str());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_cut_while_others_are_served() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let silent: Vec<_> = (0..500).map(|_| TcpStream::connect(server.grpc).unwrap()).collect();
    is_served(&Endpoint::new(server.url()).unwrap().connect().await.unwrap()).await;
    let cut = tokio::task::spawn_blocking(move || {
        silent.into_iter().all(|mut stream| stream.read_to_end(&mut Vec::new()).is_ok())
    });
    // each of them comes to its end
    assert!(cut.await.unwrap());
}

/// The numbers of the files that a process has open.
fn open_files(pid: u32) -> Vec<usize> {
    let listed = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let number = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    listed.filter_map(number).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_answered_without_free_file_descriptors() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let mut own = open_files(server.pid());
    own.sort_unstable();
    // a file that it has from the program of the tests may have a number far above its own
    let gap = own.windows(2).find(|pair| pair[1] > pair[0] + 16);
    let last = gap.map_or(own[own.len() - 1], |pair| pair[0]);
    // some numbers are for connections that end by themselves: what took the last one by chance does not keep it for ever
    let bound = last + 5;
    let limit = Rlimit { current: Some(bound as u64), maximum: Some(bound as u64) };
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    prlimit(pid, Resource::Nofile, limit).unwrap();
    let mut idle = Vec::new();
    // a file that was opened while the bound was set may have a number above it
    let free = async || {
        let taken = open_files(server.pid()).into_iter().filter(|file| *file < bound).count();
        // more than fit wait at the listener, which has no room for thousands
        if taken < bound && idle.len() < 128 {
            idle.push(TcpStream::connect(server.grpc).unwrap());
        }
        bound - taken
    };
    eventually("no number is left for another file", free, |free: &usize| *free == 0).await;
    for _ in 0..3 {
        assert_eq!(server.get("/livez").unwrap(), (200, "ok\n".to_owned()));
    }
    // one that says nothing holds the place for a second, and no longer
    let _silent = TcpStream::connect(server.http).unwrap();
    assert_eq!(server.get("/livez").unwrap().0, 200);
    drop(idle);
    is_served(&Endpoint::new(server.url()).unwrap().connect().await.unwrap()).await;
}
