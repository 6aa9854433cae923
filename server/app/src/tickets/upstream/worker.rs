//! The worker of one upstream: one call at a time, each as the ledger says, with its effects on disk before they count.

mod retire;

use std::{sync::Arc, time::Duration};

use plimsoll_core::{
    domain::UpstreamServer,
    placement::upstream::{
        CollectAnswer, LedgerEffects, LedgerStep, LedgerWrite, PoolUpstream, UpstreamAddress, UpstreamLedger,
    },
};
use plimsoll_store::Batch;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    batch_of,
    calls::{CallFailure, UpstreamClient},
};
use crate::{
    runtime::metrics::{AtUpstream, KindLabel},
    tickets::TicketRegistryState,
};

/// Time before a write that failed is repeated.
const RETRY_WRITE_AFTER: Duration = Duration::from_secs(1);
/// Most writes in one commit: each record has at most 6 parts.
const WRITES_PER_COMMIT: usize = 32;

/// Labels in metrics for the states of tickets upstream.
const TICKET_STATES: [&str; 4] = ["waiting", "ready", "closing", "unanswered"];

/// Serves an upstream until `stop`, or until no pool names it and no ticket is left there. Returns its address.
pub(super) async fn run(
    shared: Arc<TicketRegistryState>,
    address: String,
    stop: CancellationToken,
) -> String {
    let work = async {
        let mut worker = Worker::new(shared, address.clone());
        while worker.step().await {}
    };
    stop.run_until_cancelled(work).await;
    address
}

/// The worker of one upstream.
struct Worker {
    shared: Arc<TicketRegistryState>,
    address: String,
    ledger: UpstreamLedger,
    wake: Arc<Notify>,
    /// The upstream as the pools file names it, with its client; `None` before the first call, or if the client cannot be made.
    client: Option<(PoolUpstream, UpstreamClient)>,
    /// Why the last call got no answer; `None` if it got one.
    problem: Option<&'static str>,
    /// When a pool named the upstream last, or it answered last, by the monotonic clock.
    needed_or_answered_ms: u64,
}

impl Worker {
    fn new(shared: Arc<TicketRegistryState>, address: String) -> Self {
        let mut state = shared.state();
        let queue = state.upstreams.of(&address);
        let (wake, tickets) = (Arc::clone(&queue.wake), std::mem::take(&mut queue.tickets));
        let new = || UpstreamServer { address: address.clone(), ..UpstreamServer::default() };
        let server = queue.server.take().unwrap_or_else(new);
        let mut ledger = UpstreamLedger::new(server, tickets);
        let holders: Vec<_> = ledger.tickets().filter_map(|ticket| ticket.holder.clone()).collect();
        for ended in holders.iter().filter(|holder| !state.holds(holder)) {
            ledger.release(ended);
        }
        drop(state);
        let needed_or_answered_ms = shared.now().steady_ms;
        Self { shared, address, ledger, wake, client: None, problem: None, needed_or_answered_ms }
    }

    /// Makes one call, or waits once. Returns false when nothing is left to do for this upstream.
    async fn step(&mut self) -> bool {
        let (upstream, wants) = self.release_ended().await;
        if upstream.is_none() && !wants && self.ledger.is_done() {
            return !self.forget().await;
        }
        let now_ms = self.shared.now().steady_ms;
        if let Some(upstream) = &upstream {
            self.needed_or_answered_ms = now_ms;
            let writes = self.ledger.set_shared(upstream.shared);
            self.write(writes).await;
        } else if now_ms.saturating_sub(self.needed_or_answered_ms) >= retire::GIVE_UP_AFTER_MS {
            self.give_up(now_ms).await;
        }
        self.publish_counts();
        let next = self.ledger.next(wants, now_ms);
        if let LedgerStep::Wait(until_ms) = next {
            let pause = Duration::from_millis(until_ms.saturating_sub(now_ms));
            // the next step finds out whether there is something to do
            drop(timeout(pause, self.wake.notified()).await);
            return true;
        }
        if !self.has_client(upstream) {
            self.ledger.unreachable(now_ms);
            return true;
        }
        match next {
            LedgerStep::Take => self.take().await,
            LedgerStep::Close(number) => self.close(number).await,
            LedgerStep::Collect(number) => self.collect_held(number).await,
            LedgerStep::Look(number) => match self.collect(number).await {
                Ok(answer) => {
                    let is_given_out = answer != CollectAnswer::Unknown;
                    let effects = self.ledger.looked(number, is_given_out, self.shared.now().steady_ms);
                    self.apply(effects).await;
                }
                Err(failure) => self.note_failure(&failure, next),
            },
            LedgerStep::Wait(_) => {}
        }
        true
    }

