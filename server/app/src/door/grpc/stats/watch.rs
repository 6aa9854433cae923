//! `Watch`: sends all running attempts, then each change. Changes for a watcher that falls behind
//! are not queued without bound: it gets all running attempts again, and the ids of those that
//! ended meanwhile.

use std::collections::HashSet;

use plimsoll_core::domain::AttemptId;
use plimsoll_proto::v1 as pb;
use tonic::Status;

use super::super::{outbound::Outbound, streams::StreamLimit};
use crate::{door::wire::attempts::changed, fleet::attempts::AttemptWatch, ingest::AttemptChange};

/// Most watchers: each change is serialized once for each watcher.
pub(in crate::door::grpc) const WATCHERS: StreamLimit = StreamLimit { what: "watchers", most: 256 };

/// Most attempts in one message. With the longest keys the message stays below
/// [`plimsoll_proto::limits::ANSWER_BYTES`].
const MAX_ATTEMPTS_PER_MESSAGE: usize = 200;

/// Most ids in one message. With the longest ids the message stays far below the same limit.
const ENDED_IDS: usize = 2000;

/// Sends changes to a watcher until the stream ends.
pub(super) async fn send_to_watcher(
    watch: AttemptWatch,
    outbound: &Outbound<pb::WatchResponse>,
) -> Result<(), Status> {
    let mut watcher = Watcher { outbound, shown_attempts: ShownAttempts::default(), watch: &watch };
    loop {
        let (running, changes) = watch.begin().await?;
        watcher.send_changes(&running, changes).await?;
    }
}

/// A watcher: the receiver of the rpc's answers.
struct Watcher<'a> {
    outbound: &'a Outbound<pb::WatchResponse>,
    shown_attempts: ShownAttempts,
    watch: &'a AttemptWatch,
}

impl Watcher<'_> {
    /// Sends the running attempts, then changes. Returns when the watcher has fallen behind.
    async fn send_changes(
        &mut self,
        running: &[crate::ingest::RunningAttempt],
        mut changes: tokio::sync::broadcast::Receiver<AttemptChange>,
    ) -> Result<(), Status> {
        let gone = self.shown_attempts.restart(running.iter().map(|running| &running.attempt.id));
        for ended in gone.chunks(ENDED_IDS) {
            self.outbound.send(changed(&[], ended)).await?;
        }
        for some in running.chunks(MAX_ATTEMPTS_PER_MESSAGE) {
            self.outbound.send(changed(some, &[])).await?;
        }
        if running.is_empty() {
            self.outbound.send(pb::WatchResponse::default()).await?;
        }
        while let Ok(change) = changes.recv().await {
            self.shown_attempts.note(&change);
            let message = match change {
                AttemptChange::Running(running) => changed(&[self.watch.shown(*running)], &[]),
                AttemptChange::Ended(id) => changed(&[], &[id.to_string()]),
            };
            self.outbound.send(message).await?;
        }
        Ok(())
    }
}

/// The attempts that were sent to a watcher as running. At most as many as may be open.
#[derive(Debug, Default)]
struct ShownAttempts(HashSet<AttemptId>);

impl ShownAttempts {
    fn note(&mut self, change: &AttemptChange) {
        match change {
            AttemptChange::Running(running) => self.0.insert(running.attempt.id.clone()),
            AttemptChange::Ended(id) => self.0.remove(id),
        };
    }

    /// Replaces the attempts by those that run now; returns the ids of those that no longer run.
    fn restart<'a>(&mut self, running: impl Iterator<Item = &'a AttemptId>) -> Vec<String> {
        let before = std::mem::replace(&mut self.0, running.cloned().collect());
        before.difference(&self.0).map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_store::Store;
    use tokio::sync::broadcast;
    use tonic::Code;

    use super::{super::super::outbound::outbound, *};
    use crate::{access::identity::Identity, door::fixture};

    #[tokio::test(start_paused = true)]
    async fn a_watcher_that_does_not_read_is_dropped() {
        let ((outbound, _unread), (sender, changes)) = (outbound(), broadcast::channel(64));
        for n in 0..40 {
            assert!(sender.send(AttemptChange::Ended(AttemptId::parse(&n.to_string()).unwrap())).is_ok());
        }
        let api = fixture::read_api(&Store::memory()).await;
        let watch = api.attempts.watch(&Identity::anyone()).unwrap();
        let mut watcher =
            Watcher { outbound: &outbound, shown_attempts: ShownAttempts::default(), watch: &watch };
        let status = watcher.send_changes(&[], changes).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
    }

    #[test]
    fn endings_missed_while_behind_are_sent() {
        let ids = ["a", "b", "c", "d"].map(|id| AttemptId::parse(id).unwrap());
        let [a, b, c, d] = &ids;
        let mut shown = ShownAttempts::default();
        assert_eq!(shown.restart([a, b, c].into_iter()), Vec::<String>::new());
        shown.note(&AttemptChange::Ended(c.clone()));
        assert_eq!(shown.restart([b, d].into_iter()), ["a"], "c was sent before");
        assert_eq!(shown.restart([].into_iter()).len(), 2);
    }
}
