//! `GET /v1/allocation?spec=`: convert, predict, convert. Never slow: Spack asks for one spec after another and waits for each.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use plimsoll_proto::limits;
use tokio::time::timeout;

use super::{
    Parts,
    predicting::predicted,
    refusal::{json, refuse},
};
use crate::{
    domain::{Fault, Key},
    gantry,
    metrics::Kind,
    predict,
};

/// Header that names the project of a spec.
const PROJECT: &str = "Plimsoll-Project";

/// Header that names the stack of a spec: shadow mode and the size of disks ask for it.
const STACK: &str = "Plimsoll-Stack";

/// Newest attempts among which a project is looked for.
const LOOKED_AT: usize = 128;

pub(super) async fn allocation(State(parts): State<Parts>, request: Request) -> Response {
    let count = |kind| parts.metrics.allocations.get_or_create(&Kind::of(kind)).inc();
    let key = match key_of(&parts, request.uri().query().unwrap_or_default(), request.headers()) {
        Ok(key) => Arc::new(key),
        Err(fault) => {
            count("refused");
            return refuse(request.uri().path(), StatusCode::BAD_REQUEST, &fault);
        }
    };
    if parts.shadow.withholds(&key) {
        count("shadow");
        parts.metrics.withheld.get_or_create(&Kind::of("allocation")).inc();
        return json(StatusCode::OK, gantry::NOTHING.to_owned());
    }
    let predicting = predicted(&parts, Arc::clone(&key));
    let prediction = timeout(parts.gantry.answer_within, predicting).await.ok().flatten();
    let defaults = || parts.placing.lowered(&key, predict::defaults(&key, &parts.predict));
    let (kind, prediction) = match prediction {
        Some(sure) if sure.confidence >= parts.gantry.confidence => ("answered", sure),
        Some(_guess) => ("unsure", defaults()),
        None => {
            tracing::warn!(package = key.package, "a prediction took too long: sent the defaults");
            ("late", defaults())
        }
    };
    count(kind);
    match serde_json::to_string(&gantry::answer(&prediction, &key.stack, &parts.gantry)) {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => {
            let fault = Fault::new("answer", error.to_string());
            refuse(request.uri().path(), StatusCode::INTERNAL_SERVER_ERROR, &fault)
        }
    }
}

fn key_of(parts: &Parts, query: &str, headers: &HeaderMap) -> Result<Key, Fault> {
    let key = gantry::parse_spec(&gantry::parameter(query, "spec")?)?;
    let project = match said(headers, PROJECT)? {
        Some(project) => project,
        None => parts.gantry.project.clone().unwrap_or_else(|| usual_project(parts)),
    };
    Ok(Key { project, stack: said(headers, STACK)?.unwrap_or_default(), ..key })
}

/// What a header says of the key.
fn said(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, Fault> {
    let Some(said) = headers.get(name) else { return Ok(None) };
    let said = said.to_str().ok().filter(|said| said.len() <= limits::KEY_FIELD_BYTES);
    let rule = format!("must be at most {} printable characters", limits::KEY_FIELD_BYTES);
    said.ok_or_else(|| Fault::new(name, rule)).map(|said| Some(said.to_owned()))
}

/// Spack does not say for which project it asks. Where nobody does, it is that of the newest trusted attempt that has one.
fn usual_project(parts: &Parts) -> String {
    parts.learned.read(|history| {
        let mut projects = history.newest_trusted().take(LOOKED_AT).map(|summary| &summary.key.project);
        projects.find(|project| !project.is_empty()).cloned().unwrap_or_default()
    })
}