    /// Releases the tickets that have ended, once that is on disk. Returns the upstream as the pools file names it, and whether a ticket
    /// wants a machine.
    async fn release_ended(&mut self) -> (Option<PoolUpstream>, bool) {
        let (ended, upto, upstream, wants) = {
            let mut state = self.shared.state();
            let ended = std::mem::take(&mut state.upstreams.of(&self.address).ended);
            let (upto, upstream) = (state.changes(), state.upstream_at(&self.address));
            (ended, upto, upstream, state.upstreams.wants(&self.address))
        };
        if !ended.is_empty() {
            self.shared.wake.notify_one();
            // a restart must not show a ticket with a machine that is gone
            while self.shared.durable(upto).await.is_err() {
                sleep(RETRY_WRITE_AFTER).await;
            }
            for holder in &ended {
                self.ledger.release(holder);
            }
        }
        (upstream, wants)
    }

    /// Makes a client for the address in the pools file, if there is none yet; returns false if that fails. If no pool names the upstream
    /// any more, the client of before is used. After a restart there is none, and the new one has no password.
    fn has_client(&mut self, upstream: Option<PoolUpstream>) -> bool {
        let upstream = match upstream {
            Some(upstream) => upstream,
            None if self.client.is_some() => return true,
            None => match UpstreamAddress::parse(&self.address) {
                Ok(address) => {
                    PoolUpstream { address, ca_certificates: None, shared: false, tags: Vec::new() }
                }
                Err(_why) => return false,
            },
        };
        let is_same = |known: &PoolUpstream| {
            known.address == upstream.address && known.ca_certificates == upstream.ca_certificates
        };
        if !self.client.as_ref().is_some_and(|(known, _)| is_same(known)) {
            match UpstreamClient::new(&upstream) {
                Ok(client) => self.client = Some((upstream, client)),
                Err(error) => {
                    let error = format!("{error:#}");
                    self.note_failure(&CallFailure::Unreachable(error), LedgerStep::Take);
                    return false;
                }
            }
        }
        true
    }

    async fn take(&mut self) {
        let wanted = self.shared.state().next_wanted(&self.address);
        let (Some(wanted), Some(_)) = (wanted, &self.client) else { return };
        let intended = self.ledger.intend();
        self.write(vec![intended]).await;
        let Some((_, client)) = &self.client else { return };
        match client.take(&wanted.tags, &wanted.sandbox).await {
            Ok(number) => {
                self.note_answer();
                let effects = self.ledger.taken(number, wanted.holder.clone());
                tracing::debug!(upstream = self.address, number, ticket = %wanted.holder.0, "took a ticket upstream");
                self.apply(effects).await;
            }
            Err(failure) => {
                let now = self.shared.now();
                self.ledger.not_taken(failure.may_have_worked(), now.steady_ms);
                self.note_failure(&failure, LedgerStep::Take);
                let mut state = self.shared.state();
                if matches!(failure, CallFailure::Fault(_)) {
                    state.upstreams.note_take_fault(&self.address, &wanted.holder);
                }
                state.want_again(&wanted.holder, now);
            }
        }
    }

    /// Closes a ticket upstream.
    async fn close(&mut self, number: u32) {
        let Some((_, client)) = &self.client else { return };
        match client.close(number, self.ledger.output_of_shared(number)).await {
            Ok(is_known) => {
                self.note_answer();
                let now_ms = self.shared.now().steady_ms;
                self.ledger.close_answered(number, true, now_ms);
                let effects = if is_known {
                    self.ledger.closed(number)
                } else {
                    self.ledger.unknown_at_close(number, now_ms)
                };
                self.apply(effects).await;
            }
            Err(failure) => {
                let now_ms = self.shared.now().steady_ms;
                self.ledger.close_answered(number, failure.is_answer(), now_ms);
                self.note_failure(&failure, LedgerStep::Close(number));
            }
        }
    }

    /// Collects a ticket that a ticket here needs.
    async fn collect_held(&mut self, number: u32) {
        let answer = match self.collect(number).await {
            Err(CallFailure::TooLarge) => Ok(CollectAnswer::Unfit),
            answer => answer,
        };
        match answer {
            Ok(answer) => {
                if answer == CollectAnswer::Unfit {
                    let upstream = &self.address;
                    tracing::warn!(upstream, number, "the output of a machine is too long, or no text");
                }
                let effects = self.ledger.collected(number, answer, self.shared.now().steady_ms);
                self.apply(effects).await;
            }
            Err(failure) => self.note_failure(&failure, LedgerStep::Collect(number)),
        }
    }

