//! The doors of the server: the gRPC and HTTP listeners with their connections, and the web page. A handler converts the request, calls a
//! room, and converts the result.

pub(crate) mod agent_files;
pub(crate) mod calls;
#[cfg(test)]
pub(crate) mod fixture;
mod gate;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod http_state;
pub(crate) mod net;
mod permissions;
mod read_api;
mod services;
mod web;
mod wire;

pub(crate) use permissions::BACKUP_PATH;
pub(crate) use services::Services;
