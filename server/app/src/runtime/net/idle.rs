//! A connection that is lent to the HTTP library: it is cut off when nothing moves on it, and comes back when the library has
//! done with it, so that a client that is refused can read why.

use std::{
    future::Future as _,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    sync::oneshot,
    time::{Instant, Sleep, sleep_until, timeout},
};

use crate::runtime::net::accept::Connection;

/// How long a client that was refused may take to read why, and what it may still send meanwhile.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 * 1024 * 1024;

/// A connection while it is lent.
#[derive(Debug)]
pub(crate) struct IdleTimeoutStream {
    connection: Option<Connection>,
    back: Option<oneshot::Sender<Returned>>,
    idle: Duration,
    /// When a byte moved last.
    moved: Instant,
    /// A byte has moved.
    begun: bool,
    look: Pin<Box<Sleep>>,
    /// The last bytes that moved came from the client: it had begun to ask.
    asking: bool,
}

/// A connection that is not lent any more.
#[derive(Debug)]
pub(crate) struct Returned {
    connection: Connection,
    /// The client had begun to ask, and got no answer.
    pub(crate) asking: bool,
}

impl IdleTimeoutStream {
    /// Lends a connection out, and says where it comes back. It is cut off when nothing moves for `idle`, at first for `first`.
    pub(crate) fn new(
        connection: Connection,
        first: Duration,
        idle: Duration,
    ) -> (Self, oneshot::Receiver<Returned>) {
        let (back, returned) = oneshot::channel();
        let moved = Instant::now();
        let look = Box::pin(sleep_until(moved + first.min(idle)));
        let lent = Self {
            connection: Some(connection),
            back: Some(back),
            idle,
            moved,
            begun: false,
            look,
            asking: false,
        };
        (lent, returned)
    }

    /// The first bytes of a client, which stay where they are: how many came, 0 if none did.
    pub(crate) async fn peek(&self, buffer: &mut [u8]) -> usize {
        match &self.connection {
            Some(connection) => connection.stream.peek(buffer).await.unwrap_or(0),
            None => 0,
        }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut tokio::net::TcpStream>> {
        let connection = self.connection.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(&mut connection.stream))
    }

    fn move_on(&mut self, asking: bool) {
        self.moved = Instant::now();
        self.begun = true;
        self.asking = asking;
    }

    /// An error once nothing has moved for too long. The clock is set anew only when it rings, not at each byte.
    fn idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.look.as_mut().poll(cx));
            let end = self.moved + self.idle;
            if end <= Instant::now() || !self.begun {
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "nothing moved for too long"));
            }
            self.look.as_mut().reset(end);
        }
    }

    fn written(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(bytes)) if bytes > 0 => self.move_on(false),
            Poll::Pending => return self.idle(cx).map(Err),
            Poll::Ready(_) => {}
        }
        wrote
    }
}

impl Drop for IdleTimeoutStream {
    fn drop(&mut self) {
        if let (Some(connection), Some(back)) = (self.connection.take(), self.back.take()) {
            // a server that stops does not wait for clients
            drop(back.send(Returned { connection, asking: self.asking }));
        }
    }
}

impl Returned {
    /// Says `last`, and closes the connection such that the client can read the answer: closing one with unread bytes makes
    /// the system throw away what is still on its way.
    pub(crate) async fn close(mut self, last: &[u8]) {
        let stream = &mut self.connection.stream;
        let closing = async {
            stream.write_all(last).await?;
            stream.shutdown().await?;
            let (mut left, mut buffer) = (LINGER_BYTES, [0; 4096]);
            while left > 0 {
                match stream.read(&mut buffer).await? {
                    0 => break,
                    bytes => left = left.saturating_sub(bytes),
                }
            }
            Ok::<_, io::Error>(())
        };
        // a client that is gone needs nothing more
        let _gone = timeout(LINGER, closing).await;
    }
}

impl AsyncRead for IdleTimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.stream()?.poll_read(cx, buffer);
        match read {
            Poll::Ready(Ok(())) if buffer.filled().len() > before => self.move_on(true),
            Poll::Pending => return self.idle(cx).map(Err),
            Poll::Ready(_) => {}
        }
        read
    }
}

impl AsyncWrite for IdleTimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = self.stream()?.poll_write(cx, bytes);
        self.written(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = self.stream()?.poll_write_vectored(cx, parts);
        self.written(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}
