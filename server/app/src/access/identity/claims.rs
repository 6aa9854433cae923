//! Derives an identity from the claims of a verified token. The first grant that matches
//! decides.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    Identity, Projects, ProvenClaims, Roles, TokenJob,
    bounds::{Bounds, BoundsTable},
    matches_pattern,
    usage::Usage,
};

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// Kind of issuer, which determines the meaning of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IssuerKind {
    /// ID tokens of GitLab's jobs.
    Gitlab,
    /// Tokens of service accounts.
    Kubernetes,
}

/// Permissions of callers with matching claims.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    /// Required claims, each with its text or prefix (`spack/*`). All must match.
    pub(super) claims: BTreeMap<String, String>,
    pub(super) roles: Roles,
    /// Projects of the caller. Empty: the project in the claims, or all projects if the claims name
    /// none.
    pub(super) projects: Projects,
    pub(super) trusted: bool,
    pub(super) bounds: BoundsTable,
}

impl Grant {
    /// Whether a token's claims satisfy all required claims of this grant.
    pub(super) fn fits(&self, claims: &Claims) -> bool {
        self.claims
            .iter()
            .all(|(name, pattern)| text(claims, name).is_some_and(|value| matches_pattern(pattern, &value)))
    }

    /// The identity in the claims. `None` if a claim is missing that names the project and job
    /// (GitLab) or the account (Kubernetes): without it the token would be valid for all projects
    /// and jobs.
    pub(super) fn identity(&self, kind: IssuerKind, issuer: &str, claims: &Claims) -> Option<Identity> {
        let host = host_of(issuer).to_owned();
        let get = |name: &str| text(claims, name).unwrap_or_default();
        let (name, proven) = match kind {
            IssuerKind::Gitlab => {
                let (project, id) = (get("project_path"), get("job_id"));
                if project.is_empty() || id.is_empty() {
                    return None;
                }
                let job = Some(TokenJob { host: host.clone(), id: id.clone() });
                let (git_ref, owner) = (get("ref"), get("user_login"));
                let (pipeline, commit) = (get("pipeline_id"), get("sha"));
                let proven = ProvenClaims { project, git_ref, owner, pipeline, commit, job };
                (format!("{host}:{}:{id}", proven.project), proven)
            }
            // a token bound to a pod identifies that pod: each pod is a caller with bounds of its
            // own
            IssuerKind::Kubernetes => match (get("sub"), get("kubernetes.io/pod/name")) {
                (sub, _pod) if sub.is_empty() => return None,
                (sub, pod) if pod.is_empty() => (format!("{host}:{sub}"), ProvenClaims::default()),
                (sub, pod) => (format!("{host}:{sub}/{pod}"), ProvenClaims::default()),
            },
        };
        let is_one_build = proven.job.is_some() || !get("kubernetes.io/pod/name").is_empty();
        let own = || {
            if proven.project.is_empty() { Projects::default() } else { vec![proven.project.clone()].into() }
        };
        let projects = if self.projects.is_all() { own() } else { self.projects.clone() };
        let usual = if is_one_build { Bounds::OF_JOB } else { Bounds::OF_FLEET };
        let bounds = self.bounds.or_default(usual.for_trust(self.trusted));
        Some(Identity {
            name: name.into(),
            roles: self.roles,
            projects,
            proven,
            trusted: self.trusted,
            is_anonymous: false,
            is_of_job: is_one_build,
            expires: None,
            bounds: Some(bounds),
            usage: Usage::default(),
        })
    }
}

/// The host of an issuer, without its port. The ids of attempts of its jobs start with it.
pub(super) fn host_of(issuer: &str) -> &str {
    let host = issuer.split_once("://").map_or(issuer, |(_scheme, rest)| rest);
    host.split(['/', ':']).next().unwrap_or_default()
}

/// A claim as text. `kubernetes.io/pod/name` is the claim `name` in the object `pod` in the object `kubernetes.io`, unless a claim with
/// the whole name exists.
fn text(claims: &Claims, name: &str) -> Option<String> {
    let value = claims.get(name).or_else(|| {
        let (outer, inner) = name.split_once('/')?;
        let outer = claims.get(outer)?;
        inner.split('/').try_fold(outer, |object, name| object.as_object()?.get(name))
    })?;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}
