//! The two listeners: a handler converts, calls, converts.

pub(crate) mod calls;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod read_api;
pub(crate) mod state;
pub(crate) mod web;
pub(crate) mod wire;
