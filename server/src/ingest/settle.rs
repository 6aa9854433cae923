//! What a CI system tells of the end of a job settles how its attempt ended, if nobody saw it: an agent beside a build has no
//! exit status, and an agent that died with its pod says nothing at all.
//!
//! | what is known of the attempt | then |
//! |---|---|
//! | it ended, and nobody saw how | its summary is put again with outcome and cause, and the history has the new one |
//! | it ended, and somebody saw how | nothing: what was seen counts more, and what was told first |
//! | it found its work done already, whoever saw it end | its summary is put again with this mark, and teaches nothing |
//! | it is open | kept with it until its end |
//! | it is not known yet | remembered until it opens, in memory and bounded |

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tokio::sync::{mpsc::error::TrySendError, oneshot};

use super::{
    Ingest,
    request::{Request, Settled},
};
use crate::{
    domain::{AttemptId, Cause, End, Evidence, EvidenceSource, Outcome, Summary, Told},
    mask, retry,
};

/// Ends that are remembered until their attempt opens: the jobs of a few hours, most of which no agent ever measures. About 3 MB.
const REMEMBERED: usize = 10_000;

/// Ends that came before their attempt, oldest first.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    ends: HashMap<AttemptId, Arc<Told>>,
    order: VecDeque<AttemptId>,
}

impl Remembered {
    /// Keeps the first word on each attempt. The oldest is forgotten for it, if there are too many.
    pub(super) fn keep(&mut self, id: AttemptId, told: &Arc<Told>) {
        if self.ends.contains_key(&id) {
            return;
        }
        while self.order.len() >= REMEMBERED {
            let Some(oldest) = self.order.pop_front() else { break };
            self.ends.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.ends.insert(id, Arc::clone(told));
    }

    /// What was told of this attempt.
    pub(super) fn of(&self, id: &AttemptId) -> Option<&Arc<Told>> {
        self.ends.get(id)
    }
}

impl Ingest {
    /// Takes what a CI system tells, to be worked on later; false if the queue is full or the server stops.
    pub(crate) fn tell(&self, told: Told) -> bool {
        self.begin_to_tell(told, None)
    }

    /// The same; what comes back gives what became of it.
    pub(crate) fn tell_and_hear(&self, told: Told) -> Option<oneshot::Receiver<Settled>> {
        let (answer, answered) = oneshot::channel();
        self.begin_to_tell(told, Some(answer)).then_some(answered)
    }

    /// The same, but waits for a place in the queue, and for what becomes of it; `None` if the worker has stopped.
    pub(crate) async fn tell_in_turn(&self, told: Told) -> Option<Settled> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Settle { told, answer: Some(answer) }).await.ok()?;
        answered.await.ok()
    }

    fn begin_to_tell(&self, told: Told, answer: Option<oneshot::Sender<Settled>>) -> bool {
        match self.requests.try_send(Request::Settle { told, answer }) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => false,
        }
    }
}

/// The summary with the outcome that was told; `None` if somebody saw another one. The exit stays unknown: nobody told it.
pub(super) fn settled(summary: &Summary, told: &Told) -> Option<Summary> {
    if summary.outcome != Outcome::Lost || summary.exit.is_some() {
        let is_news = told.unneeded && !summary.unneeded;
        return is_news.then(|| Summary { unneeded: true, ..summary.clone() });
    }
    let outcome = if told.end == End::Succeeded { Outcome::Succeeded } else { Outcome::Failed };
    let unneeded = told.unneeded;
    let none = Summary { cause: None, cause_source: None, censored: false, ..summary.clone() };
    let mut settled = Summary { outcome, unneeded, ..none };
    if outcome == Outcome::Succeeded {
        return Some(settled);
    }
    let reason = if told.end == End::Canceled { "canceled" } else { told.reason.as_str() };
    let evidence = Evidence {
        key: settled.key.clone(),
        number: settled.number,
        measured: Some(Arc::new(settled.clone())),
        failure_reason: reason.to_owned(),
        ..Evidence::about(settled.attempt.clone())
    };
    // without a log no rule is asked
    let found = retry::classify(&evidence, &retry::Rules::built_in());
    (settled.cause, settled.cause_source) = match told.cause {
        Some(cause) => (Some(cause), summary.cause_source.filter(|_| summary.cause == Some(cause))),
        None => stronger((found.cause, found.decided_by), (summary.cause, summary.cause_source)),
    };
    settled.ci_reason = mask::text(reason).into_owned();
    settled.censored = retry::is_censored(&settled, settled.cause);
    Some(settled)
}

