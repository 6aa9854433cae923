//! Errors as a page with links to what the reader may see, or as JSON.

use axum::{
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use plimsoll_core::domain::FieldViolation;
use plimsoll_pages::trouble::TroublePage;

use super::asking::PageRefusal;

/// Why a page cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageError {
    pub(super) status: StatusCode,
    pub(super) text: String,
    /// Projects that the reader may ask for instead.
    pub(super) allowed_projects: Vec<String>,
}

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

impl From<PageRefusal> for PageError {
    fn from(refused: PageRefusal) -> Self {
        match refused {
            PageRefusal::Wrong(text) => Self::new(StatusCode::BAD_REQUEST, text),
            PageRefusal::Forbidden { text, projects } => {
                Self { allowed_projects: projects, ..Self::new(StatusCode::FORBIDDEN, text) }
            }
            PageRefusal::Unknown(text) => Self::new(StatusCode::NOT_FOUND, text),
            PageRefusal::Busy(text) => Self::new(StatusCode::SERVICE_UNAVAILABLE, text),
            PageRefusal::Broken(text) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, text),
        }
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
            StatusCode::SERVICE_UNAVAILABLE => "Not now",
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
    async fn who_may_see_only_some_projects_is_led_to_them() {
        let projects = vec!["group/a&b".to_owned()];
        let answer = PageError::from(PageRefusal::Forbidden { text: "names no project".into(), projects })
            .into_response();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let page = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let page = String::from_utf8(page.to_vec()).unwrap();
        assert!(page.contains("href=\"?project=group%2Fa%26b\""), "{page}");
    }
}
