//! Limits connections by the number of files that the process may open. Every connection is an open
//! file. The usual soft limit of 1,024 is for programs that use `select`; other programs may raise
//! it to the hard limit.

use std::{io, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files reserved for the store and the log.
const RESERVED_FILES: u64 = 128;
/// Pause after a failed accept that affects all connections.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// Most connections of the gRPC listener; each holds some 20 KiB.
const MAX_CONNECTIONS: u64 = 65_536;
/// Default of the most connections of an HTTP listener. Its clients connect only briefly, and each
/// may make the server hold 64 KiB of a request's head.
pub(crate) const MAX_HTTP_CONNECTIONS: usize = 1024;

/// Most connections of each listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// Most connections of the gRPC listener.
    pub(crate) grpc: usize,
    /// Most connections of the HTTP listener.
    pub(crate) http: usize,
    /// Most connections of the listener for Kubernetes' webhook.
    pub(crate) webhook: usize,
}

/// Raises the soft limit of open files to the hard limit, and divides the files among the
/// listeners: seven eighths for gRPC, the rest for the two HTTP listeners. If `max_http` is above
/// the default, the HTTP listener gets up to a half.
pub(crate) fn connection_limits(max_http: usize) -> ConnectionLimits {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = if raised.is_ok() { maximum } else { current };
    let [grpc, http, webhook] = share_files(files.unwrap_or(u64::MAX), max_http as u64)
        .map(|room| usize::try_from(room).unwrap_or(usize::MAX));
    ConnectionLimits { grpc, http, webhook }
}

/// Waits after a failed accept until the next one may be tried: not at all if only one connection
/// failed. Otherwise there is no file for a connection, and trying again at once would use a whole
/// core.
pub(crate) async fn after_failed_accept(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    tracing::warn!(%error, "cannot take connections; trying again");
    tokio::time::sleep(FAILURE_PAUSE).await;
}

fn share_files(files: u64, max_http: u64) -> [u64; 3] {
    let room = files.saturating_sub(RESERVED_FILES);
    let usual = (room / 16).clamp(8, MAX_HTTP_CONNECTIONS as u64);
    let http = if max_http > MAX_HTTP_CONNECTIONS as u64 {
        max_http.min(room / 2).max(usual)
    } else {
        usual.min(max_http)
    };
    [(room / 8 * 7).min(room.saturating_sub(http + usual)).clamp(8, MAX_CONNECTIONS), http, usual]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_take_the_last_files() {
        let rooms = [0, 1024, 20_000, u64::MAX].map(|files| share_files(files, 1024));
        assert_eq!(rooms, [[8, 8, 8], [784, 56, 56], [17_388, 1024, 1024], [MAX_CONNECTIONS, 1024, 1024]]);
        let rooms = [0, 1024, 20_000, u64::MAX].map(|files| share_files(files, 16_384));
        assert_eq!(rooms, [[8, 8, 8], [392, 448, 56], [8912, 9936, 1024], [MAX_CONNECTIONS, 16_384, 1024]]);
        assert_eq!(share_files(20_000, 10), [17_388, 10, 1024]);
    }
}
