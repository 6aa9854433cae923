//! `GET /admin/backup`: sends an archive of the store.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{Extension, Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use http_body::Frame;
use plimsoll_core::domain::Bytes as Quantity;
use plimsoll_store::backup::BackupStream;
use tokio::sync::mpsc::{self, error::SendTimeoutError};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::hosts::{Host, requested_hosts};
use crate::{
    access::guard::Caller,
    door::{http_state::HttpState, net::Peer},
    runtime::{
        answer_memory::{AnswerMemory, AnswerShare, TooLittleMemory},
        audit::AUDIT,
        metrics::{KindLabel, Metrics},
    },
};

/// A client that reads nothing of an archive (half a MiB is buffered) for this long is
/// disconnected, because other backups wait for this one to end, and the writer keeps old versions
/// of changed entries for it. The limit is that of an idle connection, and also stops a client that
/// reads a byte now and then.
const CLIENT_READ_TIMEOUT: Duration = Duration::from_mins(2);

/// What needs the memory, for error texts.
const BACKUP: &str = "a backup";
/// Memory that a backup reserves at its start: some pages of the store, their archive, and the
/// engine's cache, which fills while the whole store is read. Old versions of changed entries may
/// take more, so the remaining memory is checked before each piece.
const BACKUP_MEMORY: Quantity = Quantity(48 << 20);

/// Headers that proxies add; so are all headers that start with [`FORWARDED_PREFIX`].
const PROXY_HEADERS: [&str; 3] = ["forwarded", "via", "x-real-ip"];
const FORWARDED_PREFIX: &str = "x-forwarded-";
/// The answer to a caller on another machine.
const NOT_LOCAL_ANSWER: &str = "a backup is given to callers on the server's own machine only, who ask it as localhost and through no proxy: \
     plimsoll-server backup FILE; with backup_remote = on operators may take it from other machines, through no proxy\n";