    async fn collect(&mut self, number: u32) -> Result<CollectAnswer, CallFailure> {
        let Some((_, client)) = &self.client else { return Err(CallFailure::Unreachable(String::new())) };
        let answer = client.collect(number).await;
        if answer.is_ok() {
            self.note_answer();
        }
        answer
    }

    /// Writes the changes that follow from an answer; then applies their events.
    async fn apply(&mut self, effects: LedgerEffects) {
        let LedgerEffects { writes, events, foreign, found, restarted } = effects;
        self.write(writes).await;
        let upstream = &self.address;
        let counted = [("found", found), ("foreign", foreign)];
        for (kind, numbers) in counted {
            self.shared
                .metrics
                .upstream_numbers
                .get_or_create(&KindLabel::of(kind))
                .inc_by(u64::from(numbers));
        }
        if found > 0 {
            tracing::warn!(upstream, found, "found tickets upstream of answers that were lost: closing them");
        }
        if foreign > 0 {
            tracing::error!(
                upstream,
                foreign,
                "another client takes tickets upstream, which are left alone; set upstream_shared, or give this server an upstream of its own"
            );
        }
        if restarted {
            tracing::error!(
                upstream,
                "the upstream begins its numbers anew: it has forgotten all tickets of before"
            );
        }
        if events.is_empty() {
            return;
        }
        let now = self.shared.now();
        let mut state = self.shared.state();
        for event in events {
            state.apply_upstream(event, now);
        }
        drop(state);
        self.shared.wake.notify_one();
    }

    async fn write(&self, writes: Vec<LedgerWrite>) {
        let mut left = writes.as_slice();
        while !left.is_empty() {
            let (some, rest) = left.split_at(left.len().min(WRITES_PER_COMMIT));
            match batch_of(some) {
                Ok(batch) => self.commit(batch).await,
                // the texts of these records are bounded
                Err(error) => tracing::error!(%error, "a record of an upstream cannot be written"),
            }
            left = rest;
        }
    }

    /// Commits a batch, and repeats that until it succeeds: no call may be made before.
    async fn commit(&self, batch: Batch) {
        while let Err(error) = self.shared.store.commit(batch.clone()).await {
            tracing::error!(
                upstream = self.address,
                %error,
                "could not put tickets of an upstream on the disk; no call is made there until this succeeds"
            );
            sleep(RETRY_WRITE_AFTER).await;
        }
    }

    /// Counts a call that got its answer, and clears the problem.
    fn note_answer(&mut self) {
        self.count_call("answered");
        self.needed_or_answered_ms = self.shared.now().steady_ms;
        if self.problem.take().is_some() {
            tracing::info!(upstream = self.address, "the upstream answers again");
            self.shared.state().upstreams.of(&self.address).status.problem.clear();
        }
    }

    /// Counts a call that got no answer or a fault, and notes the failure in the ledger.
    fn note_failure(&mut self, failure: &CallFailure, step: LedgerStep) {
        self.count_call(failure.kind());
        let now_ms = self.shared.now().steady_ms;
        if failure.is_answer() {
            self.needed_or_answered_ms = now_ms;
        }
        match failure {
            CallFailure::Fault(_) => self.ledger.fault(step, now_ms),
            CallFailure::Timeout | CallFailure::Malformed(_) | CallFailure::TooLarge => {
                self.ledger.no_answer(step, now_ms);
            }
            CallFailure::Unreachable(_) | CallFailure::Refused(_) | CallFailure::Broken(_) => {
                self.ledger.unreachable(now_ms);
            }
        }
        let text = failure.text();
        if self.problem.replace(failure.kind()) != Some(failure.kind()) {
            tracing::warn!(
                upstream = self.address,
                why = text,
                "an upstream does not answer as it should: its tickets wait"
            );
        }
        self.shared.state().upstreams.of(&self.address).status.problem = text;
    }

    fn count_call(&self, state: &'static str) {
        let label = AtUpstream { upstream: self.address.clone(), state };
        self.shared.metrics.upstream_calls.get_or_create(&label).inc();
    }

    /// Publishes the number of tickets by state, for callers and metrics.
    fn publish_counts(&self) {
        let counts = self.ledger.counts();
        self.shared.state().upstreams.of(&self.address).status.counts = counts;
        let counted = [counts.waiting, counts.ready, counts.closing, self.ledger.unanswered()];
        for (state, tickets) in TICKET_STATES.into_iter().zip(counted) {
            let label = AtUpstream { upstream: self.address.clone(), state };
            self.shared.metrics.upstream_tickets.get_or_create(&label).set(i64::from(tickets));
        }
    }
}
