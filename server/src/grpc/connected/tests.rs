//! When a connection ends by itself.

use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use std::io;

use super::{
    link::{PREFACE_BYTES, UNUSED},
    *,
};
use crate::{
    incoming::{Counts, incoming},
    tls::Expiry,
};

#[tokio::test]
async fn a_connection_ends_with_the_certificate_of_its_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Counts { open: Gauge::default(), refused: Counter::default() };
    let (mut connections, taking) = incoming(listener, 2, counts);
    let mut is_ended = async |last| {
        let mut client = TcpStream::connect(address).await.unwrap();
        let connection = connections.next().await.unwrap().unwrap();
        let mut link = Link::new(Stream::Plain(connection)).until(Some(Expiry::new(last)));
        client.write_all(b"P").await.unwrap();
        link.read(&mut [0]).await.is_err()
    };
    let clients = async {
        assert!(is_ended(1).await, "even where there is something to read");
        assert!(!is_ended(4_000_000_000).await);
    };
    tokio::select! {
        () = taking => {}
        () = clients => {}
    }
}

#[tokio::test]
async fn a_client_that_does_not_begin_to_speak_is_cut_off_and_one_whose_call_runs_may_take_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Counts { open: Gauge::default(), refused: Counter::default() };
    let (connections, taking) = incoming(listener, 8, counts);
    let (mut links, shaking) = links(connections, None, Counter::default());
    let clients = async move {
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut link = links.next().await.unwrap().io;
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut other = links.next().await.unwrap().io;
        silent.write_all(b"PRI").await.unwrap();
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        link.read_exact(&mut [0; 3]).await.unwrap();
        other.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        tokio::time::pause();
        assert_eq!(link.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let running = other.inner().requests().begin();
        other.inner().requests().let_in();
        assert!(timeout(UNUSED * 10, other.read(&mut [0])).await.is_err(), "its call runs");
        drop(running);
        assert_eq!(other.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    };
    tokio::join!(taking, shaking, clients);
}
