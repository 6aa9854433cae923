//! `GET /admin/backup`: sends an archive of the store.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{Extension, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use plimsoll_core::domain::Bytes as Quantity;
use plimsoll_store::backup::BackupStream;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;

use super::hosts;
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
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let caller = &caller.name;
    let is_local = || hosts::is_of_this_machine((&headers, &uri), (peer.ip(), local));
    if hosts::is_through_proxy(&headers) || !(parts.backup_remote || is_local()) {
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
            let archive = archive(live, CLIENT_READ_TIMEOUT, Arc::clone(&parts.metrics));
            ([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(archive)).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// A running backup, with the memory that it reserved.
struct LiveBackup {
    stream: BackupStream,
    memory: AnswerMemory,
    _share: Option<AnswerShare>,
}

/// Why an archive is incomplete.
#[derive(Debug, thiserror::Error)]
enum IncompleteArchive {
    #[error("{0}")]
    Unreadable(String),
    #[error("the backup was cut short: {0}")]
    Overloaded(TooLittleMemory),
    #[error("the backup was cut short: its client took nothing for {}", humantime::format_duration(*.0))]
    Stalled(Duration),
    #[error("the client has left")]
    Left,
}

/// The archive. A separate task reads the next piece while the last one is sent: a client that stalls polls nothing, and the task must still
/// end the backup in time.
fn archive(
    live: LiveBackup,
    taken_within: Duration,
    metrics: Arc<Metrics>,
) -> ReceiverStream<Result<Bytes, IncompleteArchive>> {
    let (sender, pieces) = mpsc::channel(1);
    TaskTracker::new().spawn(async move {
        // after an error the store is released first
        let ended = read(live, taken_within, &sender).await;
        let kind = match &ended {
            Ok(()) => "whole",
            Err(IncompleteArchive::Left) => "left",
            Err(IncompleteArchive::Stalled(_)) => "stalled",
            Err(IncompleteArchive::Unreadable(_) | IncompleteArchive::Overloaded(_)) => "unreadable",
        };
        metrics.backups.get_or_create(&KindLabel::of(kind)).inc();
        if let Err(short) = ended
            && kind != "left"
        {
            tracing::error!(error = %short, "a backup was cut short");
            // the client may have disconnected
            let _gone = sender.send(Err(short)).await;
        }
    });
    ReceiverStream::new(pieces)
}

/// Reads an archive as fast as the client takes it, until it has the last piece.
async fn read(
    mut live: LiveBackup,
    taken_within: Duration,
    pieces: &mpsc::Sender<Result<Bytes, IncompleteArchive>>,
) -> Result<(), IncompleteArchive> {
    loop {
        live.memory.check(BACKUP).map_err(IncompleteArchive::Overloaded)?;
        let piece = live.stream.next().await;
        let piece = piece.map_err(|error| IncompleteArchive::Unreadable(error.to_string()))?;
        let taken = timeout(taken_within, pieces.reserve()).await;
        let place = taken.map_err(|_stalls| IncompleteArchive::Stalled(taken_within))?;
        let place = place.map_err(|_closed| IncompleteArchive::Left)?;
        match piece {
            Some(bytes) => place.send(Ok(bytes.into())),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_store::{Batch, Store, StoreSettings};
    use tokio_stream::StreamExt as _;

    use super::*;

    /// A backup, once those before it have ended.
    async fn begin(store: &Store) -> BackupStream {
        for _ in 0..1000 {
            if let Ok(snapshot) = store.snapshot().await {
                return BackupStream::new(snapshot);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("an earlier backup does not end")
    }

    #[tokio::test]
    async fn a_stalled_backup_client_does_not_block_others() {
        let dir = tempfile::tempdir().unwrap();
        let settings = StoreSettings { dir: dir.path().join("data"), cache_bytes: 1 << 20 };
        let (store, metrics) = (Store::open(&settings).unwrap(), Arc::new(Metrics::new()));
        let mut batch = Batch::default();
        batch.put(b"mkey".to_vec(), b"value".to_vec());
        store.commit(batch).await.unwrap();
        let soon = Duration::from_millis(20);
        let give = async |taken_within| {
            let (stream, memory) = (begin(&store).await, AnswerMemory::below("/nowhere".into()));
            archive(LiveBackup { stream, memory, _share: None }, taken_within, Arc::clone(&metrics))
        };
        let mut stalled = give(soon).await;
        let mut other = give(Duration::from_hours(1)).await;
        assert!(store.snapshot().await.is_err(), "one at a time");
        while let Some(piece) = other.next().await {
            piece.unwrap();
        }
        assert!(stalled.next().await.unwrap().unwrap().starts_with(b"PLIMSOLL BACKUP"));
        let error = stalled.next().await.unwrap().unwrap_err().to_string();
        assert!(error.contains("took nothing for 20ms"), "{error}");
        drop(give(Duration::from_hours(1)).await);
        drop(give(Duration::from_hours(1)).await);
        let count = |kind| metrics.backups.get_or_create(&KindLabel::of(kind)).get();
        assert_eq!(["whole", "stalled", "unreadable"].map(count), [1, 1, 0]);
        assert!(count("left") >= 1);
        store.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_backup_short_of_memory_ends_with_reason() {
        let (_root, memory) = crate::runtime::answer_memory::tests::kernel(1);
        assert!(memory.take(BACKUP, BACKUP_MEMORY).is_err(), "none is begun");
        let (store, metrics) = (Store::memory(), Arc::new(Metrics::new()));
        let stream = BackupStream::new(store.snapshot().await.unwrap());
        let live = LiveBackup { stream, memory, _share: None };
        let mut archive = archive(live, CLIENT_READ_TIMEOUT, metrics);
        let cut = archive.next().await.unwrap().unwrap_err().to_string();
        assert!(cut.contains("cut short: overloaded: a backup may take"), "{cut}");
    }
}
