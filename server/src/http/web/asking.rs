//! On whose behalf a page asks.

use std::{convert::Infallible, sync::Arc};

use axum::{extract::FromRequestParts, http::request};

use super::super::Parts;
use crate::identity::Identity;

/// What the handlers look at, asked by the one who is before the browser: a page shows no more than its reader may see. Without
/// a guard in front that is anyone.
#[derive(Debug)]
pub(super) struct Asking(pub(super) Parts);

impl FromRequestParts<Parts> for Asking {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut request::Parts, parts: &Parts) -> Result<Self, Infallible> {
        let mut parts = parts.clone();
        if let Some(caller) = request.extensions.get::<Arc<Identity>>() {
            parts.inside = parts.inside.asked_by(Arc::clone(caller));
        }
        Ok(Self(parts))
    }
}
