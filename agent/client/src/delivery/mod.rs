//! Keeps samples until the server has acknowledged them.
//!
//! Each sample gets a number, is written to the attempt's spool file ([`spool`]) and is held in memory ([`backlog`]). A background task
//! sends it ([`uplink`], [`conversation`]) and drops it once the server has it on disk. Once the server has sealed the attempt, the file is
//! deleted. A file that is left is delivered by a later run with the same server and the same identity ([`orphans`], [`destination`]). The
//! build never waits for the network, and a disk error never fails it.

mod backlog;
mod backoff;
mod compact;
mod conversation;
mod destination;
mod front;
pub(crate) mod fuzzed;
mod orphans;
mod problem;
mod quota;
mod record;
mod route;
mod shared_backlog;
mod spool;
mod uplink;

#[cfg(test)]
mod tests;

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use plimsoll_proto::v1::{Finish, Hello, Sample};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use ulid::Ulid;

use backlog::Backlog;
use destination::SpoolDestination;
use orphans::deliver_orphans;
use route::ServerRoute;
use shared_backlog::SharedBacklog;
use uplink::{DeliveryOutcome, RetryPolicy, deliver};

pub(crate) use quota::{REFUSED_SUFFIX, SPOOL_SUFFIX};
pub(crate) use spool::{Spool, own_dir};

use crate::{
    servers::{Network, Servers, TCP},
    token::Token,
    trust::Trust,
};

/// Longest time for attempts of earlier runs, after this run's own attempt is sealed and within the time limit at the end.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(1);

/// Where samples are sent, and how many bytes of them are kept until then.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Address of the server, for example `http://127.0.0.1:7410`, or several with commas between them; `None`: only measure.
    pub server: Option<String>,
    /// The CA certificates to trust, and the agent's credentials.
    pub trust: Trust,
    /// Directory of the spool files, with the samples that the server has not acknowledged yet.
    pub spool_dir: PathBuf,
    /// Most bytes that all spool files together may take.
    pub spool_bytes: u64,
}

/// Delivers the samples of one attempt to the server. It never blocks or fails the build.
#[derive(Debug)]
pub struct Delivery {
    /// The running delivery; `None` if there is no server to deliver to.
    sending: Option<ActiveDelivery>,
}

/// The result of a delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Whether everything, including the attempt's end, is on the server's disk.
    pub delivered: bool,
    /// The id under which the server stores the attempt, if another run has the id in Hello.
    pub runs_as: Option<String>,
    /// Number of samples that were dropped.
    pub lost: u64,
    /// Path of the spool file that is left for a later run; `None` if none is left.
    pub kept: Option<PathBuf>,
    /// Why not everything was delivered, in words for the reader of the job's log.
    pub problem: Option<String>,
}

/// The attempt of this run, and the tasks that deliver samples. Dropping this value stops the tasks; the spool file stays for a later run.
#[derive(Debug)]
struct ActiveDelivery {
    shared: Arc<SharedBacklog>,
    /// Why there is no spool file; `None` if there is one.
    no_spool: Option<String>,
    uplink: AbortOnDropHandle<DeliveryOutcome>,
    orphans: AbortOnDropHandle<()>,
    /// Whether a later run has this identity, too, and can deliver what is left. An ID token is of this job alone.
    can_keep: bool,
}

impl Delivery {
    /// Opens the spool file of one attempt, and starts to send in the background; files of earlier runs are sent too. It must be called
    /// within a tokio runtime of any kind.
    pub fn start(settings: &Settings, hello: Hello) -> Self {
        Self::start_over(TCP, settings, hello)
    }

