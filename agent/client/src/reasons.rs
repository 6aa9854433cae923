//! Texts for people that say why a connection or a request failed, and what to change.

use std::{error::Error, io, iter};

use tonic::{Code, Status, transport::Uri};

use crate::tls;

/// Where another address is configured.
const OTHER_SERVER: &str = "; --server or PLIMSOLL_SERVER names another";

/// The message that no server answers at an address, and why.
pub(crate) fn no_server(server: &str, reason: &str) -> String {
    let lacks_port = server.parse().is_ok_and(|uri: Uri| uri.port().is_none());
    let hint = if lacks_port {
        "; the address names no port, and plimsoll-server's for gRPC is 7410 if grpc_listen was not set"
    } else {
        ""
    };
    format!("no server at {server} ({reason}){hint}")
}

/// The message that the network refused a connection, and where the address of the server is configured.
pub(crate) fn refused_by_network(server: &str, error: &io::Error) -> String {
    no_server(server, &innermost(error)) + OTHER_SERVER
}

/// Whether the network is the reason of an error, and not TLS.
pub(crate) fn is_of_network(error: &(dyn Error + 'static)) -> bool {
    let mut chain = iter::successors(Some(error), |&error| error.source());
    let is_of_tls =
        |error: &io::Error| error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>);
    chain.any(|error| error.downcast_ref().is_some_and(|error| !is_of_tls(error)))
}

/// The message that no server serves, and why. If the network is the reason, it also says where the address is configured.
pub(crate) fn no_connection(server: &str, reason: &str, is_of_network: bool) -> String {
    no_server(server, reason) + if is_of_network { OTHER_SERVER } else { "" }
}

/// The message for a refusal: the server's reason, and where the token is configured if the refusal is about the token.
pub(crate) fn refusal(code: Code, reason: &str) -> String {
    let hint = if code == Code::Unauthenticated {
        "; --token-file or PLIMSOLL_TOKEN gives the agent its token"
    } else {
        ""
    };
    format!("{code}: {reason}{hint}")
}

/// The message for a connection that broke before an answer arrived; `None` if the status is an answer of the server. A program at `server`
/// that speaks another protocol only closes the connection, so the message cannot say more.
pub(crate) fn broken_connection(status: &Status, server: &str) -> Option<String> {
    let reason = innermost(status.source()?);
    let hint = if server.starts_with("https") {
        ""
    } else {
        "; a port with TLS needs https://, and HTTP/1 is no gRPC"
    };
    Some(format!("the connection broke: {reason}{hint}"))
}

/// The message for an answer that is not gRPC, from an HTTP server or a proxy; `None` for any other status.
pub(crate) fn not_grpc_message(status: &Status) -> Option<String> {
    // tonic writes these words for an HTTP status without gRPC, or for a page instead of a message
    let code = status.message().strip_prefix("grpc-status header missing, mapped from HTTP status code ");
    let is_page = status.message().contains("invalid compression flag");
    let what = match code {
        Some(code) => format!("HTTP status {code} and no gRPC"),
        None if is_page => "a page and no gRPC".to_owned(),
        None => return None,
    };
    Some(format!(
        "the answer was {what}: use the port that plimsoll-server has for gRPC (grpc_listen, 7410 if it was not set); a proxy \
         before it must pass gRPC on, over HTTP/2"
    ))
}

/// The innermost reason of an error; the outer ones say only "transport error".
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    loop {
        if let Some(error) = deepest.downcast_ref::<io::Error>() {
            match error.get_ref() {
                Some(inner) if inner.is::<rustls::Error>() => deepest = inner,
                Some(_) => {}
                None => return io_error_words(error),
            }
        }
        if let Some(error) = deepest.downcast_ref::<rustls::Error>() {
            return tls::tls_error_words(error);
        }
        match deepest.source() {
            Some(source) => deepest = source,
            None => return tls::words_of_text(deepest.to_string()),
        }
    }
}

fn io_error_words(error: &io::Error) -> String {
    match error.kind() {
        kind if kind.to_string().starts_with("uncategorized") => error.to_string(),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ports_and_tokens_are_suggested() {
        assert_eq!(no_server("http://ci:7410", "x"), "no server at http://ci:7410 (x)");
        assert!(no_server("http://ci", "x").ends_with("for gRPC is 7410 if grpc_listen was not set"));
        let refused = refusal(Code::Unauthenticated, "x");
        assert!(refused.ends_with("x; --token-file or PLIMSOLL_TOKEN gives the agent its token"));
        assert!(refusal(Code::Unavailable, "x").ends_with(": x"));
    }

    #[test]
    fn the_reason_is_the_innermost_one() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(innermost(&refused), "connection refused");
        let wrapped = io::Error::other(io::Error::from(io::ErrorKind::TimedOut));
        assert_eq!(innermost(&wrapped), "timed out");
        let alert = io::Error::other("received fatal alert: CertificateRequired");
        assert!(innermost(&alert).contains("--client-cert FILE"));
        assert_eq!(innermost(&Status::internal("x")), Status::internal("x").to_string());
    }
}
