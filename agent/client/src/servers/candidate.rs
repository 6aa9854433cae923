//! One address of a server: how it is tried, and what came of it.

use std::{net::SocketAddr, time::Duration};

use tokio::time::timeout;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::network::Network;
use crate::{
    channel::{host_and_port, name},
    reasons::{broken_connection, innermost, is_of_network, not_grpc_message},
};

/// Time limit of one address: connection, TLS, and the answer whether it serves.
pub(super) const TRY_TIMEOUT: Duration = Duration::from_secs(4);

/// An address that may serve.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) endpoint: Endpoint,
    pub(super) address: SocketAddr,
    /// Whether there are others, so that it has to be asked whether it serves.
    pub(super) is_one_of_several: bool,
}

/// An address that was tried.
#[derive(Debug)]
pub(crate) struct TriedAddress {
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

impl Candidate {
    /// The URL; with the address, if the host is a name.
    pub(super) fn label(&self) -> String {
        let (url, address) = (name(&self.endpoint), self.address);
        let (host, _port) = host_and_port(&self.endpoint);
        if host.parse() == Ok(address.ip()) { url } else { format!("{url} at {address}") }
    }

    /// This address with what came of it.
    pub(super) fn ended(self, outcome: Result<Channel, TryFailure>) -> TriedAddress {
        let (label, address) = (self.label(), Some(self.address));
        let Self { endpoint, is_one_of_several, .. } = self;
        TriedAddress { label, endpoint, address, is_one_of_several, outcome }
    }

    /// Finds out whether it serves.
    pub(super) async fn try_out(self, network: Network) -> TriedAddress {
        let late = |_late| Err(TryFailure::network(&format!("no answer within {TRY_TIMEOUT:?}")));
        let outcome = timeout(TRY_TIMEOUT, self.open(network)).await.unwrap_or_else(late);
        self.ended(outcome)
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
    pub(super) fn network(text: &str) -> Self {
        Self { is_standby: false, is_of_network: true, text: text.to_owned() }
    }

    fn standby(text: &str) -> Self {
        let text = plimsoll_proto::shown::escaped_line(text).into_owned();
        Self { is_standby: true, is_of_network: false, text }
    }
}

impl NoServer {
    pub(super) fn of(failures: &[(String, TryFailure)]) -> Self {
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
