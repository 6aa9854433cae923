//! Refuses requests that are not gRPC: over HTTP/1, with another method than POST, or a body of another type.
//! The last two get the HTTP status that the gRPC specification names for them (PROTOCOL-HTTP2.md,
//! "Requests"). A page in a browser cannot send gRPC's content type to another origin without a
//! preflight request.

use tonic::{
    Status,
    body::Body,
    codegen::http::{self, HeaderMap, HeaderValue, Method, StatusCode, Version, header},
};

/// Content types of gRPC. A suffix names the format of messages; only protobuf is accepted.
const CALLS: [&str; 2] = ["application/grpc", "application/grpc+proto"];

/// Answer to a gRPC call that a proxy has passed on as HTTP/1: the proxy passes the status to its caller.
const PROXIED: &str = "gRPC needs HTTP/2 on all of its way, and a proxy passed this call on as HTTP/1: make it speak HTTP/2 to \
    plimsoll-server (nginx: grpc_pass)";
/// Answer to all other requests of HTTP/1.
const UPGRADE_REQUIRED: &str = "This port serves gRPC, over HTTP/2 alone. HTTP is served at http_listen: port 7411 where it was not set.\n";

/// The response to a request that is not gRPC; `None` if the request is gRPC.
pub(super) fn refusal<B>(request: &http::Request<B>) -> Option<http::Response<Body>> {
    if let Some(of_http1) = http1_refusal(request) {
        return Some(of_http1);
    }
    let mut answer = http::Response::new(Body::empty());
    if request.method() != Method::POST {
        *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Some(answer);
    }
    if is_of_calls(request.headers()) {
        return None;
    }
    *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Some(answer)
}

/// The response to a request of HTTP/1; `None` if it is one of HTTP/2.
pub(super) fn http1_refusal<B>(request: &http::Request<B>) -> Option<http::Response<Body>> {
    if request.version() == Version::HTTP_2 {
        return None;
    }
    let mut answer = http::Response::new(Body::empty());
    let mut set = |name, value| drop(answer.headers_mut().insert(name, HeaderValue::from_static(value)));
    set(header::CONNECTION, "close");
    if is_of_calls(request.headers()) {
        set(header::CONTENT_TYPE, "application/grpc");
        set(Status::GRPC_STATUS, "12");
        set(Status::GRPC_MESSAGE, PROXIED);
        return Some(answer);
    }
    set(header::CONTENT_TYPE, "text/plain");
    set(header::UPGRADE, "h2c");
    *answer.status_mut() = StatusCode::UPGRADE_REQUIRED;
    Some(answer.map(|_empty| Body::new(UPGRADE_REQUIRED.to_owned())))
}

fn is_of_calls(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|content_type| content_type.to_str().ok())
        .unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    CALLS.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_1_gets_an_answer_that_it_understands() {
        for (kind, status) in [("application/grpc", 200), ("text/html", 426)] {
            let request = http::Request::post("/x").header("content-type", kind).body(()).unwrap();
            let answer = http1_refusal(&request).unwrap();
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.headers().contains_key(Status::GRPC_STATUS), status == 200);
        }
    }

    #[test]
    fn only_a_post_of_protobuf_is_a_call() {
        let status = |method: &str, kind: Option<&str>| {
            let request = http::Request::builder().method(method).version(Version::HTTP_2);
            let request = request.uri("/plimsoll.v1.Predictor/Predict");
            let request =
                kind.into_iter().fold(request, |request, kind| request.header("content-type", kind));
            refusal(&request.body(()).unwrap()).map(|answer| answer.status().as_u16())
        };
        for kind in ["application/grpc", "application/grpc+proto", "Application/gRPC; x=y"] {
            assert_eq!(status("POST", Some(kind)), None, "{kind}");
        }
        for kind in
            ["application/json", "application/grpc-web+proto", "application/grpc+json", "text/plain", ""]
        {
            assert_eq!(status("POST", Some(kind)), Some(415), "{kind}");
        }
        assert_eq!(status("POST", None), Some(415));
        for method in ["GET", "PUT", "OPTIONS", "DELETE"] {
            assert_eq!(status(method, Some("application/grpc")), Some(405), "{method}");
        }
    }
}
