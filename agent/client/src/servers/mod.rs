//! The servers over one store, and which of them serves.
//!
//! One server serves, the others wait as standbys: their health is `NOT_SERVING`, and they answer other calls with UNAVAILABLE. A round tries
//! the addresses and takes the first that serves:
//!
//! - The address that served last is tried first, then those of the option `--server` in their order. A name is all addresses that the DNS
//!   has for it. A server that says that it serves and then refuses the first request is tried last.
//! - The next address is tried when one has failed, or has not answered within [`HEAD_START`]; both then run side by side. So a server that
//!   is frozen costs [`HEAD_START`], and a whole round at most [`MAX_ADDRESSES`] times that plus [`TRY_TIMEOUT`]: 8 s, and the look-up of names.
//! - An address fails if it refuses the connection, does not say that it serves, or has not answered within [`TRY_TIMEOUT`].
//!
//! A host that is the only one is not asked whether it serves, also if it has an IPv4 and an IPv6 address: its answer to the first request
//! says so.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpStream, lookup_host},
    select,
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::{
    Code,
    transport::{Channel, Endpoint, Error},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    channel::{CONNECT_PATIENCE, addresses_in, endpoint, host_and_port, is_tls, name},
    reasons::{broken_connection, innermost, is_of_network, not_grpc_message},
    trust::Trust,
};

/// Most addresses of the option, and most that one round tries.
const MAX_ADDRESSES: usize = 16;
/// Time until the next address is tried while one has not answered yet. A server nearby answers in a fraction of it (RFC 8305 has the same
/// value for connections).
const HEAD_START: Duration = Duration::from_millis(250);
/// Time limit of one address: connection, TLS, and the answer whether it serves.
const TRY_TIMEOUT: Duration = Duration::from_secs(4);

/// Time limit for the look-up of a name: the system asks the next name server after 5 s (resolv.conf(5), `timeout`).
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(8);

/// A future that another task can run.
pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How names are looked up and connections are made. Tests replace it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    /// The addresses of a host with a port.
    pub(crate) resolve: fn(String, u16) -> Pending<io::Result<Vec<SocketAddr>>>,
    /// Connects to one of the addresses of an endpoint.
    pub(crate) connect: fn(Endpoint, SocketAddr) -> Pending<Result<Channel, Error>>,
}

/// The network of the machine.
pub(crate) const TCP: Network = Network {
    resolve: |host, port| Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) }),
    connect: |endpoint, address| {
        Box::pin(async move {
            let connector = tower::service_fn(move |_uri| open_tcp(address));
            endpoint.connect_with_connector(connector).await
        })
    },
};

async fn open_tcp(address: SocketAddr) -> io::Result<TokioIo<TcpStream>> {
    let stream = timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(stream))
}

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

/// An address that may serve.
#[derive(Debug, Clone)]
struct Candidate {
    endpoint: Endpoint,
    address: SocketAddr,
    /// Whether there are others, so that it has to be asked whether it serves.
    is_one_of_several: bool,
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
    Tried(Box<Tried>),
}

/// An address that was tried.
#[derive(Debug)]
pub(crate) struct Tried {
    /// The address as text for people.
    pub(crate) label: String,
    pub(crate) endpoint: Endpoint,
    /// The address; `None` if the name has none.
    pub(crate) address: Option<SocketAddr>,
    /// Whether there are other servers, so that this one was asked whether it serves.
    pub(crate) is_one_of_several: bool,
    /// The connection to a server that serves.
    pub(crate) outcome: Result<Channel, TryFailure>,
}

/// Why an address was left.
#[derive(Debug)]
pub(crate) struct TryFailure {
    /// A server answers there, and does not serve now.
    pub(crate) is_standby: bool,
    is_of_network: bool,
    pub(crate) text: String,
}

