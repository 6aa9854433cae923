//! Derives an identity from the claims of a verified token. The first grant that matches
//! decides.

use std::collections::BTreeMap;

use plimsoll_base::ci::github_run;
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
    /// ID tokens of the jobs of GitHub Actions and Forgejo Actions. The claims are those of
    /// <https://docs.github.com/en/actions/reference/security/oidc>.
    Github,
}

/// Claims of GitHub's tokens that say whose job it is.
const OWNER_CLAIMS: [&str; 6] =
    ["repository_owner_id", "repository_owner", "repository_id", "repository", "enterprise_id", "enterprise"];

impl IssuerKind {
    /// Checks that a grant with these claims says whose jobs it is for, where the issuer has jobs of all people.
    /// Errors: it does not.
    pub(super) fn names_owner(self, claims: &BTreeMap<String, String>) -> Result<(), String> {
        if self != Self::Github || OWNER_CLAIMS.iter().any(|name| claims.contains_key(*name)) {
            return Ok(());
        }
        Err(format!(
            "its claims must say whose jobs it is for, by one of {}, because each job on GitHub can have such a token; on a server of \
             your own, repository = \"*\" means all",
            OWNER_CLAIMS.join(", ")
        ))
    }
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

/// Events that only people of the repository start, or a clock. Workflows of others, such as `pull_request_target`, `issue_comment` and
/// `workflow_run`, have the rights of the repository, and may build what a fork has written: the token does not say whose it is. A list of
/// all: <https://docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows>.
const TRUSTED_EVENTS: [&str; 11] = [
    "push",
    "schedule",
    "workflow_dispatch",
    "repository_dispatch",
    "merge_group",
    "release",
    "registry_package",
    "deployment",
    "deployment_status",
    "create",
    "delete",
];

impl Grant {
    /// Whether jobs of this event may be trusted. A fork's `pull_request` gets no token, except in a private repository that sends forks
    /// write tokens: so a grant must name that event.
    fn trusts_event(&self, event: &str) -> bool {
        let is_named = || self.claims.get("event_name").is_some_and(|name| name == event);
        TRUSTED_EVENTS.contains(&event) || (event == "pull_request" && is_named())
    }

    /// Whether a token's claims satisfy all required claims of this grant.
    pub(super) fn fits(&self, claims: &Claims) -> bool {
        self.claims
            .iter()
            .all(|(name, pattern)| text(claims, name).is_some_and(|value| matches_pattern(pattern, &value)))
    }

    /// The identity in the claims. `None` if a claim is missing that names the project and job
    /// (GitLab), the run (GitHub) or the account (Kubernetes): without it the token would be valid
    /// for all projects and jobs.
    pub(super) fn identity(&self, kind: IssuerKind, issuer: &str, claims: &Claims) -> Option<Identity> {
        let host = host_of(issuer).to_owned();
        let get = |name: &str| text(claims, name).unwrap_or_default();
        let mut trusted = self.trusted;
        let (name, proven) = match kind {
            IssuerKind::Github => {
                let [project, run, attempt] = ["repository", "run_id", "run_attempt"].map(get);
                if project.is_empty() || run.is_empty() || attempt.is_empty() {
                    return None;
                }
                trusted = trusted && self.trusts_event(&get("event_name"));
                let (place, of_run) = github_run(issuer, &project, &run, &attempt);
                // of the job, where the issuer has it: jobs of a run have bounds of their own
                let check = get("check_run_id");
                let name = format!("{place}:{of_run}{check}");
                let job = Some(TokenJob { host: place, id: of_run });
                let git_ref = Some(get("head_ref")).filter(|head| !head.is_empty());
                let git_ref = git_ref.unwrap_or_else(|| short_ref(&get("ref")).to_owned());
                let (owner, commit) = (get("actor"), get("sha"));
                (name, ProvenClaims { project, git_ref, owner, pipeline: run, commit, job })
            }
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
        // a token of GitHub is of a run, and lasts some minutes: it says neither which job it is of nor how long that may last
        let is_one_build = match kind {
            IssuerKind::Github => false,
            _ => proven.job.is_some() || !get("kubernetes.io/pod/name").is_empty(),
        };
        let has_own_bounds = is_one_build || !get("check_run_id").is_empty();
        let own = || {
            if proven.project.is_empty() { Projects::default() } else { vec![proven.project.clone()].into() }
        };
        let projects = if self.projects.is_all() { own() } else { self.projects.clone() };
        let usual = if has_own_bounds { Bounds::OF_JOB } else { Bounds::OF_FLEET };
        let bounds = self.bounds.or_default(usual.for_trust(trusted));
        Some(Identity {
            name: name.into(),
            roles: self.roles,
            projects,
            proven,
            trusted,
            is_anonymous: false,
            is_of_job: is_one_build,
            expires: None,
            bounds: Some(bounds),
            usage: Usage::default(),
        })
    }
}

/// A ref as `GITHUB_REF_NAME` has it: `main` of `refs/heads/main`, `7/merge` of `refs/pull/7/merge`.
fn short_ref(text: &str) -> &str {
    let kinds = ["refs/heads/", "refs/tags/", "refs/pull/"];
    kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text)
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
