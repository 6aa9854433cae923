//! The servers over one store, and which of them serves.
//!
//! One server serves, the others wait as standbys: their health is `NOT_SERVING`, and they answer other calls with UNAVAILABLE. A round tries
//! the addresses and takes the first that serves:
//!
//! - The address that served last is tried first, then those of the option `--server` in their order. A name is all addresses that the DNS
//!   has for it. A server that says that it serves and then refuses the first request is tried last.
//! - The next address is tried when one has failed, or has not answered within [`HEAD_START`]; both then run side by side. So a server that
//!   is frozen costs [`HEAD_START`], and a whole round at most [`MAX_ADDRESSES`] times that plus [`candidate::TRY_TIMEOUT`]: 8 s, and the look-up of names.
//! - An address fails if it refuses the connection, does not say that it serves, or has not answered within [`candidate::TRY_TIMEOUT`].
//!
//! A host that is the only one is not asked whether it serves, also if it has an IPv4 and an IPv6 address: its answer to the first request
//! says so.

mod candidate;
mod network;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use candidate::Candidate;
pub(crate) use candidate::{NoServer, TriedAddress, TryFailure};
pub(crate) use network::{Network, TCP};
use tokio::{
    select,
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::transport::{Channel, Endpoint};

use crate::{
    channel::{addresses_in, endpoint, host_and_port, is_tls, name},
    reasons::innermost,
    trust::Trust,
};

/// Most addresses of the option, and most that one round tries.
const MAX_ADDRESSES: usize = 16;
/// Time until the next address is tried while one has not answered yet. A server nearby answers in a fraction of it (RFC 8305 has the same
/// value for connections).
const HEAD_START: Duration = Duration::from_millis(250);
/// Time limit for the look-up of a name: the system asks the next name server after 5 s (resolv.conf(5), `timeout`).
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(8);

/// The servers over one store.
#[derive(Debug, Clone)]
pub(crate) struct Servers {
    endpoints: Vec<Endpoint>,
    network: Network,
    last: Arc<Mutex<LastServer>>,
}

/// The address that served last, out of several.
#[derive(Debug, Clone, Default)]
struct LastServer {
    found: Option<Candidate>,
    /// Whether what it then answered to a request shows that it does not serve, whatever it says.
    has_refused: bool,
}

/// What a round does next: look up a name, or try an address.
#[derive(Debug)]
enum Step {
    LookUp(Endpoint),
    Try(Candidate),
}

/// The result of a step.
#[derive(Debug)]
enum StepEnd {
    Found(Vec<Candidate>),
    TriedAddress(Box<TriedAddress>),
}

impl Servers {
    /// Parses the value of `--server`: one address, or several with commas between them.
    /// Errors: an address is invalid, they differ in their scheme, there are too many, or certificates or key cannot be read in time. The
    /// text names the option.
    pub(crate) async fn parse(servers: &str, trust: &Trust, network: Network) -> Result<Self, String> {
        let count = addresses_in(servers).count();
        if count > MAX_ADDRESSES {
            return Err(format!("--server: {count} addresses; at most {MAX_ADDRESSES} are allowed"));
        }
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for address in addresses_in(servers) {
            let next = endpoint(address, trust).await?;
            if let Some(first) = endpoints.first().filter(|first| is_tls(first) != is_tls(&next)) {
                let (first, next) = (name(first), name(&next));
                return Err(format!(
                    "--server: {first} and {next} differ in http and https; use the same for all addresses"
                ));
            }
            endpoints.push(next);
        }
        Ok(Self { endpoints, network, last: Arc::default() })
    }

    /// The same servers with a time limit for each answer.
    pub(crate) fn with_answer_timeout(self, limit: Duration) -> Self {
        let endpoints = self.endpoints.into_iter().map(|endpoint| endpoint.timeout(limit)).collect();
        Self { endpoints, ..self }
    }

    /// The server that was found, or all of them, for messages to people.
    pub(crate) fn name(&self) -> String {
        match (&self.endpoints[..], self.last().found) {
            ([only], _) => name(only),
            (_, Some(candidate)) => candidate.label(),
            (several, None) => format!("any of {} addresses", several.len()),
        }
    }

    /// Connects to the server that serves.
    /// Errors: none does, after one round over all addresses.
    pub(crate) async fn connect(&self) -> Result<Channel, NoServer> {
        let mut failures = Vec::new();
        for tried in self.round(false).await {
            match tried.outcome {
                Ok(channel) => {
                    let TriedAddress { endpoint, address, is_one_of_several, .. } = tried;
                    let found = address.filter(|_| is_one_of_several);
                    self.remember(found.map(|address| Candidate { endpoint, address, is_one_of_several }));
                    return Ok(channel);
                }
                Err(failure) => failures.push((tried.label, failure)),
            }
        }
        self.remember(None);
        Err(NoServer::of(&failures))
    }

    /// Tries every address, and returns what each one is, in the order of the option.
    pub(crate) async fn survey(&self) -> Vec<TriedAddress> {
        let mut tried = self.round(true).await;
        let place = |tried: &TriedAddress| {
            self.endpoints.iter().position(|known| known.uri() == tried.endpoint.uri())
        };
        tried.sort_by_key(place);
        tried
    }

    /// Tries the addresses: `all` of them, or until one serves, which is then the only one in the result.
    async fn round(&self, all: bool) -> Vec<TriedAddress> {
        let names = self.endpoints.iter().cloned().map(Step::LookUp);
        let LastServer { found: last, has_refused } = self.last();
        let refused = last.as_ref().filter(|_| has_refused).map(Candidate::label);
        let first = last.filter(|_| !has_refused).map(Step::Try);
        let mut waiting: VecDeque<Step> = first.into_iter().chain(names).collect();
        let (mut running, mut seen, mut tried) = (JoinSet::new(), Vec::new(), Vec::new());
        while !(waiting.is_empty() && running.is_empty()) {
            match waiting.pop_front() {
                Some(Step::Try(again)) if seen.contains(&again.label()) || seen.len() > MAX_ADDRESSES => {}
                Some(Step::Try(candidate)) if seen.len() == MAX_ADDRESSES => {
                    seen.push(candidate.label());
                    let reason = format!("not tried, as all beyond {MAX_ADDRESSES} addresses");
                    tried.push(candidate.ended(Err(TryFailure::network(&reason))));
                }
                Some(step) => {
                    seen.extend(step.label());
                    running.spawn(step.run(self.clone()));
                }
                None => {}
            }
            let ended = select! {
                Some(ended) = running.join_next() => ended,
                () = sleep(HEAD_START), if !waiting.is_empty() && !running.is_empty() => continue,
                else => continue,
            };
            match ended {
                Ok(StepEnd::Found(candidates)) => {
                    add_candidates(&mut waiting, candidates, refused.as_deref());
                }
                Ok(StepEnd::TriedAddress(end)) if end.outcome.is_ok() && !all => return vec![*end],
                Ok(StepEnd::TriedAddress(end)) => tried.push(*end),
                Err(error) => tracing::debug!(%error, "trying a server broke off"),
            }
        }
        tried
    }

    fn last(&self) -> LastServer {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, found: Option<Candidate>) {
        let last = LastServer { found, has_refused: false };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    /// Notes that the server that was found does not serve after all: the next round tries it last.
    pub(crate) fn doubt(&self) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).has_refused = true;
    }

    /// The candidates behind a name.
    async fn look_up(&self, endpoint: Endpoint) -> StepEnd {
        let (host, port) = host_and_port(&endpoint);
        let is_one_of_several = self.endpoints.len() > 1;
        let failed = |failure| {
            let (label, endpoint) = (name(&endpoint), endpoint.clone());
            let outcome = Err(failure);
            StepEnd::TriedAddress(Box::new(TriedAddress {
                label,
                endpoint,
                address: None,
                is_one_of_several,
                outcome,
            }))
        };
        match timeout(LOOK_UP_TIMEOUT, (self.network.resolve)(host, port)).await {
            Ok(Ok(found)) if found.is_empty() => failed(TryFailure::network("the name has no address")),
            Ok(Ok(found)) => {
                // one host may have an address of each family
                let of_one_family = found.iter().filter(|address| address.is_ipv4()).count();
                let is_one_of_several =
                    is_one_of_several || of_one_family > 1 || found.len() - of_one_family > 1;
                let candidate =
                    |address| Candidate { endpoint: endpoint.clone(), address, is_one_of_several };
                StepEnd::Found(found.into_iter().map(candidate).collect())
            }
            Ok(Err(error)) => failed(TryFailure::network(&innermost(&error))),
            Err(_late) => failed(TryFailure::network("the name was not resolved in time")),
        }
    }
}

/// Puts candidates before the other steps, and the one that has refused behind them.
fn add_candidates(waiting: &mut VecDeque<Step>, candidates: Vec<Candidate>, refused: Option<&str>) {
    for found in candidates.into_iter().rev() {
        if refused == Some(&found.label()) {
            waiting.push_back(Step::Try(found));
        } else {
            waiting.push_front(Step::Try(found));
        }
    }
}

impl Step {
    /// The address that the step tries.
    fn label(&self) -> Option<String> {
        let Self::Try(candidate) = self else { return None };
        Some(candidate.label())
    }

    async fn run(self, servers: Servers) -> StepEnd {
        match self {
            Self::LookUp(endpoint) => servers.look_up(endpoint).await,
            Self::Try(candidate) => StepEnd::TriedAddress(Box::new(candidate.try_out(servers.network).await)),
        }
    }
}

#[cfg(test)]
mod tests;