/// Why no address serves.
#[derive(Debug)]
pub(crate) struct NoServer {
    /// At least one server answers as a standby, so that it will take over soon.
    pub(crate) is_standby: bool,
    /// The network is the reason at every address.
    pub(crate) is_of_network: bool,
    /// The reason; where they differ, each address with its own.
    pub(crate) text: String,
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
                    let Tried { endpoint, address, is_one_of_several, .. } = tried;
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
    pub(crate) async fn survey(&self) -> Vec<Tried> {
        let mut tried = self.round(true).await;
        let place =
            |tried: &Tried| self.endpoints.iter().position(|known| known.uri() == tried.endpoint.uri());
        tried.sort_by_key(place);
        tried
    }

    /// Tries the addresses: `all` of them, or until one serves, which is then the only one in the result.
    async fn round(&self, all: bool) -> Vec<Tried> {
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
                Ok(StepEnd::Tried(end)) if end.outcome.is_ok() && !all => return vec![*end],
                Ok(StepEnd::Tried(end)) => tried.push(*end),
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
            StepEnd::Tried(Box::new(Tried { label, endpoint, address: None, is_one_of_several, outcome }))
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

    async fn try_candidate(&self, candidate: Candidate) -> Tried {
        let limit = timeout(TRY_TIMEOUT, candidate.open(self.network));
        let late = |_late| Err(TryFailure::network(&format!("no answer within {TRY_TIMEOUT:?}")));
        let outcome = limit.await.unwrap_or_else(late);
        candidate.ended(outcome)
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
            Self::Try(candidate) => StepEnd::Tried(Box::new(servers.try_candidate(candidate).await)),
        }
    }
}

impl Candidate {
    /// The URL; with the address, if the host is a name.
    fn label(&self) -> String {
        let (url, address) = (name(&self.endpoint), self.address);
        let (host, _port) = host_and_port(&self.endpoint);
        if host.parse() == Ok(address.ip()) { url } else { format!("{url} at {address}") }
    }

    /// This address with what came of it.
    fn ended(self, outcome: Result<Channel, TryFailure>) -> Tried {
        let (label, address) = (self.label(), Some(self.address));
        let Self { endpoint, is_one_of_several, .. } = self;
        Tried { label, endpoint, address, is_one_of_several, outcome }
    }

    /// Connects. If there are other servers, asks whether this one serves. The question needs no token, and any other answer, as of another
    /// program, is a failure.
    async fn open(&self, network: Network) -> Result<Channel, TryFailure> {
        let connected = (network.connect)(self.endpoint.clone(), self.address).await;
        let channel = connected.map_err(|error| TryFailure {
            is_of_network: is_of_network(&error),
            is_standby: false,
            text: innermost(&error),
        })?;
        if !self.is_one_of_several {
            return Ok(channel);
        }
        match HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await {
            Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => Ok(channel),
            Ok(_waits) => Err(TryFailure::standby("it waits for the store, or is about to stop")),
            Err(status) => {
                let broken = broken_connection(&status, &name(&self.endpoint));
                match (broken.or_else(|| not_grpc_message(&status)), status.code()) {
                    // of a proxy before it
                    (None, Code::Unavailable) => Err(TryFailure::standby(status.message())),
                    (text, code) => {
                        let text = text.unwrap_or_else(|| format!("does not say that it serves: {code}"));
                        Err(TryFailure { is_standby: false, is_of_network: false, text })
                    }
                }
            }
        }
    }
}

impl TryFailure {
    fn network(text: &str) -> Self {
        Self { is_standby: false, is_of_network: true, text: text.to_owned() }
    }

    fn standby(text: &str) -> Self {
        let text = plimsoll_proto::shown::escaped_line(text).into_owned();
        Self { is_standby: true, is_of_network: false, text }
    }
}

impl NoServer {
    fn of(failures: &[(String, TryFailure)]) -> Self {
        let is_standby = failures.iter().any(|(_, failure)| failure.is_standby);
        let is_of_network = failures.iter().all(|(_, failure)| failure.is_of_network);
        let text = match failures {
            [(_, first), others @ ..] if others.iter().all(|(_, other)| other.text == first.text) => {
                first.text.clone()
            }
            several => {
                let reason = |(label, failure): &(String, TryFailure)| format!("{label}: {}", failure.text);
                several.iter().map(reason).collect::<Vec<_>>().join("; ")
            }
        };
        Self { is_standby, is_of_network, text }
    }
}

#[cfg(test)]
mod tests;
