//! What the server holds for calls that wait, beside idle connections.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
};

use anyhow::ensure;

use crate::{Server, figures::Usage};

/// Of one connection, bytes of resident memory.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionBytes {
    /// With a `waitTicket` that has its first bytes.
    pub waiting: u64,
    /// After a request that was let in and answered.
    pub idle: u64,
    /// Threads that the server has more with all calls that wait.
    pub threads: usize,
}

/// Opens so many tickets, of which the first gets the one place of the pool that has the tag `x`, waits for each of the others on a connection of its own, and then
/// opens as many idle connections. All of them are open at once.
pub fn measure(server: &Server, count: u32) -> anyhow::Result<ConnectionBytes> {
    let resident = || anyhow::Ok(Usage::of(server.pid())?.resident_kib * 1024);
    let threads = || anyhow::Ok(fs::read_dir(format!("/proc/{}/task", server.pid()))?.count());
    let each = |bytes: u64| bytes / u64::from(count);
    let mut taking = TcpStream::connect(server.http)?;
    let tag = "<array><data><value><string>x</string></value></data></array>";
    for _ in 0..=count {
        call(&mut taking, "takeTicket", tag)?;
        until(&mut taking, "</methodResponse>")?;
    }
    let (before, threads_before) = (resident()?, threads()?);
    let mut open = Vec::new();
    for number in 2..count + 2 {
        let mut waiting = TcpStream::connect(server.http)?;
        call(&mut waiting, "waitTicket", &format!("<int>{number}</int>"))?;
        until(&mut waiting, "<?xml")?;
        open.push(waiting);
    }
    let (with_waits, threads) = (resident()?, threads()?.saturating_sub(threads_before));
    for _ in 0..count {
        let mut idle = TcpStream::connect(server.http)?;
        idle.write_all(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer copr\r\n\r\n")?;
        until(&mut idle, "is not served")?;
        open.push(idle);
    }
    let idle = each(resident()?.saturating_sub(with_waits));
    Ok(ConnectionBytes { waiting: each(with_waits.saturating_sub(before)), idle, threads })
}

/// Sends what Python's client sends, with the token `copr`.
fn call(stream: &mut TcpStream, method: &str, argument: &str) -> anyhow::Result<()> {
    let body = format!(
        "<?xml version='1.0'?>\n<methodCall>\n<methodName>{method}</methodName>\n<params>\n<param>\n<value>{argument}</value></param>\n\
         </params>\n</methodCall>\n"
    );
    let head = format!(
        "POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nContent-Type: text/xml\r\nUser-Agent: Python-xmlrpc/3.11\r\n\
         Authorization: Bearer copr\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    Ok(stream.write_all((head + &body).as_bytes())?)
}

/// Reads until this text has come, at the end or not.
fn until(stream: &mut TcpStream, text: &str) -> anyhow::Result<()> {
    let (mut received, mut buffer) = (String::new(), [0; 2048]);
    while !received.contains(text) {
        let came = stream.read(&mut buffer)?;
        received += &String::from_utf8_lossy(buffer.get(..came).unwrap_or_default());
        ensure!(came > 0, "the server closed the connection after {received}");
    }
    Ok(())
}
