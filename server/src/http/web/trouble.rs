//! What went wrong, as a page with a way out, or as JSON.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::html;

use super::{page::bare, view::View};
use crate::{domain::Fault, grpc::Refused};

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Trouble {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// The same as JSON.
    pub(super) fn json(&self) -> Response {
        let body = serde_json::json!({ "error": self.text }).to_string();
        (self.status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()
    }
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Wrong(text) => Self::new(StatusCode::BAD_REQUEST, text),
            Refused::Unknown(text) => Self::new(StatusCode::NOT_FOUND, text),
            Refused::Busy(text) => Self::new(StatusCode::SERVICE_UNAVAILABLE, text),
            Refused::Broken(text) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, text),
        }
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::new(StatusCode::BAD_REQUEST, fault.to_string())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::BAD_REQUEST => "This cannot be asked",
            StatusCode::SERVICE_UNAVAILABLE => "Not now",
            _ => "Something went wrong",
        };
        let view = View::default();
        let body = html! {
            h1 { (title) }
            p.lead { (self.text) }
            p {
                "Go to the " a href=(view.link("/", &[])) { "overview" } ", look for a "
                a href=(view.link("/packages", &[])) { "package" } " or for an "
                a href=(view.link("/attempts", &[])) { "attempt" } "."
            }
        };
        let mut response = bare(title, &view, &body).into_response();
        *response.status_mut() = self.status;
        response
    }
}
