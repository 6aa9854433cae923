//! Refuses requests that are not gRPC: with another method than POST, or a body of another type.
//! They get the HTTP status that the gRPC specification names for them (PROTOCOL-HTTP2.md,
//! "Requests"). A page in a browser cannot send gRPC's content type to another origin without a
//! preflight request.

use tonic::{
    body::Body,
    codegen::http::{self, HeaderMap, HeaderValue, Method, StatusCode, header},
};

/// Content types of gRPC. A suffix names the format of messages; only protobuf is accepted.
const CALLS: [&str; 2] = ["application/grpc", "application/grpc+proto"];

/// The response to a request that is not gRPC; `None` if the request is gRPC.
pub(super) fn refusal<B>(request: &http::Request<B>) -> Option<http::Response<Body>> {
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
    fn only_a_post_of_protobuf_is_a_call() {
        let status = |method: &str, kind: Option<&str>| {
            let request = http::Request::builder().method(method).uri("/plimsoll.v1.Predictor/Predict");
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
