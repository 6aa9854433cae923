//! What becomes of an upstream that no pool names.

use plimsoll_core::{domain::UpstreamServer, placement::upstream::UpstreamLedger};
use plimsoll_store::{self as store, Batch};

use super::{TICKET_STATES, Worker};
use crate::runtime::metrics::{AtUpstream, KindLabel};

/// How long an upstream that no pool names may be silent until its tickets are no longer closed there, milliseconds: a day, in which an
/// operator can name it again or close them there.
pub(super) const GIVE_UP_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

impl Worker {
    /// Gives up what is still to be closed at an upstream that no pool names and that has not answered for a day.
    pub(super) async fn give_up(&mut self, now_ms: u64) {
        let unanswered = self.ledger.unanswered();
        let (numbers, effects) = self.ledger.give_up_closing(GIVE_UP_AFTER_MS, now_ms);
        if numbers.is_empty() && unanswered == self.ledger.unanswered() {
            return;
        }
        tracing::error!(
            upstream = self.address,
            ?numbers,
            unanswered,
            "no pool names this upstream, and it has not answered for a day: its tickets are given up; if it comes back, close them there"
        );
        let count = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
        self.shared.metrics.upstream_numbers.get_or_create(&KindLabel::of("given up")).inc_by(count);
        self.apply(effects).await;
    }

    /// Removes all records of an upstream that no pool names; returns false if it is needed again.
    pub(super) async fn forget(&mut self) -> bool {
        let mut batch = Batch::default();
        let server = UpstreamServer { address: self.address.clone(), ..UpstreamServer::default() };
        if store::remove(&mut batch, &server).is_ok() {
            self.commit(batch).await;
        }
        let mut state = self.shared.state();
        if state.upstream_at(&self.address).is_some() || state.upstreams.wants(&self.address) {
            // its last number is not on disk any more: it is looked for as at the first contact
            self.ledger = UpstreamLedger::new(server, []);
            return false;
        }
        state.upstreams.forget(&self.address);
        for state in TICKET_STATES {
            let label = AtUpstream { upstream: self.address.clone(), state };
            self.shared.metrics.upstream_tickets.remove(&label);
        }
        true
    }
}