    fn start_over(network: Network, settings: &Settings, mut hello: Hello) -> Self {
        let Some(server) = settings.server.as_deref() else {
            return Self { sending: None };
        };
        if hello.session.is_empty() {
            hello.session = Ulid::new().to_string();
        }
        let spool_dir = own_dir(&settings.spool_dir);
        let destination = SpoolDestination::of(server, &settings.trust);
        let spool = Spool::create_for(&spool_dir, settings.spool_bytes, &hello, Some(&destination));
        let no_spool = spool.as_ref().err().map(|error: &io::Error| {
            tracing::warn!(path = %spool_dir.display(), %error, "cannot keep samples on disk");
            format!("cannot keep samples in {}: {error}", spool_dir.display())
        });
        let shared = Arc::new(SharedBacklog::new(Backlog::new(hello, spool.ok())));
        let tracker = TaskTracker::new();
        let (server, trust) = (server.to_owned(), settings.trust.clone());
        let can_keep = !matches!(trust.token, Some(Token::Issued(_)));
        let uplink = tracker.spawn(own(server, trust, network, Arc::clone(&shared)));
        let orphans = tracker.spawn(deliver_orphans(spool_dir, destination, Arc::clone(&shared)));
        let (uplink, orphans) = (AbortOnDropHandle::new(uplink), AbortOnDropHandle::new(orphans));
        Self { sending: Some(ActiveDelivery { shared, no_spool, uplink, orphans, can_keep }) }
    }

    /// Numbers the next sample, keeps it, and sends it in the background.
    pub fn push(&mut self, sample: Sample) {
        if let Some(sending) = &self.sending {
            sending.shared.with(|backlog| backlog.push(sample));
            sending.shared.wake.notify_one();
        }
    }

    /// Ends the attempt, and waits at most `patience` for the server's acknowledgement. It does not wait if the server was never reachable.
    pub async fn finish_with(self, finish: Finish, patience: Duration) -> DeliveryReport {
        match self.sending {
            Some(sending) => sending.finish(finish, patience).await,
            None => DeliveryReport::default(),
        }
    }
}

impl ActiveDelivery {
    async fn finish(self, finish: Finish, patience: Duration) -> DeliveryReport {
        let Self { shared, no_spool, mut uplink, orphans, can_keep } = self;
        let now = Instant::now();
        let deadline = now.checked_add(patience).unwrap_or(now);
        shared.with(|backlog| backlog.close(finish));
        shared.ended.cancel();
        shared.wake.notify_one();
        let ending =
            match timeout_at(deadline, &mut uplink).await {
                Ok(Ok(ending)) => ending,
                Ok(Err(error)) => DeliveryOutcome::GaveUp(format!("delivery broke off: {error}")),
                Err(_) => DeliveryOutcome::GaveUp(shared.problem().unwrap_or_else(|| {
                    format!("the server did not acknowledge everything within {patience:?}")
                })),
            };
        uplink.abort();
        if ending != DeliveryOutcome::Delivered && !can_keep {
            shared.with(Backlog::discard_file);
        }
        if ending == DeliveryOutcome::Delivered {
            let rest = deadline.saturating_duration_since(Instant::now()).min(ORPHAN_PATIENCE);
            drop(timeout(rest, orphans).await);
        }
        report(&shared, ending, no_spool)
    }
}

fn report(shared: &SharedBacklog, ending: DeliveryOutcome, no_spool: Option<String>) -> DeliveryReport {
    shared.with(|backlog| {
        let trouble = backlog.spool().and_then(|spool| spool.write_error().map(str::to_owned)).or(no_spool);
        let lost = backlog.lost();
        let runs_as = Some(backlog.runs_as().to_owned()).filter(|id| *id != backlog.hello().attempt);
        match ending {
            DeliveryOutcome::Delivered => {
                DeliveryReport { delivered: true, runs_as, lost, kept: None, problem: trouble }
            }
            DeliveryOutcome::Refused(text) | DeliveryOutcome::Left(text) | DeliveryOutcome::GaveUp(text) => {
                DeliveryReport {
                    delivered: false,
                    runs_as,
                    lost: lost.saturating_add(backlog.unspooled()),
                    kept: backlog
                        .path()
                        .filter(|path| matches!(path.try_exists(), Ok(true)))
                        .map(PathBuf::from),
                    problem: Some(
                        trouble.map_or_else(|| text.clone(), |trouble| format!("{text}; {trouble}")),
                    ),
                }
            }
        }
    })
}

/// Delivers this run's own attempt. The certificates are read here and not earlier, so that the build does not wait for that.
async fn own(server: String, trust: Trust, network: Network, shared: Arc<SharedBacklog>) -> DeliveryOutcome {
    match Servers::parse(&server, &trust, network).await {
        Ok(servers) => deliver(&ServerRoute::new(servers, trust.token), &shared, RetryPolicy::Own).await,
        Err(text) => DeliveryOutcome::GaveUp(text),
    }
}
