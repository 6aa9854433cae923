//! Errors as a page with links to what the reader may see, or as JSON.

use axum::{
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use plimsoll_core::domain::FieldViolation;
use plimsoll_pages::trouble::TroublePage;

use crate::access::Refusal;

/// Why a page cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageError {
    pub(super) status: StatusCode,
    pub(super) text: String,
    /// Projects that the reader may ask for instead.
    pub(super) allowed_projects: Vec<String>,
}

/// A page or a part of it, or why it cannot be shown.
pub(super) type PageResult<T> = Result<T, PageError>;

impl PageError {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), allowed_projects: Vec::new() }
    }

    /// The error as a JSON answer.
    pub(super) fn json(&self) -> Response {
        let body = serde_json::json!({ "error": self.text }).to_string();
        (self.status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()
    }
}

impl From<Refusal> for PageError {
    fn from(refusal: Refusal) -> Self {
        let status = match &refusal {
            Refusal::Fault(_) | Refusal::NotOpen(_) | Refusal::Gap { .. } | Refusal::Running(_) => {
                StatusCode::BAD_REQUEST
            }
            Refusal::Forbidden(_) | Refusal::NotAllowed(_) => StatusCode::FORBIDDEN,
            Refusal::NotFound(_) => StatusCode::NOT_FOUND,
            Refusal::Held(_) | Refusal::TakenOver(_) | Refusal::Replaced(_) | Refusal::Panicked(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Refusal::Exceeded(_) => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, refusal.to_string())
    }
}

impl From<FieldViolation> for PageError {
    fn from(fault: FieldViolation) -> Self {
        Self::new(StatusCode::BAD_REQUEST, fault.to_string())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::BAD_REQUEST => "This cannot be asked",
            StatusCode::FORBIDDEN => "Not for you",
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => "Not now",
            _ => "Something went wrong",
        };
        let page = TroublePage { title, text: &self.text, projects: &self.allowed_projects };
        let mut response = Html(page.draw().into_string()).into_response();
        *response.status_mut() = self.status;
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_project_refusal_links_the_allowed_projects() {
        let projects = vec!["group/a&b".to_owned()];
        let error = PageError::new(StatusCode::FORBIDDEN, "names no project");
        let answer = PageError { allowed_projects: projects, ..error }.into_response();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let page = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let page = String::from_utf8(page.to_vec()).unwrap();
        assert!(page.contains("href=\"?project=group%2Fa%26b\""), "{page}");
    }

    #[test]
    fn client_faults_and_server_failures_differ_in_status() {
        let of = |refusal: Refusal| {
            let error = PageError::from(refusal);
            (error.status.as_u16(), error.text)
        };
        let fault = Refusal::Fault(FieldViolation::new("page_size", "is 7000"));
        assert_eq!(of(fault), (400, "page_size: is 7000".into()));
        assert_eq!(of(Refusal::NotFound("no".into())), (404, "no".into()));
        assert_eq!(of(Refusal::NotAllowed("not yours".into())), (403, "not yours".into()));
        assert_eq!(of(Refusal::Crowded { what: "watchers", most: 5 }).0, 503);
        assert_eq!(of(Refusal::Stopping).0, 503);
    }
}
