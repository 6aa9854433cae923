//! The gRPC and HTTP listeners. A handler converts the request, calls a service, and converts the
//! result.

pub(crate) mod calls;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod read_api;
pub(crate) mod state;
pub(crate) mod web;
pub(crate) mod wire;
