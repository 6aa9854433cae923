//! The doors of the server: the gRPC and HTTP listeners with their connections, and the web page. A handler converts the request, calls a
//! room, and converts the result.

pub(crate) mod agent_files;
pub(crate) mod calls;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod net;
pub(crate) mod read_api;
pub(crate) mod state;
pub(crate) mod web;
pub(crate) mod wire;

pub(crate) use state::Services;
/// Path of the backup on a running server.
pub(crate) const BACKUP_PATH: &str = "/admin/backup";