/// A cause, and where the evidence comes from that decided it.
type Found = (Option<Cause>, Option<EvidenceSource>);

/// What the CI system's words say, unless a verdict found a cause by stronger evidence, or they say nothing.
fn stronger(told: Found, before: Found) -> Found {
    let is_stronger = |before: EvidenceSource| told.1.is_none_or(|told| before < told);
    if before.1.is_some_and(is_stronger) { before } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Exit, test_summary};

    fn told(end: End, reason: &str) -> Told {
        Told {
            attempts: vec![AttemptId::parse("a").unwrap()],
            end,
            reason: reason.to_owned(),
            cause: None,
            unneeded: false,
        }
    }

    fn lost() -> Summary {
        let lost = test_summary("a", "zlib", "1", 100);
        Summary { outcome: Outcome::Lost, exit: None, cause: Some(Cause::Unknown), ..lost }
    }

    #[test]
    fn what_is_told_settles_outcome_and_cause_and_makes_up_no_exit() {
        let settled = |end, reason| {
            let settled = settled(&lost(), &told(end, reason)).unwrap();
            (settled.outcome, settled.cause, settled.exit)
        };
        assert_eq!(settled(End::Succeeded, ""), (Outcome::Succeeded, None, None));
        let failed = |cause| (Outcome::Failed, Some(cause), None);
        assert_eq!(settled(End::Canceled, ""), failed(Cause::Canceled));
        assert_eq!(settled(End::Failed, "job_execution_timeout"), failed(Cause::Timeout));
        assert_eq!(settled(End::Failed, "scheduler_failure"), failed(Cause::Infra));
        assert_eq!(settled(End::Failed, "of_2030"), failed(Cause::Unknown));
    }

    #[test]
    fn counters_of_the_kernel_say_more_than_gitlab() {
        let limit = Some(crate::domain::Bytes(100 << 20));
        let mut killed = Summary { oom_kill: Some(1), censored: true, ..lost() };
        killed.resources.memory_limit = limit;
        let settled = settled(&killed, &told(End::Failed, "script_failure")).unwrap();
        assert_eq!((settled.cause, settled.censored), (Some(Cause::Oom), true));
    }

    #[test]
    fn what_somebody_saw_stands() {
        let seen = test_summary("a", "zlib", "1", 100);
        assert_eq!(settled(&seen, &told(End::Failed, "")), None);
        let failed = Summary { outcome: Outcome::Failed, exit: Some(Exit::Code(1)), ..seen };
        assert_eq!(settled(&failed, &told(End::Succeeded, "")), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_first_word_stands() {
        let mut remembered = Remembered::default();
        let id = |n: usize| AttemptId::parse(&n.to_string()).unwrap();
        for n in 0..REMEMBERED + 5 {
            remembered.keep(id(n), &told(End::Failed, "").into());
            remembered.keep(id(n), &told(End::Succeeded, "").into());
        }
        assert_eq!((remembered.ends.len(), remembered.order.len()), (REMEMBERED, REMEMBERED));
        assert!(remembered.of(&id(4)).is_none());
        assert_eq!(remembered.of(&id(5)).map(|told| told.end), Some(End::Failed));
    }

    #[test]
    fn a_build_that_found_its_work_done_teaches_nothing_whoever_saw_it_end() {
        let told = Told { unneeded: true, ..told(End::Succeeded, "") };
        let seen = test_summary("a", "zlib", "1", 100);
        assert_eq!((seen.outcome, seen.teaches_memory()), (Outcome::Succeeded, true));
        for summary in [seen, lost()] {
            let settled = settled(&summary, &told).unwrap();
            assert_eq!((settled.outcome, settled.unneeded), (Outcome::Succeeded, true));
            assert!(!settled.teaches_memory() && crate::domain::Fact::from(&settled).need.is_nan());
            assert_eq!(super::settled(&settled, &told), None, "told once");
        }
    }

    #[test]
    fn a_cause_that_a_verdict_found_counts_before_the_reason() {
        let told = Told { cause: Some(Cause::Oom), ..told(End::Failed, "runner_system_failure") };
        let settled = settled(&lost(), &told).unwrap();
        assert_eq!((settled.cause, settled.censored), (Some(Cause::Oom), true));
    }
}
