//! `GetServer`: the server's version, and the caller's permissions.

use plimsoll_proto::v1::{self as pb, introspection_server::Introspection};
use tonic::{Request, Response};

use super::{caller::caller, status::RpcResult};
use crate::{access::identity::Role, runtime::clock::Clock};

/// The service `plimsoll.v1.Introspection`.
#[derive(Debug)]
pub(super) struct IntrospectionService {
    /// Whether there is no access file, so that callers need no identity.
    pub(super) is_open: bool,
}

#[tonic::async_trait]
impl Introspection for IntrospectionService {
    async fn get_server(&self, request: Request<pb::GetServerRequest>) -> RpcResult<pb::GetServerResponse> {
        let caller = caller(&request);
        let roles = Role::ALL.into_iter().filter(|role| caller.roles.has(*role));
        Ok(Response::new(pb::GetServerResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            unix_ms: Clock.now_unix_ms(),
            access_required: !self.is_open,
            caller: caller.name.to_string(),
            roles: roles.map(|role| role.as_str().to_owned()).collect(),
            projects: caller.projects.patterns().to_vec(),
            trusted: caller.trusted,
        }))
    }
}
