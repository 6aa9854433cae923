//! State that the HTTP handlers share.

use std::sync::Arc;

use plimsoll_core::gantry;
use plimsoll_store::Store;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{
        guard::Guard,
        shared_secret::{SharedTokens, SigningKeys},
    },
    ci::{gitlab::Hooks, kubernetes::PodReviewer},
    door::{Services, agent_files::AgentFiles, calls::Calls},
    runtime::{metrics::Metrics, settings::InForce, tls::Tls},
    tickets::WaitSlots,
};

/// State of the HTTP handlers. A request only clones the pointer.
pub(crate) type HttpState = Arc<HttpParts>;

/// State shared by the HTTP handlers.
#[derive(Debug)]
pub(crate) struct HttpParts {
    pub(crate) services: Services,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: Store,
    /// Whether operators on other machines may take backups.
    pub(crate) backup_remote: bool,
    /// Host names that are accepted if there is no access file, in lower case.
    pub(crate) hosts: Arc<[String]>,
    pub(crate) gantry: Arc<gantry::Settings>,
    pub(crate) pods: PodReviewer,
    /// Secret token of the job hook; `None` if none is configured.
    pub(crate) token: Option<SharedTokens>,
    /// Secret in the path of Kubernetes' webhook; `None` if none is configured.
    pub(crate) admission_secret: Option<SharedTokens>,
    /// Files that `GET /agent/...` serves.
    pub(crate) agent_files: Arc<AgentFiles>,
    /// All settings in force, for the settings page.
    pub(crate) settings: Arc<Vec<InForce>>,
    /// Keys with which job hooks must be signed; `None` if signatures are not required.
    pub(crate) signing: Option<SigningKeys>,
    pub(crate) hooks: Hooks,
    pub(crate) calls: Calls,
    pub(crate) guard: Guard,
    /// Port of the gRPC listener, for error texts; `None` if unknown.
    pub(crate) grpc_port: Option<u16>,
    /// Slots of clients that wait for their tickets.
    pub(crate) waits: WaitSlots,
    pub(crate) stopping: CancellationToken,
    /// Certificates of the listeners.
    pub(crate) certificates: Arc<[Tls]>,
}