/// Sends an archive of the store as it is now. It contains everything that builds sent, so only
/// callers on this machine get it. A page in a browser on this machine does not, because it uses a
/// DNS name for the machine; nor does a caller behind a local proxy that adds its headers. If the
/// operator allows it, other machines get it too; the settings then require identities and TLS.
pub(super) async fn backup(
    State(parts): State<HttpState>,
    Extension(Peer { address: peer, local, .. }): Extension<Peer>,
    request: Request,
) -> Response {
    let extensions = request.extensions();
    let caller =
        extensions.get::<Caller>().map_or_else(|| "anyone".into(), |caller| Arc::clone(&caller.name));
    if !may_take_backup(&request, (peer.ip(), local), parts.backup_remote) {
        tracing::warn!(target: AUDIT, %peer, %caller, "refused a backup to another machine");
        return (StatusCode::FORBIDDEN, NOT_LOCAL_ANSWER).into_response();
    }
    let memory = parts.services.statistics.memory().clone();
    let share = match memory.take(BACKUP, BACKUP_MEMORY) {
        Ok(share) => share,
        Err(refused) => {
            tracing::warn!(target: AUDIT, %peer, %caller, error = %refused, "refused a backup");
            return (StatusCode::SERVICE_UNAVAILABLE, format!("{refused}\n")).into_response();
        }
    };
    match parts.store.snapshot().await {
        Ok(snapshot) => {
            tracing::info!(target: AUDIT, %peer, %caller, "gave a backup");
            let live = LiveBackup { stream: BackupStream::new(snapshot), memory, _share: Some(share) };
            let archive = ArchiveBody::new(live, CLIENT_READ_TIMEOUT, Arc::clone(&parts.metrics));
            let content_type = [(header::CONTENT_TYPE, "application/octet-stream")];
            (content_type, Body::new(archive)).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// Whether a request from address `peer` to address `local` gets a backup. `remote`: other machines
/// may get one.
fn may_take_backup(request: &Request, (peer, local): (IpAddr, Option<IpAddr>), remote: bool) -> bool {
    let is_own = is_this_machine(peer, local) && names_this_machine(request, local);
    !is_for_others(request.headers()) && (is_own || remote)
}

/// Whether `peer` is this machine. `local` is this machine's end of the connection: a listener on
/// one address of the machine is reached from the same address, not from loopback.
fn is_this_machine(peer: IpAddr, local: Option<IpAddr>) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback() || local.is_some_and(|local| local.to_canonical() == peer)
}

/// Whether the request came through a proxy that adds its headers.
fn is_for_others(headers: &HeaderMap) -> bool {
    headers
        .keys()
        .map(HeaderName::as_str)
        .any(|name| PROXY_HEADERS.contains(&name) || name.starts_with(FORWARDED_PREFIX))
}

/// Whether all host names in the request mean this machine: its own IP address or localhost.
fn names_this_machine(request: &Request, local: Option<IpAddr>) -> bool {
    let mut asked = requested_hosts(request.headers(), request.uri()).peekable();
    asked.peek().is_some() && asked.all(|asked| is_local_name(asked, local))
}

/// Whether a host name, with or without port, always means this machine.
fn is_local_name(asked: &str, local: Option<IpAddr>) -> bool {
    Host::parse(asked).is_some_and(|host| match host {
        Host::Address(address) => is_this_machine(address, local),
        Host::Name(_) => host.is_localhost(),
    })
}

/// A running backup, with the memory that it reserved.
struct LiveBackup {
    stream: BackupStream,
    memory: AnswerMemory,
    _share: Option<AnswerShare>,
}

/// The body of the answer. A separate task reads the next piece of the archive while the last one
/// is sent: a client that stalls polls nothing, and the task must still end the backup in time.
struct ArchiveBody {
    pieces: mpsc::Receiver<Result<Bytes, IncompleteArchive>>,
    metrics: Arc<Metrics>,
    has_ended: bool,
    /// The task that reads the archive; aborted on drop.
    _reading: AbortOnDropHandle<()>,
}

/// Why an archive is incomplete.
#[derive(Debug, Clone, thiserror::Error)]
enum IncompleteArchive {
    #[error("{0}")]
    Unreadable(String),
    #[error("the backup was cut short: {0}")]
    Overloaded(TooLittleMemory),
    #[error("the backup was cut short: its client took nothing for {}", humantime::format_duration(*.0))]
    Stalled(Duration),
}

impl ArchiveBody {
    fn new(live: LiveBackup, taken_within: Duration, metrics: Arc<Metrics>) -> Self {
        let (sender, pieces) = mpsc::channel(1);
        let reading = TaskTracker::new().spawn(read(live, taken_within, sender));
        Self { pieces, metrics, has_ended: false, _reading: AbortOnDropHandle::new(reading) }
    }

    fn count_end(&mut self, how: &'static str) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.metrics.backups.get_or_create(&KindLabel::of(how)).inc();
        }
    }
}

impl Drop for ArchiveBody {
    fn drop(&mut self) {
        self.count_end("left");
    }
}

/// Reads an archive as fast as the client takes it. After an error it releases the store first, and
/// then passes the error on.
async fn read(
    mut live: LiveBackup,
    taken_within: Duration,
    pieces: mpsc::Sender<Result<Bytes, IncompleteArchive>>,
) {
    let short = loop {
        if let Err(refused) = live.memory.check(BACKUP) {
            break IncompleteArchive::Overloaded(refused);
        }
        let piece = match live.stream.next().await {
            Ok(Some(bytes)) => bytes.into(),
            Ok(None) => return,
            Err(error) => break IncompleteArchive::Unreadable(error.to_string()),
        };
        match pieces.send_timeout(Ok(piece), taken_within).await {
            Ok(()) => {}
            Err(SendTimeoutError::Closed(_)) => return,
            Err(SendTimeoutError::Timeout(_)) => break IncompleteArchive::Stalled(taken_within),
        }
    };
    drop(live);
    tracing::error!(error = %short, "a backup was cut short");
    // the client may have disconnected
    let _gone = pieces.send(Err(short)).await;
}

impl http_body::Body for ArchiveBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(match ready!(self.pieces.poll_recv(context)) {
            Some(Ok(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Err(short)) => {
                self.count_end(if matches!(short, IncompleteArchive::Stalled(_)) {
                    "stalled"
                } else {
                    "unreadable"
                });
                Some(Err(short.into()))
            }
            None => {
                self.count_end("whole");
                None
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body::Body as _;
    use plimsoll_store::{Batch, Store, StoreSettings};

    use super::*;

    async fn next(archive: &mut ArchiveBody) -> Option<Result<Bytes, axum::BoxError>> {
        let frame = poll_fn(|cx| Pin::new(&mut *archive).poll_frame(cx)).await;
        frame.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
    }

    #[tokio::test]
    async fn a_stalled_backup_client_does_not_block_others() {
        let dir = tempfile::tempdir().unwrap();
        let settings = StoreSettings { dir: dir.path().join("data"), cache_bytes: 1 << 20 };
        let (store, metrics) = (Store::open(&settings).unwrap(), Arc::new(Metrics::new()));
        let mut batch = Batch::default();
        batch.put(b"mkey".to_vec(), b"value".to_vec());
        store.commit(batch).await.unwrap();
        let give = async |taken_within| {
            let live = BackupStream::new(store.snapshot().await.ok()?);
            let live =
                LiveBackup { stream: live, memory: AnswerMemory::below("/nowhere".into()), _share: None };
            Some(ArchiveBody::new(live, taken_within, Arc::clone(&metrics)))
        };
        let count = |kind| metrics.backups.get_or_create(&KindLabel::of(kind)).get();
        let soon = Duration::from_millis(20);
        let mut stalled = give(soon).await.unwrap();
        let (mut tries, mut other) = (0, None);
        while other.is_none() && tries < 1000 {
            tokio::time::sleep(soon).await;
            other = give(Duration::from_hours(1)).await;
            tries += 1;
        }
        let mut other = other.expect("another backup, although the first one was not taken");
        assert!(give(soon).await.is_none(), "one at a time");
        while let Some(piece) = next(&mut other).await {
            piece.unwrap();
        }
        assert!(next(&mut stalled).await.unwrap().unwrap().starts_with(b"PLIMSOLL BACKUP"));
        let error = next(&mut stalled).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("took nothing for 20ms"), "{error}");
        drop((stalled, other));
        drop(give(soon).await.unwrap());
        assert_eq!(["whole", "stalled", "left", "unreadable"].map(count), [1, 1, 1, 0]);
        store.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_backup_short_of_memory_ends_with_reason() {
        let (_root, memory) = crate::runtime::answer_memory::tests::kernel(1);
        assert!(memory.take(BACKUP, BACKUP_MEMORY).is_err(), "none is begun");
        let (store, metrics) = (Store::memory(), Arc::new(Metrics::new()));
        let stream = BackupStream::new(store.snapshot().await.unwrap());
        let live = LiveBackup { stream, memory, _share: None };
        let mut archive = ArchiveBody::new(live, CLIENT_READ_TIMEOUT, metrics);
        let cut = next(&mut archive).await.unwrap().unwrap_err().to_string();
        assert!(cut.contains("cut short: overloaded: a backup may take"), "{cut}");
    }

    #[test]
    fn only_local_peers_count_as_this_machine() {
        let here = |peer: &str, local: Option<&str>| {
            is_this_machine(peer.parse().unwrap(), local.map(|local| local.parse().unwrap()))
        };
        assert!(here("127.0.0.1", Some("127.0.0.1")) && here("::1", None) && here("::ffff:127.0.0.1", None));
        assert!(here("10.0.0.5", Some("10.0.0.5")) && here("::ffff:10.0.0.5", Some("10.0.0.5")));
        assert!(!here("10.0.0.6", Some("10.0.0.5")) && !here("10.0.0.5", None));
    }

    #[test]
    fn remote_backups_need_permission_and_no_proxy() {
        let (peer, local) = ("10.0.0.6".parse().unwrap(), Some("10.0.0.5".parse().unwrap()));
        let request = |header: (&str, &str)| {
            let request = axum::http::Request::builder().uri("/").header("host", "plimsoll.example");
            request.header(header.0, header.1).body(Body::empty()).unwrap()
        };
        let plain = request(("accept", "*/*"));
        assert!(
            !may_take_backup(&plain, (peer, local), false) && may_take_backup(&plain, (peer, local), true)
        );
        let forwarded = request(("X-Forwarded-For", "127.0.0.1"));
        assert!(!may_take_backup(&forwarded, (peer, local), true));
    }

    #[test]
    fn forwarded_or_foreign_host_requests_are_not_local() {
        let local = Some("10.0.0.5".parse().unwrap());
        let is_own = |uri: &str, headers: &[(&str, &str)]| {
            let empty = axum::http::Request::builder().uri(uri);
            let filled = headers.iter().fold(empty, |request, (name, value)| request.header(*name, *value));
            let request = filled.body(Body::empty()).unwrap();
            !is_for_others(request.headers()) && names_this_machine(&request, local)
        };
        let hosts =
            ["localhost", "LocalHost:7411", "127.0.0.1:7411", "127.8.9.1", "[::1]:7411", "10.0.0.5:1"];
        for host in hosts {
            assert!(is_own("/", &[("host", host)]), "{host}");
            assert!(!is_own("/", &[("host", host), ("host", "evil.example")]), "{host}");
            for proxy in ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"] {
                assert!(!is_own("/", &[("host", host), (proxy, "10.9.9.9")]), "{proxy}");
            }
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.6",
            "127.0.0.1.evil.example",
            "",
            "a b",
            "[::2]",
        ] {
            assert!(!is_own("/", &[("host", host)]), "{host}");
        }
        // as HTTP/2 names it
        assert!(is_own("http://localhost:7411/", &[]) && !is_own("http://evil.example/", &[]));
        assert!(!is_own("http://evil.example/", &[("host", "localhost")]));
        assert!(!is_own("/", &[]), "it names no caller");
    }
}
